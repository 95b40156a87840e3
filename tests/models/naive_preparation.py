"""The definition of §17 as it stands: dense, float64, a row at a time, around any twin of a rule."""

from typing import Any

import numpy as np


class NaivePreparation:
    """Scales and unit length, written from the specification."""

    def __init__(self, d: int, scale: str | None, normalize: str | None) -> None:
        self.scale, self.normalize = scale, normalize
        self.m, self.q, self.n, self.rows = np.zeros(d), np.zeros(d), np.zeros(d), 0

    def update(self, x: np.ndarray) -> None:
        """Row t's non-zeros, before it is scaled."""
        if self.scale == "max":
            self.m = np.maximum(self.m, np.abs(x))
        elif self.scale == "rms":
            self.q += x**2
            self.n += x != 0
            self.m = np.sqrt(self.q / np.maximum(self.n, 1))
        elif self.scale == "idf":
            self.rows += 1
            self.n += x != 0
            self.m = np.where(self.n > 0, 1.0 / (np.log((1 + self.rows) / (1 + self.n)) + 1.0), 0.0)
        else:
            self.m = np.ones(len(x))

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """The row, with the scales as they stand; a feature never learned counts nothing."""
        m = self.m if self.scale else np.ones(len(x))
        z = np.where(m > 0, x / np.where(m > 0, m, 1.0), 0.0)
        length = np.sqrt((z**2).sum())
        return z / length if self.normalize and length > 0 else z


class PreparedTwin:
    """A twin on prepared rows, with a constant 1 before them where there is an intercept."""

    def __init__(self, twin: Any, d: int, scale: str | None, normalize: str | None, intercept: bool, **options: Any):
        self.prepare, self.intercept = NaivePreparation(d, scale, normalize), intercept
        self.naive, self.d = twin(d + intercept, **options), d

    def learn(self, x: np.ndarray, y: float, weight: float = 1.0) -> None:
        if weight > 0.0 and not self.naive.stopped():
            self.prepare.update(x)
        self.naive.learn(self.row(x), y, weight)

    def row(self, x: np.ndarray) -> np.ndarray:
        return np.append(1.0, self.prepare(x)) if self.intercept else self.prepare(x)

    def score(self, x: np.ndarray) -> float:
        return float(self.naive.weights() @ self.row(x))

    def coef(self) -> np.ndarray:
        """In the caller's units: v_j/m_j."""
        m = self.prepare.m if self.prepare.scale else np.ones(self.d)
        return np.where(m > 0, self.naive.weights()[self.intercept :] / np.where(m > 0, m, 1.0), 0.0)
