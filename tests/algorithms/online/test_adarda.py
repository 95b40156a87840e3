"""Ada-RDA, diagonal, against its definition."""

import numpy as np
from hypothesis import strategies as st

from tests.algorithms.online.conformance import conforms, l1, positive
from tests.algorithms.online.test_stg import GradientTwin
from tests.algorithms.online.twin import Round, soft


class NaiveAdaRDA(GradientTwin):
    eta, l1, delta = 1.0, 0.0, 1.0
    adds = ("G", "S")

    def start(self):
        self.G = np.zeros(self.d)
        self.S = np.zeros(self.d)

    def round(self, x, e):
        s = self.weights() @ x
        loss, g, updated = self.slope(x, e, s)
        self.G = self.G + g
        self.S = self.S + g**2
        return Round(s, loss, updated)

    def forget(self, rho):
        self.G, self.S = rho * self.G, rho * self.S

    def weights(self):
        H = self.delta + np.sqrt(self.S)
        return -(self.eta / H) * soft(self.G, self.T * self.l1)


test_adarda = conforms(
    "AdaRDA",
    NaiveAdaRDA,
    eta=positive,
    l1=l1,
    delta=positive,
    loss=st.sampled_from(["hinge", "logistic"]),
)
