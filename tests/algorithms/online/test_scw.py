"""SCW-I and SCW-II, diagonal, against their definition (the published one, not LIBOL's [E14])."""

import numpy as np
from hypothesis import strategies as st

from tests.algorithms.online.conformance import conforms, positive
from tests.algorithms.online.test_arow import GaussianTwin
from tests.algorithms.online.test_cw import root_u, stdev_alpha
from tests.algorithms.online.twin import Round


class NaiveSCW(GaussianTwin):
    variant, phi, C = "I", None, 1.0

    def alpha(self, m, v, phi, C):
        if self.variant == "I":
            return min(C, stdev_alpha(m, v, phi))
        n = v + 1.0 / (2.0 * C)
        gamma = phi * np.sqrt(phi**2 * m**2 * v**2 + 4.0 * n * v * (n + v * phi**2))
        return max(0.0, (-(2.0 * m * n + phi**2 * m * v) + gamma) / (2.0 * (n**2 + n * v * phi**2)))

    def round(self, x, e):
        phi = self.phi
        if phi is None:  # Φ⁻¹(0.75) and Φ⁻¹(0.9)
            phi = {"I": 0.6744897501960817, "II": 1.2815515655446004}[self.variant]
        s = self.mu @ x
        m = e.y * s
        v = self.confidence(x)
        bound = phi * np.sqrt(v)
        updated = m < bound
        self.decide(m, bound)
        if m == bound and v > 0:  # the step aims at m = bound: even an exact tie is an accident of rounding
            self.edge = 0.0
        if updated:
            alpha = self.alpha(m, v, phi, self.C * e.c * e.weight)
            self.step(x, e, alpha, alpha * phi / root_u(alpha, v, phi))
        return Round(s, max(0.0, bound - m), updated)


test_scw = conforms(
    "SCW",
    NaiveSCW,
    variant=st.sampled_from(["I", "II"]),
    phi=st.none() | positive,
    C=positive,
    a=positive,
    diagonal=st.sampled_from(["exact", "drop"]),
)
