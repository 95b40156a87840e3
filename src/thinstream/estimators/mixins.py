"""Mixins of estimators: training on streams, thresholds, and thin models."""

import numbers
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from thinstream.batch import Batch
from thinstream.data.in_memory import TableRows, batch_like, collected, is_table, table_rows
from thinstream.data.labels import Classes
from thinstream.data.opening import open_like, options_of
from thinstream.data.stream import Stream
from thinstream.errors import InvalidInputError, InvalidParameterError, ThinstreamWarning
from thinstream.estimators.base import CALIBRATED, KEY, ModelClassifier, as_before_on_error, reads
from thinstream.estimators.inputs import csr_of, labels_of
from thinstream.models.explain import KEPT_NAMES, Explanation, cell_names, explain, with_largest_names, with_names_of
from thinstream.models.importance import importance, ranked_features
from thinstream.models.model import Model, score_of
from thinstream.models.thin import require_count, thin
from thinstream.training.job import learn_stream
from thinstream.training.refit import refit
from thinstream.training.run import require_stream
from thinstream.training.threshold import Goal, choose
from thinstream.tuning.thin_curve import compare_sizes, measured

if TYPE_CHECKING:
    from thinstream.distributed.sources import Source


class DecidingClassifier(ModelClassifier):
    """A classifier whose threshold can be set."""

    def set_threshold(
        self,
        threshold: float | None = None,
        *,
        recall: float | None = None,
        false_alarms: float | None = None,
        precision: float | None = None,
        scores: Any = None,
        y: Any = None,
    ) -> Self:
        """Set ``threshold_``, the score above which a row is predicted positive. It needs two classes.

        Parameters
        ----------
        threshold : float
            The new threshold: a probability if the scores are log-odds (``loss="logistic"``, ``calibrate=True``,
            ``Auto``), otherwise a score.
        recall, false_alarms, precision : float
            A goal that determines the threshold. ``recall`` is the share of positives that are predicted positive.
            ``false_alarms`` is the maximum share of negatives that are predicted positive. ``precision`` is the share
            of rows predicted positive that are positive.
        scores, y : arrays
            The scores and labels of rows that determine the threshold for a goal. Use progressive scores, which
            ``learn`` returns, or scores of held-out rows.

        Examples
        --------
        >>> import numpy as np, thinstream as ts
        >>> X, y = np.random.default_rng(0).normal(size=(1000, 3)), np.tile([0, 1], 500)
        >>> X[:, 0] += y
        >>> model = ts.AdaRDA()
        >>> scores = model.learn(X, y)
        >>> model = model.set_threshold(recall=0.95, scores=scores, y=y)
        >>> float(np.mean(scores[y == 1] > model.threshold_))
        0.95

        """
        check_is_fitted(self)
        goals = any(goal is not None for goal in (recall, false_alarms, precision))
        if goals == (threshold is not None):
            raise InvalidParameterError("set_threshold needs one of threshold, recall, false_alarms and precision")
        with as_before_on_error(self):
            model = self._model
            if not goals:
                report = {name: value for name, value in (model.report or {}).items() if name != "goal"}
                model = replace(model, report=report or None)
                return self._adopt(model.with_threshold(score_of(threshold, model)))
            goal = Goal.of(recall, false_alarms, precision)
            if scores is None or y is None:
                raise InvalidParameterError(f"{goal.metric} needs scores and y of rows that the model has not learned")
            own = np.asarray(scores, dtype=model.learner.dtype)
            model = model.with_threshold(choose(goal, own, model.classes.coded(y) > 0))
            return self._adopt(replace(model, report={**(model.report or {}), "goal": [*goal]}))

    @property
    def threshold_(self) -> float:
        """The score above which a row is predicted as the second of two classes (see ``set_threshold``)."""
        self._fitted("threshold_")
        return self._model.threshold


class ThinnableClassifier(DecidingClassifier):
    """A classifier from which a thin model can be made."""

    @reads
    def thin(
        self,
        n: int | Sequence[int] | None = None,
        X: Any = None,
        y: Any = None,
        *,
        X_val: Any = None,
        y_val: Any = None,
        scoring: str | None = None,
    ) -> Any:
        """Return a new estimator with the n most important features. It cannot continue to learn.

        ``thin(n, X, y)`` trains an `Auto` on these features only. It is usually much better than ``thin(n)``, which
        keeps the weights of this model. ``save(path)`` writes the result to a small file. See docs/thin-models.md.

        Parameters
        ----------
        n : int or list of int
            The number of features to keep. With several numbers, held-out rows choose the smallest within one standard
            error of the best. Without rows to refit on, None tries all numbers.
        X, y : array or sparse matrix, labels
            Rows to refit on, usually the training rows. Several ways to select features and to prepare rows are tried
            on four fifths of them. The way with the lowest log-loss on the others is then repeated on all of them. A
            threshold that was set for a recall or for false alarms is set again.
        X_val, y_val : array or sparse matrix, labels
            Rows that were not learned, to choose among numbers of features. With ``X`` and ``y``, they are only needed
            if n has several numbers, and a fifth of the rows is used without them.
        scoring : str or None, default=None
            The metric that compares numbers of features on held-out rows. None: log-loss, or average precision for
            models without probabilities.

        Returns
        -------
        estimator
            An estimator of this class. With rows to refit on, an `Auto`.

        Examples
        --------
        >>> import thinstream as ts
        >>> from thinstream.datasets import sparse_gaussian
        >>> train, test = sparse_gaussian(20_000, 5_000)      # 1000 features, 100 of them informative
        >>> model = ts.AROW().fit(train.X, train.y)
        >>> cut, small = model.thin(50), model.thin(50, train.X, train.y)
        >>> model.nnz_, cut.nnz_, small.nnz_
        (1000, 50, 50)
        >>> bool(small.score(test.X, test.y) > cut.score(test.X, test.y))
        True

        """
        check_is_fitted(self)
        for names, rows in (("X and y", (X, y)), ("X_val and y_val", (X_val, y_val))):
            if (rows[0] is None) != (rows[1] is None):
                raise InvalidParameterError(f"thin: pass both {names}, or none of them")
        held_out = None if X_val is None else self._labelled(X_val, y_val)
        if X is not None:
            return self._refitted(n, self._labelled(X, y), held_out, scoring)
        if isinstance(n, Sequence) and not isinstance(n, str):
            sizes: list[int] | None = sorted({require_count(size) for size in n})
        else:
            sizes = None if n is None else [require_count(n)]
        new: Self = clone(self)
        if held_out is None:
            if sizes is None or len(sizes) > 1:
                raise InvalidParameterError(
                    "thin needs n, a number of features, or X_val and y_val, rows that choose it, or both. Got "
                    f"n={n!r} without rows"
                )
            return new._adopt(thin(self._model, sizes[0]))
        most = self._n_weighted()
        candidates = sizes if sizes is None else sorted({min(size, most) for size in sizes})
        curve = measured(self._model, [held_out], candidates, scoring=scoring)
        choice = curve.choice
        if curve.is_constant(choice):
            warnings.warn(NO_BETTER.format("thin", choice.n, curve.scoring), ThinstreamWarning, stacklevel=2)
        return new._adopt(thin(self._model, choice.n, importance(self._model.learner, choice.power)))

    def _n_weighted(self) -> int:
        """Return the number of features with a weight."""
        return max(len(ranked_features(self._model.learner)), 1)

    def _refitted(self, n: Any, rows: Batch, held_out: Batch | None, scoring: str | None) -> Any:
        """Return the `Auto` that is refitted on rows."""
        from thinstream.estimators.factory import estimator_of  # it imports all estimators

        if n is None:
            raise InvalidParameterError("thin needs n, one or several numbers of features, to refit on X and y")
        sizes: list[Any] = [n] if isinstance(n, numbers.Number | str) else list(n)
        if scoring is not None and held_out is None:
            raise InvalidParameterError(f"thin: scoring={scoring!r} needs rows to compare on: X_val and y_val")
        refitted = refit(self._model, lambda: [rows], sizes)
        if held_out is None:
            best = min((choice.best for _, choice in refitted), key=lambda one: one.log_loss)
            limit = best.log_loss + best.standard_error
            chosen = next(k for k, (_, choice) in enumerate(refitted) if choice.best.log_loss <= limit)
        else:
            chosen, _ = compare_sizes([small for small, _ in refitted], lambda: [held_out], scoring)
        small, choice = refitted[chosen]
        if choice.is_constant:
            warnings.warn(NO_BETTER.format("thin", choice.n, "log_loss"), ThinstreamWarning, stacklevel=3)
        extra = {name: value for name, value in small.extra.get(KEY, {}).items() if name != CALIBRATED}
        return estimator_of(replace(small, extra={**small.extra, KEY: extra}))

    def _labelled(self, X: Any, y: Any) -> Batch:
        rows = self._read_rows(X)
        return rows.labelled(Classes(*self._model.classes).coded(labels_of(y, len(rows))))

    def _read_rows(self, X: Any) -> Batch:
        """Read rows as in training."""
        rows = batch_like(self._model.reading_spec, X)
        if rows is None:
            rows = Batch.of(*csr_of(self, X, reset=False, any_width=getattr(self, "grow", False)))
        return rows

    @reads
    def explain(self, X: Any, top: int | None = None) -> list[Explanation]:
        """Explain the prediction of each row: the contribution of each feature to its score.

        ``contributions`` has exact contributions by feature name, the largest first. Together with ``intercept``, and
        with ``others`` if ``top`` limits their number, they add up to ``score``, the score of ``explained``. This is
        the second class, or with more than two classes the predicted one. Scores of ``Auto`` are log-odds.

        Examples
        --------
        >>> import thinstream as ts
        >>> model = ts.AROW(fit_intercept=False).fit([[1.0, 0.0], [0.0, 2.0]], ["ham", "spam"])
        >>> [one] = model.explain([[0.0, 3.0]])
        >>> one.label, round(one.score, 3), {name: round(value, 3) for name, value in one.contributions.items()}
        ('spam', 1.2, {'column 1': 1.2})

        """
        check_is_fitted(self)
        if top is not None and (isinstance(top, bool) or not isinstance(top, numbers.Integral) or top < 1):
            raise InvalidParameterError(f"explain: top must be a whole number ≥ 1 or None, got {top!r}")
        model = self._model
        X = collected(X)
        return list(explain(model, self._read_rows(X), top, cell_names(model, X)))


NO_BETTER = "{}: the model with {:,} features is not better than a constant prediction on held-out rows, by {}"


class StreamClassifier(ThinnableClassifier):
    """A classifier that also learns streams."""

    def fit_stream(self, stream: Stream, classes: Any = None) -> Self:
        """Train from scratch on a stream (see `thinstream.open_stream`), in bounded memory and ``n_passes`` passes.

        The model grows when new columns occur. Its classes are those of the stream (``open_stream(…, classes=…)``). If
        the stream has none, its labels must be numbers, and ``classes`` names the class of labels ≤ 0 and the class of
        labels > 0, by default -1 and 1. With ``grow_classes=True``, also open the stream with ``grow_classes=True``.

        Batch methods need two classes. With a ``batch_size``, they learn batch by batch. GraDes makes several passes
        and needs files instead of pipes. The others load all rows into memory.
        """
        parameters = self.get_params(deep=False)
        if parameters.get("shuffle"):
            raise InvalidParameterError(f"{self._algorithm}: a stream cannot be shuffled, so shuffle must be False")
        with as_before_on_error(self, in_place=False):
            self._check_common_parameters()
            return self._adopt(
                learn_stream(self._model_of_stream(stream, classes), stream, parameters.get("n_passes", 1))
            )

    @available_if(lambda self: hasattr(self, "partial_fit"))
    def partial_fit_stream(self, stream: Stream, classes: Any = None) -> Self:
        """Update the model with a stream in one pass. The first call creates the model.

        If an error occurs, the model does not change, so you can fix the stream and try again. Rows that still wait for
        their batch at the end of the stream (BCW, SBCW) are learned as a smaller batch.
        """
        with as_before_on_error(self, in_place=False):
            if not self.__sklearn_is_fitted__():
                self._check_common_parameters()
                return self._adopt(learn_stream(self._model_of_stream(stream, classes), stream))
            self._check_unchanged_parameters()
            self._require_growing_like(stream)
            if self._model.classes.grow:
                return self._adopt(learn_stream(self._copy_to_teach(), stream))
            stream_classes, own = tuple(classes_for(stream, classes)), tuple(self._model.classes)
            named = classes is not None or not _by_sign(stream)
            if stream_classes != own and (named or len(own) > 2):
                raise InvalidInputError(f"the model has the classes {own!r}, and the stream has {stream_classes!r}")
            return self._adopt(learn_stream(self._copy_to_teach(), stream))

    def _table_of(self, X: Any) -> TableRows | None:
        """Return the rows of a data frame whose features need names, and None for other X."""
        if not is_table(X):
            return None
        self.__dict__.pop("feature_names_in_", None)
        return table_rows(X, np.dtype(self.get_params(deep=False).get("dtype", "float64")).name)

    def _copy_to_teach(self) -> Model:
        """Return a copy of the model that can continue to learn."""
        return self._model.copy()

    def predict_stream(self, stream: Stream) -> Iterator[NDArray[Any]]:
        """Predict a stream, and yield an array per batch. Unknown columns are ignored."""
        check_is_fitted(self)
        require_stream(stream)
        self._model.require_features(stream.feature_space, "the data")
        return map(self._predict_batch, stream.batches())

    @reads
    def _predict_batch(self, batch: Batch) -> NDArray[Any]:
        return self._chosen_labels(self._model.learner.scores(batch))

    def open_stream(self, paths: Any, format: str | None = None, **options: Any) -> Stream:  # noqa: A002
        r"""Open files like the training data of this model.

        The model stores the label and weight columns, ignored columns, text columns, hashing, classes and
        normalization, so you don't have to specify them again. The files must have all columns that the model has
        learned, and may have others. ``labels=False`` opens rows without labels.

        Parameters
        ----------
        paths, format, **options
            As in `thinstream.open_stream`. Options that would change the meaning of features raise an error.

        Examples
        --------
        >>> import tempfile, pathlib, thinstream as ts
        >>> folder = tempfile.TemporaryDirectory()
        >>> old, new = (pathlib.Path(folder.name) / name for name in ("old.csv", "new.csv"))
        >>> _ = old.write_text("spam,subject\nyes,free money\nno,see you at noon\n")
        >>> _ = new.write_text("subject\nmoney for free\n")
        >>> opened = ts.open_stream(old, label="spam", classes=("no", "yes"), text=("subject",))
        >>> model = ts.AROW().fit_stream(opened)
        >>> [predictions] = model.predict_stream(model.open_stream(new, labels=False))
        >>> predictions
        array(['yes'], dtype='<U3')
        >>> folder.cleanup()

        """
        check_is_fitted(self)
        return open_like(self._model.reading_spec, paths, options_of(format, options))

    def _require_growing_like(self, stream: "Stream | Source") -> None:
        if finds_classes(stream) and not self.get_params(deep=False).get("grow_classes"):
            raise InvalidInputError(
                f"{self._algorithm}: the stream was opened with grow_classes=True, so the estimator also needs it"
            )

    def _model_of_stream(self, stream: "Stream | Source", classes: Any) -> Model:
        require_stream(stream)
        self._require_growing_like(stream)
        if finds_classes(stream):
            model_classes: Classes = self._classes_of(() if classes is None else list(classes))
        else:
            model_classes = classes_for(stream, classes)
            model_classes = (
                self._classes_of(model_classes) if self.get_params(deep=False).get("grow_classes") else model_classes
            )
        self.__dict__.pop("feature_names_in_", None)
        return self._fresh_model(model_classes, labels=np.array(model_classes), feature_space=stream.feature_space)


def described(model: Model, table: TableRows, X: Any) -> Model:
    """Return the model with the reading options of the data frame that it has learned, and with feature names."""
    return with_largest_names(with_names_of(replace(model, reading=table.reading), X), KEPT_NAMES)


def finds_classes(stream: "Stream | Source") -> bool:
    """Return whether a stream adds classes when they occur."""
    return getattr(stream, "book", None) is not None


def _by_sign(stream: "Stream | Source") -> bool:
    """Return whether labels are numbers that are positive above 0, by default or because the stream inferred it."""
    if stream.classes is None:
        return True
    options = getattr(stream, "options", None)
    was_inferred = getattr(stream, "finds_classes", False) or "classes" in (getattr(options, "inferred", None) or ())
    numbers = [label for label in stream.classes if isinstance(label, int | float) and not isinstance(label, bool)]
    return was_inferred and len(numbers) == len(stream.classes) == 2 and numbers[0] <= 0 < numbers[1]


def classes_for(stream: "Stream | Source", classes: Any) -> Classes:
    """Return the labels of a stream's codes in its order: the classes of the stream, ``classes``, or −1 and 1."""
    require_stream(stream)
    stream_classes = stream.classes
    if classes is None:
        return Classes(*(stream_classes or (-1, 1)))
    labels = tuple(classes)
    if _by_sign(stream) and len(labels) == 2 and set(labels) != set(stream_classes or ()):
        return Classes(*labels)
    if stream_classes is not None and (len(labels) != len(stream_classes) or set(labels) != set(stream_classes)):
        raise InvalidInputError(f"classes must be those of the stream, {stream_classes!r}, got {labels!r}")
    if stream_classes is None and len(labels) != 2:
        raise InvalidInputError(
            f"the stream has two classes, labels ≤ 0 and labels > 0, got {labels!r}. Pass all classes to the stream: "
            "open_stream(…, classes=…)"
        )
    return Classes(*(stream_classes or labels))
