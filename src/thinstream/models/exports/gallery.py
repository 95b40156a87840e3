"""Portraits of a model of more than two classes, one for each."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from thinstream.models.exports.portrait import Portrait, Trained


class Gallery(NamedTuple):
    """A model of several classes as it stands: a portrait of each, against all others.

    >>> from thinstream.learners import Learner
    >>> gallery = Gallery.of([Learner("fsol", n_features=9)] * 3, ["ham", "news", "spam"])
    >>> gallery.classes, gallery.first.n_features
    (['ham', 'news', 'spam'], 9)
    """

    portraits: tuple[Portrait, ...]  # the positive label is the class

    @classmethod
    def of(
        cls,
        models: Iterable[Trained],
        classes: Sequence[Any],
        names: Mapping[int, str] = {},
        feature_space: Mapping[str, Any] = {},
    ) -> Self:
        """Of the models of the classes, in their order."""
        pairs = zip(models, classes, strict=True)
        return cls(tuple(Portrait.of(model, (None, label), names, feature_space) for model, label in pairs))

    @property
    def first(self) -> Portrait:
        """What it says of algorithm, parameters, width and feature space holds for all."""
        return self.portraits[0]

    @property
    def classes(self) -> list[Any]:
        """The labels."""
        return [portrait.positive for portrait in self.portraits]

    @property
    def names(self) -> dict[int, str]:
        """Names of columns with a weight in any class."""
        return {j: name for portrait in self.portraits for j, name in portrait.names.items()}

    @property
    def intercepts(self) -> NDArray[Any]:
        """Of each class."""
        return np.array([portrait.intercept for portrait in self.portraits], dtype=self.first.weights.dtype)

    @property
    def nnz(self) -> int:
        """Weights of all classes that are not zero."""
        return sum(len(portrait.weights) for portrait in self.portraits)

    def check(self) -> Self:
        """Itself; raises where an export could not keep its promises."""
        for portrait in self.portraits:
            portrait.check()
        return self

    def flat(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[Any]]:
        """Column, number of the class and weight of all that are not zero, class by class."""
        sizes = [len(portrait.weights) for portrait in self.portraits]
        columns = np.concatenate([portrait.indices for portrait in self.portraits])
        weights = np.concatenate([portrait.weights for portrait in self.portraits])
        return columns, np.repeat(np.arange(len(sizes)), sizes), weights

    def largest_first(self) -> NDArray[np.int64]:
        """Places in what `flat` gives, by size, ties in its order."""
        return np.argsort(-np.abs(self.flat()[2]), kind="stable").astype(np.int64, copy=False)
