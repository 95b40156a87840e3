"""AROW, diagonal, against its definition; and what the diagonal Gaussian learners share."""

import numpy as np
from hypothesis import strategies as st

from tests.algorithms.online.conformance import conforms, positive
from tests.algorithms.online.twin import Round, Twin, hinge


class GaussianTwin(Twin):
    """μ += α·y·Σx with the old Σ, then Σ⁻¹ += c·x xᵀ; ``part`` is how much of its step the mean takes."""

    a, diagonal = 1.0, "exact"

    def start(self):
        self.mu = np.zeros(self.d)
        self.sigma = np.full(self.d, self.a)

    def learn(self, x, y, weight=1.0):
        with np.errstate(all="ignore"):  # a collapsed Σ may overflow later on; that stream is discarded
            super().learn(x, y, weight)

    def confidence(self, x):
        return self.sigma @ x**2

    def step(self, x, e, alpha, c, part=1.0):
        v = self.confidence(x)
        if c * v > 1e6:  # CW can collapse Σ in a few rounds; no digit of it is worth comparing then
            self.edge = 0.0
        self.mu = self.mu + part * alpha * e.y * self.sigma * x
        if self.diagonal == "exact":
            self.sigma = self.sigma / (1.0 + c * x**2 * self.sigma)  # 1/σ += c·x², bit for bit σ where x = 0
        else:
            self.sigma = self.sigma - c / (1.0 + c * v) * self.sigma**2 * x**2

    def merge(self, other):
        """The product of both beliefs, the prior counted once."""
        super().merge(other)
        P, Q = 1 / self.sigma, 1 / other.sigma
        self.sigma = 1 / (P + Q - 1 / self.a)
        self.mu = self.sigma * (P * self.mu + Q * other.mu)

    def forget(self, rho):
        """Of diagonal="exact" alone; the mean stays."""
        self.sigma = 1.0 / (1.0 / self.a + rho * (1.0 / self.sigma - 1.0 / self.a))

    def weights(self):
        return self.mu

    def variance(self):
        return self.sigma


class NaiveAROW(GaussianTwin):
    r = 1.0

    def round(self, x, e):
        s = self.mu @ x
        v = self.confidence(x)
        loss = hinge(s, e.y)
        self.decide(e.y * s, 1.0)
        if loss > 0:
            r = self.r / (e.c * e.weight)
            self.step(x, e, loss / (v + r), 1.0 / r)
        return Round(s, loss, loss > 0)


test_arow = conforms("AROW", NaiveAROW, r=positive, a=positive, diagonal=st.sampled_from(["exact", "drop"]))
