"""RDA with the l1 norm, plain and enhanced, against its definition."""

import numpy as np
from hypothesis import strategies as st

from tests.algorithms.online.conformance import conforms, l1, positive
from tests.algorithms.online.test_stg import GradientTwin
from tests.algorithms.online.twin import Round, soft


class NaiveRDA(GradientTwin):
    gamma, l1, rho, beta = 1.0, 0.0, 0.0, "sqrt"
    adds = ("G",)

    def start(self):
        self.G = np.zeros(self.d)

    def round(self, x, e):
        s = self.weights() @ x
        loss, g, updated = self.slope(x, e, s)
        self.G = self.G + g
        return Round(s, loss, updated)

    def forget(self, rho):
        self.G = rho * self.G

    def weights(self):
        t = self.T
        if t == 0:
            return np.zeros(self.d)  # w_1 = 0
        lam = self.l1 + self.gamma * self.rho / np.sqrt(t)
        beta = {"sqrt": self.gamma * np.sqrt(t), "linear": self.gamma * t, "const": self.gamma}[self.beta]
        return -soft(self.G, t * lam) / beta


test_rda = conforms(
    "RDA",
    NaiveRDA,
    gamma=positive,
    l1=l1,
    rho=l1,
    beta=st.sampled_from(["sqrt", "linear", "const"]),
    loss=st.sampled_from(["hinge", "logistic"]),
)
