"""What a sweep of l1 found: the models from dense to sparse, how good they are, and which to take."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinstream.errors import InvalidParameterError
from thinstream.evaluate.report import P3, Tradeoff
from thinstream.learners.protocol import AnyLearner
from thinstream.preparing import Preparation, prepared
from thinstream.tune.l1_range import L1Range
from thinstream.tune.lane_counts import LaneCounts
from thinstream.tune.lane_ranks import RANKED
from thinstream.tune.measures import MEASURES, Numbers, metric_values, standard_errors
from thinstream.tune.occurring import Numbering
from thinstream.tune.scoring import check_metric, path_columns
from thinstream.tune.selection import UNLIMITED, Limits, check_rule, select_model

#: With fewer rows held out than this, models are judged by their progressive metrics.
ENOUGH = 100
#: How far to look beyond an end.
BEYOND = 1000.0


class Scored(NamedTuple):
    """What counts do not tell of each model, greater for the better, with standard errors."""

    held_out: Numbers
    held_out_errors: Numbers
    learned: Numbers  # on rows before they were learned; NaN where it is not known
    learned_errors: Numbers


class Edge(NamedTuple):
    """An end of a sweep at which the best model is, and where to look on. Printed, it is a remark."""

    which: str  # l1: "lowest", "highest"
    beyond: L1Range

    def __str__(self) -> str:
        return f"the best model has the {self.which} l1 of the sweep: there may be better ones beyond it"


@dataclass(frozen=True, eq=False)
class PathResult:
    """Models from the densest to the sparsest, and how good they are.

    ``learned`` counts each model's mistakes on rows before it learned them (progressive validation), ``held_out`` those
    of final models on rows they never learned; nothing is counted there where no row was held out.
    """

    algorithm: str
    l1: NDArray[np.float64]
    nnz: NDArray[np.int64]
    n_features: int
    learned: LaneCounts
    held_out: LaneCounts
    models: tuple[AnyLearner | partial[AnyLearner], ...]  # whole, or what makes one of its weights
    rows: int
    passes: int  # over the stream: more than one where memory did not allow all lanes at once
    tested: bool  # held_out is that of a stream of its own
    looks_sorted: bool  # labels came in long runs: progressive numbers are too good
    tradeoff: Tradeoff = P3  # of weighted sum and cost
    scored: Mapping[str, Scored] = field(default_factory=dict)  # what counts do not tell
    preparation: Preparation = field(default_factory=Preparation)  # of rows, for all models
    thinned: Numbers | None = None  # error of the densest model thinned to as many weights, on held-out rows
    classes: int = 2
    losses: bool = False  # whether sums of losses were asked for
    numbering: Numbering | None = None  # of named features: which occurred

    @property
    def n_met(self) -> int:
        """Features that weights are counted of: all, of named ones those that occurred."""
        return self.n_features if self.numbering is None else self.numbering.n_met

    @property
    def n_weights(self) -> int:
        """Weights that a model has, zero or not: of more than two classes as many for each."""
        return self.n_met * (1 if self.classes == 2 else self.classes)

    @property
    def judged_on_held_out(self) -> bool:
        """Whether enough rows were held out to pick by them."""
        return bool(self.held_out.rows.min() >= ENOUGH)

    def model(self, k: int) -> Any:
        """Model k; weights only where memory allowed no more."""
        found = self.models[k]
        learner = prepared(found() if isinstance(found, partial) else found, self.preparation.copy())
        return learner if self.numbering is None else self.numbering.model(learner)

    def columns(self) -> dict[str, NDArray[Any]]:
        """The table: an array per column, ready for a data frame. ``cost`` is per row."""
        width = max(self.n_weights, 1)
        table: dict[str, NDArray[Any]] = {
            "l1": self.l1,
            "nnz": self.nnz,
            "density": self.nnz / width,
            "sparsity": 1.0 - self.nnz / width,
        }
        for metric in path_columns(self.classes):
            table[metric] = self.progressive(metric)
        for metric in path_columns(self.classes):
            table[f"held_out_{metric}"], table[f"held_out_{metric}_se"] = self.final(metric)
        table["held_out_thinned_error"] = np.full(len(self.l1), np.nan) if self.thinned is None else self.thinned
        return table

    def progressive(self, metric: str) -> NDArray[np.float64]:
        """A metric of rows before they were learned; NaN where it is not known of them."""
        if metric in self.scored:
            return self.scored[metric].learned
        return metric_values(self.learned, metric, self.tradeoff)

    def final(self, metric: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """A metric of held-out rows, and its standard errors."""
        if metric in self.scored:
            return self.scored[metric][:2]
        values = metric_values(self.held_out, metric, self.tradeoff)
        return values, np.where(np.isnan(values), np.nan, standard_errors(self.held_out, metric, self.tradeoff))

    def pick(self, scoring: str = "error", rule: str = "one_se", limits: Limits = UNLIMITED) -> int:
        """The number of the model to take, see `selection.select_model`; by held-out rows if there are enough."""
        check_rule(rule, limits)
        if scoring in self.scored:
            found, sign = self.scored[scoring], 1
            known = self.judged_on_held_out or np.isnan(found.learned).all()
            values, errors = found[:2] if known else found[2:]
        else:
            counted = self.held_out if self.judged_on_held_out else self.learned
            values = metric_values(counted, _counted_metric(scoring, self), self.tradeoff)
            errors, sign = standard_errors(counted, scoring, self.tradeoff), MEASURES[scoring].sign
        return select_model(values, errors, self.nnz, self.n_weights, sign=sign, rule=rule, limits=limits)

    def edge(self, scoring: str = "error", limits: Limits = UNLIMITED) -> Edge | None:
        """The end that the best model is at, if it is at one.

        Where no model has a weight it is the lower one; beyond an upper one without a weight there is nothing.
        """
        best, low, high = self.pick(scoring, "best", limits), float(self.l1[0]), float(self.l1[-1])
        if best == 0 or not self.nnz.any():
            return Edge("lowest", L1Range(low / BEYOND, low))
        at_end = best == len(self.l1) - 1 and self.nnz[-1] > 0
        return Edge("highest", L1Range(high, high * BEYOND)) if at_end else None


def _counted_metric(name: str, path: PathResult) -> str:
    """The name of a measure of counts; what ranks and losses tell has to be asked for before the sweep."""
    if check_metric(name, path.classes) in RANKED or ("log_loss" in name and not path.losses):
        raise InvalidParameterError(f"scoring {name!r} is not known of this path: it must be said before the sweep")
    return name
