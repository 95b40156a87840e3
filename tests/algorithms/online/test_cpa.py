"""CPA, prediction-based cost-sensitive PA (P3's baseline), against its definition."""

import numpy as np
from hypothesis import strategies as st

from tests.algorithms.online.conformance import conforms, positive
from tests.algorithms.online.twin import Round, Twin


class NaiveCPA(Twin):
    variant, C = "PA", 1.0
    averages = ("w",)

    def start(self):
        self.w = np.zeros(self.d)

    def round(self, x, e):
        s = self.w @ x
        mistake = (1.0 if s > 0 else -1.0) != e.y
        loss = -e.y * s + np.sqrt(e.c) if mistake else 0.0
        norm = x @ x
        if mistake and norm > 0:
            C = self.C * e.weight
            tau = {
                "PA": min(e.weight, 1.0) * loss / norm,
                "PA-I": min(C, loss / norm),
                "PA-II": loss / (norm + 1.0 / (2.0 * C)),
            }[self.variant]
            self.w = self.w + tau * e.y * x
        return Round(s, loss, mistake)

    def weights(self):
        return self.w


test_cpa = conforms("CPA", NaiveCPA, variant=st.sampled_from(["PA", "PA-I", "PA-II"]), C=positive)
