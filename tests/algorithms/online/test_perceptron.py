"""The perceptron against its definition."""

import numpy as np

from tests.algorithms.online.conformance import conforms
from tests.algorithms.online.twin import Round, Twin


class NaivePerceptron(Twin):
    adds = ("w",)

    def start(self):
        self.w = np.zeros(self.d)

    def round(self, x, e):
        s = self.w @ x
        mistake = (1.0 if s > 0 else -1.0) != e.y  # [D1] sign(0) = -1: a mistake of loss 0
        if mistake:
            self.w = self.w + e.c * e.weight * e.y * x
        return Round(s, max(0.0, -e.y * s), mistake)

    def weights(self):
        return self.w


test_perceptron = conforms("Perceptron", NaivePerceptron)
