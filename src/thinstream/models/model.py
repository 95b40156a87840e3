"""The fitted model: a pipeline together with the meaning of its features and labels, and how learners are created."""

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from thinstream.algorithms.registry import find, unknown_parameter
from thinstream.batch import Batch
from thinstream.data.labels import Classes, GrowingClasses, class_costs
from thinstream.data.options import ReadingSpec
from thinstream.data.stream import Stream
from thinstream.engine.loop import Costs
from thinstream.engine.protocol import DTYPES
from thinstream.errors import InvalidInputError, InvalidParameterError, MergeError, listed
from thinstream.lanes.full import online_learner
from thinstream.models.blend import Blend
from thinstream.models.merging import merge_growing, merge_outputs, merge_pipelines, require_distinct
from thinstream.models.outputs import Outputs
from thinstream.models.pipeline import Pipeline, budgeted, compact_if_large, create, expand_if_dense
from thinstream.models.preparation import Preparation
from thinstream.models.slots import ADMIT, BudgetTable

# A feature space as text.


def describe_space(space: Mapping[str, Any]) -> str:
    """Return a readable description of a feature space.

    >>> describe_space({})
    'column numbers'
    >>> describe_space({"hashing": {"bits": 22, "signed": False, "seed": 0}, "text": ["subject", "body"]})
    'names hashed into 2^22 numbers, text subject,body'
    >>> describe_space({"text": ["body"], "ngrams": [1, 2], "stop": ["a", "an"], "lower": False})
    'column numbers, text body, ngrams 1-2, stop 2 words, no lower'
    """
    parts = ["column numbers"]
    if "hashing" in space:
        hashing = space["hashing"]
        parts = [f"names hashed into 2^{hashing['bits']} numbers", *(["signed"] if hashing.get("signed") else [])]
        parts += [f"seed {hashing['seed']}"] if hashing.get("seed") else []
    for name, value in space.items():
        if name != "hashing":
            parts.append(_DESCRIPTIONS.get(name, _plain)(name, value))
    return ", ".join(parts)


def _plain(name: str, value: Any) -> str:
    return f"{'' if value else 'no '}{name}" if isinstance(value, bool) else f"{name} {_listed(value)}"


def _range(name: str, value: Any) -> str:
    return f"{name} {value[0]}-{value[1]}"


def _count(name: str, value: Any) -> str:
    return f"{name} {len(value)} words"


_DESCRIPTIONS: dict[str, Callable[[str, Any], str]] = {"ngrams": _range, "chars": _range, "stop": _count}


def _listed(value: Any, between: str = ",") -> str:
    return between.join(_listed(item, "*") for item in value) if isinstance(value, list | tuple) else str(value)


# Models.

#: ``dtype.name`` takes microseconds, which would slow down single predictions.
_DTYPE_NAMES = {np.dtype(name): name for name in DTYPES}
#: The entry of a feature space if a stream yields rows of unit length.
NORMALIZED = "normalize"
_BOTH = (
    "the stream normalizes rows to unit length, and the model has scale or normalize as well. Remove normalize from "
    "the "
    "stream: normalize='l2' of the model is applied after its scales"
)


def not_two(classes: Classes, threshold: str = "a threshold") -> str:
    """Return the error message for a threshold of a model with these classes."""
    reason = "this model learns new classes (grow_classes)" if classes.grow else f"this model has {len(classes)}"
    return f"{threshold} needs a model of two classes, but {reason}"


class Names(NamedTuple):
    """Readable names of some features.

    >>> Names.of(["free", "winner"], [7, 3])
    Names(indices=array([3, 7]), texts=['winner', 'free'])
    """

    indices: NDArray[np.int64]  # sorted, unique
    texts: list[str]

    @classmethod
    def of(cls, texts: Sequence[str], indices: Any = None) -> Self:
        """Return names of features. By default, they are the first features."""
        features = np.arange(len(texts)) if indices is None else np.asarray(indices, dtype=np.int64)
        order = np.argsort(features, kind="stable")
        return cls(features[order], [str(texts[i]) for i in order]).checked()

    @classmethod
    def from_stream(cls, stream: Stream, earlier: "Names | None" = None) -> "Names | None":
        """Return the names of hashed features in a stream, and earlier ones, which take precedence."""
        names = {} if stream.names is None else dict(stream.names.items())
        names |= {} if earlier is None else earlier.as_dict()
        return cls.of(list(names.values()), list(names)) if names else earlier

    def checked(self) -> Self:
        """Return the names, or raise InvalidInputError."""
        if self.indices.shape != (len(self.texts),):
            raise InvalidInputError(
                f"names: one index per name is needed, got {self.indices.size} indices and {len(self.texts)} names"
            )
        if len(self.texts) and (self.indices[0] < 0 or np.any(np.diff(self.indices) <= 0)):
            raise InvalidInputError("names: indices must be ≥ 0, sorted and unique")
        return self

    def as_dict(self) -> dict[int, str]:
        """Return a dict from feature to name."""
        return dict(zip(self.indices.tolist(), self.texts, strict=True))


def names_of_kept(learner: Pipeline) -> Names | None:
    """Return the names of the features in a budget, or None if there are none."""
    if learner.encoder is None or not learner.drops_unknown or not len(learner.encoder.names.there):
        return None
    names = learner.encoder.names
    return Names.of(names.texts(names.there), learner.encoder.numbers[names.there - 1])


@dataclass(frozen=True, eq=False)
class Model:
    """A pipeline with the meaning of its feature numbers and labels. It is saved, served, exported and trained further.

    Parameters
    ----------
    learner : Pipeline
        Any algorithm and any number of classes. A single learner or `Outputs` are turned into a pipeline.
    classes : Classes
        The negative and the positive label, or the labels of all classes: strings, numbers or booleans. With
        ``grow_classes``, these are the classes so far, in order of appearance.
    feature_space : dict
        The meaning of feature numbers, as JSON values. {}: they are column numbers.
    names : Names or None
        Readable names of some features.
    extra : dict
        Other JSON values to store, for example the position in the source.
    arrays : dict of str to array
        Other arrays to store in full model files.
    reading : dict
        Options for reading the data that are not part of the feature space, for example the label column.
    report : dict or None
        Progressive metrics of the training run, as JSON values.
    threshold : float
        With two classes, rows with a higher score are positive. A number in the learner's precision.

    Examples
    --------
    >>> model = Model.fresh("fsol", Classes("ham", "spam"), n_features=3)
    >>> model.classes, model.learner.n_features
    (Classes('ham', 'spam'), 3)

    """

    learner: Pipeline
    classes: Classes
    feature_space: dict[str, Any] = field(default_factory=dict)
    names: Names | None = None
    extra: dict[str, Any] = field(default_factory=dict)
    arrays: dict[str, NDArray[Any]] = field(default_factory=dict)
    reading: dict[str, Any] = field(default_factory=dict)
    report: dict[str, Any] | None = None
    threshold: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "learner", Pipeline.of(self.learner))
        models = len(self.learner.outputs)
        if models != self.classes.n_models:
            raise InvalidInputError(
                f"a model of {max(models, 2)} classes needs {max(models, 2)} labels, got {len(self.classes)}"
            )
        if self.threshold and not self.classes.are_two:
            raise InvalidInputError(not_two(self.classes))
        if self.preparation and NORMALIZED in self.feature_space:
            raise InvalidParameterError(_BOTH)

    def __getstate__(self) -> dict[str, Any]:
        classes = (tuple(self.classes), self.classes.grow, self.class_weight)  # skops supports only plain tuples
        return {**self.__dict__, "classes": classes}

    def __setstate__(self, state: dict[str, Any]) -> None:
        labels, grow, weight = state["classes"]
        classes = GrowingClasses(*labels, class_weight=weight) if grow else Classes(*labels)
        self.__dict__.update(state, classes=classes)

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
        max_features: int | None = None,
        admit: int = ADMIT,
        **options: Any,
    ) -> Self:
        """Create a fresh model; ``options`` are those of `make_learner`.

        With `GrowingClasses`, which have class weights, it learns new classes. ``max_features`` is the largest number
        of features it keeps at a time. A feature is admitted at its ``admit``-th occurrence.
        """
        space = dict(feature_space or {})

        def make(width: int, grow: bool) -> Pipeline:
            preparation = Preparation(scale, normalize)
            outputs = outputs_for(algorithm, classes, class_weight, **options | {"n_features": width, "grow": grow})
            for blend in outputs.blends if preparation else ():
                blend.remove_preparation()
            return Pipeline(outputs, preparation)

        grow = bool(options.get("grow", False))
        if max_features is not None:
            table = BudgetTable(max_features, admit)
            learner = make(0, True)
            learner.drop_narrow_members()
            return cls(budgeted(learner, table, n_features, grow), classes, space, names)
        return cls(create(make, n_features, grow, "hashing" in space), classes, space, names)

    @property
    def preparation(self) -> Preparation:
        """The preparation of rows for learning and scoring."""
        return self.learner.preparation

    @property
    def class_weight(self) -> Any:
        """The class weights of a model with ``grow_classes``, including those of new classes."""
        return getattr(self.classes, "class_weight", None)

    @property
    def n_weights_met(self) -> int | None:
        """The number of weights of hashed features that examples have changed. Most others belong to no feature.

        None if features are not hashed, or if the model cannot count them because it has only its weights.
        """
        if "hashing" not in self.feature_space:
            return None
        return self.learner.n_met

    @property
    def blends(self) -> list[Blend]:
        """The blends of Auto, one for each output (one if it is binary); empty for other algorithms."""
        return self.learner.blends[: self.classes.n_models]

    def set_threads(self, n_threads: int) -> None:
        """Set how many threads the members of Auto learn on, also for classes that appear later."""
        for blend in self.learner.blends:
            blend.threads = n_threads

    def begin_pass(self, number: int) -> None:
        """Note that pass ``number`` over the rows begins, counted from 0: the heads of Auto learn in the first only."""
        for blend in self.learner.blends:
            blend.first_pass = number == 0

    def pop_news(self) -> list[str]:
        """Return what happened to the members of Auto since the last call, such as members that were dropped."""
        news = [line for blend in self.learner.blends for line in blend.news]
        for blend in self.learner.blends:
            blend.news.clear()
        return news

    @property
    def budget_table(self) -> BudgetTable | None:
        """The features in the budget of a model with ``max_features``; None for a model without a budget."""
        table = self.learner.encoder
        return table if isinstance(table, BudgetTable) and not self.learner.weights_only else None

    @property
    def compact_state(self) -> tuple[int, int, int] | None:
        """The features that occurred, their bytes, and the bytes for all features; None for a model without slots."""
        learner, table = self.learner, self.learner.encoder
        if table is None:
            return None
        nbytes = learner.estimate_nbytes(len(table)) + table.nbytes
        return len(table) - 1, nbytes, learner.estimate_nbytes(learner.n_features)

    @property
    def budget(self) -> dict[str, int | None]:
        """The values of ``max_features`` and ``admit``, or None for both without a budget."""
        table = self.budget_table
        return {name: None if table is None else getattr(table, name) for name in ("max_features", "admit")}

    def names_kept(self, names: Names | None) -> Names | None:
        """Return the names of the features in the budget, from the budget itself if it has names.

        Without one, all names.
        """
        if own := names_of_kept(self.learner):
            return own
        if names is None or self.learner.encoder is None or not self.learner.drops_unknown:
            return names
        is_kept = np.isin(names.indices, self.learner.encoder.numbers)
        return Names(names.indices[is_kept], [text for text, kept in zip(names.texts, is_kept, strict=True) if kept])

    @property
    def reading_spec(self) -> ReadingSpec:
        """How the data was read, so that other rows can be read in the same way."""
        return ReadingSpec(
            self.feature_space,
            self.reading,
            self.classes,
            self.classes.grow,
            _DTYPE_NAMES[self.learner.dtype],
            self.learner.n_features,
        )

    @property
    def reading_options(self) -> dict[str, Any]:
        """The reading options that do not depend on the columns of the data."""
        columns = ("columns", "layout", "keys", "numeric")
        return {name: value for name, value in self.reading.items() if name not in columns}

    def copy(self) -> Self:
        """Return a copy that can learn without changing this model."""
        made = replace(self, learner=copy.deepcopy(self.learner))
        made.learner.outputs.place(self.learner.outputs.device)
        return made

    def learn(self, batch: Batch, classes: Classes, scores: bool = True) -> tuple[Self, NDArray[Any]]:
        """Learn rows with labels of ``classes``: the model's classes, or more. Return the model and the scores.

        The learner changes in place, except if it gets or loses its slots: then only the returned model has it. The
        scores are those before each update.
        """
        hashed = "hashing" in self.feature_space
        learner = compact_if_large(self.learner, batch.n_features, hashed)
        outputs = learner.outputs
        if isinstance(classes, GrowingClasses) and outputs.spare_costs is not None:
            default, costs = outputs.spare_costs[0], classes.costs
            new = range(len(self.classes), len(costs))
            outputs.new_costs = {k: costs[k] for k in new if costs[k] != default}
        before_update = learner.learn(batch, scores)
        learner = expand_if_dense(learner)
        is_same = learner is self.learner and len(classes) == len(self.classes)
        return self if is_same else replace(self, learner=learner, classes=classes), before_update

    @property
    def has_probabilities(self) -> bool:
        """Whether scores are log-odds: the loss is logistic, or the model is a blend."""
        learner = self.learner
        return bool(learner.parameters.get("loss") == "logistic" or learner.algorithm.name == "Auto")

    def with_threshold(self, score: float) -> Self:
        """Return the model of two classes with this threshold, rounded to the precision of its scores."""
        if not self.classes.are_two:
            raise InvalidParameterError(not_two(self.classes))
        return replace(self, threshold=float(self.learner.dtype.type(score)))

    def chosen(self, scores: NDArray[Any]) -> NDArray[np.intp]:
        """Return the predicted class numbers for scores of this model."""
        return self.classes.chosen(scores, self.threshold)

    def scores(self, batch: Batch) -> NDArray[Any]:
        """Return the scores of rows with the current weights. With several outputs, there is a column for each."""
        return self.learner.scores(batch)

    def predict(self, batch: Batch) -> NDArray[np.intp]:
        """Return the predicted class numbers of rows."""
        return self.chosen(self.scores(batch))

    def require_features(self, feature_space: Mapping[str, Any], source: str, model: str = "the model") -> None:
        """Raise if the features of a source have another meaning than those of the model."""
        if self.preparation and NORMALIZED in feature_space:
            raise InvalidParameterError(_BOTH)
        if dict(feature_space) != self.feature_space:
            raise InvalidInputError(
                f"{model}: its features were read as {describe_space(self.feature_space)}, but those of {source} are "
                "read "
                f"as {describe_space(feature_space)}. Read the rows with the same options"
            )

    def merge(self, *others: "Model", average: bool = False) -> "Model":
        """Return a new model from models that learned from disjoint parts of the data. The models do not change.

        Classes, thresholds, feature spaces and reading options must agree. The new model has the columns and names of
        all, and the first model's name if names differ. With ``grow_classes``, classes may differ: the new model has
        all classes, those of this model first. docs/algorithms.md explains how learners are merged.
        """
        for other in others:
            if self.classes.grow != other.classes.grow:
                raise MergeError("models to merge must agree in grow_classes, got one with and one without")
            first = "class_weight" if self.classes.grow else "classes"
            for name in (first, "threshold", "budget", "feature_space", "reading_options"):
                one, two = getattr(self, name), getattr(other, name)
                if one != two:
                    one, two = (describe_space(one), describe_space(two)) if name == "feature_space" else (one, two)
                    raise MergeError(f"models to merge must agree in {name.replace('_', ' ')}, got {one} and {two}")
        columns = sorted({name for model in (self, *others) for name in model.reading.get("columns", ())})
        numeric = set.intersection(*({*model.reading.get("numeric", ())} for model in (self, *others)))
        classes, learner = _merged([self, *others], average)
        own = names_of_kept(learner)
        with_names = [model for model in (*reversed(others), self) if model.names is not None]
        names = {index: text for model in with_names if model.names for index, text in model.names.as_dict().items()}
        return Model(
            learner,
            classes,
            self.feature_space,
            own or (Names.of(list(names.values()), list(names)) if with_names else None),
            reading=self.reading_options
            | {key: value for key, value in self.reading.items() if key == "layout"}
            | ({"columns": columns} if columns else {})
            | ({"numeric": sorted(numeric)} if numeric else {}),
            extra={key: value for key, value in self.extra.items() if key == "estimator"},
            threshold=self.threshold,
        )


def _merged(models: Sequence[Model], average: bool) -> tuple[Classes, Pipeline]:
    """Return the classes of all models, and the merged learner."""
    classes, learners = models[0].classes, [model.learner for model in models]
    require_distinct(learners)
    if not isinstance(classes, GrowingClasses):
        return classes, merge_pipelines(learners, partial(merge_outputs, average=average))
    for other in models[1:]:
        classes = classes.meeting(list(other.classes))
    numbers_by_label = [{label: k for k, label in enumerate(model.classes)} for model in models]
    numbers = [[by_label.get(label, -1) for by_label in numbers_by_label] for label in classes]
    join = partial(merge_growing, numbers=numbers, costs=classes.costs, average=average)
    return classes, merge_pipelines(learners, join)


def score_of(threshold: Any, model: Model) -> float:
    """Return the score of a threshold, which is a probability if the model has probabilities, else a score."""
    try:
        value = float(threshold)
    except (TypeError, ValueError):
        value = math.nan
    if not model.has_probabilities:
        if math.isfinite(value):
            return value
        raise InvalidParameterError(f"threshold must be a finite score, got {threshold!r}")
    if 0.0 < value < 1.0:
        return math.log(value) - math.log1p(-value)
    raise InvalidParameterError(f"threshold must be a probability between 0 and 1 for this model, got {threshold!r}")


# Probabilities from scores that are log-odds.


def probabilities(scores: NDArray[np.float64]) -> NDArray[Any]:
    """Return probabilities, rows × classes, from the scores of the positive class or of each class.

    With scores of each class, they are one-vs-rest probabilities divided by their sum. They are computed as logarithms,
    so rows add up to 1 even if all probabilities are tiny.

    >>> probabilities(np.array([0.0]))
    array([[0.5, 0.5]])
    >>> probabilities(np.array([[-1000.0, -1000.0, -2000.0]]))
    array([[0.5, 0.5, 0. ]])
    """
    logarithms = -np.logaddexp(0.0, -scores)
    if scores.ndim == 1:
        positive = np.exp(logarithms)
        return np.column_stack([1.0 - positive, positive])
    with np.errstate(under="ignore"):
        ratios = np.exp(logarithms - logarithms.max(axis=1, keepdims=True))
    return np.asarray(ratios / ratios.sum(axis=1, keepdims=True))


# Creating fresh learners by the name of their algorithm.


def make_learner(
    algorithm: str, *, n_features: int, parameters: Mapping[str, Any] | None = None, **options: Any
) -> Any:
    """Create a fresh binary learner of any algorithm.

    ``options`` are those of `Learner`, and further parameters of the algorithm.

    >>> type(make_learner("arow", n_features=2)).__name__
    'Learner'
    >>> type(make_learner("arow", n_features=2, covariance="full")).__name__
    'FullLearner'
    >>> type(make_learner("sbcw", n_features=9, parameters={"n_features": 3})).__name__
    'SBCWLearner'
    >>> type(make_learner("auto", n_features=2)).__name__
    'Blend'
    """
    declared, own = find(algorithm), dict(parameters or {})
    allowed = [parameter.name for parameter in declared.parameters]
    for name in own:
        if name not in allowed:
            raise InvalidParameterError(unknown_parameter(declared.name, name, listed(allowed) if allowed else ""))
    if declared.kind == "batch":
        return declared.learner(width=n_features, **options, **own)
    if declared.kind == "blend":
        return Blend(n_features=n_features, **options, **own)
    return online_learner(algorithm, n_features=n_features, **options, **own)


def make_learner_like(learner: Any, **changes: Any) -> Any:
    """Make a learner of the same algorithm, parameters and options, except for ``changes``."""
    options = {"n_features": learner.n_features, "costs": learner.costs, "dtype": learner.dtype.name}
    options |= {"fit_intercept": bool(learner.offset), **changes}
    return make_learner(learner.algorithm.name, parameters=learner.parameters, **options)


def make_outputs(algorithm: str, costs: Sequence[Costs], **options: Any) -> Outputs:
    """Make one learner per cost; ``options`` are those of `make_learner`."""
    first = make_learner(algorithm, costs=costs[0], **options)
    if len(costs) > 1:
        first.require_room(first.n_features, len(costs))
    return Outputs([first, *(make_learner(algorithm, costs=cost, **options) for cost in costs[1:])])


def make_growing(algorithm: str, classes: GrowingClasses, **options: Any) -> Outputs:
    """Make the outputs of classes that may appear later; ``options`` are those of `make_learner`."""
    declared = find(algorithm)
    if declared.kind == "batch":
        raise InvalidParameterError(f"{declared.name}: grow_classes needs an algorithm that learns online")
    costs = [*classes.costs, *classes.spare_costs(algorithm)]
    learners = [make_learner(algorithm, costs=cost, **options) for cost in costs]
    first = learners[0]
    first.require_room(first.n_features, len(learners))
    return Outputs(learners[: len(classes)], spares=learners[len(classes) :])


def outputs_for(algorithm: str, classes: Classes, class_weight: Any, **options: Any) -> Outputs:
    """Make the outputs of these classes; ``options`` are those of `make_learner`."""
    if isinstance(classes, GrowingClasses):
        return make_growing(algorithm, classes, **options)
    if find(algorithm).kind == "batch":
        classes.require_two(find(algorithm).name)
    return make_outputs(algorithm, class_costs(class_weight, classes, algorithm), **options)
