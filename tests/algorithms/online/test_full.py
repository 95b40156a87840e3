"""Full covariances against their definition: the precision matrix is kept and inverted anew in every round."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.algorithms.online.conformance import check, class_weights, l1, positive, streams
from tests.algorithms.online.test_arcsogd import NaiveARCSOGD
from tests.algorithms.online.test_arow import GaussianTwin, NaiveAROW
from tests.algorithms.online.test_cw import NaiveCW
from tests.algorithms.online.test_narow import NaiveNAROW
from tests.algorithms.online.test_scw import NaiveSCW
from tests.algorithms.online.test_sop import NaiveSOP
from tests.algorithms.online.test_ssol import NaiveSSOL
from tests.algorithms.online.twin import Round, hinge, soft


class Full(GaussianTwin):
    """The steps of the diagonal learners, which ask for v only, with all of Σ⁻¹ += c·xxᵀ."""

    def start(self):
        super().start()
        self.P = np.eye(self.d) / self.a

    def confidence(self, x):
        return x @ np.linalg.solve(self.P, x)

    def step(self, x, e, alpha, c, part=1.0):
        if c * self.confidence(x) > 1e4:
            self.edge = 0.0
        self.mu = self.mu + part * alpha * e.y * np.linalg.solve(self.P, x)
        self.P = self.P + c * np.outer(x, x)

    def variance(self):
        return np.diag(np.linalg.inv(self.P))


class FullAROW(Full, NaiveAROW):
    pass


class FullNAROW(Full, NaiveNAROW):
    pass


class FullCW(Full, NaiveCW):
    pass


class FullSCW(Full, NaiveSCW):
    pass


class FullARCSOGD(NaiveARCSOGD):
    def start(self):
        self.mu, self.P = np.zeros(self.d), np.eye(self.d)

    def round(self, x, e):
        s = self.mu @ x
        rho = e.rho if e.y > 0 else 1.0
        loss = max(0.0, rho - e.y * s)
        self.decide(e.y * s, rho)
        if loss > 0:
            self.P = self.P + np.outer(x, x) / self.gamma
            self.mu = self.mu + self.eta * e.weight * e.y * np.linalg.solve(self.P, x)
        return Round(s, loss, loss > 0)

    def variance(self):
        return np.diag(np.linalg.inv(self.P))


class FullSSOL(NaiveSSOL):
    """P0 Algorithm 4."""

    def start(self):
        self.theta, self.A = np.zeros(self.d), np.eye(self.d)

    def round(self, x, e):
        if self.update_on == "every":
            self.A = self.A + np.outer(x, x) / self.r
        s = soft(np.linalg.solve(self.A, self.theta), self.threshold(self.t)) @ x
        loss = hinge(s, e.y)
        self.decide(e.y * s, 1.0)
        if loss > 0:
            if self.update_on == "loss":
                self.A = self.A + np.outer(x, x) / self.r
            self.theta = self.theta + self.eta * e.c * e.weight * e.y * x
        return Round(s, e.c * e.weight * loss, loss > 0)

    def weights(self):
        return soft(np.linalg.solve(self.A, self.theta), self.threshold(self.t + 1))

    def variance(self):
        return np.diag(np.linalg.inv(self.A))


class FullSOP(NaiveSOP):
    def start(self):
        self.v, self.S = np.zeros(self.d), np.zeros((self.d, self.d))

    def round(self, x, e):
        now = self.a * np.eye(self.d) + self.S + np.outer(x, x)
        s = np.linalg.solve(now, self.v) @ x
        mistake = (1.0 if s > 0 else -1.0) != e.y
        if mistake:
            self.v = self.v + e.c * e.weight * e.y * x
        if mistake or self.update_on == "every":
            self.S = self.S + np.outer(x, x)
        return Round(s, max(0.0, -e.y * s), mistake)

    def weights(self):
        return np.linalg.solve(self.a * np.eye(self.d) + self.S, self.v)

    def variance(self):
        return np.diag(np.linalg.inv(self.a * np.eye(self.d) + self.S))


CASES = {
    "AROW": (FullAROW, {"r": positive, "a": positive}),
    "NAROW": (FullNAROW, {"b": st.floats(0.5, 50.0), "a": positive}),
    "CW": (FullCW, {"phi": st.floats(0.05, 1.0), "a": positive, "form": st.sampled_from(["variance", "stdev"])}),
    "SCW": (FullSCW, {"variant": st.sampled_from(["I", "II"]), "phi": st.none() | st.floats(0.05, 1.5), "C": positive}),
    "ARCSOGD": (FullARCSOGD, {"eta": positive, "gamma": positive}),
    "SOP": (FullSOP, {"a": positive, "update_on": st.sampled_from(["mistake", "every"])}),
    "SSOL": (
        FullSSOL,
        {
            "eta": positive,
            "l1": l1,
            "r": positive,
            "l1_schedule": st.sampled_from(["eta", "const", "sqrt", "linear", "inv_t"]),
            "update_on": st.sampled_from(["every", "loss"]),
        },
    ),
}


@pytest.mark.twin
@pytest.mark.parametrize("name", CASES)
@settings(
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
    max_examples=settings.default.max_examples // 3,  # it is interpreted
)
@given(data=st.data(), stream=streams(), class_weight=class_weights)
def test_a_full_covariance_equals_its_definition(name, data, stream, class_weight):
    twin, strategies = CASES[name]
    parameters = data.draw(st.fixed_dictionaries(strategies)) | {"covariance": "full"}
    check(name, twin, stream, parameters, class_weight)
