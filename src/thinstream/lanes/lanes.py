"""Many models of one algorithm on one stream."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from thinstream.algorithms.registry import find
from thinstream.batch import Batch
from thinstream.engine.loop import Costs
from thinstream.engine.memory import physical_memory
from thinstream.engine.protocol import require_range
from thinstream.engine.rows import Rows, make_rows, row_blocks
from thinstream.engine.rule import Algorithm
from thinstream.errors import InvalidInputError, InvalidParameterError
from thinstream.lanes.block import Block, Lane, SingleLane, keeps_own_array, make_lanes, require_alike
from thinstream.lanes.devices import device_for, gpu_room, run_all, stays_on_cpu
from thinstream.lanes.learner import Learner

if TYPE_CHECKING:
    from thinstream.lanes.cuda.kernels import Columns
    from thinstream.lanes.cuda.learning import Count


# Labels and weights of lanes: a column per lane, or one for all.


def labels_of(values: Any, rows: int, lanes: int) -> NDArray[np.int8]:
    """Return labels ±1 for the loop, with a column per lane or one for all."""
    labels = np.asarray(values)
    _require_shape("labels", labels, rows, lanes)
    if labels.dtype != np.int8:
        labels = np.where(labels > 0, np.int8(1), np.int8(-1))
    return np.ascontiguousarray(labels.reshape(rows, -1) if rows else np.empty((0, 1), np.int8))


def weights_of(values: Any, rows: int, lanes: int) -> NDArray[np.float64]:
    """Return checked weights, with a column per lane or one for all. None: all are 1."""
    if values is None:
        return np.ones((rows, 1))
    weights = np.asarray(values, dtype=np.float64)
    _require_shape("weights", weights, rows, lanes)
    bad = ~((weights >= 0) & (weights < np.inf))
    if bad.any():
        row = int(np.argmax(bad.reshape(rows, -1).any(axis=1)))
        raise InvalidInputError(f"weights must be finite and ≥ 0, got {weights[bad][0]} in row {row}")
    return np.ascontiguousarray(weights.reshape(rows, -1) if rows else np.empty((0, 1)))


def _require_shape(name: str, array: NDArray[Any], rows: int, lanes: int) -> None:
    if array.shape not in ((rows,), (rows, lanes)):
        raise InvalidInputError(f"{name} must have shape ({rows},) or ({rows}, {lanes}), got {array.shape}")


class Lanes:
    """K models that learn from the same stream in one pass. Each is bit-identical to a separate `Learner`.

    Parameters
    ----------
    algorithm : str
        Its name.
    parameters : sequence of dict
        Those of each lane.
    n_features, dtype, grow
        As of a `Learner`, for all lanes.
    fit_intercept : bool or sequence of bool
        As of a `Learner`, for all lanes or for each.
    costs : sequence of Costs, optional
        Class costs of each lane.
    threads : int
        Threads a call may use.
    device : {"cpu", "cuda"}
        The device of the lanes. A GPU gives bit-identical results and is faster from about a thousand lanes on
        (docs/gpu.md). Full covariances and SMIDAS stay on the CPU, with a `DeviceWarning`.

    Examples
    --------
    >>> rows = Batch.of(np.array([0, 1, 2]), np.array([0, 1]), np.array([1.0, 1.0]), 2, y=np.array([-1, 1], np.int8))
    >>> lanes = Lanes("fsol", [{"eta": 0.5}, {"eta": 2.0}], n_features=2)
    >>> _ = lanes.learn(rows)
    >>> [model.weights().tolist() for model in lanes]
    [[-0.5, 0.5], [-2.0, 2.0]]
    >>> lanes.keep([1])
    >>> lanes.scores(rows)
    array([[-2.],
           [ 2.]], dtype=float32)

    """

    def __init__(
        self,
        algorithm: str,
        parameters: Sequence[Mapping[str, Any]],
        *,
        n_features: int = 0,
        dtype: str = "float32",
        grow: bool = False,
        fit_intercept: bool | Sequence[bool] = False,
        costs: Sequence[Costs] | None = None,
        threads: int = 1,
        device: str = "cpu",
    ) -> None:
        lanes = make_lanes(algorithm, parameters, n_features, dtype, grow, fit_intercept, costs)
        self._begin(find(algorithm), lanes, np.dtype(dtype), n_features, grow, threads, device)

    def _begin(
        self,
        algorithm: Algorithm,
        lanes: list[Lane],
        dtype: np.dtype[Any],
        n_features: int,
        grow: bool,
        threads: int,
        device: str,
    ) -> None:
        if isinstance(threads, bool) or not isinstance(threads, int) or threads < 1:
            raise InvalidParameterError(f"threads must be a whole number ≥ 1, got {threads!r}")
        self.algorithm, self.n_features, self.grow, self.threads = algorithm, n_features, grow, threads
        self.dtype, self._lanes, self.device = dtype, lanes, device_for(device, [lane.rule for lane in lanes])
        self._failed: dict[int, int] = {}
        self._build()

    def _plan(self) -> list[tuple[Any, list[int]]]:
        """Return the class of each block, and the numbers of its lanes."""
        block_type = _block_type(self._lanes, self.device)
        return [(block_type, numbers) for numbers in block_type.group(self._lanes, self.threads)]

    def _build(self) -> None:
        """Make blocks of fresh lanes."""
        plan = self._plan()
        self._require_room(self.n_features)
        self._numbers = [numbers for _, numbers in plan]
        self._blocks: list[Any] = [
            block_type([self._lanes[k] for k in numbers], self._width(numbers), self.dtype)
            for block_type, numbers in plan
        ]

    def _width(self, numbers: Sequence[int]) -> int:
        return self.n_features + self._lanes[numbers[0]].offset

    @classmethod
    def of(cls, models: Sequence[Learner], threads: int = 1, device: str = "cpu") -> Self:
        """Return lanes with the current state of these models, which do not change.

        >>> models = [Learner("fsol", n_features=2, eta=eta) for eta in (0.5, 2.0)]
        >>> len(Lanes.of(models))
        2
        """
        made = object.__new__(cls)
        made._begin_with(models, threads, device)
        return made

    def _begin_with(self, models: Sequence[Learner], threads: int, device: str) -> None:
        """Copy the state of these models."""
        require_alike(models)
        lanes = [Lane(dict(model.parameters), model.rule, model.costs, model.offset) for model in models]
        first = models[0]
        self._begin(first.algorithm, lanes, first.dtype, first.n_features, first.grow, threads, device)
        for block, numbers in self._pairs():
            block.put([models[k].memory for k in numbers], self._width(numbers))

    @classmethod
    def estimate_nbytes(
        cls,
        algorithm: str,
        parameters: Sequence[Mapping[str, Any]],
        n_features: int,
        *,
        dtype: str = "float32",
        fit_intercept: bool | Sequence[bool] = False,
        threads: int = 1,
        device: str = "cpu",
    ) -> int:
        """Return `nbytes` of such lanes, without allocating them.

        >>> Lanes.estimate_nbytes("fsol", [{}] * 10, 1_000_000)  # room for 16 lanes of 4 bytes
        64000768
        """
        lanes = make_lanes(algorithm, parameters, n_features, dtype, False, fit_intercept, None)
        if any(stays_on_cpu(lane.rule) for lane in lanes):
            device = "cpu"
        block_type, precision = _block_type(lanes, device), np.dtype(dtype)
        return sum(
            block_type.estimate_nbytes([lanes[k] for k in numbers], n_features + lanes[numbers[0]].offset, precision)
            for numbers in block_type.group(lanes, threads)
        )

    @property
    def nbytes(self) -> int:
        """Bytes of the lanes' memory."""
        return sum(block.nbytes for block in self._blocks)

    def __len__(self) -> int:
        return len(self._lanes)

    def __iter__(self) -> Iterator[Learner]:
        return (self[lane] for lane in range(len(self)))

    def __getitem__(self, lane: int) -> Learner:
        """Return a copy of the model of a lane, as a `Learner`."""
        lane = range(len(self))[lane]
        block, numbers = self._block_of(lane)
        memory = block.memory_of(numbers.index(lane), self._width(numbers))
        return self._lanes[lane].model(self.algorithm, memory, self.n_features, self.grow)

    def learn(
        self,
        batch: Batch,
        y: NDArray[np.int8] | None = None,
        weights: NDArray[np.float64] | None = None,
        scores: bool = True,
    ) -> NDArray[Any]:
        """Learn the examples in order; return the score of each lane before each update, rows × lanes.

        ``y`` and ``weights`` (0: the lane does not see the row, but scores it) may have a column per lane; by default
        they are those of the batch. Without ``scores``, the result is empty. Bad input raises before
        anything is learned.

        A lane in which a row would leave numbers that are not finite does not learn it, nor any from there on: its
        scores are NaN, and ``failed`` has the row under the number of the lane.
        """
        batch = batch.check()
        labels = batch.y if y is None else y
        if labels is None:
            raise InvalidInputError("a batch to learn from needs labels")
        labels = labels_of(labels, len(batch), len(self))
        importance = weights_of(batch.weights if weights is None else weights, len(batch), len(self))
        require_range(batch, self.dtype)
        self._widen(batch.n_features)
        return self._run(batch, labels, importance, scores)

    def learn_counted(
        self, batch: Batch, columns: "Columns", more: Sequence[NDArray[Any]], count: "Count | None"
    ) -> None:
        """Lanes on a device take the examples, and ``count(lanes, scores, more, rows)`` sees scores there.

        ``columns`` are labels and weights, and which column of each is a lane's; ``more`` are arrays of a number, or
        several, per row, of which ``count`` gets those of its ``rows``, a slice of the batch. Nothing is fetched.
        """
        from thinstream.lanes.cuda.learning import learn_batch

        require_range(batch, self.dtype)
        self._widen(batch.n_features)
        learn_batch(self._pairs(), batch, columns, more, count)

    def scores(self, batch: Batch) -> NDArray[Any]:
        """Return w·x of every lane with its current weights, rows × lanes. Nothing changes."""
        batch = batch.check().narrowed(self.n_features)
        require_range(batch, self.dtype)
        return self._run(batch, np.ones((len(batch), 1), np.int8), np.zeros((len(batch), 1)))

    def keep(self, lanes: Sequence[int]) -> None:
        """Keep these lanes, in this order; drop the others and free their memory."""
        kept = [int(lane) for lane in lanes]
        if not kept or len(set(kept)) != len(kept) or not all(0 <= lane < len(self) for lane in kept):
            raise InvalidParameterError(
                f"keep takes different numbers of lanes from 0 to {len(self) - 1}, one at least, got {kept}"
            )
        new = {lane: number for number, lane in enumerate(kept)}
        position = {
            new[number]: (block, slot)
            for block, numbers in self._pairs()
            for slot, number in enumerate(numbers)
            if number in new
        }
        failed = self.failed
        self._lanes = [self._lanes[lane] for lane in kept]
        self._failed = {new[lane]: row for lane, row in failed.items() if lane in new}
        self._build()
        for block, numbers in self._pairs():
            for source in {id(position[k][0]): position[k][0] for k in numbers}.values():
                pairs = [(slot, position[k][1]) for slot, k in enumerate(numbers) if position[k][0] is source]
                block.take([here for here, _ in pairs], source, [there for _, there in pairs], self._width(numbers))

    def copy(self) -> Self:
        """Return a copy that continues from here."""
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__)
        made._lanes, made._numbers = list(self._lanes), [list(numbers) for numbers in self._numbers]
        made._failed = dict(self.failed)
        made._blocks = [block.copy() for block in self._blocks]
        return made

    def _run(
        self, batch: Batch, y: NDArray[np.int8], weights: NDArray[np.float64], scores: bool = True
    ) -> NDArray[Any]:
        out = np.empty((len(batch) if scores else 0, len(self)), dtype=self.dtype)
        if self.device == "cuda":
            from thinstream.lanes.cuda.learning import learn_scored  # which needs an optional package

            learn_scored(self._pairs(), batch, y, weights, out)
            return out
        for start, stop in row_blocks(batch):
            rows = make_rows(batch, start, stop, self.dtype, 0)
            here, largest = slice(start, stop), float(batch.largest)
            work = [
                (block, numbers, rows._replace(offset=block.offset), y[here], weights[here], largest, out[here])
                for block, numbers in self._pairs()
            ]
            run_all([partial(_learn, *one) for one in work], self.threads)
            self._note_failed(batch.first_row + start)
        return out

    def _block_of(self, lane: int) -> tuple[Any, list[int]]:
        """Return the block of a lane, and the numbers of the block's lanes."""
        return next(pair for pair in self._pairs() if lane in pair[1])

    def _pairs(self) -> list[tuple[Any, list[int]]]:
        """Blocks, and the numbers of their lanes."""
        return list(zip(self._blocks, self._numbers, strict=True))

    @property
    def failed(self) -> dict[int, int]:
        """Lanes in which a row would have left numbers that are not finite, and its number in the stream."""
        if self.device == "cuda":  # only now, so that chunks do not have to wait for it
            self._note_failed(0)
        return self._failed

    def _note_failed(self, first: int) -> None:
        for block, numbers in self._pairs():
            failed = block.failed[: len(numbers)]
            if failed.max() >= 0:
                for slot in np.flatnonzero(failed >= 0).tolist():
                    self._failed.setdefault(numbers[slot], first + int(failed[slot]))

    def widen(self, n_features: int) -> None:
        """Make room for a number of features, or raise."""
        self._widen(n_features)

    def _widen(self, n_features: int) -> None:
        if n_features <= self.n_features:
            return
        if not self.grow:
            raise InvalidInputError(
                f"X has {n_features} features, but the model has {self.n_features}; grow=True would extend it"
            )
        room = n_features
        if any(n_features + block.offset > block.width for block in self._blocks):
            held = max(block.nbytes for block in self._blocks)  # each is there until it is copied
            self._require_room(n_features, held)
            half_more = max(n_features, self.n_features + self.n_features // 2)  # growing by one feature stays cheap
            if self._needed(half_more) + held <= self._room():
                room = half_more
        for block in self._blocks:  # a single lane makes more room itself
            block.widen((n_features if isinstance(block, SingleLane) else room) + block.offset)
        self.n_features = n_features

    def _needed(self, n_features: int) -> int:
        """Bytes of lanes this wide."""
        return sum(
            block_type.estimate_nbytes([self._lanes[k] for k in numbers], n_features + 1, self.dtype)
            for block_type, numbers in self._plan()
        )

    def _require_room(self, n_features: int, held: int = 0) -> None:
        """Raise if lanes of this width, plus ``held`` bytes, would not fit into memory."""
        needed, room = self._needed(n_features) + held, self._room()
        if needed > room:
            have = f"{room / 1e9:,.0f} GB are free on the GPU"
            if self.device == "cpu":
                have = f"this machine has {physical_memory() / 1e9:,.0f} GB"
            raise InvalidInputError(
                f"{len(self)} lanes of {self.algorithm.name} with {n_features} features need {needed / 1e9:,.0f} GB, "
                f"{have}; take fewer lanes, or number features more densely"
            )

    def _room(self) -> float:
        """Bytes all lanes may take."""
        if self.device == "cpu":
            return 0.7 * physical_memory()
        held = sum(block.nbytes for block in self.__dict__.get("_blocks", ()))
        return float(gpu_room() + held)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"algorithm": self.algorithm.name}  # classes of a rule are found by name

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.algorithm = find(state["algorithm"])


def _block_type(lanes: Sequence[Lane], device: str) -> Any:
    """Return the class of blocks for these lanes."""
    if device == "cuda":
        from thinstream.lanes.cuda.block import CudaBlock  # which needs an optional package

        return CudaBlock
    return SingleLane if any(keeps_own_array(lane.rule) for lane in lanes) else Block


def _learn(
    block: Any,
    numbers: list[int],
    rows: Rows,
    y: NDArray[np.int8],
    weights: NDArray[np.float64],
    largest: float,
    out: NDArray[Any],
) -> None:
    """Let a block learn, and store the scores in the columns of its lanes."""
    if len(numbers) == out.shape[1] and numbers == list(range(out.shape[1])):
        block.learn(rows, y, weights, largest, out)
        return
    # a slice if possible, because NumPy copies slices without blocking other threads
    which = slice(numbers[0], numbers[-1] + 1) if numbers[-1] - numbers[0] == len(numbers) - 1 else numbers
    own_y, own_weights = (
        array if array.shape[1] == 1 else np.ascontiguousarray(array[:, which]) for array in (y, weights)
    )
    scores = np.empty((len(out), len(numbers)), out.dtype)
    block.learn(rows, own_y, own_weights, largest, scores)
    out[:, which] = scores
