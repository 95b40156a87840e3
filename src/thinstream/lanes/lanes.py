"""STAND-IN until the lane engine is merged: one Learner per lane."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thinstream.batch import Batch
from thinstream.engine.loop import Costs
from thinstream.engine.records import split
from thinstream.learners import Learner, find


class Lanes:
    """K models that learn from the same stream."""

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
    ) -> None:
        each = [Costs()] * len(parameters) if costs is None else list(costs)
        bias = [fit_intercept] * len(parameters) if isinstance(fit_intercept, bool) else list(fit_intercept)
        self._models = [
            Learner(algorithm, costs=c, n_features=n_features, dtype=dtype, grow=grow, fit_intercept=b, **p)
            for p, c, b in zip(parameters, each, bias, strict=True)
        ]

    def __len__(self) -> int:
        return len(self._models)

    def __iter__(self) -> Any:
        return iter(self._models)

    def __getitem__(self, lane: int) -> Learner:
        """The model of a lane."""
        return self._models[lane]

    @property
    def n_features(self) -> int:
        """Width."""
        return self._models[0].n_features

    @property
    def nbytes(self) -> int:
        """Bytes."""
        return sum(m.memory.state.nbytes + m.memory.clocks.nbytes for m in self._models)

    def learn(
        self, batch: Batch, y: NDArray[np.int8] | None = None, weights: NDArray[np.float64] | None = None
    ) -> NDArray[Any]:
        """Scores rows × lanes."""
        out = []
        for k, model in enumerate(self._models):
            label = batch.y if y is None else y if y.ndim == 1 else np.ascontiguousarray(y[:, k])
            w = batch.weights if weights is None else weights if weights.ndim == 1 else weights[:, k].copy()
            out.append(model.learn(replace(batch, y=label, weights=w)))
        return np.stack(out, axis=1)

    def scores(self, batch: Batch) -> NDArray[Any]:
        """Nothing changes."""
        return np.stack([model.scores(batch) for model in self._models], axis=1)

    def keep(self, lanes: Sequence[int]) -> None:
        """Drops others."""
        self._models = [self._models[k] for k in lanes]

    @staticmethod
    def foreseen(
        algorithm: str,
        parameters: Sequence[Mapping[str, Any]],
        n_features: int,
        dtype: str = "float32",
        fit_intercept: bool | Sequence[bool] = False,
    ) -> int:
        """Bytes."""
        fields, clocks = split(find(algorithm).coordinate)
        each = len(fields) * np.dtype(dtype).itemsize + 8 * len(clocks)
        return each * (n_features + 1) * (-(-len(parameters) // 16) * 16)
