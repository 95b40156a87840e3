"""Refit a model on few of its features. Several ways to choose the features are compared on held-out rows."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinstream.batch import Batch
from thinstream.data.labels import Classes
from thinstream.errors import InvalidInputError
from thinstream.models.file import read, write
from thinstream.models.importance import ranked_features
from thinstream.models.model import NORMALIZED, Model
from thinstream.models.slots import SlotTable
from thinstream.models.thin import fresh_for_features, fresh_like, require_count, thin
from thinstream.training.checkpoint import require_same
from thinstream.training.metrics import progress_for
from thinstream.training.threshold import Chosen, Goal, RecentScores, goal_of

#: Opens the rows from the start: batches with labels as `Classes` of the model's labels code them.
Rows = Callable[[], Iterable[Batch]]
#: ``scale`` and ``normalize``.
View = tuple[str | None, str | None]
#: Features of each step, as multiples of the final number. No step: the model is cut, and keeps its weights.
STEPS: dict[str, tuple[int, ...]] = {"1 step": (1,), "2 steps": (8, 1), "4 steps": (32, 8, 2, 1), "cut": ()}
#: How the rows of refitted models are prepared.
VIEWS: dict[str, View] = {"unit rows": (None, "l2"), "raw rows": ("rms", None)}
#: Every fifth row is held out to compare the ways.
EVERY = 5


class Way(NamedTuple):
    """A way to get a thin model: in how many steps, and how rows are prepared.

    >>> print(Way("2 steps", "unit rows"))
    2 steps, unit rows
    """

    steps: str
    view: str = ""

    def __str__(self) -> str:
        return ", ".join(filter(None, self))

    def sizes(self, n: int, available: int) -> list[int]:
        """Return the number of features of each step, each smaller than the one before.

        >>> Way("4 steps", "raw rows").sizes(100, 1000), Way("4 steps", "raw rows").sizes(100, 150)
        ([1000, 800, 200, 100], [150, 100])
        """
        return list(dict.fromkeys(min(factor * n, available) for factor in STEPS[self.steps]))


class Compared(NamedTuple):
    """A way to n features, and what held-out rows show: means over rows."""

    n: int
    way: Way
    log_loss: float
    standard_error: float  # of the log-loss
    error: float
    average_precision: float


@dataclass(frozen=True)
class Choice:
    """The method chosen for reducing the model to n features.

    Parameters
    ----------
    best : Compared
    compared : list of Compared
        All ways.
    baseline : float
        The log-loss of a constant answer: the shares of the classes.
    is_constant : bool
        Whether the thin model is not better than that by more than two standard errors.
    full : Compared
        The model before it is thinned. Its ``n`` is the number of its features.
    goal : Goal or None
        The goal for the threshold of the thin model. None: the model's threshold is kept.
    before : Chosen or None
        The effect of a threshold for that goal on held-out rows before thinning.
    after : Chosen or None
        The effect of the new threshold on progressive scores of the thin model.
    report : dict
        The metrics of the way on held-out rows.

    """

    best: Compared
    compared: list[Compared]
    baseline: float
    is_constant: bool
    full: Compared
    goal: Goal | None = None
    before: Chosen | None = None
    after: Chosen | None = None
    report: dict[str, Any] = field(default_factory=dict)

    @property
    def n(self) -> int:
        """The number of features."""
        return self.best.n


def refit(model: Model, rows: Rows, sizes: Sequence[int], goal: Goal | None = None) -> list[tuple[Model, Choice]]:
    """Return a thin model for each number of features, with one weight per feature, and how it was chosen.

    `choose_ways` compares the ways to select features. `refit_chosen` repeats the best one on all rows.

    Examples
    --------
    >>> from thinstream.data.labels import Classes
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(600, 5)).astype(np.float32)
    >>> y = np.where(X[:, 1] - X[:, 3] > 0, 1, -1).astype(np.int8)
    >>> batch = Batch.of(np.arange(0, 3001, 5), np.tile(np.arange(5), 600), X.ravel(), 5, y)
    >>> model = Model.fresh("auto", Classes(-1, 1), n_features=5, fit_intercept=True)
    >>> model, _ = model.learn(batch, model.classes)
    >>> [(small, choice)] = refit(model, lambda: [batch], [2])
    >>> np.flatnonzero(small.learner.weights()), choice.is_constant
    (array([1, 3]), False)

    """
    return refit_chosen(model, rows, choose_ways(model, rows, sizes, goal))


def choose_ways(
    model: Model,
    rows: Rows,
    sizes: Sequence[int],
    goal: Goal | None = None,
    notify: Callable[[str], None] = lambda message: None,
) -> list[Choice]:
    """Choose how to get a thin model of each size, by the log-loss of rows that were not used to select features.

    A model like the given one is trained on four fifths of the rows, thinned in all ways, and scored on the others.
    The way with the fewest steps is chosen whose log-loss is not above the lowest by more than one standard error of
    the difference. More steps select features by the same labels again, so they must be worth it.
    ``goal`` is what the threshold must reach. By default, it is that of the model.
    """
    sizes = sorted({require_count(n) for n in sizes})
    full, views = fresh_like(model), _views(model)
    notify("training on four fifths of the rows")
    for batch in _split(rows, held_out=False):
        full, _ = full.learn(batch, full.classes, scores=False)
    full.learner.finish()
    ranking = ranked_features(full.learner)
    ways = [Way(steps, view) for steps, factors in STEPS.items() if factors for view in views]
    paths = [Route(n, way, views[way.view], ranking) for n in sizes for way in ways]
    trained = _train(full, lambda: _split(rows, held_out=False), paths, notify)
    models = {(path.n, path.way): small for path, small in zip(paths, trained, strict=True)}
    models |= {(n, Way("cut")): _cut(full, n) for n in sizes if full.has_probabilities}
    notify("comparing the ways on the other rows")
    whole = _Tally(model, 0.0 if full.has_probabilities else model.threshold)
    comparisons = {n: _Comparison(model, n, models) for n in sizes}
    for batch in _split(rows, held_out=True):
        whole.update(full, batch)
        for comparison in comparisons.values():
            comparison.update(batch)
    if not whole.rows:
        raise InvalidInputError(f"thin: {EVERY} rows or more are needed to compare ways, got fewer")
    described, choices = whole.compared(len(ranking), Way("full")), []
    goal = _goal(model, whole, goal) if model.classes.are_two else None
    before = None if goal is None or whole.recent is None else whole.recent.choose(goal)
    for comparison in comparisons.values():
        tally, compared = comparison.chosen, comparison.compared
        metrics = (compared[comparison.simplest], compared, whole.baseline, tally.is_constant, described)
        choices.append(Choice(*metrics, goal, before, report=tally.report()))
    return choices


def refit_chosen(
    model: Model, rows: Rows, choices: Sequence[Choice], notify: Callable[[str], None] = lambda message: None
) -> list[tuple[Model, Choice]]:
    """Return the thin models: the chosen ways on all rows, from the most important features of the model.

    Thresholds are set on the scores of rows before the thin model learned them. If it is cut, on those of all rows.
    """
    views, ranking = _views(model), ranked_features(model.learner)
    refitted = [choice.best for choice in choices if choice.best.way.steps != "cut"]
    paths = [Route(one.n, one.way, views[one.way.view], ranking) for one in refitted]
    recent = {one.n: RecentScores() for one in refitted if model.classes.are_two}
    trained = {path.n: one for path, one in zip(paths, _train(model, rows, paths, notify, recent), strict=True)}
    chosen = []
    for choice in choices:
        small, after = _cut(trained.get(choice.n, model), choice.n), None
        if choice.goal is not None:
            scores = recent[choice.n] if choice.n in recent else _scores_of(small, rows)
            after = scores.choose(choice.goal)
        threshold = model.threshold if choice.goal is None else 0.0 if after is None else after.threshold
        chosen.append((replace(small, threshold=threshold, report=choice.report), replace(choice, after=after)))
    return chosen


def _scores_of(model: Model, rows: Rows) -> RecentScores:
    """The scores of all rows."""
    recent = RecentScores()
    for batch in rows():
        recent.update(model.learner.scores(batch), batch.require_labels("thin"), batch.weights)
    return recent


def _cut(model: Model, n: int) -> Model:
    """Cut the model down to at most n weights per class.

    If it has separate weights for several kinds of rows, it keeps fewer than n features. Products of features
    have one weight each.
    """
    size = max(n // model.learner.n_kinds, 1)
    most = n if model.learner.served().products is not None else size
    while size < most:
        middle = (size + most + 1) // 2
        small = thin(model, middle).learner
        if max(len(one.sparse_weights()[0]) for one in small.models) <= n:
            size = middle
        else:
            most = middle - 1
    return thin(model, size)


# A checkpoint between training and thinning, so that a run that was killed does not train again.

_EXTRA = "thinning"


def write_checkpoint(path: Path, model: Model, source: dict[str, Any], choices: Sequence[Choice] | None = None) -> None:
    """Save a trained model before it is thinned, with the choices that are made; ``source`` identifies its rows."""
    stored = None if choices is None else [_as_json(choice) for choice in choices]
    write(path, replace(model, extra={**model.extra, _EXTRA: {"source": source, "choices": stored}}), "full")


def read_checkpoint(path: Path, source: dict[str, Any]) -> tuple[Model, list[Choice] | None] | None:
    """Return what `write_checkpoint` saved; None if the file is not there, or is a checkpoint of the training."""
    if not path.exists():
        return None
    model = read(path)
    saved = model.extra.get(_EXTRA)
    if saved is None:
        return None
    require_same(path, "source", saved["source"], source)
    choices = saved["choices"]
    extra = {name: value for name, value in model.extra.items() if name != _EXTRA}
    restored = None if choices is None else [_from_json(choice) for choice in choices]
    return replace(model, extra=extra), restored


def _as_json(choice: Choice) -> dict[str, Any]:
    return {one.name: getattr(choice, one.name) for one in fields(choice)}


def _from_json(fields: dict[str, Any]) -> Choice:
    def compared(values: Sequence[Any]) -> Compared:
        n, way, *numbers = values
        return Compared(n, Way(*way), *numbers)

    parsed = dict(fields)
    parsed["compared"] = [compared(values) for values in fields["compared"]]
    parsed["best"], parsed["full"] = compared(fields["best"]), compared(fields["full"])
    parsed["goal"] = fields["goal"] and Goal(*fields["goal"])
    parsed["before"] = fields["before"] and Chosen(*fields["before"])
    return Choice(**parsed)


def _views(model: Model) -> dict[str, View]:
    """The views of the rows that are tried: ours, and that of the model itself."""
    if NORMALIZED in model.feature_space:
        return {"rows as read": (None, None)}
    scale, normalize = model.preparation.scale, model.preparation.normalize
    if not (scale or normalize) or (scale, normalize) in VIEWS.values():
        return VIEWS
    return VIEWS | {" ".join(filter(None, (scale, normalize))): (scale, normalize)}


def _goal(model: Model, full: "_Tally", goal: Goal | None) -> Goal | None:
    """Return what thresholds of thin models are set for; None if they keep that of the model."""
    goal = goal or goal_of(model)
    if goal is not None or not model.threshold or model.has_probabilities:
        return goal
    report = full.progress.report()  # its scores have another unit: the same recall, or the same false alarms
    recall, false_alarms = report.sensitivity, 1.0 - report.specificity
    return Goal.of(recall) if recall > 0.0 else Goal.of(false_alarms=false_alarms)


# Training for some features, step by step: all models of a step learn in one pass.


class Route(NamedTuple):
    """A way from ranked features to a model of n features."""

    n: int
    way: Way
    view: View
    ranking: NDArray[np.int64]

    @property
    def sizes(self) -> list[int]:
        """The number of features of each step."""
        return self.way.sizes(self.n, len(self.ranking))


def _train(
    model: Model,
    rows: Rows,
    paths: Sequence[Route],
    notify: Callable[[str], None],
    recent: "dict[int, RecentScores] | None" = None,
) -> list[Model]:
    """Return the models at the end of the paths. All paths end in the same pass.

    ``recent`` collects the scores of rows before each update in the last pass, by the number of features.
    """
    n_passes = max((len(path.sizes) for path in paths), default=0)
    rankings = [path.ranking for path in paths]
    trained: list[Model] = []
    for number in range(n_passes):
        notify(f"refitting, pass {number + 1} of {n_passes}")
        models: dict[tuple[View, bytes], Model] = {}
        keys: list[tuple[View, bytes] | None] = []
        for path, ranking in zip(paths, rankings, strict=True):
            step = number - n_passes + len(path.sizes)
            features = np.sort(ranking[: path.sizes[max(step, 0)]])
            key = path.view, features.tobytes()
            keys.append(key if step >= 0 else None)
            if step >= 0 and key not in models:
                models[key] = fresh_for_features(model, features, *path.view)
        union = np.unique(np.concatenate([np.frombuffer(features, np.int64) for _, features in models]))
        table = SlotTable.of(union, drops_unknown=True)
        for batch in rows():
            narrow = _restricted(batch, table)
            is_last, scores = bool(recent) and number == n_passes - 1, {}
            for name, one in models.items():
                models[name], scores[name] = one.learn(narrow, one.classes, scores=is_last)
            if recent and is_last:
                for path, key_of_path in zip(paths, keys, strict=True):
                    assert key_of_path is not None
                    recent[path.n].update(scores[key_of_path], narrow.require_labels(), narrow.weights)
        rankings = [
            ranking if key is None else ranked_features(models[key].learner)
            for key, ranking in zip(keys, rankings, strict=True)
        ]
        trained = [models[key] for key in keys if key is not None]
    return trained


def _restricted(batch: Batch, table: SlotTable) -> Batch:
    """Return rows without the features that no model learns: each model then has less to look up."""
    if batch.names is not None:  # two features can have the same number
        return batch
    batch = batch.check()
    rows = table.find(batch, 0)
    indices = table.numbers[rows.indices - 1].astype(batch.indices.dtype)
    return replace(rows, indices=indices, n_features=batch.n_features)


# Rows that are held out, and what they show.


def _split(rows: Rows, held_out: bool) -> Iterator[Batch]:
    """Yield every fifth row, or all others. The numbers of the rows decide, so batches don't matter."""
    first = 0
    for batch in rows():
        is_held_out = np.arange(first, first + len(batch)) % EVERY == EVERY - 1
        yield batch.take(np.flatnonzero(is_held_out == held_out))
        first += len(batch)


class _Comparison:
    """All ways to n features, in order: from few steps to many."""

    def __init__(self, model: Model, n: int, models: dict[tuple[int, Way], Model]) -> None:
        self.n = n
        self.models = {way: small for (size, way), small in models.items() if size == n}
        self.tallies = {way: _Tally(model) for way in self.models}
        self.squares = np.zeros((len(self.models), len(self.models)))  # summed, of differences of losses

    def update(self, batch: Batch) -> None:
        """Count the rows."""
        losses = [tally.update(self.models[way], batch) for way, tally in self.tallies.items()]
        columns = np.stack(losses, axis=1)
        squares = (columns[:, :, np.newaxis] - columns[:, np.newaxis]) ** 2
        self.squares = np.cumsum(np.concatenate([self.squares[np.newaxis], squares]), axis=0)[-1]

    @property
    def compared(self) -> list[Compared]:
        """The numbers of each way."""
        return [tally.compared(self.n, way) for way, tally in self.tallies.items()]

    @property
    def simplest(self) -> int:
        """The number of the first way within one standard error of the best."""
        losses, rows = np.array([one.log_loss for one in self.compared]), next(iter(self.tallies.values())).rows
        best = int(np.argmin(losses))
        above = losses - losses[best]
        errors = np.sqrt(np.maximum(self.squares[best] / rows - above**2, 0.0) / rows)
        return int(np.argmax(above <= errors))

    @property
    def chosen(self) -> "_Tally":
        """The metrics of the chosen way."""
        return list(self.tallies.values())[self.simplest]


class _Tally:
    """The metrics of a model on held-out rows, summed in the order of the rows, so that batches don't matter."""

    def __init__(self, model: Model, threshold: float = 0.0) -> None:
        classes = Classes(*model.classes)
        self.progress = progress_for(classes, threshold)
        self.recent = RecentScores() if classes.are_two else None
        self.counts, self.by_class = np.zeros(len(classes), np.int64), np.zeros(len(classes))
        self.rows, self.total, self.squares = 0, 0.0, 0.0

    def update(self, model: Model, batch: Batch) -> NDArray[np.float64]:
        """Count the rows, which must have labels, and return their losses."""
        y, scores = batch.require_labels("thin on"), model.learner.scores(batch)
        self.progress.update(scores, y, batch.weights)
        if self.recent is not None:
            self.recent.update(scores, y, batch.weights)
        if batch.weights is not None:
            scores, y = scores[batch.weights != 0], y[batch.weights != 0]
        numbers = (y > 0).astype(np.int64) if self.recent is not None else y
        self.counts += np.bincount(numbers, minlength=len(self.counts))
        losses = log_losses(scores.astype(np.float64), y)
        np.add.at(self.by_class, numbers, losses)
        self.rows += len(y)
        self.total = float(np.cumsum(np.concatenate([[self.total], losses]))[-1])
        self.squares = float(np.cumsum(np.concatenate([[self.squares], losses**2]))[-1])
        return losses

    def compared(self, n: int, way: Way) -> Compared:
        """Return the means."""
        report, mean = self.progress.report(), self.total / self.rows
        spread = math.sqrt(max(self.squares / self.rows - mean**2, 0.0) / self.rows)
        return Compared(n, way, mean, spread, report.error, report.average_precision)

    def report(self) -> dict[str, Any]:
        """Return all metrics, as JSON has them."""
        return self.progress.report().as_dict() | {"log_loss": self.total / self.rows, "held_out": True}

    @property
    def is_constant(self) -> bool:
        """Whether the losses are not better than those of a constant answer by more than two standard errors."""
        occurs = self.counts > 0
        logs = np.zeros(len(occurs))
        logs[occurs] = np.log(self.counts[occurs] / self.rows)  # minus the losses of the constant answer
        squares = float(self.squares + 2.0 * (self.by_class @ logs) + self.counts @ logs**2)
        better = self.baseline - self.total / self.rows
        return bool(better <= 2.0 * math.sqrt(max(squares / self.rows - better**2, 0.0) / self.rows))

    @property
    def baseline(self) -> float:
        """The log-loss of a constant answer, the shares of the classes."""
        shares = self.counts[self.counts > 0] / self.rows
        return float(-np.sum(shares * np.log(shares)))


def log_losses(scores: NDArray[np.float64], y: NDArray[Any]) -> NDArray[np.float64]:
    """Return -log of the probability of each row's class, from log-odds: one score per row, or one per class.

    >>> log_losses(np.array([0.0]), np.array([1])), log_losses(np.array([[0.0, 0.0]]), np.array([1]))
    (array([0.69314718]), array([0.69314718]))
    """
    if scores.ndim == 1:
        return np.asarray(np.logaddexp(0.0, -y * scores))
    logs = -np.logaddexp(0.0, -scores)
    return np.asarray(np.logaddexp.reduce(logs, axis=1) - logs[np.arange(len(y)), y])
