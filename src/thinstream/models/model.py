"""The one fitted thing: a learner, and what its numbers mean."""

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from thinstream.batch import Batch
from thinstream.blend.placing import device_of, place
from thinstream.blend.serving import blends_of, leave_few, rows_for_few
from thinstream.budget import ADMIT, BudgetLearner, BudgetTable, KeptLearner, budget_of, budgeted, told_apart
from thinstream.budget import merged as merged_budgets
from thinstream.compact import CompactLearner, begun, fitting, narrow_learner, on_common_slots, settled
from thinstream.compact.learner import merged as merged_compact
from thinstream.compact.room import takes_much
from thinstream.errors import InvalidInputError, InvalidParameterError, MergeError
from thinstream.growing import Growing, merge_growing
from thinstream.learners import require_distinct
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


def has_names(learner: AnyLearner) -> bool:
    """Whether a learner of some features has names of them."""
    return isinstance(learner, KeptLearner) and len(learner.table.names.there) > 0


def names_of_kept(learner: AnyLearner) -> Names | None:
    """The names that a learner of some features has of them, as people read them."""
    if not isinstance(learner, KeptLearner) or not has_names(learner):
        return None
    slots = learner.table.names.there
    return Names.of(learner.table.names.texts(slots), learner.table.numbers[slots - 1])


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

    def __getstate__(self) -> dict[str, Any]:
        known = (
            tuple(self.classes),
            self.classes.grow,
            self.class_weight,
        )  # skops has tuples, not what is derived of them
        return {**self.__dict__, "classes": known}

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
        """A model that has seen nothing; ``options`` are those of `learners.make_learner`.

        With `GrowingClasses`, which have their class weights, it learns classes as they come. ``max_features``: most
        features it keeps at any time, each from its ``admit``-th sight on.
        """
        space = dict(feature_space or {})

        def make(width: int, grow: bool) -> AnyLearner:
            preparation, given = Preparation(scale, normalize), options | {"n_features": width, "grow": grow}
            if isinstance(classes, GrowingClasses):
                learner: AnyLearner = Growing.begin(algorithm, classes, **given)
            else:
                learner = model_for(algorithm, classes, class_weight, **given)
            for blend in blends_of(learner) if preparation else ():
                blend.leave_rows()
            found: AnyLearner = prepared(learner, preparation)
            return found

        grow = bool(options.get("grow", False))
        if max_features is not None:
            table = BudgetTable(max_features, admit)
            learner = make(0, True)
            leave_few(learner, 1 << 62)  # there is no telling which features get the first slots
            return cls(budgeted(learner, table, n_features, grow), classes, space, names)
        return cls(begun(make, n_features, grow, "hashing" in space), classes, space, names)

    @property
    def preparation(self) -> Preparation:
        """What is done to rows before they are learned or scored."""
        return preparation_of(narrow_learner(self.learner))

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
        met: list[Any] = [getattr(model, "n_met", None) for model in plain_learner(narrow_learner(self.learner)).models]
        return None if None in met else sum(met)

    @property
    def budget(self) -> dict[str, int | None]:
        """The most features it keeps, and at which sight one is admitted; None of one that keeps all."""
        return budget_of(self.learner)

    def names_kept(self, names: Names | None) -> Names | None:
        """Those of the features that a budget leaves, its own where it has any; all, where there is none."""
        if own := names_of_kept(self.learner):
            return own
        if names is None or not isinstance(self.learner, KeptLearner):
            return names
        there = np.isin(names.indices, self.learner.table.numbers)
        return Names(names.indices[there], [text for text, kept in zip(names.texts, there, strict=True) if kept])

    @property
    def reading_options(self) -> dict[str, Any]:
        """How its data is read, whatever columns that had."""
        columns = ("columns", "layout", "keys", "numeric")
        return {name: value for name, value in self.reading.items() if name not in columns}

    def copy(self) -> Self:
        """One that can learn while this one stays as it is."""
        made = replace(self, learner=copy.deepcopy(self.learner))
        place(made.learner, device_of(self.learner))
        return made

    def learn(self, batch: Batch, classes: Classes, scores: bool = True) -> tuple[Self, NDArray[Any]]:
        """Learns rows whose labels are those of ``classes``: its own, or these and more; the model with all of them.

        The learner is changed in place, unless it becomes compact or whole: then the model that is returned has it.
        The scores are those before each update.
        """
        hashed = "hashing" in self.feature_space
        few = rows_for_few(self.learner, batch) if takes_much(self.learner, batch.n_features, hashed) else None
        if few is not None and not self.classes.grow:
            return self._learn_few(batch.check(), few, classes, scores)
        learner = fitting(self.learner, batch.n_features, hashed)
        inner = plain_learner(narrow_learner(learner))
        if isinstance(classes, GrowingClasses) and isinstance(inner, Growing):
            usual, costs = inner.spare_costs[0], classes.costs
            new = range(len(self.classes), len(costs))
            inner.to_come = {k: costs[k] for k in new if costs[k] != usual}
        found = learner.learn(batch, scores=scores)
        learner = settled(learner)
        same = learner is self.learner and len(classes) == len(self.classes)
        return self if same else replace(self, learner=learner, classes=classes), found

    def _learn_few(self, batch: Batch, rows: int, classes: Classes, scores: bool) -> tuple[Self, NDArray[Any]]:
        """The rows before one that is too wide for some models, which are left out; and from it on without them."""
        first, rest = batch.until(rows), batch.after(rows)
        found, width = [], int(first.indices[: first.indptr[-1]].max(initial=-1)) + 1
        if rows:
            found.append(self.learner.learn(replace(first, n_features=width), scores=scores))
        leave_few(self.learner, int(rest.indices[: rest.indptr[1]].max()) + 1)
        model, others = self.learn(rest, classes, scores)
        return model, np.concatenate([*found, others])

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
            for what in (first, "threshold", "budget", "feature_space", "reading_options"):
                one, two = getattr(self, what), getattr(other, what)
                if one != two:
                    one, two = (in_words(one), in_words(two)) if what == "feature_space" else (one, two)
                    raise MergeError(
                        f"models to merge must agree in their {what.replace('_', ' ')}, got {one} and {two}"
                    )
        columns = sorted({name for model in (self, *others) for name in model.reading.get("columns", ())})
        numeric = set.intersection(*({*model.reading.get("numeric", ())} for model in (self, *others)))
        classes, learner = _merged([self, *others], average)
        own = names_of_kept(learner)
        named = [model.names.as_dict() for model in (*reversed(others), self) if model.names is not None]
        names = {index: text for each in named for index, text in each.items()}
        return Model(
            learner,
            classes,
            self.feature_space,
            own or (Names.of(list(names.values()), list(names)) if named else None),
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
    require_distinct(learners)
    if not isinstance(classes, GrowingClasses):
        return classes, _merged_alike(learners, partial(merge_plain, average=average))
    for other in models[1:]:
        classes = classes.meeting(list(other.classes))
    places = [{label: k for k, label in enumerate(model.classes)} for model in models]
    numbers = [[each.get(label, -1) for each in places] for label in classes]
    join = partial(merge_growing, numbers=numbers, costs=classes.costs, average=average)
    return classes, _merged_alike(learners, join)


def _merged_alike(learners: Sequence[Any], join: Callable[[Any], Any]) -> AnyLearner:
    """Learners as one; compact ones by the numbers of their features."""
    if not any(isinstance(learner, CompactLearner) for learner in learners):
        return merge(learners, join)
    if isinstance(learners[0], BudgetLearner):
        learners = told_apart(learners)
    numbers, each = on_common_slots(learners)
    if isinstance(learners[0], BudgetLearner):
        return merged_budgets(learners, merge(each, join), numbers)
    width = max(learner.n_features for learner in learners)
    return settled(merged_compact(merge(each, join), numbers, width, learners[0].grow))


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
