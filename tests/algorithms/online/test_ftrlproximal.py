"""FTRL-Proximal against its definition."""

import numpy as np
from hypothesis import strategies as st

from tests.algorithms.online.conformance import conforms, l1, positive
from tests.algorithms.online.test_stg import GradientTwin
from tests.algorithms.online.twin import Round


class NaiveFTRLProximal(GradientTwin):
    alpha, beta, l1, l2 = 0.1, 1.0, 0.0, 0.0

    def __init__(self, d, class_weight=None, loss="logistic", **parameters):
        super().__init__(d, class_weight, loss, **parameters)

    def start(self):
        self.z = np.zeros(self.d)
        self.n = np.zeros(self.d)

    def weights(self):
        w = np.zeros(self.d)
        for j in range(self.d):
            if abs(self.z[j]) > self.l1:
                rate = (self.beta + np.sqrt(self.n[j])) / self.alpha + self.l2
                w[j] = -(self.z[j] - np.sign(self.z[j]) * self.l1) / rate
        return w

    def round(self, x, e):
        w = self.weights()
        s = w @ x
        loss, g, updated = self.slope(x, e, s)
        self.z = self.z + g - (np.sqrt(self.n + g**2) - np.sqrt(self.n)) / self.alpha * w
        self.n = self.n + g**2
        return Round(s, loss, updated)

    def merge(self, other):
        super().merge(other)
        self.z = self.z + other.z
        self.n = (np.sqrt(self.n) + np.sqrt(other.n)) ** 2


test_ftrlproximal = conforms(
    "FTRLProximal",
    NaiveFTRLProximal,
    alpha=positive,
    beta=positive,
    l1=l1,
    l2=l1,
    loss=st.sampled_from(["hinge", "logistic"]),
)
