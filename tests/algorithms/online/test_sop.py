"""SOP, the second-order perceptron, diagonal, against its definition."""

import numpy as np
from hypothesis import strategies as st

from tests.algorithms.online.conformance import conforms, positive
from tests.algorithms.online.twin import Round, Twin


class NaiveSOP(Twin):
    a, update_on = 1.0, "mistake"
    adds = ("v", "S")

    def start(self):
        self.v = np.zeros(self.d)
        self.S = np.zeros(self.d)

    def round(self, x, e):
        s = (self.v / (self.a + self.S + x**2)) @ x
        mistake = (1.0 if s > 0 else -1.0) != e.y
        if mistake:
            self.v = self.v + e.c * e.weight * e.y * x
        if mistake or self.update_on == "every":  # [D9]; a round without a mistake is no update either way
            self.S = self.S + x**2
        return Round(s, max(0.0, -e.y * s), mistake)

    def weights(self):  # [D3] without the next example's x xᵀ
        return self.v / (self.a + self.S)

    def variance(self):
        return 1.0 / (self.a + self.S)


test_sop = conforms("SOP", NaiveSOP, a=positive, update_on=st.sampled_from(["mistake", "every"]))
