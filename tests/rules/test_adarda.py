"""Ada-RDA, diagonal, against its definition."""

import numpy as np
from hypothesis import strategies as st

from tests.rules.conformance import conforms, l1, positive
from tests.rules.test_stg import GradientTwin
from tests.rules.twin import Round, soft


class NaiveAdaRDA(GradientTwin):
    eta, l1, delta = 1.0, 0.0, 1.0

    def start(self):
        self.G = np.zeros(self.d)
        self.S = np.zeros(self.d)
        self.w = np.zeros(self.d)

    def round(self, x, e):
        s = self.w @ x
        loss, g, updated = self.slope(x, e, s)
        self.G = self.G + g
        self.S = self.S + g**2
        H = self.delta + np.sqrt(self.S)
        self.w = -(self.eta / H) * soft(self.G, self.t * self.l1)
        return Round(s, loss, updated)

    def weights(self):
        return self.w


test_adarda = conforms(
    "AdaRDA",
    NaiveAdaRDA,
    eta=positive,
    l1=l1,
    delta=positive,
    loss=st.sampled_from(["hinge", "logistic"]),
)
