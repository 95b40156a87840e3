"""A block: up to 64 lanes of one kind, side by side in one memory."""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from copy import deepcopy
from functools import cache
from typing import Any, NamedTuple, Self, get_type_hints

import numpy as np
from numpy.typing import NDArray

from thinstream.algorithms.registry import described_by, find, rule_of
from thinstream.engine.covariance import Matrix
from thinstream.engine.forgetting import HALF_LIFE, declared
from thinstream.engine.loop import EQUAL_COSTS, Costs
from thinstream.engine.memory import allocate, capacity, is_full, kept_width, widen
from thinstream.engine.parameters import Interval, OneOf, Parameter
from thinstream.engine.protocol import dtype_of, require_sound
from thinstream.engine.records import Memory, field_names
from thinstream.engine.rows import Bounds, Rows
from thinstream.engine.rule import Algorithm
from thinstream.errors import InvalidParameterError
from thinstream.lanes.full import FullLearner, online_learner
from thinstream.lanes.learner import Frozen, Learner
from thinstream.lanes.loop import FULL, LINE, STEP, LaneMemory, Tables, loop_for, numbers_of

# A lane: one model among others, without its memory.

# Rules of thousands of lanes, checked parameter by parameter; one by one they would take longer than learning.


def rules_of(algorithm: Algorithm, many: Sequence[Mapping[str, Any]], dtype: np.dtype[Any], grow: bool) -> list[Any]:
    """The rule of each set of parameters, as `rule_of` makes it, checked by `require_sound`.

    >>> from thinstream.algorithms.registry import find
    >>> rules_of(find("fsol"), [{"eta": 0.5}, {"eta": 2.0}], np.dtype("float32"), grow=False)
    [FSOL(eta=0.5, l1=0.0, l1_schedule=0), FSOL(eta=2.0, l1=0.0, l1_schedule=0)]
    """
    rules = _together(algorithm, many, dtype)
    if rules is None:  # a value is unusual or invalid: `rule_of` checks each one
        rules = [rule_of(algorithm, dict(values)) for values in many]
        doubtful: Sequence[int] = range(len(rules))
    else:
        doubtful = _doubtful(rules, dtype, grow)
    for number in doubtful:
        require_sound(algorithm.name, rules[number], dtype, grow, dict(many[number]))
    return rules


def _doubtful(rules: Sequence[Any], dtype: np.dtype[Any], grow: bool) -> Sequence[int]:
    """Return the rules to check individually: one, if the result does not depend on their values."""
    if grow and _has_own(rules[0], "needs_dimension"):
        return range(len(rules))
    if not _has_own(rules[0], "fresh"):
        return range(1)
    begin = np.array([tuple(rule.fresh()) for rule in rules], np.float64)
    fine = np.all(np.abs(begin) <= np.finfo(dtype).max, axis=1)
    numbers: list[int] = np.flatnonzero(~fine).tolist()
    return numbers


def _has_own(rule: Any, hook: str) -> bool:
    name: str = getattr(type(rule), hook).__name__
    return name != "<lambda>"


def _together(algorithm: Algorithm, many: Sequence[Mapping[str, Any]], dtype: np.dtype[Any]) -> list[Any] | None:
    """Create all rules at once, if all sets have the same parameters and valid values. Otherwise return None."""
    names, declared = many[0].keys(), {parameter.name: parameter for parameter in algorithm.parameters}
    if HALF_LIFE in names or not names <= declared.keys() or any(values.keys() != names for values in many):
        return None
    rule: Any = algorithm.rule
    columns = {name: _column(declared[name], [values[name] for values in many], dtype) for name in names}
    if any(column is None for column in columns.values()):
        return None
    every = [columns.get(name) or [rule._field_defaults[name]] * len(many) for name in rule._fields]
    return list(map(rule._make, zip(*every, strict=True))) if every else [rule()] * len(many)


def _column(parameter: Parameter, values: list[Any], dtype: np.dtype[Any]) -> list[Any] | None:
    """Return the rules' values of a parameter, or None if one of them needs an individual check."""
    constraint, types = parameter.constraint, set(map(type, values))
    if isinstance(constraint, OneOf) and types == {str} and set(values) <= constraint.choices.keys():
        return [constraint.choices[value] for value in values]
    if not isinstance(constraint, Interval) or not types <= ({int} if constraint.whole else {int, float}):
        return None
    try:
        numbers = np.array(values, np.float64)
    except OverflowError:  # of a whole number of more than a thousand bits
        return None
    if not constraint.holds(numbers) or np.any(np.abs(numbers) > np.finfo(dtype).max):
        return None
    return values if constraint.whole else numbers.tolist()


class Lane(NamedTuple):
    """The properties in which a model differs from the other lanes."""

    parameters: dict[str, Any]  # as the user gave them, and the defaults
    rule: Any  # prepared for the width the model began with
    costs: Costs
    offset: int  # 1: coordinate 0 is the constant feature

    @property
    def kind(self) -> Hashable:
        """Lanes of equal kind run in one block, because they only differ in numbers."""
        rule: Any = type(self.rule)
        shared = [self.rule[position] for position in _shared(rule)]
        return rule, self.offset, *map(type, shared), *shared

    def model(self, algorithm: Algorithm, memory: Memory, n_features: int, grow: bool) -> Learner:
        """Return a `Learner` with this memory. Its parameters were checked when the lane was made."""
        made = object.__new__(FullLearner if is_full(self.rule) else Learner)
        made.algorithm, made.rule, made.parameters = algorithm, self.rule, dict(self.parameters)
        made.costs, made.offset, made.grow, made.n_features = self.costs, self.offset, grow, n_features
        made.memory, made.version = memory, 0
        return made


@cache
def _shared(rule: Any) -> list[int]:
    """Return the positions of the parameters that are equal for all lanes of a block."""
    reals, wholes = numbers_of(rule)
    return [position for position, name in enumerate(rule._fields) if name not in (*reals, *wholes)]


def make_lanes(
    algorithm: str,
    parameters: Sequence[Mapping[str, Any]],
    n_features: int,
    dtype: Any,
    grow: bool,
    fit_intercept: bool | Sequence[bool],
    costs: Sequence[Costs] | None,
) -> list[Lane]:
    """Create checked lanes from parameters."""
    if not parameters:
        raise InvalidParameterError("Lanes need the parameters of at least one model, got none")
    count = len(parameters)
    paid = [EQUAL_COSTS] * count if costs is None else list(costs)
    if len(paid) != count:
        raise InvalidParameterError(f"one cost per lane is needed, got {len(paid)} for {count} lanes")
    intercepts = [fit_intercept] * count if isinstance(fit_intercept, bool) else list(fit_intercept)
    if len(intercepts) != count:
        raise InvalidParameterError(f"one fit_intercept per lane is needed, got {len(intercepts)} for {count} lanes")
    declared = find(algorithm)
    online_learner(
        algorithm, n_features=1, dtype=dtype, grow=grow, **parameters[0]
    )  # raises for models that cannot be lanes
    precision, different = (
        dtype_of(dtype, declared.name),
        {id(values): values for values in parameters},
    )  # folds share parameters
    rules = rules_of(declared, list(different.values()), precision, grow)
    described = {
        key: (described_by(declared, dict(values)), rule.for_width(n_features))
        for (key, values), rule in zip(different.items(), rules, strict=True)
    }
    return [
        Lane(*described[id(values)], cost, int(one))
        for values, one, cost in zip(parameters, intercepts, paid, strict=True)
    ]


def require_alike(models: Sequence[Learner]) -> None:
    """Raise unless the models can be lanes of one pass."""
    if not models:
        raise InvalidParameterError("Lanes need at least one model, got none")

    def traits(model: Learner) -> dict[str, Any]:
        return {
            "algorithm": model.algorithm.name,
            "n_features": model.n_features,
            "dtype": model.memory.state.dtype.name,
            "grow": model.grow,
        }

    first = traits(models[0])
    for number, model in enumerate(models):
        if isinstance(model, Frozen):
            raise InvalidParameterError(
                f"model {number} has only its weights, so it cannot continue to learn as a lane"
            )
        for name, value in traits(model).items():
            if value != first[name]:
                raise InvalidParameterError(
                    f"lanes must agree in {name}: model {number} has {value!r}, model 0 has {first[name]!r}"
                )


#: Coordinates copied at a time between memories, which keeps both in cache.
CHUNK = 1024


class Block:
    """Fresh lanes, side by side. The lanes that pad the block repeat the last one and learn nothing."""

    def __init__(self, lanes: Sequence[Lane], width: int, dtype: np.dtype[Any]) -> None:
        self.lanes, self.offset = list(lanes), lanes[0].offset
        self.algorithm = declared(type(lanes[0].rule))
        self._padded = [lanes[min(slot, len(lanes) - 1)] for slot in range(_padded(len(lanes)))]
        self._rule = with_floats(lanes[0].rule)
        self._tables = tables_of(self._padded, dtype)
        totals = np.array([0.0, *self.algorithm.totals()])[:, np.newaxis]
        self.memory = LaneMemory(
            *self._fresh(width, dtype),
            np.zeros((5, len(self._padded)), dtype=np.int64),
            np.repeat(totals, len(self._padded), axis=1),
        )
        self.failed = np.full(len(self._padded), -1)  # the row of a call that would have left infinite numbers

    def learn(
        self, rows: Rows, y: NDArray[np.int8], weights: NDArray[np.float64], largest: float, scores: NDArray[Any]
    ) -> None:
        """Learn the rows in order; ``y`` and ``weights`` have a column per lane, or one for all.

        No value is above ``largest``. A lane that has failed has scores of NaN.
        """
        loop, fields = loop_for(self._rule, len(self.lanes)), len(field_names(self.algorithm.coordinate)[0])
        used = len(self.lanes)
        loop(self._rule, self._tables, rows, y, weights, self.memory, used, fields, largest, self.failed, scores)

    def widen(self, width: int) -> None:
        """Make room for ``width`` coordinates."""
        if width <= self.width:
            return
        state, clocks = self._fresh(width, self.memory.state.dtype)
        state[: len(self.memory.state)], clocks[: len(self.memory.clocks)] = self.memory.state, self.memory.clocks
        self.memory = self.memory._replace(state=state, clocks=clocks)

    @property
    def width(self) -> int:
        """The number of coordinates that fit."""
        return len(self.memory.state) // (len(field_names(self.algorithm.coordinate)[0]) * len(self._padded))

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        return sum(array.nbytes for array in self.memory)

    @staticmethod
    def group(lanes: Sequence[Lane], threads: int) -> list[list[int]]:
        """Return the numbers of the lanes of each block: lanes of one kind, at most `FULL`, work for all threads."""
        kinds: dict[Any, list[int]] = {}
        for number, lane in enumerate(lanes):
            kinds.setdefault(lane.kind, []).append(number)
        return [block for members in kinds.values() for block in _cut(members, threads)]

    @staticmethod
    def estimate_nbytes(lanes: Sequence[Lane], width: int, dtype: np.dtype[Any]) -> int:
        """Return ``nbytes`` of such a block."""
        algorithm = declared(type(lanes[0].rule))
        fields, clocks = field_names(algorithm.coordinate)
        per_lane = width * (len(fields) * dtype.itemsize + len(clocks) * 8) + 8 * (
            5 + 1 + len(algorithm.totals._fields)
        )
        return _padded(len(lanes)) * per_lane

    def memory_of(self, slot: int, width: int) -> Memory:
        """Return the memory of one lane as that of a `Learner`."""
        state, clocks = (view[:width, :, slot].flatten() for view in self._views())
        return Memory(
            state, clocks, self.memory.counts[:, slot].copy(), self.memory.totals[:, slot].copy(), np.empty(0)
        )

    def put(self, memories: Sequence[Memory], width: int) -> None:
        """Replace the lanes' state by memories of `Learner` s."""
        for start in range(0, width, CHUNK):
            stop = min(start + CHUNK, width)
            for view, name in zip(self._views(), ("state", "clocks"), strict=True):
                fields = view.shape[1]
                for slot, memory in enumerate(memories):
                    values = getattr(memory, name)[start * fields : stop * fields]
                    view[start:stop, :, slot] = values.reshape(stop - start, fields)
        for slot, memory in enumerate(memories):
            self.memory.counts[:, slot], self.memory.totals[:, slot] = memory.counts, memory.totals

    def take(self, slots: Sequence[int], source: "Block", from_slots: Sequence[int], width: int) -> None:
        """Replace the lanes at ``slots`` by those of another block."""
        here, there = list(slots), list(from_slots)
        for mine, other in zip(self._views(), source._views(), strict=True):
            for start in range(0, width, CHUNK):
                chunk = slice(start, min(start + CHUNK, width))
                mine[chunk][:, :, here] = other[chunk][:, :, there]
        self.memory.counts[:, here] = source.memory.counts[:, there]
        self.memory.totals[:, here] = source.memory.totals[:, there]
        self.failed[here] = source.failed[there]

    def reset_features(self, features: NDArray[np.int64]) -> None:
        """Reset features to the state of feature 0, which never occurs."""
        for view in self._views():
            view[features + self.offset] = view[self.offset]

    def copy(self) -> Self:
        """Return a separate block with the same content."""
        made = object.__new__(type(self))
        copies: list[Any] = [_writeable(array, own=True) for array in self.memory]
        made.__setstate__(self.__getstate__() | {"memory": LaneMemory(*copies), "failed": self.failed.copy()})
        return made

    def _views(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return state and clocks as [coordinate, field, lane]."""
        fields, clocks = field_names(self.algorithm.coordinate)
        width, size = self.width, len(self._padded)
        return (
            self.memory.state.reshape(width, len(fields), size),
            self.memory.clocks.reshape(width, len(clocks), size),
        )

    def _fresh(self, width: int, dtype: np.dtype[Any]) -> tuple[NDArray[Any], NDArray[np.float64]]:
        """Return state and clocks of untouched coordinates."""
        records = [lane.rule.fresh()._asdict() for lane in self._padded]
        made = []
        for names, own_dtype in zip(field_names(self.algorithm.coordinate), (dtype, np.dtype(np.float64)), strict=True):
            row = np.array([[record[name] for record in records] for name in names], dtype=own_dtype).reshape(-1)
            array = _aligned(width * len(row), own_dtype)
            array.reshape(width, len(row))[:] = row
            made.append(array)
        return made[0], made[1]

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"algorithm": self.algorithm.name}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.algorithm = declared(type(self._rule))
        arrays: list[Any] = [_writeable(array) for array in self.memory]
        self.memory = LaneMemory(*arrays)


def _writeable(array: NDArray[Any], own: bool = False) -> NDArray[Any]:
    """Return the array, writeable and at a cache line; with ``own``, or if needed, it is a copy."""
    if not own and array.flags.writeable and array.ctypes.data % LINE == 0:
        return array
    made = _aligned(array.size, array.dtype).reshape(array.shape)
    made[...] = array
    return made


def _padded(lanes: int) -> int:
    """Return how many lanes a block of ``lanes`` has room for."""
    return -(-lanes // STEP) * STEP


def _cut(members: list[int], threads: int) -> Iterator[list[int]]:
    units, fewest = -(-len(members) // STEP), -(-len(members) // FULL)
    wanted = min(-(-fewest // threads) * threads, units)
    if wanted == fewest:
        sizes = [FULL] * fewest
    else:  # as even as steps of 16 allow
        sizes = [(units * (i + 1) // wanted - units * i // wanted) * STEP for i in range(wanted)]
    start = 0
    for size in sizes:
        yield members[start : start + size]
        start += size


def _aligned(length: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return an array that begins at a cache line. Otherwise, lanes would touch one more line."""
    memory = np.empty(length * dtype.itemsize + LINE, dtype=np.uint8)
    start = -memory.ctypes.data % LINE
    return memory[start : start + length * dtype.itemsize].view(dtype)


def with_floats(rule: Any) -> Any:
    """Return the rule with floats for all parameters that are declared as float."""
    hints = get_type_hints(type(rule))
    return rule._replace(**{name: float(value) for name, value in rule._asdict().items() if hints[name] is float})


def tables_of(lanes: Sequence[Lane], dtype: np.dtype[Any]) -> Tables:
    """Return the parameters as rows of numbers."""
    rule: Any = type(lanes[0].rule)
    real, whole = ([[getattr(lane.rule, name) for lane in lanes] for name in names] for names in numbers_of(rule))
    reals = np.array(real, dtype=np.float64).reshape(-1, len(lanes))
    wholes = np.array(whole, dtype=np.int64).reshape(-1, len(lanes))
    costs = [lane.costs for lane in lanes]
    return Tables(
        reals.astype(dtype),
        reals,
        wholes,
        np.array([1.0 if cost.balanced else cost.negative for cost in costs], dtype=np.float64),
        np.array([cost.positive for cost in costs], dtype=np.float64),
        np.array([cost.balanced for cost in costs], dtype=np.bool_),
    )


# A lane that keeps a separate array (SOFS, full covariances): a `Learner` with the interface of a block.


class SingleLane:
    """One lane."""

    def __init__(self, lanes: Sequence[Lane], width: int, dtype: np.dtype[Any]) -> None:
        (lane,) = lanes
        algorithm = declared(type(lane.rule))
        self.lanes, self.offset = [lane], lane.offset
        memory = allocate(algorithm, lane.rule, width, dtype)
        self._model = lane.model(algorithm, memory, width - lane.offset, grow=False)
        self.failed = np.full(1, -1)

    @property
    def memory(self) -> Memory:
        """The memory of the model."""
        return self._model.memory

    @property
    def width(self) -> int:
        """The number of coordinates that fit."""
        return capacity(self._model.algorithm, self.memory)

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        return sum(array.nbytes for array in self.memory)

    @staticmethod
    def group(lanes: Sequence[Lane], threads: int) -> list[list[int]]:
        """Each lane by itself."""
        return [[number] for number in range(len(lanes))]

    @staticmethod
    def estimate_nbytes(lanes: Sequence[Lane], width: int, dtype: np.dtype[Any]) -> int:
        """Return ``nbytes`` of such a block."""
        algorithm = declared(type(lanes[0].rule))
        fields, clocks = field_names(algorithm.coordinate)
        rule, own = lanes[0].rule, 8 * (5 + 1 + len(algorithm.totals._fields))
        extra = len(rule.extra())
        matrix = Matrix.size(width) * dtype.itemsize if is_full(rule) else 0
        return max(width, extra) * (len(fields) * dtype.itemsize + 8 * len(clocks)) + 8 * extra + own + matrix

    def learn(
        self, rows: Rows, y: NDArray[np.int8], weights: NDArray[np.float64], largest: float, scores: NDArray[Any]
    ) -> None:
        """Learn the rows like `Block.learn`."""
        scores[:, 0] = np.nan
        if self.failed[0] >= 0:
            return
        own = rows._replace(y=np.ascontiguousarray(y[:, 0]), weights=np.ascontiguousarray(weights[:, 0]))
        out = np.empty(len(y), self.memory.state.dtype)
        done = self._model._run(own, self.memory, out, Bounds(-1, largest))
        if done < 0:
            done = self.failed[0] = -1 - done
        if len(scores):
            scores[:done, 0] = out[:done]

    def widen(self, width: int) -> None:
        """Make room like `Block.widen`."""
        self._model.memory = widen(self._model.algorithm, self._model.rule, self.memory, width)
        self._model.n_features = width - self.offset

    def memory_of(self, slot: int, width: int) -> Memory:
        """Return a copy of the memory, cut to its width."""
        width, memory = kept_width(self._model.rule, self.memory, width), self.memory
        state, clocks = (
            array[: width * len(names)].copy()
            for array, names in zip(memory[:2], field_names(self._model.algorithm.coordinate), strict=True)
        )
        return Memory(state, clocks, memory.counts.copy(), memory.totals.copy(), memory.extra.copy())

    def put(self, memories: Sequence[Memory], width: int) -> None:
        """Replace the lane's state by the memory of a `Learner`."""
        copies: list[Any] = [array.copy() for array in memories[0]]
        self._model.memory = Memory(*copies)
        self.widen(width)

    def take(self, slots: Sequence[int], source: "SingleLane", from_slots: Sequence[int], width: int) -> None:
        """Replace the lane by another."""
        self.put([source.memory_of(0, width)], width)
        self.failed[:] = source.failed

    def reset_features(self, features: NDArray[np.int64]) -> None:
        """Reset features to the state of feature 0, which never occurs."""
        self._model.reset_features(features)

    def copy(self) -> "SingleLane":
        """Return a separate lane with the same content."""
        return deepcopy(self)


def keeps_own_array(rule: Any) -> bool:
    """Return whether models of this rule keep a separate array."""
    return is_full(rule) or len(rule.extra()) > 0
