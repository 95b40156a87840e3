"""SOFS (second-order feature selection) against its definition: AROW, then all but B means cut to 0."""

from hypothesis import strategies as st

from tests.algorithms.online.conformance import conforms, positive
from tests.algorithms.online.test_arow import GaussianTwin
from tests.algorithms.online.twin import Round, Twin, hinge


class NaiveSOFS(GaussianTwin):
    B, r = 100, 1.0
    forget = Twin.forget  # it has none: its set of features counts on σ only falling

    def start(self):
        super().start()
        self.past = [()] * self.d  # what each feature's variance has taken

    def round(self, x, e):
        s = self.mu @ x
        v = self.sigma @ x**2
        loss = hinge(s, e.y)
        self.decide(e.y * s, 1.0)
        if loss > 0:
            r = self.r / (e.c * e.weight)
            self.step(x, e, loss / (v + r), 1.0 / r)
            self.past = [(*p, (abs(z), r)) if z else p for p, z in zip(self.past, x)]
            self.cut()
        return Round(s, loss, loss > 0)

    def merge(self, other):
        super().merge(other)
        self.past = [(*p, None, *q) for p, q in zip(self.past, other.past)]
        self.cut()

    def cut(self):
        order = sorted(range(self.d), key=lambda j: (self.sigma[j], j))  # [D10]
        keep, drop = order[: self.B], order[self.B :]
        self.mu[drop] = 0.0
        for j in keep:
            for k in drop:
                if self.past[j] != self.past[k]:  # the same past is a true tie in any arithmetic
                    self.edge = min(self.edge, abs(self.sigma[j] - self.sigma[k]))


test_sofs = conforms("SOFS", NaiveSOFS, B=st.integers(1, 6), r=positive)
