"""Ada-FOBOS, diagonal, against its definition: the threshold on every weight, every round, with the new H."""

import numpy as np
from hypothesis import strategies as st

from tests.algorithms.online.conformance import conforms, l1, positive
from tests.algorithms.online.test_stg import GradientTwin
from tests.algorithms.online.twin import Round, soft


class NaiveAdaFOBOS(GradientTwin):
    eta, l1, delta = 1.0, 0.0, 1.0
    adds, averages = ("S",), ("w",)

    def start(self):
        self.w = np.zeros(self.d)
        self.S = np.zeros(self.d)

    def round(self, x, e):
        s = self.w @ x
        loss, g, updated = self.slope(x, e, s)
        self.S = self.S + g**2
        H = self.delta + np.sqrt(self.S)
        self.w = soft(self.w - self.eta * g / H, self.l1 * self.eta / H)
        return Round(s, loss, updated)

    def weights(self):
        return self.w


test_adafobos = conforms(
    "AdaFOBOS",
    NaiveAdaFOBOS,
    eta=positive,
    l1=l1,
    delta=positive,
    loss=st.sampled_from(["hinge", "logistic"]),
)
