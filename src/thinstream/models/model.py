"""What a model file holds: a learner, and what its numbers mean."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from thinstream.errors import InvalidInputError
from thinstream.learners import Classes
from thinstream.one_vs_rest import AnyLearner


class Names(NamedTuple):
    """Readable names of some features.

    >>> Names.of(["free", "winner"], [7, 3])
    Names(indices=array([3, 7]), texts=['winner', 'free'])
    """

    indices: NDArray[np.int64]  # sorted, unique
    texts: list[str]

    @classmethod
    def of(cls, texts: Sequence[str], indices: Any = None) -> Self:
        """Names of the given features; without indices those of the first ones."""
        found = np.arange(len(texts)) if indices is None else np.asarray(indices, dtype=np.int64)
        order = np.argsort(found, kind="stable")
        return cls(found[order], [str(texts[i]) for i in order]).checked()

    def checked(self) -> Self:
        """The names, or InvalidInputError."""
        if self.indices.shape != (len(self.texts),):
            raise InvalidInputError(
                f"names: one index per name is needed, got {self.indices.size} indices and {len(self.texts)} names"
            )
        if len(self.texts) and (self.indices[0] < 0 or np.any(np.diff(self.indices) <= 0)):
            raise InvalidInputError("names: indices must be ≥ 0, sorted and unique")
        return self


@dataclass(frozen=True, eq=False)
class Model:
    """A learner and what its feature numbers and labels mean.

    Parameters
    ----------
    learner : Learner, Frozen or OneVsRest
        Frozen: weights only. OneVsRest: more than two classes.
    classes : Classes
        The negative and the positive label, or the labels of all classes: strings, numbers or booleans.
    feature_space : dict
        What feature numbers mean, as JSON has it; {}: they are column numbers.
    names : Names or None
        Readable names of some features.
    extra : dict
        Whatever else is to be kept, as JSON has it: the position in the source, say.
    arrays : dict of str to array
        More arrays that travel with a model saved in full.

    """

    learner: AnyLearner
    classes: Classes
    feature_space: dict[str, Any] = field(default_factory=dict)
    names: Names | None = None
    extra: dict[str, Any] = field(default_factory=dict)
    arrays: dict[str, NDArray[Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        models = sum(1 for _ in self.learner.models)
        if models != self.classes.n_models:
            needed = max(models, 2)
            raise InvalidInputError(f"a model of {needed} classes needs as many labels, got {len(self.classes)}")
