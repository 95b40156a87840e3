"""Stable sparse learning (P2 Algorithm 1) against its definition."""

import numpy as np
from hypothesis import strategies as st

from tests.algorithms.online.conformance import conforms, l1, positive
from tests.algorithms.online.twin import Round, Twin, soft


class NaiveStableSparsePerceptron(Twin):
    eta, l1, margin, max_density = 1.0, 0.0, 0.0, None

    def start(self):
        self.w = np.zeros(self.d)
        self.over = False

    def stopped(self):
        if self.max_density is not None and not self.over:  # [D14] a fraction of d
            density = np.count_nonzero(self.w) / self.d
            self.decide(density, self.max_density)
            self.over = density >= self.max_density
        return self.over

    def round(self, x, e):
        s = self.w @ x
        z = e.y * s
        updated = z <= self.margin
        self.decide(z, self.margin)
        if updated:
            for j in np.flatnonzero(x):
                w = self.w[j] + self.eta * e.c * e.weight * e.y * x[j]
                self.decide(abs(w), self.l1)  # the count of nonzeros hangs on it
                self.w[j] = soft(w, self.l1)
        return Round(s, e.c * e.weight * max(0.0, self.margin - z), updated)

    def weights(self):
        return self.w.copy()


test_stablesparseperceptron = conforms(
    "StableSparsePerceptron",
    NaiveStableSparsePerceptron,
    eta=positive,
    l1=l1,
    margin=st.just(0.0) | positive,
    max_density=st.none() | st.floats(0.05, 1.0),
)
