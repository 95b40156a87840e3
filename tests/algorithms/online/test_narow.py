"""NAROW, diagonal (AROW with r_t, the LIBOL form [D18]), against its definition."""

from hypothesis import strategies as st

from tests.algorithms.online.conformance import conforms, positive
from tests.algorithms.online.test_arow import GaussianTwin
from tests.algorithms.online.twin import Round, hinge


class NaiveNAROW(GaussianTwin):
    b = 2.0

    def round(self, x, e):
        s = self.mu @ x
        v = self.confidence(x)
        loss = hinge(s, e.y)
        updated = loss > 0 and v > 1.0 / self.b
        self.decide(min(1.0 - e.y * s, v - 1.0 / self.b), 0.0)  # both must hold, so the smaller one decides
        if loss > 0 and v == 1.0 / self.b:  # one feature: the step aims at v = 1/b, so a tie is an accident
            self.edge = 0.0
        if updated:
            r = v / (self.b * v - 1.0) / (e.c * e.weight)
            self.step(x, e, loss / (v + r), 1.0 / r)
        return Round(s, loss, updated)


test_narow = conforms(
    "NAROW",
    NaiveNAROW,
    b=st.floats(0.5, 50.0),  # updates need a·‖x‖² > 1/b [E13]
    a=positive,
    diagonal=st.sampled_from(["exact", "drop"]),
)
