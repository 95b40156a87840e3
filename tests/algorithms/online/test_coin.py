"""Coin betting against its definition."""

import numpy as np
from hypothesis import strategies as st

from tests.algorithms.online.conformance import conforms
from tests.algorithms.online.test_stg import GradientTwin
from tests.algorithms.online.twin import Round


class NaiveCoin(GradientTwin):
    alpha = 100.0
    adds = ("theta", "G")
    averages = ("R",)

    def __init__(self, d, class_weight=None, loss="logistic", **parameters):
        super().__init__(d, class_weight, loss, **parameters)

    def start(self):
        self.theta = np.zeros(self.d)
        self.G = np.zeros(self.d)
        self.R = np.zeros(self.d)
        self.L = np.full(self.d, 1e-8)
        self.w = np.zeros(self.d)

    def round(self, x, e):
        s = self.w @ x
        loss, g, updated = self.slope(x, e, s)
        gamma = -g
        self.L = np.maximum(self.L, np.abs(gamma))
        self.G = self.G + np.abs(gamma)
        self.R = np.maximum(self.R + self.w * gamma, 0.0)
        self.theta = self.theta + gamma
        self.solve()
        return Round(s, loss, updated)

    def solve(self):
        self.w = self.theta * (self.L + self.R) / (self.L * np.maximum(self.G + self.L, self.alpha * self.L))

    def merge(self, other):
        super().merge(other)
        self.L = np.maximum(self.L, other.L)
        self.solve()

    def weights(self):
        return self.w


test_coin = conforms("Coin", NaiveCoin, alpha=st.floats(1.0, 200.0), loss=st.sampled_from(["hinge", "logistic"]))
