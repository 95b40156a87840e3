"""Many models of one algorithm on one stream."""

from collections.abc import Mapping, Sequence
from typing import Any, get_type_hints

import numpy as np
from numpy.typing import NDArray

from thinstream.batch import Batch
from thinstream.engine.loop import Costs, Rows
from thinstream.engine.records import Memory, split
from thinstream.errors import InvalidInputError, InvalidParameterError
from thinstream.lanes.loop import LaneMemory, Tables, Work, loop_for
from thinstream.lanes.records import is_kind
from thinstream.learners import Learner
from thinstream.learners.learner import EQUAL_COSTS

#: Lanes are padded to a multiple of this, so that no remainder of a loop is computed in another way.
BLOCK = 16


class Lanes:
    """K models that learn from the same stream in one pass, each as a `Learner` of its own would, bit for bit.

    Parameters
    ----------
    algorithm : str
        Its name.
    parameters : sequence of dict
        Those of each lane.
    n_features, dtype, grow, fit_intercept
        As of a `Learner`, for all lanes.
    costs : sequence of Costs, optional
        Class costs of each lane.

    Examples
    --------
    >>> rows = Batch.of(np.array([0, 1, 2]), np.array([0, 1]), np.array([1.0, 1.0]), 2, y=np.array([-1, 1], np.int8))
    >>> lanes = Lanes("fsol", [{"eta": 0.5}, {"eta": 2.0}], n_features=2)
    >>> _ = lanes.learn(rows)
    >>> [model.weights().tolist() for model in lanes]
    [[-0.5, 0.5], [-2.0, 2.0]]

    """

    def __init__(
        self,
        algorithm: str,
        parameters: Sequence[Mapping[str, Any]],
        *,
        n_features: int = 0,
        dtype: str = "float32",
        grow: bool = False,
        fit_intercept: bool = False,
        costs: Sequence[Costs] | None = None,
    ) -> None:
        if not parameters:
            raise InvalidParameterError("Lanes need the parameters of one model at least, got none")
        each = [EQUAL_COSTS] * len(parameters) if costs is None else list(costs)
        if len(each) != len(parameters):
            raise InvalidParameterError(f"one cost per lane is needed, got {len(each)} for {len(parameters)} lanes")
        common: dict[str, Any] = {
            "n_features": n_features,
            "dtype": dtype,
            "grow": grow,
            "fit_intercept": fit_intercept,
        }
        #: The models as they were before any example; what they learned is in ``memory``.
        self._models = [Learner(algorithm, costs=c, **common, **p) for p, c in zip(parameters, each, strict=True)]
        first = self._models[0]
        self.algorithm, self.n_features, self.grow, self.offset = first.algorithm, n_features, grow, first.offset
        if len(first.memory.extra):
            raise InvalidParameterError(f"{self.algorithm.name} keeps an array of its own and has no lanes")
        kinds = [tuple(type(value) for value in model.rule if is_kind(value)) for model in self._models]
        for lane, kind in enumerate(kinds):
            if kind != kinds[0]:
                raise InvalidParameterError(
                    f"{self.algorithm.name}: lanes must agree in parameters that select code, lane {lane} has "
                    f"{self._models[lane].parameters!r}, lane 0 {first.parameters!r}"
                )
        rules = [_with_floats(model.rule) for model in self._models]
        self._rule = rules[0]
        self._tables = _tables(rules, each, first.memory.state.dtype)
        self.memory = self._fresh(n_features + self.offset)
        self._work = _work(self.memory, len(first.rule.begin(1, self.algorithm.totals())._fields))
        self._confident = "confidence" in vars(type(first.rule)) and not _is_default(first.rule)
        self._ready: set[str] = set()

    def __len__(self) -> int:
        return len(self._models)

    def __iter__(self) -> Any:
        return (self[lane] for lane in range(len(self)))

    def __getitem__(self, lane: int) -> Learner:
        """The model of a lane, as a `Learner` of its own (a copy)."""
        fresh = self._models[lane]
        parameters: dict[str, Any] = {
            "n_features": self.n_features,
            "dtype": fresh.memory.state.dtype.name,
            "grow": self.grow,
        }
        model = Learner(
            self.algorithm.name,
            costs=fresh.costs,
            fit_intercept=bool(self.offset),
            **parameters,
            **fresh.parameters,
        )
        width = self.n_features + self.offset
        model.rule = fresh.rule  # prepared for the width the lanes began with
        model.memory = Memory(
            np.ascontiguousarray(self.memory.state[:width, :, lane]).reshape(-1),
            np.ascontiguousarray(self.memory.clocks[:width, :, lane]).reshape(-1),
            self.memory.counts[:, lane].copy(),
            self.memory.totals[:, lane].copy(),
            model.memory.extra,
        )
        return model

    def learn(self, batch: Batch, y: NDArray[np.int8] | None = None, weights: NDArray[np.float64] | None = None) -> Any:
        """Takes the examples in order; returns the score each lane gave each before its update, rows × lanes.

        ``y`` and ``weights`` (0: the lane does not see the row, but scores it) may have a column per lane; by default
        they are those of the batch.
        """
        batch = batch.check()
        labels = batch.y if y is None else y
        if labels is None:
            raise InvalidInputError("a batch to learn from needs labels")
        given = batch.weights if weights is None else weights
        self._widen(batch.n_features)
        lanes = self.memory.state.shape[2]
        masks = self._masks(given, len(batch))
        out = np.empty((len(batch), lanes), dtype=self.memory.state.dtype)
        rows = self._models[0]._rows(batch, 0, len(batch), np.empty(0, np.int8), np.empty(0))
        self._run(rows, _columns(labels, lanes), masks, out)
        return out[:, : len(self)]

    def _masks(self, given: NDArray[np.float64] | None, n: int) -> NDArray[np.float64]:
        """Weights per row and lane; the lanes that pad see nothing."""
        lanes = self.memory.state.shape[2]
        masks = np.zeros((n, lanes))
        masks[:, : len(self)] = 1.0 if given is None else given if given.ndim == 2 else given[:, np.newaxis]
        return masks

    def _run(self, rows: Rows, y: Any, masks: Any, out: Any) -> None:
        loop = loop_for(type(self._models[0].rule))
        arguments = (self._rule, self._tables, rows, y, masks, self.memory, self._work, self._confident, out)
        if rows.indices.dtype.char not in self._ready:
            loop.ensure(*arguments)
            self._ready.add(rows.indices.dtype.char)
        loop.function(*arguments)

    def _widen(self, n_features: int) -> None:
        if n_features <= self.n_features:
            return
        if not self.grow:
            raise InvalidInputError(
                f"X has {n_features} features, but the model has {self.n_features}; grow=True would extend it"
            )
        have, width = len(self.memory.state), n_features + self.offset
        if width > have:
            fresh = self._fresh(max(width, have + have // 2))
            fresh.state[:have], fresh.clocks[:have] = self.memory.state, self.memory.clocks
            self.memory = self.memory._replace(state=fresh.state, clocks=fresh.clocks)
        self.n_features = n_features

    def _fresh(self, width: int) -> LaneMemory:
        """Lanes that have seen nothing."""
        fields, clocks = split(self.algorithm.coordinate)
        lanes = -(-len(self) // BLOCK) * BLOCK
        dtype = self._models[0].memory.state.dtype
        state = _aligned((width, len(fields), lanes), dtype)
        ticks = np.zeros((width, len(clocks), lanes))
        for lane in range(lanes):
            record = self._models[min(lane, len(self) - 1)].rule.fresh()._asdict()
            for i, name in enumerate(fields):
                state[:, i, lane] = record[name]
            for i, name in enumerate(clocks):
                ticks[:, i, lane] = record[name]
        totals = np.zeros((1 + len(self.algorithm.totals._fields), lanes))
        totals[1:] = np.array(self.algorithm.totals(), dtype=np.float64)[:, np.newaxis]
        return LaneMemory(state, ticks, np.zeros((5, lanes), dtype=np.int64), totals)


def _with_floats(rule: Any) -> Any:
    """Numbers of parameters that are declared float as floats, also where they happen to be whole."""
    hints = get_type_hints(type(rule))
    values = {name: float(value) for name, value in rule._asdict().items() if hints[name] is float}
    return rule._replace(**values)


def _is_default(rule: Any) -> bool:
    """Whether the rule's confidence is the 0 of rules that have none."""
    return bool(type(rule).confidence.__name__ == "<lambda>")


def _aligned(shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    """An array that begins at a cache line."""
    size = int(np.prod(shape)) * dtype.itemsize
    memory = np.empty(size + 64, dtype=np.uint8)
    start = -memory.ctypes.data % 64
    return memory[start : start + size].view(dtype).reshape(shape)


def _tables(rules: list[Any], costs: list[Costs], dtype: np.dtype[Any]) -> Tables:
    """Parameters as rows of numbers; the lanes that pad repeat the last."""
    lanes = -(-len(rules) // BLOCK) * BLOCK
    padded = [rules[min(lane, len(rules) - 1)] for lane in range(lanes)]
    paid = [costs[min(lane, len(rules) - 1)] for lane in range(lanes)]
    names = [name for name, value in padded[0]._asdict().items() if not is_kind(value)]
    whole = [name for name in names if isinstance(getattr(padded[0], name), int)]
    real = [name for name in names if name not in whole]
    reals = np.array([[getattr(rule, name) for rule in padded] for name in real]).reshape(len(real), lanes)
    codes = np.array([[getattr(rule, name) for rule in padded] for name in whole], dtype=np.int64)
    return Tables(
        reals.astype(dtype),
        reals.astype(np.float64),
        codes.reshape(len(whole), lanes),
        np.array([1.0 if cost.balanced else cost.negative for cost in paid]),
        np.array([cost.positive for cost in paid]),
        np.array([cost.balanced for cost in paid]),
    )


def _work(memory: LaneMemory, fields: int) -> Work:
    lanes, dtype = memory.state.shape[2], memory.state.dtype
    return Work(
        np.zeros((max(fields, 1), lanes), dtype),
        np.zeros((max(fields, 1), lanes)),
        np.zeros((max(fields, 1), lanes)),
        np.zeros((4, lanes), dtype),
        np.zeros((4, lanes), dtype),
        np.zeros(lanes, dtype),
        np.zeros(lanes, dtype),
        np.zeros(lanes, dtype),
        np.zeros(lanes, dtype=np.int64),
        np.zeros(lanes, dtype=np.bool_),
        np.zeros(lanes, dtype=np.bool_),
    )


def _columns(labels: NDArray[np.int8], lanes: int) -> NDArray[np.int8]:
    """Labels with a column per lane, or one for all."""
    if labels.ndim == 1:
        return np.ascontiguousarray(labels[:, np.newaxis])
    wide = np.full((len(labels), lanes), -1, dtype=np.int8)
    wide[:, : labels.shape[1]] = labels
    return wide
