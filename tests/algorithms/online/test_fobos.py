"""FOBOS with the l1 norm against its definition: both half steps on every weight, every round."""

import numpy as np
from hypothesis import strategies as st

from tests.algorithms.online.conformance import conforms, l1, positive
from tests.algorithms.online.test_stg import GradientTwin, decay
from tests.algorithms.online.twin import Round, soft


class NaiveFOBOS(GradientTwin):
    eta, l1, rate = 1.0, 0.0, "inv_sqrt"
    averages = ("w",)

    def start(self):
        self.w = np.zeros(self.d)

    def round(self, x, e):
        s = self.w @ x
        loss, g, updated = self.slope(x, e, s)
        eta = decay(self.rate, self.eta, self.t)  # [D7] η_t in both half steps
        self.w = soft(self.w - eta * g, eta * self.l1)
        return Round(s, loss, updated)

    def weights(self):
        return self.w


test_fobos = conforms(
    "FOBOS",
    NaiveFOBOS,
    eta=positive,
    l1=l1,
    rate=st.sampled_from(["inv_sqrt", "const", "inv_t"]),
    loss=st.sampled_from(["hinge", "logistic"]),
)
