"""What the papers prove, evaluated for a run: bounds on regret, weighted sum and cost, beside what was measured.

Specification §8, with the squares of E2.
"""

from thinstream.theory.bounds import Bound, arcsogd_bound, fsol_bound, ssol_bound
from thinstream.theory.regret import Regret, regret

__all__ = ["Bound", "Regret", "arcsogd_bound", "fsol_bound", "regret", "ssol_bound"]
