"""What a learner is to everything above it: a model, a file, a run, an export.

Two classes or more, online or in batches: `Learner`, `FullLearner`, `Frozen`, `OneVsRest` and the batch learners all
answer to this, and nobody above needs to know which of them it has.
"""

from collections.abc import Iterable
from typing import Any, ClassVar, Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from thinstream.batch import Batch

#: How often rows are needed: one after another, all at once, or in several passes over a stream.
Reads = Literal["once", "held", "again"]


@runtime_checkable
class AnyLearner(Protocol):
    """Weights, and all it takes to learn them and go on."""

    weights_only: bool  #: whether it predicts only
    grow: bool  #: whether a wider batch extends the model instead of raising
    offset: int  #: 1 with an intercept, else 0
    parameters: dict[str, Any]  #: public ones

    @property
    def algorithm(self) -> Any:
        """What was declared of it: name, paper, parameters."""

    @property
    def reads(self) -> Reads:
        """How often it needs the rows of a stream."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Precision of the weights."""

    @property
    def n_features(self) -> int:
        """Width of the model."""

    @property
    def models(self) -> Iterable[Any]:
        """A `OneModel` for each row of ``coef_``: one of two classes, of more one for each class against the rest."""

    def learn(self, batch: Batch, scores: bool = True) -> NDArray[Any]:
        """Takes the examples in order; returns the score of each before its update."""

    def finish(self) -> None:
        """The stream is over: what waits is learned."""

    def scores(self, batch: Batch) -> NDArray[Any]:
        """w·x of each row; of more than two classes a column for each. Nothing changes."""

    def weights(self) -> NDArray[Any]:
        """w, dense; of more than two classes a row for each."""

    @property
    def has_variance(self) -> bool:
        """Whether it keeps a variance per weight."""

    def variance(self) -> NDArray[Any]:
        """σ of every weight."""

    @property
    def n_weights(self) -> int:
        """Weights there are, zero or not; intercepts are none of them."""

    @property
    def nnz(self) -> int:
        """Non-zero weights, intercepts not counted."""

    @property
    def t(self) -> int:
        """Examples seen."""

    @property
    def n_mistakes(self) -> int:
        """Examples called wrong before their update."""

    @property
    def n_updates(self) -> Any:
        """Rounds in which the update condition held, per class if there are more than two."""

    @property
    def cumulative_loss(self) -> Any:
        """Sum of the algorithm's own loss, per class if there are more than two."""


@runtime_checkable
class OneModel(AnyLearner, Protocol):
    """A model of two classes, or of one against the rest."""

    @property
    def costs(self) -> Any:
        """Class costs c₋, c₊."""

    @property
    def intercept(self) -> float:
        """Weight of the constant feature; 0 without one."""

    @property
    def n_positives(self) -> int:
        """Positive examples seen."""

    def sparse_weights(self) -> tuple[NDArray[np.int64], NDArray[Any]]:
        """Features of non-zero weight, and their weights."""


class ReadsOnce:
    """What learners share that take one row after another."""

    reads: ClassVar[Reads] = "once"

    def finish(self) -> None:
        """Nothing waits."""
