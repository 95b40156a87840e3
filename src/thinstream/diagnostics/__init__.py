"""Diagnostics: the numerical health of models and data, and the bounds that the papers prove, computed for a run.

Paper P2 and specification §6, §8 and §11, with errata E2, E16 and E18.
"""

from thinstream.diagnostics.bounds import (
    Bound,
    Path,
    arcsogd_bound,
    arcsogd_rate,
    follow,
    framework_bound,
    fsol_bound,
    fsol_rate,
    generalisation_bound,
    mistake_bound,
    norm_rounds,
    safe_gamma,
    spectral_radius,
    ssol_bound,
)
from thinstream.diagnostics.diagnosis import Diagnosis, Exponents, Finding, diagnose, exponents
from thinstream.diagnostics.regret import Regret, regret

__all__ = [
    "Bound",
    "Diagnosis",
    "Exponents",
    "Finding",
    "Path",
    "Regret",
    "arcsogd_bound",
    "arcsogd_rate",
    "diagnose",
    "exponents",
    "follow",
    "framework_bound",
    "fsol_bound",
    "fsol_rate",
    "generalisation_bound",
    "mistake_bound",
    "norm_rounds",
    "regret",
    "safe_gamma",
    "spectral_radius",
    "ssol_bound",
]
