"""STG, truncated gradient (P0's "STG", P2's "TG"), against its definition: nothing is put off."""

import numpy as np
from hypothesis import strategies as st

from tests.algorithms.online.conformance import conforms, l1, positive
from tests.algorithms.online.twin import Round, Twin, hinge, soft


class GradientTwin(Twin):
    """A twin with a choice of loss; the parameter is kept as ``kind``, for ``Twin.loss`` is the total."""

    def __init__(self, d, class_weight=None, loss="hinge", **parameters):
        self.kind = loss
        super().__init__(d, class_weight, **parameters)

    def slope(self, x, e, s):
        """The weighted loss, its gradient, and whether the plain loss asks for an update."""
        if self.kind == "logistic":
            loss, f, updated = np.logaddexp(0.0, -e.y * s), np.exp(-np.logaddexp(0.0, e.y * s)), True
        else:
            loss = hinge(s, e.y)
            self.decide(e.y * s, 1.0)
            f, updated = float(loss > 0), loss > 0
        return e.c * e.weight * loss, -e.c * e.weight * f * e.y * x, updated


def decay(rate, eta, t):
    return {"inv_sqrt": eta / np.sqrt(t), "const": eta, "inv_t": eta / t}[rate]


class NaiveSTG(GradientTwin):
    eta, l1, period, ceiling, rate = 1.0, 0.0, 1, None, "inv_sqrt"
    averages = ("w",)

    def start(self):
        self.w = np.zeros(self.d)

    def round(self, x, e):
        s = self.w @ x
        loss, g, updated = self.slope(x, e, s)
        eta = decay(self.rate, self.eta, self.t)
        self.w = self.w - eta * g
        if self.t % self.period == 0:  # [D6] loss or not, with the rate of this round
            cut = soft(self.w, self.period * eta * self.l1)
            if self.ceiling is not None:
                for size in np.abs(self.w):
                    self.decide(size, self.ceiling)
                cut = np.where(np.abs(self.w) <= self.ceiling, cut, self.w)
            self.w = cut
        return Round(s, loss, updated)

    def weights(self):
        return self.w


test_stg = conforms(
    "STG",
    NaiveSTG,
    eta=positive,
    l1=l1,
    period=st.integers(1, 5),
    ceiling=st.none() | positive,
    rate=st.sampled_from(["inv_sqrt", "const", "inv_t"]),
    loss=st.sampled_from(["hinge", "logistic"]),
)
