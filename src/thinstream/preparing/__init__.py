"""Preparing rows as a part of the model: features divided by a scale that is learned along, rows of unit length.

A row's non-zeros first update the scales of their features, then are divided by them; `PreparedLearner` does that
around any online learner, of two classes or more, which knows nothing of it.
"""

from thinstream.preparing.learner import PreparedLearner, PreparedModel, plain_learner, preparation_of, prepared
from thinstream.preparing.merging import merge
from thinstream.preparing.preparation import NORMALIZE, SCALE, Preparation
from thinstream.preparing.several import Several, described_by, side_by_side

__all__ = [
    "NORMALIZE",
    "SCALE",
    "Preparation",
    "PreparedLearner",
    "PreparedModel",
    "Several",
    "described_by",
    "merge",
    "plain_learner",
    "preparation_of",
    "prepared",
    "side_by_side",
]
