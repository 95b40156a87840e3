"""The one fitted thing: a learner, and what its numbers mean."""

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from thinstream.batch import Batch
from thinstream.blend.serving import blends_of
from thinstream.errors import InvalidInputError, InvalidParameterError, MergeError
from thinstream.growing import Growing, merge_growing
from thinstream.learners.classes import Classes
from thinstream.learners.growing_classes import GrowingClasses
from thinstream.learners.protocol import AnyLearner
from thinstream.models.feature_words import in_words
from thinstream.one_vs_rest import merge as merge_plain
from thinstream.one_vs_rest import model_for
from thinstream.preparing import Preparation, merge, plain_learner, preparation_of, prepared

#: The entry of a feature space that says that a stream gives rows of unit length.
NORMALIZED = "normalize"
_BOTH = (
    "the stream gives rows of unit length (normalize), and the model has scale or normalize of its own: leave the "
    "stream's out, normalize='l2' of the model comes after its scales"
)


def not_two(classes: Classes, threshold: str = "a threshold") -> str:
    """What is wrong with a threshold of a model of these classes."""
    why = "those of this one are met as they come (grow_classes)" if classes.grow else f"this model has {len(classes)}"
    return f"{threshold} is for two classes, {why}"


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
        The negative and the positive label, or the labels of all classes: strings, numbers or booleans; of a model
        with ``grow_classes`` those met so far, in order of appearance.
    feature_space : dict
        What feature numbers mean, as JSON has it; {}: they are column numbers.
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
    threshold : float
        Of two classes: a row whose score is above it is positive. A number of the learner's precision.

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
    threshold: float = 0.0

    def __post_init__(self) -> None:
        models = sum(1 for _ in self.learner.models)
        if models != self.classes.n_models:
            raise InvalidInputError(
                f"a model of {max(models, 2)} classes needs as many labels, got {len(self.classes)}"
            )
        if self.threshold and not self.classes.are_two:
            raise InvalidInputError(not_two(self.classes))
        if self.preparation and NORMALIZED in self.feature_space:
            raise InvalidParameterError(_BOTH)

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
        scale: str | None = None,
        normalize: str | None = None,
        **options: Any,
    ) -> Self:
        """A model that has seen nothing; ``options`` are those of `learners.make_learner`.

        With `GrowingClasses`, which have their class weights, it learns classes as they come.
        """
        options["n_features"], preparation = n_features, Preparation(scale, normalize)
        if isinstance(classes, GrowingClasses):
            learner: AnyLearner = Growing.begin(algorithm, classes, **options)
        else:
            learner = model_for(algorithm, classes, class_weight, **options)
        for blend in blends_of(learner) if preparation else ():
            blend.leave_rows()
        return cls(prepared(learner, preparation), classes, dict(feature_space or {}), names)

    @property
    def preparation(self) -> Preparation:
        """What is done to rows before they are learned or scored."""
        return preparation_of(self.learner)

    @property
    def class_weight(self) -> Any:
        """Of a model with ``grow_classes``: what classes weigh, those to come included."""
        return getattr(self.classes, "class_weight", None)

    @property
    def n_weights_met(self) -> int | None:
        """Weights of hashed features that examples have changed: most other numbers belong to no feature.

        None where features are not hashed, and where nothing tells, as in a file of weights only.
        """
        if "hashing" not in self.feature_space:
            return None
        met: list[Any] = [getattr(model, "n_met", None) for model in plain_learner(self.learner).models]
        return None if None in met else sum(met)

    @property
    def reading_options(self) -> dict[str, Any]:
        """How its data is read, whatever columns that had."""
        return {name: value for name, value in self.reading.items() if name not in ("columns", "layout", "numeric")}

    def copy(self) -> Self:
        """One that can learn while this one stays as it is."""
        return replace(self, learner=copy.deepcopy(self.learner))

    def learn(self, batch: Batch, classes: Classes, scores: bool = True) -> tuple[Self, NDArray[Any]]:
        """Learns rows whose labels are those of ``classes``: its own, or these and more; the model with all of them.

        The learner is changed in place. The scores are those before each update.
        """
        inner = plain_learner(self.learner)
        if isinstance(classes, GrowingClasses) and isinstance(inner, Growing):
            usual, costs = inner.spare_costs[0], classes.costs
            new = range(len(self.classes), len(costs))
            inner.to_come = {k: costs[k] for k in new if costs[k] != usual}
        found = self.learner.learn(batch, scores=scores)
        return self if len(classes) == len(self.classes) else replace(self, classes=classes), found

    @property
    def has_probabilities(self) -> bool:
        """Whether its scores are log-odds: it has learned with the logistic loss, or is a blend."""
        return self.learner.parameters.get("loss") == "logistic" or self.learner.algorithm.name == "Auto"

    def with_threshold(self, score: float) -> Self:
        """The same, positive above this score, which is rounded to the precision of its scores; for two classes."""
        if not self.classes.are_two:
            raise InvalidParameterError(not_two(self.classes))
        return replace(self, threshold=float(self.learner.dtype.type(score)))

    def chosen(self, scores: NDArray[Any]) -> NDArray[np.intp]:
        """Numbers of the classes that scores of this model speak for."""
        return self.classes.chosen(scores, self.threshold)

    def predict(self, batch: Batch) -> NDArray[np.intp]:
        """Numbers of the classes of rows."""
        return self.chosen(self.learner.scores(batch))

    def require_features(self, feature_space: Mapping[str, Any], source: str, model: str = "the model") -> None:
        """Raises where the features of a source mean something else than the model's."""
        if self.preparation and NORMALIZED in feature_space:
            raise InvalidParameterError(_BOTH)
        if dict(feature_space) != self.feature_space:
            raise InvalidInputError(
                f"{model}: its features were read as {in_words(self.feature_space)}, those of {source} are "
                f"{in_words(feature_space)}; they would not mean the same"
            )

    def merge(self, *others: "Model", average: bool = False) -> "Model":
        """A new model out of several that learned from disjoint parts of the data; they are left as they are.

        Classes, thresholds, feature spaces and reading options must agree. Columns and names are those of all, the
        first model's where names differ. With ``grow_classes`` models may have met different classes: the new one has
        them all, this one's first. How learners are merged: docs/algorithms.md.
        """
        for other in others:
            if self.classes.grow != other.classes.grow:
                raise MergeError("models to merge must agree in grow_classes, got one with and one without")
            first = "class_weight" if self.classes.grow else "classes"
            for what in (first, "threshold", "feature_space", "reading_options"):
                one, two = getattr(self, what), getattr(other, what)
                if one != two:
                    one, two = (in_words(one), in_words(two)) if what == "feature_space" else (one, two)
                    raise MergeError(
                        f"models to merge must agree in their {what.replace('_', ' ')}, got {one} and {two}"
                    )
        columns = sorted({name for model in (self, *others) for name in model.reading.get("columns", ())})
        numeric = set.intersection(*({*model.reading.get("numeric", ())} for model in (self, *others)))
        classes, learner = _merged([self, *others], average)
        named = [model.names.as_dict() for model in (*reversed(others), self) if model.names is not None]
        names = {index: text for each in named for index, text in each.items()}
        return Model(
            learner,
            classes,
            self.feature_space,
            Names.of(list(names.values()), list(names)) if named else None,
            reading=self.reading_options
            | {key: value for key, value in self.reading.items() if key == "layout"}
            | ({"columns": columns} if columns else {})
            | ({"numeric": sorted(numeric)} if numeric else {}),
            extra={key: value for key, value in self.extra.items() if key == "estimator"},
            threshold=self.threshold,
        )


def _merged(models: Sequence[Model], average: bool) -> tuple[Classes, AnyLearner]:
    """The classes of all models, and their learners as one."""
    classes, learners = models[0].classes, [model.learner for model in models]
    if not isinstance(classes, GrowingClasses):
        return classes, merge(learners, partial(merge_plain, average=average))
    for other in models[1:]:
        classes = classes.meeting(list(other.classes))
    places = [{label: k for k, label in enumerate(model.classes)} for model in models]
    numbers = [[each.get(label, -1) for each in places] for label in classes]
    return classes, merge(learners, partial(merge_growing, numbers=numbers, costs=classes.costs, average=average))


def score_of(threshold: Any, model: Model) -> float:
    """A threshold as people give it, as a score: a probability where the model has them, else the score itself."""
    try:
        given = float(threshold)
    except (TypeError, ValueError):
        given = math.nan
    if not model.has_probabilities:
        if math.isfinite(given):
            return given
        raise InvalidParameterError(f"threshold must be a finite score, got {threshold!r}")
    if 0.0 < given < 1.0:
        return math.log(given) - math.log1p(-given)
    raise InvalidParameterError(
        f"threshold must be a probability between 0 and 1, as the loss is logistic, got {threshold!r}"
    )
