"""The one fitted thing: a learner, and what its numbers mean."""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from thinstream.batch import Batch
from thinstream.errors import InvalidInputError, MergeError
from thinstream.learners.classes import Classes
from thinstream.learners.protocol import AnyLearner
from thinstream.one_vs_rest import merge, model_for


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

    @classmethod
    def from_stream(cls, stream: Any, known: "Names | None" = None) -> "Names | None":
        """The names of hashed features that a stream has met, and those known before, which win."""
        found = {} if stream.names is None else dict(stream.names.items())
        found |= {} if known is None else known.as_dict()
        return cls.of(list(found.values()), list(found)) if found else known

    def checked(self) -> Self:
        """The names, or InvalidInputError."""
        if self.indices.shape != (len(self.texts),):
            raise InvalidInputError(
                f"names: one index per name is needed, got {self.indices.size} indices and {len(self.texts)} names"
            )
        if len(self.texts) and (self.indices[0] < 0 or np.any(np.diff(self.indices) <= 0)):
            raise InvalidInputError("names: indices must be ≥ 0, sorted and unique")
        return self

    def as_dict(self) -> dict[int, str]:
        """Feature → name."""
        return dict(zip(self.indices.tolist(), self.texts, strict=True))


@dataclass(frozen=True, eq=False)
class Model:
    """A learner and what its feature numbers and labels mean: what is saved, served, exported and gone on with.

    Parameters
    ----------
    learner : AnyLearner
        Of any algorithm and any number of classes.
    classes : Classes
        The negative and the positive label, or the labels of all classes: strings, numbers or booleans.
    feature_space : dict
        How rows are prepared and what feature numbers mean, as JSON has it; {}: they are column numbers.
    names : Names or None
        Readable names of some features.
    extra : dict
        Whatever else is to be kept, as JSON has it: the position in the source, say.
    arrays : dict of str to array
        More arrays that travel with a model saved in full.
    reading : dict
        Options of reading its data that are no part of the feature space: which column is the label, say.
    report : dict or None
        Progressive metrics of the run it came from, as JSON has them.

    Examples
    --------
    >>> model = Model.fresh("fsol", Classes("ham", "spam"), n_features=3)
    >>> model.classes, model.learner.n_features
    (Classes('ham', 'spam'), 3)

    """

    learner: AnyLearner
    classes: Classes
    feature_space: dict[str, Any] = field(default_factory=dict)
    names: Names | None = None
    extra: dict[str, Any] = field(default_factory=dict)
    arrays: dict[str, NDArray[Any]] = field(default_factory=dict)
    reading: dict[str, Any] = field(default_factory=dict)
    report: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        models = sum(1 for _ in self.learner.models)
        if models != self.classes.n_models:
            raise InvalidInputError(
                f"a model of {max(models, 2)} classes needs as many labels, got {len(self.classes)}"
            )

    @classmethod
    def fresh(
        cls,
        algorithm: str,
        classes: Classes,
        class_weight: Any = None,
        *,
        n_features: int = 0,
        feature_space: Mapping[str, Any] | None = None,
        names: Names | None = None,
        **options: Any,
    ) -> Self:
        """A model that has seen nothing; ``options`` are those of `learners.make_learner`."""
        learner = model_for(algorithm, classes, class_weight, n_features=n_features, **options)
        return cls(learner, classes, dict(feature_space or {}), names)

    @property
    def reading_options(self) -> dict[str, Any]:
        """How its data is read, whatever columns that had."""
        return {name: value for name, value in self.reading.items() if name != "columns"}

    def copy(self) -> Self:
        """One that can learn while this one stays as it is."""
        return replace(self, learner=copy.deepcopy(self.learner))

    def predict(self, batch: Batch) -> NDArray[np.intp]:
        """Numbers of the classes of rows."""
        return self.classes.chosen(self.learner.scores(batch))

    def require_features(self, feature_space: Mapping[str, Any], source: str, model: str = "the model") -> None:
        """Raises where the features of a source mean something else than the model's."""
        if dict(feature_space) != self.feature_space:
            raise InvalidInputError(
                f"{model}: its features were read as {self.feature_space or 'column numbers'}, those of {source} are "
                f"{dict(feature_space) or 'column numbers'}; they would not mean the same"
            )

    def merge(self, *others: "Model", average: bool = False) -> "Model":
        """A new model out of several that learned from disjoint parts of the data; they are left as they are.

        Classes, feature spaces and reading options must agree. Columns and names are those of all, the first model's
        where names differ. How learners are merged: docs/algorithms.md.
        """
        for other in others:
            for what in ("classes", "feature_space", "reading_options"):
                one, two = getattr(self, what), getattr(other, what)
                if one != two:
                    raise MergeError(
                        f"models to merge must agree in their {what.replace('_', ' ')}, got {one} and {two}"
                    )
        columns = sorted({name for model in (self, *others) for name in model.reading.get("columns", ())})
        learner = merge([self.learner, *(other.learner for other in others)], average=average)
        named = [model.names.as_dict() for model in (*reversed(others), self) if model.names is not None]
        names = {index: text for each in named for index, text in each.items()}
        return Model(
            learner,
            self.classes,
            self.feature_space,
            Names.of(list(names.values()), list(names)) if named else None,
            reading=self.reading | ({"columns": columns} if columns else {}),
            extra={key: value for key, value in self.extra.items() if key == "estimator"},
        )
