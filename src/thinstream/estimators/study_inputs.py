"""From an estimator and its input to lanes over a stream, and back."""

from collections.abc import Sequence
from typing import Any, NamedTuple, cast, overload

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets

from thinstream.errors import InvalidInputError, InvalidParameterError
from thinstream.estimators.classifier import OnlineClassifier
from thinstream.estimators.factory import make
from thinstream.estimators.inputs import Csr, csr_of, labels_of, weights_of
from thinstream.estimators.streams import classes_for
from thinstream.learners import Classes, class_costs
from thinstream.models.model import Names
from thinstream.preparing import plain_learner
from thinstream.streams.stream import Stream
from thinstream.streams.tables.memory import from_memory
from thinstream.tune.path_result import PathResult
from thinstream.tune.trials import StudyConfig, Trial

#: What is swept where no estimator is given.
DEFAULT = "AdaRDA"


class Source(NamedTuple):
    """Rows to learn from, and what their labels stand for."""

    stream: Stream
    classes: Classes
    labels: NDArray[Any]
    n_features: int  # 0 where it is not known before


def base_of(estimator: Any) -> OnlineClassifier:
    """A copy of the estimator that is swept, which must be one of ours and take rows as they come, once."""
    given = make(DEFAULT) if estimator is None else estimator
    if not isinstance(given, OnlineClassifier):
        raise InvalidParameterError(
            f"estimator must be an online one of thinstream (see ts.algorithms('online')) or None, got {given!r}"
        )
    base: OnlineClassifier = clone(given)
    base._check_common_parameters()
    if base.get_params(deep=False)["n_passes"] != 1:
        raise InvalidParameterError(f"{base._algorithm}: lanes learn in one pass, n_passes must be 1, got {base!r}")
    require_known_classes(base)
    return base


def require_known_classes(estimator: OnlineClassifier) -> None:
    """Raises where classes may come later, or models are blends, which cannot learn side by side as lanes."""
    if getattr(estimator, "max_features", None) is not None:
        raise InvalidParameterError("searches compare models of all features, max_features must be None")
    if getattr(estimator, "calibrate", True):  # Auto has no choice
        raise InvalidParameterError(
            f"{estimator._algorithm}: models are compared as they are, "
            + ("calibrate must be False" if hasattr(estimator, "calibrate") else "and it has nothing to tune")
        )
    if estimator.get_params(deep=False)["grow_classes"]:
        raise InvalidParameterError(
            f"{estimator._algorithm}: models are compared on classes that are known, grow_classes must be False"
        )


class LabelledCsr(NamedTuple):
    """A matrix with labels, and weights of its rows, all checked."""

    rows: Csr
    labels: NDArray[Any]
    classes: Classes
    weights: NDArray[np.float64] | None


def labelled_csr(owner: Any, X: Any, y: Any, sample_weight: Any) -> LabelledCsr:
    """Whatever a user passes in; ``owner`` gets the attributes that tell of its columns."""
    rows = csr_of(owner, X, reset=True)
    labels, weights = labels_of(y, len(rows)), weights_of(sample_weight, len(rows))
    check_classification_targets(labels)
    classes = Classes.of(labels)
    if weights is not None and not weights.any():
        raise InvalidInputError("sample_weight: at least one weight must be non-zero, all are zero")
    return LabelledCsr(rows, labels, classes, weights)


def from_matrix(owner: Any, base: OnlineClassifier, X: Any, y: Any, sample_weight: Any) -> Source:
    """A matrix as a stream; ``owner`` gets the attributes that tell of its columns."""
    rows, labels, classes, weights = labelled_csr(owner, X, y, sample_weight)
    matrix = _matrix(rows)
    coded, given = classes.coded(labels), base.get_params(deep=False)
    if given["shuffle"]:
        order = check_random_state(given["random_state"]).permutation(len(rows))
        matrix, coded = matrix[order], coded[order]
        weights = None if weights is None else weights[order]
    stream: Any = from_memory(matrix, coded, weights, classes=_codes(classes), dtype=given["dtype"], look=0)
    return Source(stream, classes, np.unique(labels), rows.n_features)


def _codes(classes: Classes) -> Sequence[int] | None:
    """What labels are coded as, as a stream is told: nothing of two, as it takes signs as they are."""
    return None if classes.are_two else range(len(classes))


def _matrix(rows: Csr) -> sp.csr_matrix:
    return sp.csr_matrix((rows.values, rows.indices, rows.indptr), shape=(len(rows), rows.n_features))


def from_stream(base: OnlineClassifier, stream: Stream, classes: Any) -> Source:
    """A stream as it is."""
    if base.get_params(deep=False)["shuffle"]:
        raise InvalidParameterError(f"{base._algorithm}: a stream is taken in its order, shuffle must be False")
    known = classes_for(stream, classes)
    return Source(stream, known, np.array(known), getattr(stream, "n_features", None) or 0)


def rows_to_test(owner: Any, base: OnlineClassifier, classes: Classes, test: Any) -> Stream:
    """(X, y) as a stream of rows to score."""
    X, y = test
    rows = csr_of(owner, X, reset=False)
    coded, dtype = classes.coded(labels_of(y, len(rows))), base.get_params(deep=False)["dtype"]
    return cast(Stream, from_memory(_matrix(rows), coded, classes=_codes(classes), dtype=dtype, look=0))


def trial_of(base: OnlineClassifier, classes: Classes) -> Trial:
    """What all lanes have of the estimator."""
    given = base.get_params(deep=False)
    return Trial(
        {name: given[name] for name in base._own_parameters},
        class_costs(given["class_weight"], classes, base._algorithm),
        bool(given["fit_intercept"]),
    )


def config_of(base: OnlineClassifier, source: Source, memory: int | None, threads: int) -> StudyConfig:
    """How the study is made."""
    given = base.get_params(deep=False)
    return StudyConfig(
        base._algorithm,
        n_features=source.n_features,
        dtype=np.dtype(given["dtype"]).name,
        threads=threads,
        memory=memory,
        scale=given["scale"],
        normalize=given["normalize"],
        classes=len(source.classes),
    )


class Models(Sequence[Any]):
    """The models of a path as fitted estimators, each as it would be had it learned alone.

    Those that have all they need to go on learning are made once. Others, which would take much memory as estimators,
    are made whenever they are asked for.
    """

    def __init__(self, base: OnlineClassifier, path: PathResult, source: Source, names: Any) -> None:
        self._base, self._path = base, path
        self._classes, self._labels = source.classes, source.labels
        self._columns = {
            "columns": names,
            "feature_space": source.stream.feature_space,
            "names": Names.from_stream(source.stream),
        }
        self._made: dict[int, Any] = {}

    def __len__(self) -> int:
        return len(self._path.l1)

    @overload
    def __getitem__(self, k: int) -> Any: ...
    @overload
    def __getitem__(self, k: slice) -> list[Any]: ...
    def __getitem__(self, k: int | slice) -> Any:
        if isinstance(k, slice):
            return [self[each] for each in range(*k.indices(len(self)))]
        k = range(len(self))[k]
        if k in self._made:
            return self._made[k]
        found: Any = clone(self._base).set_params(l1=float(self._path.l1[k]))
        found._adopt_learner(self._path.model(k), self._classes, self._labels, **self._columns)
        if plain_learner(found._model.learner) is self._path.models[k]:
            self._made[k] = found
        return found
