"""ARCSOGD, diagonal (P3 Algorithm 1 [D15]), against its definition."""

import numpy as np
from hypothesis import strategies as st

from tests.algorithms.online.conformance import conforms, positive
from tests.algorithms.online.twin import Round, Twin


class NaiveARCSOGD(Twin):
    eta, gamma, diagonal = 1.0, 1.0, "exact"

    def start(self):
        self.mu = np.zeros(self.d)
        self.sigma = np.ones(self.d)

    def round(self, x, e):
        s = self.mu @ x
        rho = e.rho if e.y > 0 else 1.0
        loss = max(0.0, rho - e.y * s)
        self.decide(e.y * s, rho)
        if loss > 0:
            if self.diagonal == "exact":
                self.sigma = 1.0 / (1.0 / self.sigma + x**2 / self.gamma)
            else:
                v = self.sigma @ x**2
                self.sigma = self.sigma - (self.sigma * x) ** 2 / (self.gamma + v)
            self.mu = self.mu + self.eta * e.weight * e.y * self.sigma * x  # the new Σ, unlike AROW
        return Round(s, loss, loss > 0)

    def merge(self, other):
        """The product of both beliefs, the prior counted once."""
        super().merge(other)
        P, Q = 1 / self.sigma, 1 / other.sigma
        self.sigma = 1 / (P + Q - 1)
        self.mu = self.sigma * (P * self.mu + Q * other.mu)

    def weights(self):
        return self.mu

    def variance(self):
        return self.sigma


test_arcsogd = conforms(
    "ARCSOGD", NaiveARCSOGD, eta=positive, gamma=positive, diagonal=st.sampled_from(["exact", "drop"])
)
