"""A budget of features: a model that never has more than so many, on however many names.

A feature gets a slot at its n-th sight, counted by a sketch of fixed size; when no slot is left, the eighth of the
features that matter least gives way. Rows are learned and scored by the features that have a slot.
"""

from thinstream.budget.learner import BudgetLearner, KeptLearner, budget_of, budgeted, merged, told_apart
from thinstream.budget.table import ADMIT, BudgetTable

__all__ = ["ADMIT", "BudgetLearner", "BudgetTable", "KeptLearner", "budget_of", "budgeted", "merged", "told_apart"]
