"""How the models of a rule become one, as the rule declares it: ``merge_rule(p)`` returns a `MergeRule`.

A model out of several that learned from disjoint parts of a stream (`learners.merging`), and one out of the increments
of workers since a common base (`distributed.by_examples`), both follow from this declaration. A rule without one, its
own or its family's, refuses to be merged.
"""

from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

#: What can be said of the result. exact: the model of one run over all parts; formal: the model that holds the updates
#: of all parts, each decided on the history of its own part; heuristic: a sensible model, no more.
Kind = Literal["exact", "formal", "heuristic"]

#: How increments of workers can become one, see `distributed.by_examples.increments`.
WAYS = ("sum", "mean", "touched", "root")
BELIEF_WAYS = ("precision", "gain", "mean", "touched")
AVERAGES = ("touched", "mean")


class MergeRule(NamedTuple):
    """What becomes of each field of a coordinate; a field that is not named is for the rule's ``rebuild``."""

    how: str = ""  # for docs and messages
    kind: Kind = "heuristic"
    sums: tuple[str, ...] = ()  # sums over examples: they add, what a fresh feature has counted once
    means: tuple[str, ...] = ()  # averaged, by the examples each model has seen
    greatest: tuple[str, ...] = ()  # the largest of all models
    weight: str = ""  # the field of the weight: brought up to date, then averaged
    clocks: Callable[[int, Any], dict[str, float]] = lambda t, totals: {}  # fields of coordinates that are up to date
    belief: tuple[str, str] | None = None  # Gaussian mean and spread: precisions add, means are weighted by them
    stores_precision: bool = True  # whether the spread is kept as a precision, or else as a variance
    totals_like_weights: bool = False  # whether increments of the rule's totals are averaged where weights are
    way: str = "touched"  # how increments of workers become one unless told otherwise: what was measured to be best
    #: Where the scale of a feature becomes r times as large (`preparing`): the power of r each field is multiplied by,
    #: so that weights go as r and variances as r²; a field that is not named stays. None: it cannot be brought there.
    powers: Mapping[str, int] | None = None
    refused: str = ""  # why models cannot be merged; with fields named above they can be averaged on request

    @property
    def declared(self) -> bool:
        """Whether there is anything to merge by, on request at least."""
        return bool(self.sums or self.means or self.weight or self.belief)

    @property
    def averages(self) -> bool:
        """Whether the share of each model plays a part."""
        return bool(self.means or self.weight)

    @property
    def ways(self) -> tuple[str, ...]:
        """How increments can become one, the default first."""
        known = BELIEF_WAYS if self.belief else AVERAGES if self.refused else WAYS
        return (self.way, *(way for way in known if way != self.way))


#: Of a rule that says nothing.
UNDECLARED = MergeRule(refused="it declares no merge_rule")
