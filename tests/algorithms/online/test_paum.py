"""PAUM, the perceptron with uneven margins (P3's baseline, without bias [D2]), against its definition."""

import numpy as np

from tests.algorithms.online.conformance import conforms, positive
from tests.algorithms.online.twin import Round, Twin


class NaivePAUM(Twin):
    eta = 1.0
    averages = ("w",)

    def start(self):
        self.w = np.zeros(self.d)

    def round(self, x, e):
        s = self.w @ x
        tau = e.c
        updated = e.y * s <= tau
        self.decide(e.y * s, tau)
        if updated:
            self.w = self.w + self.eta * e.weight * e.y * x
        return Round(s, max(0.0, tau - e.y * s), updated)

    def weights(self):
        return self.w


test_paum = conforms("PAUM", NaivePAUM, eta=positive)
