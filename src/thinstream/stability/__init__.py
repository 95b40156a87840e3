"""Where numbers go wrong: what a model's weights, its data and its parameters say about its numerical health.

P2; specification §6 and §11, E16, E18.
"""

from thinstream.stability.convergence import Path, follow, safe_gamma, spectral_radius
from thinstream.stability.diagnosis import Diagnosis, diagnose
from thinstream.stability.findings import Exponents, Finding, exponents
from thinstream.stability.theorems import generalisation_bound, mistake_bound, norm_rounds

__all__ = [
    "Diagnosis",
    "Exponents",
    "Finding",
    "Path",
    "diagnose",
    "exponents",
    "follow",
    "generalisation_bound",
    "mistake_bound",
    "norm_rounds",
    "safe_gamma",
    "spectral_radius",
]
