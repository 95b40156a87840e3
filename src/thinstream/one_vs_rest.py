"""More than two classes: a model for each, its class against all others."""

import warnings
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from thinstream.batch import Batch
from thinstream.engine.loop import Costs
from thinstream.errors import DeviceWarning, InvalidInputError, MergeError, NumericalError
from thinstream.learners import Classes, Learner, class_costs, find, make_learner, require_distinct
from thinstream.learners import merge as merge_two_class
from thinstream.learners.learner import not_finite, require_range
from thinstream.learners.limits import physical_memory
from thinstream.learners.memory import require_room
from thinstream.learners.protocol import AnyLearner as AnyLearner
from thinstream.learners.protocol import ReadsOnce

if TYPE_CHECKING:
    from thinstream.lanes import Lanes

#: Scores (rows × classes) that are held at a time.
SCORES = 1 << 20


class OneVsRest(ReadsOnce):
    """A `Learner` for more than two classes: one model per class, bit for bit as if it learned alone.

    Batches have numbers of classes (int32) for labels, scores a column per class. Models are run one after another
    at first; when there is much to learn for many of them they become `Lanes`, which take one pass for all but have to
    be compiled first. The bits are the same, on a GPU, too (``device``); which machine learned is no part of the model.

    Parameters
    ----------
    models : sequence of Learner
        One per class, alike but for their costs. They are taken over, not copied.
    n_mistakes : int
        Rows for which another class than theirs had the highest score before they were learned.

    Examples
    --------
    >>> rows = Batch.of(np.arange(4), np.arange(3), np.ones(3), 3, y=np.array([2, 0, 1], np.int32))
    >>> model = OneVsRest.fresh("fsol", [Costs()] * 3, n_features=3, eta=0.5)
    >>> _ = model.learn(rows)
    >>> model.weights()
    array([[-0.5,  0.5, -0.5],
           [-0.5, -0.5,  0.5],
           [ 0.5, -0.5, -0.5]], dtype=float32)

    """

    #: Classes from which on lanes are faster, and non-zeros × classes from which on they are worth compiling.
    fewest, enough = 8, 1 << 26
    #: Where models may learn: "cpu", "cuda", or "auto", a GPU from `enough` on where it pays. Nobody keeps it.
    device = "cpu"
    #: Of models that are blends: what has their lanes, where these are on a GPU.
    _pools: Any = None

    def __init__(self, models: Sequence[Learner], n_mistakes: int = 0) -> None:
        first = models[0]
        self.algorithm, self.parameters = first.algorithm, first.parameters
        self.dtype, self.offset = first.dtype, first.offset
        self.weights_only, self.has_variance = first.weights_only, first.has_variance
        self.costs, self.n_mistakes = tuple(model.costs for model in models), n_mistakes
        self._held: list[Learner] | Lanes = list(models)
        self._work, self._rule = 0, first.rule

    @classmethod
    def fresh(cls, algorithm: str, costs: Sequence[Costs], **options: Any) -> Self:
        """A model that has seen nothing; ``options`` are those of each `Learner`."""
        first = make_learner(algorithm, costs=costs[0], **options)
        first.require_room(first.n_features, len(costs))
        return cls([first, *(make_learner(algorithm, costs=each, **options) for each in costs[1:])])

    def __len__(self) -> int:
        return len(self.costs)

    def __iter__(self) -> Iterator[Learner]:
        return islice(self._held, len(self))

    @property
    def models(self) -> Iterator[Learner]:
        """The model of each class, to read, not to change."""
        return iter(self)

    # Learning and predicting ------------------------------------------------------------------------------------------

    def learn(self, batch: Batch, scores: bool = True) -> NDArray[Any]:
        """Takes the examples in order; returns the scores of each before its update, rows × classes.

        Bad input raises before anything is learned.
        """
        class_numbers(batch, len(self))
        batch = batch.check()
        require_range(batch, self.dtype)
        return self._learn_all(batch, scores)

    def _learn_all(self, batch: Batch, scores: bool) -> NDArray[Any]:
        """Takes rows that are sound."""
        if self.grow and batch.n_features > self.n_features:
            self._require_room(batch.n_features, len(self._held))
            self._widen_away(batch.n_features)
        self._gather(batch.nnz * len(self._held))
        out = np.empty((len(batch) if scores else 0, len(self)), dtype=self.dtype)
        for start, stop in self._cuts(batch):
            whole = stop - start == len(batch)
            found = self._learn(batch if whole else batch.until(stop).after(start))
            if scores:
                out[start:stop] = found
        return out

    def _learn(self, rows: Batch) -> NDArray[Any]:
        signs = signs_of(rows.require_labels(), len(self._held))
        if isinstance(self._held, list):
            if self._pools is not None:
                self._pools.begin(signs)
            out, failed = np.empty(signs.shape, dtype=self.dtype), dict[int, int]()
            for k, model in enumerate(self._held):
                try:
                    out[:, k] = model.learn(rows.labelled(np.ascontiguousarray(signs[:, k]), rows.weights))
                except NumericalError as error:
                    failed[k] = error.row
        else:
            out = self._held.learn(rows, signs)
            failed = self._held.failed
        if failed:
            k, row = next(iter(failed.items()))
            raise not_finite(self, row, f"the model of class number {k} ends before it, those of others do not")
        out = out[:, : len(self)]
        self.n_mistakes += self._count_mistakes(out, rows)
        return out

    def _count_mistakes(self, scores: NDArray[Any], rows: Batch) -> int:
        return count_mistakes(scores, rows)

    def scores(self, batch: Batch) -> NDArray[Any]:
        """w·x of each class with the weights the next unseen example would meet, rows × classes. Nothing changes."""
        batch = batch.check()
        if not isinstance(self._held, list):
            found = self._held.scores(batch)[:, : len(self)]
            if np.isfinite(found).all():
                return found
            self._held = list(self._held)  # which say what is wrong
        out = np.empty((len(batch), len(self)), dtype=self.dtype)
        for k, model in enumerate(self.models):
            out[:, k] = model.scores(batch)
        return out

    def _cuts(self, batch: Batch) -> Iterator[tuple[int, int]]:
        step = max(SCORES // len(self._held), 1)
        for start in range(0, max(len(batch), 1), step):  # an empty batch, too, so that it widens the model
            yield start, min(start + step, len(batch))

    def _gather(self, work: int) -> None:
        """Lets the models learn together from now on, if that pays and both they and their lanes fit for a moment."""
        self._work += work
        if not isinstance(self._held, list) or self.weights_only or self._pools is not None or self._leave():
            return
        if self._work < self.enough or len(self._held) < self.fewest or self.algorithm.kind != "online":
            return
        from thinstream.lanes import Lanes  # on demand: most models never need them

        alike = [self.parameters] * len(self._held)
        needed = Lanes.estimate_nbytes(
            self.algorithm.name, alike, self.n_features, dtype=self.dtype.name, fit_intercept=bool(self.offset)
        )
        if not len(self._held[0].memory.extra) and 2 * needed < 0.7 * physical_memory():
            self._held = Lanes.of(self._held)

    # On a GPU ---------------------------------------------------------------------------------------------------------

    @property
    def lanes_away(self) -> int:
        """Lanes that are on a GPU, 0 on the CPU."""
        if isinstance(self._held, list):
            return 0 if self._pools is None else int(self._pools.lanes_away)
        return len(self._held) if self._held.device == "cuda" else 0

    def come_home(self) -> None:
        """Whatever is on a GPU is on the CPU from here on, and goes on there unless it is to leave again."""
        if self._pools is not None:
            self._pools.come_home()
            self._pools = None
        elif self.lanes_away:
            self._held = list(self._held)

    def _leave(self) -> bool:
        """Puts the models on a GPU, if they are to be there; "auto" leaves those at home that do not fit."""
        if self.device == "cpu" or (self.device == "auto" and self._work < self.enough):
            return False
        from thinstream.lanes import Lanes
        from thinstream.lanes.devices import chosen_device, may_leave

        models: Any = list(self._held)
        blended = hasattr(models[0], "pooled")
        if blended:
            lanes, threads = sum(model.lanes_for(self.device) for model in models), models[0].threads
        else:
            lanes, threads = len(models) if may_leave(self._rule, self.device) else 0, 1
        if not lanes or chosen_device(self.device, lanes, threads) == "cpu":
            return False
        try:
            if blended:
                self._pools = models[0].pooled(models, self.device)
            else:
                self._held = Lanes.of(models, device="cuda")
        except InvalidInputError:  # there is no room
            if self.device == "cuda":
                raise
            self.device = "cpu"
        return bool(self.lanes_away)

    def _widen_away(self, n_features: int) -> None:
        """Room on a GPU for so many features, where the models are there; "auto" brings home what does not fit."""
        if not self.lanes_away:
            return
        held: Any = self._held if self._pools is None else self._pools
        try:
            held.widen(n_features)
        except InvalidInputError:
            if self.device == "cuda":
                raise
            self.device = "cpu"
            self.come_home()
            text = f"{len(self._held)} models of {n_features:,} features do not fit on the GPU: they go on on the CPU"
            warnings.warn(text, DeviceWarning, stacklevel=5)

    def _require_room(self, n_features: int, models: int) -> None:
        """Raises if so many models this wide would not fit."""
        if isinstance(self._held, list):
            self._held[0].require_room(n_features, models)
        else:
            require_room(self.algorithm, self._rule, n_features + self.offset, self.dtype, models)

    # Reading ----------------------------------------------------------------------------------------------------------

    def weights(self) -> NDArray[Any]:
        """w, dense, classes × features."""
        return np.stack([model.weights() for model in self.models])

    def variance(self) -> NDArray[Any]:
        """σ of every weight, classes × features."""
        return np.stack([model.variance() for model in self.models])

    @property
    def n_features(self) -> int:
        """Width of the models."""
        return self._held[0].n_features if isinstance(self._held, list) else self._held.n_features

    @property
    def grow(self) -> bool:
        """Whether a wider batch extends the model instead of raising."""
        return self._held[0].grow if isinstance(self._held, list) else self._held.grow

    @grow.setter
    def grow(self, grow: bool) -> None:
        for held in self._held if isinstance(self._held, list) else (self._held,):
            held.grow = grow

    @property
    def n_weights(self) -> int:
        """Weights of all classes, zero or not; intercepts are none of them."""
        if isinstance(self._held, list):
            return sum(model.n_weights for model in self.models)
        return self.n_features * len(self)

    @property
    def nnz(self) -> int:
        """Non-zero weights of all classes, intercepts not counted."""
        return sum(model.nnz for model in self.models)

    @property
    def t(self) -> int:
        """Examples seen; where models stop for good, by the one that went on longest."""
        return max((model.t for model in self.models), default=0)

    @property
    def n_updates(self) -> NDArray[np.int64]:
        """Per class: rounds in which its update condition held."""
        return np.array([model.n_updates for model in self.models])

    @property
    def cumulative_loss(self) -> NDArray[np.float64]:
        """Per class: sum of the algorithm's own loss."""
        return np.array([model.cumulative_loss for model in self.models])

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        state["_held"] = list(self._held)
        for name in ("algorithm", "device", "_pools"):  # classes of a rule are found by name
            state.pop(name, None)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.algorithm = state["_held"][0].algorithm


def class_numbers(batch: Batch, classes: int) -> NDArray[np.int32]:
    """The labels of a batch, if they are numbers of classes."""
    y = batch.y
    if y is None:
        raise InvalidInputError("a batch to learn from needs labels")
    if y.dtype != np.int32:
        raise InvalidInputError(
            f"this model has {classes} classes; its batches need their numbers, in int32, the labels are {y.dtype.name}"
        )
    if len(y) and not (y.min() >= 0 and y.max() < classes):
        row = int(np.flatnonzero((y < 0) | (y >= classes))[0])
        raise InvalidInputError(
            f"y: numbers of classes must be from 0 to {classes - 1}, got {y[row]} at row {batch.first_row + row}"
        )
    return y


def signs_of(numbers: NDArray[np.int32], classes: int) -> NDArray[np.int8]:
    """Labels as each class's model has them, rows × classes."""
    return np.where(numbers[:, np.newaxis] == np.arange(classes), np.int8(1), np.int8(-1))


def count_mistakes(scores: NDArray[Any], rows: Batch) -> int:
    """Rows that count and for which another class than theirs has the highest score."""
    wrong = np.argmax(scores, axis=1) != rows.y
    return int(np.count_nonzero(wrong if rows.weights is None else wrong & (rows.weights != 0)))


def model_for(algorithm: str, classes: Classes, class_weight: Any, **options: Any) -> AnyLearner:
    """A model of these classes that has seen nothing; ``options`` are those of `Learner`, parameters included."""
    if find(algorithm).kind == "batch":
        classes.require_two(find(algorithm).name)
    costs = class_costs(class_weight, classes, algorithm)
    if len(costs) > 1:
        return OneVsRest.fresh(algorithm, costs, **options)
    only: AnyLearner = make_learner(algorithm, costs=costs[0], **options)
    return only


def learner_of(models: Sequence[Any], n_mistakes: int) -> AnyLearner:
    """The learner that these models are: of two classes the one, of more each class's against the rest."""
    return models[0] if len(models) == 1 else OneVsRest(models, n_mistakes)


def merge(models: Sequence[AnyLearner], *, average: bool = False) -> AnyLearner:
    """One learner out of several that learned from disjoint parts of the data, class by class."""
    sizes = {max(sum(1 for _ in model.models), 2) for model in models}
    if len(sizes) > 1:
        raise MergeError(f"models to merge must have the same classes, got {sorted(sizes)} of them")
    require_distinct(models)  # what lanes give out are copies
    each = zip(*(model.models for model in models), strict=True)
    merged = [merge_two_class(shards, average=average) for shards in each]
    return learner_of(merged, sum(model.n_mistakes for model in models))
