"""SSOL and CS-SSOL, diagonal (P0 Algorithms 5 and 7) against their definition."""

import numpy as np
from hypothesis import strategies as st

from tests.algorithms.online.conformance import conforms, l1, positive
from tests.algorithms.online.twin import Round, Twin, hinge, soft


class NaiveSSOL(Twin):
    eta, l1, r, l1_schedule, diagonal, update_on = 1.0, 0.0, 1.0, "inv_t", "drop", "every"

    def start(self):
        self.theta = np.zeros(self.d)
        self.sigma = np.ones(self.d)

    def threshold(self, t):
        return {
            "eta": self.eta * self.l1,
            "const": self.l1,
            "sqrt": self.eta * self.l1 * np.sqrt(t),
            "linear": self.eta * self.l1 * t,
            "inv_t": self.l1 / t,
        }[self.l1_schedule]

    def take(self, x):
        """Takes x into A: never weighted, for the costs enter θ alone."""
        if self.diagonal == "drop":
            V = self.sigma @ x**2
            self.sigma = self.sigma - self.sigma**2 * x**2 / (self.r + V)
        else:
            self.sigma = 1.0 / (1.0 / self.sigma + x**2 / self.r)

    def round(self, x, e):
        if self.update_on == "every":  # [D4] before predicting, loss or not
            self.take(x)
        w = soft(self.sigma * self.theta, self.threshold(self.T + 1))
        s = w @ x
        loss = hinge(s, e.y)
        self.decide(e.y * s, 1.0)
        if loss > 0:
            if self.update_on == "loss":
                self.take(x)
            self.theta = self.theta + self.eta * e.c * e.weight * e.y * x
        return Round(s, e.c * e.weight * loss, loss > 0)

    def merge(self, other):
        """Of diagonal="exact" alone; A starts as the identity, which counts once."""
        super().merge(other)
        self.theta = self.theta + other.theta
        self.sigma = 1 / (1 / self.sigma + 1 / other.sigma - 1)

    def forget(self, rho):
        """Of diagonal="exact" alone: θ, and what 1/σ has more than at the start."""
        self.theta = rho * self.theta
        self.sigma = 1.0 / (1.0 + rho * (1.0 / self.sigma - 1.0))

    def weights(self):  # [D3] with A_T, but λ_{T+1}
        return soft(self.sigma * self.theta, self.threshold(self.T + 1))

    def variance(self):
        return self.sigma


test_ssol = conforms(
    "SSOL",
    NaiveSSOL,
    eta=positive,
    l1=l1,
    r=positive,
    l1_schedule=st.sampled_from(["eta", "const", "sqrt", "linear", "inv_t"]),
    diagonal=st.sampled_from(["drop", "exact"]),
    update_on=st.sampled_from(["every", "loss"]),
)
