"""FSOL and CS-FSOL (P0 Algorithms 3 and 6) against their definition."""

import numpy as np
from hypothesis import strategies as st

from tests.algorithms.online.conformance import conforms, l1, positive
from tests.algorithms.online.twin import Round, Twin, hinge, soft


class NaiveFSOL(Twin):
    eta, l1, l1_schedule = 1.0, 0.0, "eta"
    adds = ("theta",)

    def start(self):
        self.theta = np.zeros(self.d)

    def threshold(self, t):
        return {
            "eta": self.eta * self.l1,
            "const": self.l1,
            "sqrt": self.eta * self.l1 * np.sqrt(t),
            "linear": self.eta * self.l1 * t,
            "inv_t": self.l1 / t,
        }[self.l1_schedule]

    def round(self, x, e):
        w = soft(self.theta, self.threshold(self.T + 1))
        s = w @ x
        loss = hinge(s, e.y)
        self.decide(e.y * s, 1.0)
        if loss > 0:
            self.theta = self.theta + self.eta * e.c * e.weight * e.y * x
        return Round(s, e.c * e.weight * loss, loss > 0)

    def forget(self, rho):
        self.theta = rho * self.theta

    def weights(self):
        return soft(self.theta, self.threshold(self.T + 1))


test_fsol = conforms(
    "FSOL",
    NaiveFSOL,
    eta=positive,
    l1=l1,
    l1_schedule=st.sampled_from(["eta", "const", "sqrt", "linear", "inv_t"]),
)
