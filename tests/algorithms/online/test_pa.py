"""PA, PA-I and PA-II against their definition."""

import numpy as np
from hypothesis import strategies as st

from tests.algorithms.online.conformance import conforms, positive
from tests.algorithms.online.twin import Round, Twin, hinge


class NaivePA(Twin):
    variant, C = "PA-I", 1.0
    averages = ("w",)

    def start(self):
        self.w = np.zeros(self.d)

    def round(self, x, e):
        s = self.w @ x
        loss = hinge(s, e.y)
        self.decide(e.y * s, 1.0)
        if e.y * s == 1.0:  # the step aims at y·s = 1, so even an exact tie is an accident of rounding
            self.edge = 0.0
        norm = x @ x
        if loss > 0 and norm > 0:
            C = self.C * e.c * e.weight
            tau = {
                "PA": min(e.weight, 1.0) * e.c / e.c_max * loss / norm,
                "PA-I": min(C, loss / norm),
                "PA-II": loss / (norm + 1.0 / (2.0 * C)),
            }[self.variant]
            self.w = self.w + tau * e.y * x
        return Round(s, loss, loss > 0)

    def weights(self):
        return self.w


test_pa = conforms("PA", NaivePA, variant=st.sampled_from(["PA-I", "PA", "PA-II"]), C=positive)
