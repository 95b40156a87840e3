"""NAG against its definition."""

import numpy as np
from hypothesis import strategies as st

from tests.algorithms.online.conformance import conforms, positive
from tests.algorithms.online.test_stg import GradientTwin
from tests.algorithms.online.twin import Round


class NaiveNAG(GradientTwin):
    eta = 0.5
    adds = ("G", "N")

    def __init__(self, d, class_weight=None, loss="logistic", **parameters):
        super().__init__(d, class_weight, loss, **parameters)

    def start(self):
        self.w = np.zeros(self.d)
        self.s = np.zeros(self.d)
        self.G = np.zeros(self.d)
        self.N = 0.0

    def round(self, x, e):
        there = np.flatnonzero(x)
        for j in there:
            if abs(x[j]) > self.s[j]:
                self.w[j] *= self.s[j] / abs(x[j])
                self.s[j] = abs(x[j])
        self.N += sum(x[j] ** 2 / self.s[j] ** 2 for j in there)
        s = self.w @ x
        loss, g, updated = self.slope(x, e, s)
        self.G = self.G + g**2
        for j in np.flatnonzero(g):
            self.w[j] -= self.eta * np.sqrt(self.t / self.N) * g[j] / (self.s[j] * np.sqrt(self.G[j]))
        return Round(s, loss, updated)

    def merge(self, other):
        w = (self.t * self.w + other.t * other.w) / max(self.t + other.t, 1)
        super().merge(other)
        self.w, self.s = w, np.maximum(self.s, other.s)

    def weights(self):
        return self.w


test_nag = conforms("NAG", NaiveNAG, eta=positive, loss=st.sampled_from(["hinge", "logistic"]))
