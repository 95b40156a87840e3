"""CW, diagonal, variance and standard-deviation form, against its definition."""

import numpy as np
from hypothesis import strategies as st

from tests.algorithms.online.conformance import conforms, positive
from tests.algorithms.online.test_arow import GaussianTwin
from tests.algorithms.online.twin import Round


def stdev_alpha(m, v, phi):
    """CW's step in the standard-deviation form."""
    psi, zeta = 1.0 + phi**2 / 2.0, 1.0 + phi**2
    return max(0.0, (-m * psi + np.sqrt(m**2 * phi**4 / 4.0 + v * phi**2 * zeta)) / (v * zeta))


def root_u(alpha, v, phi):
    """√u, u = xᵀΣx after the step, in the form of section 11.3: the printed one cancels at α·φ·√v ≫ 1."""
    return 2.0 * v / (alpha * v * phi + np.sqrt((alpha * v * phi) ** 2 + 4.0 * v))


class NaiveCW(GaussianTwin):
    phi, form = 0.5244005127080407, "variance"

    def round(self, x, e):
        phi = self.phi
        s = self.mu @ x
        m = e.y * s
        v = self.confidence(x)
        bound = phi * v if self.form == "variance" else phi * np.sqrt(v)
        updated = m < bound
        self.decide(m, bound)
        if m == bound and v > 0:  # the step aims at m = bound: even an exact tie is an accident of rounding
            self.edge = 0.0
        part = min(e.weight, 1.0) * e.c / e.c_max
        if updated and self.form == "variance":
            b = 1.0 + 2.0 * phi * m
            alpha = max(0.0, (-b + np.sqrt(b**2 - 8.0 * phi * (m - phi * v))) / (4.0 * phi * v))
            self.step(x, e, alpha, 2.0 * alpha * phi, part)
        elif updated:
            alpha = stdev_alpha(m, v, phi)
            self.step(x, e, alpha, alpha * phi / root_u(alpha, v, phi), part)
        return Round(s, max(0.0, bound - m), updated)


test_cw = conforms(
    "CW",
    NaiveCW,
    phi=st.floats(0.05, 1.0),  # at 2 precisions of 24 rows, learned twice, reach 1e300: those are refused
    a=positive,
    form=st.sampled_from(["variance", "stdev"]),
    diagonal=st.sampled_from(["exact", "drop"]),
)
