"""CS-OGD, variants I (P3's "CSOGD-I") and II (P0's cost-sensitive loss), against its definition."""

import numpy as np
from hypothesis import strategies as st

from tests.algorithms.online.conformance import conforms, positive
from tests.algorithms.online.test_stg import decay
from tests.algorithms.online.twin import Round, Twin


class NaiveCSOGD(Twin):
    eta, variant, rate = 1.0, "I", "const"
    averages = ("w",)

    def start(self):
        self.w = np.zeros(self.d)

    def round(self, x, e):
        s = self.w @ x
        rho = e.rho if e.y > 0 else 1.0
        margin, slope = (rho, 1.0) if self.variant == "I" else (1.0, rho)
        loss = slope * max(0.0, margin - e.y * s)
        self.decide(e.y * s, margin)
        if loss > 0:
            self.w = self.w + decay(self.rate, self.eta, self.t) * slope * e.weight * e.y * x
        return Round(s, loss, loss > 0)

    def weights(self):
        return self.w


test_csogd = conforms(
    "CSOGD",
    NaiveCSOGD,
    eta=positive,
    variant=st.sampled_from(["I", "II"]),
    rate=st.sampled_from(["const", "inv_sqrt", "inv_t"]),
)
