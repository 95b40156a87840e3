"""Where numbers go wrong: what a model's weights, its data and its parameters say about its numerical health.

P2; specification §6 and §11, E16, E18.
"""

from thinstream.stability.bounds import generalisation_bound, mistake_bound, norm_rounds
from thinstream.stability.diagnosis import Diagnosis, Finding, diagnose
from thinstream.stability.exponents import Exponents, exponents
from thinstream.stability.iteration import Path, follow, safe_gamma, spectral_radius

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
