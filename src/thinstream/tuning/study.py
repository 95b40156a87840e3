"""A study: candidates times folds trained side by side on one stream."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinstream.algorithms.registry import find
from thinstream.batch import Batch
from thinstream.data.labels import LabelOrder
from thinstream.engine.loop import Costs
from thinstream.engine.memory import physical_memory
from thinstream.errors import InvalidInputError
from thinstream.lanes.devices import chosen_device, gpu_room, require_gpu
from thinstream.lanes.lanes import Lanes
from thinstream.models.outputs import Outputs, class_numbers, signs_of
from thinstream.models.pipeline import Pipeline
from thinstream.models.preparation import Preparation
from thinstream.tuning.counts import ABSENT, HELD_OUT, LEARNED, LaneRanks, LaneTallies


class StudyConfig(NamedTuple):
    """The options of a study."""

    algorithm: str  # of trials without an algorithm
    folds: int = 0
    n_features: int = 0  # if known in advance; the lanes grow
    dtype: str = "float32"
    threads: int = 1
    losses: bool = False
    predictions: bool = False  # whether scores are kept, for `Study.predictions`
    n_passes: int = 1  # rows learned in the first are counted before they are, held-out ones in the last
    final: bool = False  # whether held-out rows are scored by the final models, in a further pass
    memory: int | None = None  # bytes for all lanes; None: half of the machine's memory, or the free memory of a GPU
    scale: str | None = None  # how rows are prepared, once for all lanes
    normalize: str | None = None
    classes: int = 2  # with more than two, a model has a lane per class, and the highest score decides
    device: str = "cpu"  # where models live: "cpu", "cuda", or "auto" (see `lanes.devices`)
    ranks: int | None = None  # the role of rows whose scores are kept in bins, for `Study.ranks`

    @property
    def n_lanes(self) -> int:
        """The number of lanes of a model."""
        return 1 if self.classes == 2 else self.classes

    def placed(self, models: int) -> "StudyConfig":
        """Return the configuration with a device. For "auto", the number of models determines it."""
        device = chosen_device(self.device, models * self.n_lanes, self.threads)
        if device == "cuda":
            require_gpu()
        return self._replace(device=device)

    @property
    def limit(self) -> int:
        """Bytes."""
        if self.memory is not None:
            return self.memory
        return gpu_room() if self.device == "cuda" else physical_memory() // 2


class Trial(NamedTuple):
    """A model of a study."""

    parameters: Mapping[str, Any]  # of the algorithm
    costs: tuple[Costs, ...] = ()  # binary: one entry, multiclass: one entry per class; (): equal costs
    fit_intercept: bool = False
    split: int = -1  # the split of the rows; -1: it learns all rows
    candidate: int = 0  # the candidate that this model is a split of
    algorithm: str = ""  # "": the algorithm of the study


# The models of a study as lanes: one per model, or one per model and class with more than two classes.


class TrialLanes:
    """Models that learn from the same rows, each as it would alone, bit for bit.

    The interface is that of `Lanes`, with models instead of lanes. With more than two classes, a model has a lane per
    class, and scores have a third axis, the class.

    Examples
    --------
    >>> rows = Batch.of(np.arange(4), np.arange(3), np.ones(3), 3, y=np.array([2, 0, 1], np.int32))
    >>> lanes = TrialLanes(StudyConfig("fsol", classes=3), [Trial({"eta": 0.5}), Trial({}, algorithm="arow")])
    >>> lanes.learn(rows, np.ones((3, 2))).shape, [model.algorithm.name for model in lanes]
    ((3, 2, 3), ['FSOL', 'AROW'])

    """

    def __init__(self, config: StudyConfig, trials: Sequence[Trial]) -> None:
        self._classes, self._per_model = config.classes, config.n_lanes
        self._parts: list[tuple[Lanes, list[int]]] = []
        for algorithm, numbers in _by_algorithm(config, trials):
            arguments = _lanes_of([trials[k] for k in numbers], config.n_lanes)
            lanes = Lanes(
                algorithm,
                arguments["parameters"],
                n_features=config.n_features,
                dtype=config.dtype,
                grow=True,
                fit_intercept=arguments["fit_intercept"],
                costs=arguments["costs"],
                threads=config.threads,
                device=config.device,
            )
            self._parts.append((lanes, numbers))
        self.dtype = np.dtype(config.dtype)
        self._n_mistakes = np.zeros(len(trials), np.int64)
        self._on_device: LaneTallies | None = None  # mistakes with more than two classes, counted on the device

    @staticmethod
    def estimate_nbytes(config: StudyConfig, trials: Sequence[Trial], width: int) -> int:
        """Estimate the memory of such lanes in bytes, without allocating it."""
        total = 0
        for algorithm, numbers in _by_algorithm(config, trials):
            arguments = _lanes_of([trials[k] for k in numbers], config.n_lanes)
            total += Lanes.estimate_nbytes(
                algorithm,
                arguments["parameters"],
                width,
                dtype=config.dtype,
                fit_intercept=arguments["fit_intercept"],
                device=config.device,
            )
        return total

    def __len__(self) -> int:
        return len(self._n_mistakes)

    def __iter__(self) -> Iterator[Outputs]:
        return (self[k] for k in range(len(self)))

    def __getitem__(self, k: int) -> Outputs:
        """The outputs of a model, copied."""
        lanes, numbers = next(part for part in self._parts if k in part[1])
        first, own = numbers.index(k) * self._per_model, range(self._per_model)
        return Outputs([lanes[first + i] for i in own], n_mistakes=int(self._mistakes[k]))

    @property
    def _mistakes(self) -> NDArray[np.int64]:
        """The number of misclassified rows of each model with more than two classes, by progressive scores."""
        return self._n_mistakes if self._on_device is None else self._n_mistakes + self._on_device.learned.mistakes

    @property
    def n_features(self) -> int:
        """Width of all models."""
        return self._parts[0][0].n_features

    @property
    def nbytes(self) -> int:
        """Bytes of their memory."""
        return sum(lanes.nbytes for lanes, _ in self._parts)

    @property
    def device(self) -> str:
        """The device of all models: the CPU if one of them needs it."""
        return "cuda" if all(lanes.device == "cuda" for lanes, _ in self._parts) else "cpu"

    def learn_counted(
        self,
        batch: Batch,
        weights: NDArray[np.float64],
        weight_of: NDArray[np.int32],
        roles: NDArray[np.int8],
        count: Callable[..., None],
    ) -> None:
        """Learn the rows on a device, and call ``count(scores, y, roles, weight_of, models)`` there.

        ``weight_of`` has the column of a model in ``weights`` and ``roles``. Scores are as `learn` returns them.
        """
        from thinstream.lanes.cuda.kernels import Columns

        y: Any = batch.require_labels()
        signs = y[:, np.newaxis] if self._classes == 2 else signs_of(y, self._classes)
        learned = np.where(weights != 0, np.int8(LEARNED), np.int8(ABSENT))
        if self._classes > 2 and self._on_device is None:
            self._on_device = LaneTallies(len(self), self._classes)
        for lanes, numbers in self._parts:
            model_numbers, per = np.array(numbers), self._per_model
            labels = np.tile(np.arange(per, dtype=np.int32), len(numbers))
            columns = Columns(signs, weights, labels, np.repeat(weight_of[model_numbers], per))

            def seen(
                these: list[int],
                scores: Any,
                sent: list[Any],
                rows: slice,
                model_numbers: Any = model_numbers,
                per: int = per,
            ) -> None:
                models, own = (
                    model_numbers[np.array(these[::per]) // per],
                    scores,
                )  # all lanes of a model are in one block
                if per > 1:
                    own = scores.reshape(len(sent[0]), len(models), per)
                count(own, sent[0], sent[1], weight_of, models)
                if self._on_device is not None:
                    self._on_device.update_on_device(own, sent[0], sent[2], weight_of, models)

            lanes.learn_counted(batch, columns, (y, roles, learned), seen)

    def learn(self, batch: Batch, weights: NDArray[np.float64] | None = None) -> NDArray[Any]:
        """Learn the rows in order, each model with its column of weights (None: all with the weights of the batch).

        Return progressive scores: rows × models or, with more than two classes, rows × models × classes.
        """
        y: Any = batch.require_labels()
        if self._classes == 2:
            return self._run(len(batch), lambda lanes, numbers: lanes.learn(batch, y, _columns(weights, numbers, 1)))
        signs = signs_of(y, self._classes)
        out = self._run(
            len(batch),
            lambda lanes, numbers: lanes.learn(
                batch, np.tile(signs, (1, len(numbers))), _columns(weights, numbers, self._classes)
            ),
        )
        wrong, seen = called_classes(out) != y[:, np.newaxis], batch.weights if weights is None else weights
        self._n_mistakes += np.count_nonzero(wrong if seen is None else wrong & (seen.reshape(len(y), -1) != 0), axis=0)
        return out

    def scores(self, batch: Batch) -> NDArray[Any]:
        """Return the scores of all models, without learning."""
        return self._run(len(batch), lambda lanes, numbers: lanes.scores(batch))

    def _run(self, rows: int, run: Any) -> NDArray[Any]:
        shape = (-1,) if self._classes == 2 else (-1, self._classes)
        if len(self._parts) == 1:
            scores: NDArray[Any] = run(*self._parts[0])
            return scores.reshape(rows, len(self), *shape[1:])
        out = np.empty((rows, len(self), *shape[1:]), self.dtype)
        for lanes, numbers in self._parts:
            out[:, numbers] = run(lanes, numbers).reshape(rows, len(numbers), *shape[1:])
        return out

    def keep(self, kept: Sequence[int]) -> None:
        """Keep only these models, in this order, and free the memory of the others."""
        parts = []
        for lanes, numbers in self._parts:
            own = [k for k in kept if k in numbers]
            if own:
                first = [numbers.index(k) * self._per_model for k in own]
                lanes.keep([start + lane for start in first for lane in range(self._per_model)])
                parts.append((lanes, [list(kept).index(k) for k in own]))
        self._parts, self._n_mistakes, self._on_device = parts, self._mistakes[list(kept)], None


def _columns(weights: NDArray[np.float64] | None, models: list[int], per_model: int) -> NDArray[np.float64] | None:
    """The weights of some models, for each of their lanes."""
    if weights is None or (per_model == 1 and models == list(range(weights.shape[1]))):
        return weights
    return np.repeat(weights[:, models], per_model, axis=1)


def called_classes(scores: NDArray[Any]) -> NDArray[np.intp]:
    """Return the class with the highest score on the last axis, or -1 if a score is NaN because its model failed."""
    return np.where(np.isnan(scores).any(axis=-1), -1, np.argmax(scores, axis=-1))


def _by_algorithm(config: StudyConfig, trials: Sequence[Trial]) -> list[tuple[str, list[int]]]:
    """Algorithms in the order in which they come, with the numbers of their trials."""
    numbers: dict[str, list[int]] = {}
    for k, trial in enumerate(trials):
        numbers.setdefault(find(trial.algorithm or config.algorithm).name, []).append(k)
    return list(numbers.items())


def _lanes_of(trials: Sequence[Trial], per_model: int) -> dict[str, list[Any]]:
    """Return the arguments of the lanes of these models, model by model."""
    equal = (Costs(),) * per_model
    return {
        "parameters": [trial.parameters for trial in trials for _ in range(per_model)],
        "fit_intercept": [trial.fit_intercept for trial in trials for _ in range(per_model)],
        "costs": [costs for trial in trials for costs in trial.costs or equal],
    }


# Many models on one stream, each with learned and held-out rows.

#: Rows × lanes taken at a time, so that scores and masks stay small; a GPU has work for many more.
CELLS, CELLS_ON_GPU = 1 << 20, 1 << 26


class Study:
    """Lanes that learn from one stream, with counts of right and wrong predictions on learned and on held-out rows.

    A trial is a lane or, with more than two classes, a lane per class, and the highest score decides. Rows of weight 0
    are not counted. Scales are computed from all other rows, also from held-out ones, because scales do not depend on
    labels. Without explicit roles, row i of the stream is held out from the lanes of split i mod ``folds``.

    Parameters
    ----------
    config : StudyConfig
    trials : sequence of Trial
        Models, in this order.

    Examples
    --------
    >>> rows = Batch.of(np.array([0, 1, 2]), np.array([0, 0]), np.array([1.0, 1.0]), 1, y=np.array([1, 1], np.int8))
    >>> study = Study(StudyConfig("fsol", folds=2), [Trial({}, split=0), Trial({})])
    >>> study.take(rows)
    >>> study.tallies.held_out.rows, study.tallies.learned.rows
    (array([1, 0]), array([1, 2]))

    """

    def __init__(self, config: StudyConfig, trials: Sequence[Trial]) -> None:
        config = config.placed(len(trials))
        self.folds, self.rows = config.folds, 0
        self.classes, self._n_lanes, self.lanes = config.classes, config.n_lanes, TrialLanes(config, trials)
        self.tallies, self.order = LaneTallies(len(trials), config.classes, config.losses), LabelOrder()
        self.ranks = None if config.ranks is None else LaneRanks(len(trials), config.classes, config.ranks)
        self.preparation = Preparation(config.scale, config.normalize)
        self._again = False
        self._kept: list[tuple[int, NDArray[Any], NDArray[np.int8], NDArray[np.int8]]] | None = None
        if config.predictions:
            self._kept = []  # of each piece: rows before it, scores, labels, roles
        self._splits = np.array([trial.split for trial in trials])

    def take(self, batch: Batch, roles: NDArray[np.int8] | None = None) -> None:
        """Learn the next rows. ``roles`` has a column per split (default: row number mod ``folds``)."""
        if self._counts_on_device:
            self._take_on_device(batch, roles)
            return
        for rows, roles_of_rows in self._pieces(batch, roles):
            assert rows.y is not None
            weights = (roles_of_rows == LEARNED).astype(np.float64)
            if rows.weights is not None:
                weights *= rows.weights[:, np.newaxis]
            scores = self.lanes.learn(self._prepared(rows), weights)
            if self._again:
                roles_of_rows[roles_of_rows == LEARNED] = ABSENT
            else:
                self.order.update(rows.y)
            self._count(scores, rows.y, roles_of_rows)

    @property
    def _counts_on_device(self) -> bool:
        """Whether scores stay on the device, because only counts are requested."""
        return self.lanes.device == "cuda" and self._kept is None

    def _take_on_device(self, batch: Batch, roles: NDArray[np.int8] | None) -> None:
        batch = self._checked(batch)
        y, roles, role_of = batch.require_labels(), self._split_roles(batch, roles), self._splits.astype(np.int32)
        role_of[role_of < 0] += roles.shape[1]
        weights = (roles == LEARNED).astype(np.float64)
        if batch.weights is not None:
            weights *= batch.weights[:, np.newaxis]
        if self._again:
            roles[roles == LEARNED] = ABSENT
        else:
            self.order.update(y)

        def count(*seen: Any) -> None:
            self.tallies.update_on_device(*seen)
            if self.ranks is not None:
                self.ranks.update_on_device(*seen)

        self.lanes.learn_counted(self._prepared(batch), weights, role_of, roles, count)
        self.rows += len(batch)

    def again(self) -> None:
        """Start another pass over the same rows: count held-out rows again, and stop counting learned rows."""
        self.rows, self._again = 0, True
        self.tallies.forget(HELD_OUT)
        if self.ranks is not None and self.ranks.role == HELD_OUT:
            self.ranks.forget()
        for _, _, _, roles in self._kept or ():
            roles[roles == HELD_OUT] = ABSENT

    def score(self, batch: Batch, roles: NDArray[np.int8] | None = None) -> None:
        """Counts rows as held out that are (by the roles), learning nothing: for a second pass over the same rows."""
        for rows, roles_of_rows in self._pieces(batch, roles):
            assert rows.y is not None
            roles_of_rows[roles_of_rows == LEARNED] = ABSENT
            self._count(self.scores(rows), rows.y, roles_of_rows)

    def scores(self, rows: Batch) -> NDArray[Any]:
        """Return the scores of all lanes, without learning."""
        if self.preparation:
            rows = self.preparation.apply(rows.check(), self.lanes.dtype)
        return self.lanes.scores(rows)

    def model(self, lane: int) -> Pipeline:
        """The model of a lane, as it would be had it learned alone (a copy)."""
        return Pipeline(self.lanes[lane], self.preparation.copy())

    def _prepared(self, rows: Batch) -> Batch:
        if not self.preparation:
            return rows
        if rows.n_features > self.lanes.n_features:  # refused, where it is, before the scales get room
            self.lanes.learn(replace(rows.until(0), largest=0.0))
        self.preparation.widen(self.lanes.n_features)
        return self.preparation.learn(rows.check(), self.lanes.dtype)[0]

    def predictions(self, lane: int, role: int, first: int = 0) -> tuple[NDArray[Any], NDArray[np.int8]]:
        """Scores and labels of the rows that have a role for a lane, from row number ``first`` on."""
        scores, labels = [], []
        for start, of, y, roles in self._kept or ():
            chosen = (roles[:, lane] == role) & (np.arange(start, start + len(y)) >= first)
            scores.append(of[chosen, lane])
            labels.append(y[chosen])
        return np.concatenate(scores), np.concatenate(labels)

    def _count(self, scores: NDArray[Any], y: NDArray[np.int8], roles: NDArray[np.int8]) -> None:
        self.tallies.update(scores, y, roles)
        if self.ranks is not None:
            self.ranks.update(scores, y, roles)
        if self._kept is not None:
            self._kept.append((self.rows, np.array(scores), np.array(y), roles))
        self.rows += len(y)

    def keep(self, lanes: Sequence[int]) -> None:
        """Keep only these lanes, and free the memory of the others."""
        self.lanes.keep(lanes)
        self.tallies.keep(lanes)
        if self.ranks is not None:
            self.ranks.keep(lanes)
        self._splits = self._splits[list(lanes)]

    def _checked(self, batch: Batch) -> Batch:
        if self.classes > 2:
            class_numbers(batch, self.classes)
        elif batch.require_labels().dtype != np.int8:
            raise InvalidInputError("the study has two classes, but the labels are class numbers")
        return batch.check()

    def _pieces(self, batch: Batch, roles: NDArray[np.int8] | None) -> Any:
        """The rows in pieces, with the role of each row for each lane."""
        batch = self._checked(batch)
        cells = CELLS_ON_GPU if self.lanes.device == "cuda" else CELLS
        size = max(cells // (len(self._splits) * self._n_lanes), 1)
        for start in range(0, len(batch), size):
            stop = min(start + size, len(batch))
            rows = batch if stop - start == len(batch) else batch.until(stop).after(start)
            by_split = self._split_roles(rows, None if roles is None else roles[start:stop])
            yield rows, np.take(by_split, self._splits, axis=1)

    def _split_roles(self, rows: Batch, by_split: NDArray[np.int8] | None) -> NDArray[np.int8]:
        """The role of by_lane row for by_lane split, and last (number -1) for models that learn from all."""
        if by_split is None:
            fold = np.arange(self.rows, self.rows + len(rows)) % max(self.folds, 1)
            splits = max(self.folds, int(self._splits.max()) + 1)
            by_split = np.where(fold[:, np.newaxis] == np.arange(splits), HELD_OUT, LEARNED)
        by_lane = np.column_stack([by_split, np.full(len(rows), LEARNED)]).astype(np.int8)
        if rows.weights is not None:
            by_lane[rows.weights == 0] = ABSENT
        return by_lane
