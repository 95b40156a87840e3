"""State for the features that occur only, however wide the numbers they have.

A `SlotTable` gives each feature number that occurs a slot, in the order of first appearance; `CompactLearner` stands
around any online learner, which sees slots for features, and has the face of one that sees the numbers. Rows keep the
order of their numbers, so that sums, and with them all bits, are those of the wide model.
"""

from thinstream.compact.learner import (
    CompactLearner,
    compact_learner,
    compacted,
    narrow_learner,
    on_common_slots,
    whole,
)
from thinstream.compact.moving import moved
from thinstream.compact.room import begun, fitting, settled
from thinstream.compact.sizes import needed
from thinstream.compact.table import SlotTable

__all__ = [
    "CompactLearner",
    "SlotTable",
    "begun",
    "compact_learner",
    "compacted",
    "fitting",
    "moved",
    "narrow_learner",
    "needed",
    "on_common_slots",
    "settled",
    "whole",
]
