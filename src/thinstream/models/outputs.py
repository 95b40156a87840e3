"""The outputs of a model: one learner for binary classification, otherwise one per class against the rest."""

import copy
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thinstream.batch import Batch
from thinstream.data.labels import known_before, predict_known
from thinstream.engine.covariance import Matrix
from thinstream.engine.forgetting import declared
from thinstream.engine.loop import Costs
from thinstream.engine.memory import field_names, is_full, physical_memory, require_room
from thinstream.engine.protocol import not_finite, refuse_learning, require_range
from thinstream.errors import DeviceWarning, InvalidInputError, NumericalError
from thinstream.lanes.devices import can_run_on_gpu, chosen_device, described, require_gpu, stays_on_cpu
from thinstream.models.members import Grid

#: Scores (rows × outputs) that are computed at a time.
SCORES = 1 << 20


class Outputs:
    """The learners of all outputs, and where they learn.

    A binary model has one output. Its batches have labels ±1, and its scores are a vector. Other models have an output
    for each class. Their batches have class numbers (int32), and their scores have a column per class. Each learner is
    bit-identical to one that learned its class against the rest alone.

    With ``spares``, classes may appear later. For a class that has not appeared, all rows so far are negative examples.
    So a new class starts with a copy of a spare, a learner that learned all rows as negative. Costs of positive
    examples can affect steps on negative ones (CW, PA), so there is one spare for each cost that a class may have. A
    class can be predicted only after it has appeared, so its first row is a mistake.

    This class decides where learners run. At first they run one after another (the scalar loop). With many outputs and
    much work they become `Lanes`, which learn in one pass but have to be compiled. With a ``device``, lanes run on a
    GPU. The results are bit-identical, and no model stores where it learned.

    Parameters
    ----------
    learners : sequence
        One per output, equal except for their costs. They are not copied.
    spares : sequence, optional
        One per cost of classes that appear later, the default cost first; empty for models that only predict.
    n_mistakes : int
        Misclassified rows of a model with several outputs, from the scores before each update.
    spare_costs : sequence of Costs, optional
        The costs of the spares, if there are none.

    Examples
    --------
    >>> from thinstream.lanes.learner import Learner
    >>> rows = Batch.of(np.arange(4), np.arange(3), np.ones(3), 3, y=np.array([2, 0, 1], np.int32))
    >>> outputs = Outputs([Learner("fsol", n_features=3, eta=0.5) for _ in range(3)])
    >>> _ = outputs.learn(rows)
    >>> outputs.weights()
    array([[-0.5,  0.5, -0.5],
           [-0.5, -0.5,  0.5],
           [ 0.5, -0.5, -0.5]], dtype=float32)

    Classes that appear later:

    >>> outputs = Outputs([], spares=[Learner("fsol", n_features=3, eta=0.5)])
    >>> for k in range(2):
    ...     print(outputs.learn(Batch.of(np.arange(2), np.array([k]), np.ones(1), 3, y=np.array([k], np.int32))))
    [[0.]]
    [[0. 0.]]

    """

    #: Lanes need at least this many outputs to be faster, and this much work (non-zeros × outputs) to be worth
    #: compiling.
    fewest, enough = 8, 1 << 26
    #: The device for learners: "cpu", "cuda", or "auto", which uses a GPU if that is likely to be faster.
    device = "cpu"

    def __init__(
        self,
        learners: Sequence[Any],
        *,
        spares: Sequence[Any] | None = None,
        n_mistakes: int = 0,
        spare_costs: Sequence[Costs] | None = None,
    ) -> None:
        first = next(iter([*learners, *(spares or [])]))
        self.algorithm, self.parameters = first.algorithm, first.parameters
        self.dtype, self.offset = first.dtype, first.offset
        self.weights_only, self.has_variance = first.weights_only, first.has_variance
        self.rule, self.reads = getattr(first, "rule", None), first.reads
        self.costs = tuple(one.costs for one in learners)
        self.spare_costs: tuple[Costs, ...] | None = None
        if spares is not None:
            self.spare_costs = tuple([one.costs for one in spares] if spare_costs is None else spare_costs)
        self.is_binary = spares is None and len(learners) == 1
        self.new_costs: dict[int, Costs] = {}  #: costs of new classes that differ from the default, by class number
        self._held: Any = [*learners, *(spares or [])]  # or Lanes
        self._mistakes, self._work = n_mistakes, 0
        self._n_known = len(learners)  # classes that can be predicted

    @property
    def grows(self) -> bool:
        """Whether classes may appear later."""
        return self.spare_costs is not None

    def __len__(self) -> int:
        return len(self.costs)

    def __iter__(self) -> Iterator[Any]:
        """The learner of each output, to read, not to change."""
        return islice(self._held, len(self))

    @property
    def one(self) -> Any:
        """The learner of the only output."""
        (learner,) = self
        return learner

    @property
    def spares(self) -> list[Any]:
        """The learners that new classes copy, to read, not to change."""
        return list(self._held)[len(self) :]

    @property
    def all(self) -> list[Any]:
        """The learners of all outputs, then the spares, to read, not to change."""
        return list(self._held)

    @property
    def blends(self) -> list[Any]:
        """The blends of Auto, one per output, then the spares; empty for other algorithms and for weights only."""
        return self.all if self.algorithm.kind == "blend" and not self.weights_only else []

    @property
    def are_lanes(self) -> bool:
        """Whether the learners are lanes, so that reading one makes a copy."""
        return not isinstance(self._held, list)

    def mapped(self, change: Callable[[Any], Any], spares: bool = True) -> "Outputs":
        """Return new outputs of changed learners; without ``spares`` they can only predict."""
        kept = None if self.spare_costs is None else [change(one) for one in (self.spares if spares else ())]
        made = Outputs(
            [change(one) for one in self], spares=kept, n_mistakes=self._mistakes, spare_costs=self.spare_costs
        )
        made.new_costs, made._n_known = dict(self.new_costs), self._n_known
        made._work, made.device = self._work, self.device
        return made

    # Learning and predicting ------------------------------------------------------------------------------------------

    def learn(self, batch: Batch, scores: bool = True) -> NDArray[Any]:
        """Learn the examples in order; return the scores of each before its update.

        Bad input raises before anything is learned. New classes are numbered in order of appearance, after the known
        ones. Before its first row, a class has the score of its spare.
        """
        if self.is_binary:
            if self.device != "cpu":
                self._widen_on_gpu(batch.n_features)
                self._move_to_gpu()
            scores_before: NDArray[Any] = self._held[0].learn(batch, scores)
            return scores_before
        with self.adding_classes(batch):
            batch = batch.check()
            require_range(batch, self.dtype)
            return self._learn_all(batch, scores)

    def finish(self) -> None:
        """Learn the rows that were held until the end of the stream."""
        for one in self._held if isinstance(self._held, list) else ():
            one.finish()

    @contextmanager
    def adding_classes(self, batch: Batch) -> Iterator[None]:
        """Check the class numbers of a batch and add outputs for new classes; remove them if learning fails."""
        if not self.grows:
            class_numbers(batch, len(self))
            yield
            return
        before, n_known = len(self), self._n_known
        y = class_numbers(batch, np.iinfo(np.int32).max)
        ahead = np.flatnonzero(y > known_before(y, before))
        if len(ahead):
            raise InvalidInputError(
                f"y: new classes must be numbered consecutively after the known ones, got {y[ahead[0]]} at row "
                f"{batch.first_row + int(ahead[0])}"
            )
        self._add_classes(max(before, int(y.max(initial=-1)) + 1))
        try:
            yield
        except BaseException:
            self._remove_classes(before)
            self._n_known = n_known
            raise

    def _add_classes(self, count: int) -> None:
        if count == len(self):
            return
        if self.weights_only:
            refuse_learning(self.algorithm.name)
        assert self.spare_costs is not None
        self._require_room(self.n_features, count + len(self.spare_costs))
        self.to_cpu()
        learners, spares = list(self), self.spares
        costs = [self.new_costs.get(k, self.spare_costs[0]) for k in range(len(self), count)]
        chosen = [spares[self.spare_costs.index(cost)] for cost in costs]
        learners += [spare.alone() if self.blends else copy.deepcopy(spare) for spare in chosen]
        self._held, self.costs = [*learners, *spares], (*self.costs, *costs)

    def _remove_classes(self, count: int) -> None:
        if count < len(self):
            self.to_cpu()
            learners, spares = list(self), self.spares
            self._held, self.costs = [*learners[:count], *spares], self.costs[:count]

    def _learn_all(self, batch: Batch, scores: bool) -> NDArray[Any]:
        """Learn checked rows."""
        if self.grow and batch.n_features > self.n_features:
            self._require_room(batch.n_features, len(self._held))
            self._widen_on_gpu(batch.n_features)
        self._choose_placement(batch.nnz * len(self._held))
        out = np.empty((len(batch) if scores else 0, len(self)), dtype=self.dtype)
        for start, stop in self.cuts(batch):
            is_all = stop - start == len(batch)
            before_update = self._learn(batch if is_all else batch.until(stop).after(start))
            if scores:
                out[start:stop] = before_update
        return out

    def _learn(self, rows: Batch) -> NDArray[Any]:
        signs, failed = signs_of(rows.require_labels(), len(self._held)), dict[int, int]()
        out: NDArray[Any]
        if self.blends:
            out = self._held[0].learn_together(self._held, rows, signs).astype(self.dtype)
        elif isinstance(self._held, list):
            out = np.empty(signs.shape, dtype=self.dtype)
            for k, one in enumerate(self._held):
                try:
                    out[:, k] = one.learn(rows.labelled(np.ascontiguousarray(signs[:, k]), rows.weights))
                except NumericalError as error:
                    failed[k] = error.row
        else:
            out = self._held.learn(rows, signs)
            failed = self._held.failed
        if failed:
            k, row = next(iter(failed.items()))
            raise not_finite(
                self, row, f"the learner of class number {k} ends before this row, those of other classes do not"
            )
        out = out[:, : len(self)]
        self._mistakes += self._count_mistakes(out, rows)
        return out

    def _count_mistakes(self, scores: NDArray[Any], rows: Batch) -> int:
        if not self.grows:
            return count_mistakes(scores, rows)
        y = rows.require_labels()
        n_known = known_before(y, self._n_known)
        self._n_known = max(self._n_known, int(y.max(initial=-1)) + 1)
        wrong = predict_known(scores, n_known) != y
        return int(np.count_nonzero(wrong if rows.weights is None else wrong & (rows.weights != 0)))

    def scores(self, batch: Batch) -> NDArray[Any]:
        """Return the scores of each row with the current weights. Nothing changes."""
        if self.is_binary:
            only: NDArray[Any] = self._held[0].scores(batch)
            return only
        batch = batch.check()
        if not isinstance(self._held, list):
            scores: NDArray[Any] = self._held.scores(batch)[:, : len(self)]
            if np.isfinite(scores).all():
                return scores
            self._held = list(self._held)  # their errors name the row
        out = np.empty((len(batch), len(self)), dtype=self.dtype)
        for k, one in enumerate(self):
            out[:, k] = one.scores(batch)
        return out

    def cuts(self, batch: Batch) -> Iterator[tuple[int, int]]:
        """Yield the bounds of rows that are learned together. All outputs learn all of them, even if one fails."""
        step = max(SCORES // len(self._held), 1)
        for start in range(0, max(len(batch), 1), step):  # an empty batch also widens the learners
            yield start, min(start + step, len(batch))

    # Placement: the scalar loop, lanes on the CPU, or a GPU -----------------------------------------------------------

    def place(self, device: str) -> None:
        """Let lanes learn on a device: "cpu", "cuda" or "auto". Only several outputs and Auto use a GPU."""
        if not self._is_alone and not self.weights_only:
            if device == "cpu":
                self.to_cpu()
            self.device = device

    def check_device(self, device: str) -> None:
        """Raise if there is no such device; warn if a GPU is requested and the learners stay on the CPU."""
        chosen_device(device, 0, 1)
        if device != "cuda":
            return
        name, reason = self.algorithm.name, ""
        if self._is_alone or self.weights_only:
            reason = f"{name} with two classes is a single model, which runs on the CPU"
        elif self.blends:
            reason = "" if self.blends[0].grid.lanes_for("cuda") else f"the members of this {name} run on the CPU only"
        elif stays_on_cpu(self.rule):
            reason = f"{described(self.rule)} runs on the CPU only"
        if reason:
            warnings.warn(f"{reason}, so this model trains on the CPU", DeviceWarning, stacklevel=4)
        else:
            require_gpu()

    @property
    def _is_alone(self) -> bool:
        """Whether there is one learner only, which the scalar loop runs."""
        return self.is_binary and self.algorithm.kind != "blend"

    @property
    def n_lanes_on_gpu(self) -> int:
        """The number of lanes on a GPU."""
        if isinstance(self._held, list):
            return int(self._held[0].grid.n_lanes_on_gpu) if self.blends else 0
        return len(self._held) if self._held.device == "cuda" else 0

    def to_cpu(self) -> None:
        """Move lanes from the GPU to the CPU, where reading them is faster."""
        if self.blends:
            self._held[0].grid.to_cpu()
        elif self.n_lanes_on_gpu:
            self._held = list(self._held)

    def _choose_placement(self, work: int) -> None:
        """Turn the learners into lanes, if that is worth it and both fit into memory at the same time."""
        self._work += work
        if not isinstance(self._held, list) or self.weights_only or self.n_lanes_on_gpu or self._move_to_gpu():
            return
        if self._work < self.enough or len(self._held) < self.fewest or self.algorithm.kind != "online":
            return
        from thinstream.lanes.lanes import Lanes  # on demand: most models never need them

        alike = [self.parameters] * len(self._held)
        needed = Lanes.estimate_nbytes(
            self.algorithm.name, alike, self.n_features, dtype=self.dtype.name, fit_intercept=bool(self.offset)
        )
        if not len(self._held[0].memory.extra) and 2 * needed < 0.7 * physical_memory():
            self._held = Lanes.of(self._held)

    def _move_to_gpu(self) -> bool:
        """Move the learners to a GPU if requested. With "auto", learners that do not fit stay on the CPU."""
        if self.device == "cpu" or self.n_lanes_on_gpu or self.weights_only:
            return False
        if self.device == "auto" and self._work < self.enough and not self.is_binary:
            return False
        learners: Any = list(self._held)
        if self.blends:
            grid = Grid.of(learners)
            lanes, threads = grid.lanes_for(self.device), learners[0].threads
        else:
            lanes, threads = len(learners) if can_run_on_gpu(self.rule, self.device) else 0, 1
        if not lanes or chosen_device(self.device, lanes, threads) == "cpu":
            return False
        try:
            if self.blends:
                grid.to_gpu(self.device)
            else:
                from thinstream.lanes.lanes import Lanes

                self._held = Lanes.of(learners, device="cuda")
        except InvalidInputError:  # they do not fit
            if self.device == "cuda":
                raise
            self.device = "cpu"
        return bool(self.n_lanes_on_gpu)

    def _widen_on_gpu(self, n_features: int) -> None:
        """Make room on the GPU for lanes that are there. With "auto", lanes that do not fit move to the CPU."""
        if not self.n_lanes_on_gpu or not self.grow:
            return
        try:
            self._held[0].grid.widen_on_gpu(n_features) if self.blends else self._held.widen(n_features)
        except InvalidInputError:
            if self.device == "cuda":
                raise
            self.device = "cpu"
            self.to_cpu()
            text = (
                f"{len(self._held)} models of {n_features:,} features do not fit on the GPU, so training continues on "
                "the CPU"
            )
            warnings.warn(text, DeviceWarning, stacklevel=5)

    def _require_room(self, n_features: int, learners: int) -> None:
        """Raise if a number of learners of this width would not fit."""
        if isinstance(self._held, list):
            self._held[0].require_room(n_features, learners)
        else:
            require_room(self.algorithm, self.rule, n_features + self.offset, self.dtype, learners)

    def estimate_nbytes(self, n_features: int) -> int:
        """Estimate the bytes of state for a number of features, without allocating them."""
        if self.blends:
            return int(self._held[0].needed(n_features, len(self._held)))
        fields, clocks = field_names(declared(type(self.rule)).coordinate)
        per_learner: int = n_features * (len(fields) * self.dtype.itemsize + 8 * len(clocks))
        per_learner += Matrix.size(n_features) * self.dtype.itemsize if is_full(self.rule) else 0
        return len(self._held) * per_learner

    # Reading ----------------------------------------------------------------------------------------------------------

    def _read(self, name: str) -> Any:
        """Return an attribute of the only output, or an array with that of all outputs."""
        values = [getattr(one, name) for one in self]
        return values[0] if self.is_binary else np.array(values)

    def weights(self) -> NDArray[Any]:
        """Return dense weights. With several outputs, there is a row for each."""
        rows = [one.weights() for one in self]
        return rows[0] if self.is_binary else np.stack(rows)

    def variance(self) -> NDArray[Any]:
        """Return the variance of every weight. With several outputs, there is a row for each."""
        rows = [one.variance() for one in self]
        return rows[0] if self.is_binary else np.stack(rows)

    @property
    def n_features(self) -> int:
        """The width of the learners."""
        held: Any = self._held[0] if isinstance(self._held, list) else self._held
        return int(held.n_features)

    @property
    def grow(self) -> bool:
        """Whether a wider batch extends the learners instead of raising."""
        held = self._held[0] if isinstance(self._held, list) else self._held
        return bool(held.grow)

    @grow.setter
    def grow(self, grow: bool) -> None:
        for held in self._held if isinstance(self._held, list) else (self._held,):
            held.grow = grow

    @property
    def n_weights(self) -> int:
        """The number of weights of all outputs, zero or not, without intercepts."""
        if isinstance(self._held, list):
            return sum(int(one.n_weights) for one in self)
        return self.n_features * len(self)

    @property
    def nnz(self) -> int:
        """The number of non-zero weights of all outputs, without intercepts."""
        return sum(int(one.nnz) for one in self)

    @property
    def t(self) -> int:
        """The number of examples learned. If an algorithm stops early, it is the largest number of any output."""
        return max((int(one.t) for one in self), default=0)

    @property
    def n_mistakes(self) -> int:
        """The number of examples misclassified before their update."""
        return int(self._held[0].n_mistakes) if self.is_binary else self._mistakes

    @property
    def n_updates(self) -> Any:
        """The number of rounds with an update. With several outputs, it is an array."""
        return self._read("n_updates")

    @property
    def cumulative_loss(self) -> Any:
        """The sum of the algorithm's own loss. With several outputs, it is an array."""
        return self._read("cumulative_loss")

    def reset_features(self, features: NDArray[np.int64]) -> None:
        """Reset features to those of a fresh model."""
        self.to_cpu()
        for held in self._held if isinstance(self._held, list) else self._held._blocks:
            held.reset_features(features)

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__ | {"_held": list(self._held)}
        for name in ("algorithm", "device"):  # classes of a rule are found by name
            state.pop(name, None)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.algorithm = state["_held"][0].algorithm


def class_numbers(batch: Batch, classes: int) -> NDArray[np.int32]:
    """Return the labels of a batch, if they are class numbers."""
    y = batch.y
    if y is None:
        raise InvalidInputError("a batch to learn from needs labels")
    if y.dtype != np.int32:
        raise InvalidInputError(
            f"this model has {classes} classes, so labels must be class numbers in int32, got {y.dtype.name}"
        )
    if len(y) and not (y.min() >= 0 and y.max() < classes):
        row = int(np.flatnonzero((y < 0) | (y >= classes))[0])
        raise InvalidInputError(
            f"y: class numbers must be from 0 to {classes - 1}, got {y[row]} at row {batch.first_row + row}"
        )
    return y


def signs_of(numbers: NDArray[np.int32], classes: int) -> NDArray[np.int8]:
    """Return the labels ±1 that each output learns, rows × outputs."""
    return np.where(numbers[:, np.newaxis] == np.arange(classes), np.int8(1), np.int8(-1))


def count_mistakes(scores: NDArray[Any], rows: Batch) -> int:
    """Count the rows (of non-zero weight) in which another class than the true one has the highest score."""
    wrong = np.argmax(scores, axis=1) != rows.y
    return int(np.count_nonzero(wrong if rows.weights is None else wrong & (rows.weights != 0)))
