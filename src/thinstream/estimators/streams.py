"""Estimators and streams: what all of them share that learn from one, go on with it, and predict it."""

from collections.abc import Iterator
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from thinstream.batch import Batch
from thinstream.errors import InvalidInputError, InvalidParameterError
from thinstream.estimators.base import as_before_on_error, reads
from thinstream.estimators.thinning import ThinnableClassifier
from thinstream.learners import Classes
from thinstream.models import Model
from thinstream.streams.opening import open_like, options_of
from thinstream.streams.stream import Stream
from thinstream.training import learn_stream, require_stream


class StreamClassifier(ThinnableClassifier):
    """A classifier that also takes streams."""

    def fit_stream(self, stream: Stream, classes: Any = None) -> Self:
        """Learns from scratch from a stream (see `thinstream.open_stream`), ``n_passes`` times, in bounded memory.

        The model grows as the stream gets wider. Its classes are those the stream was opened with
        (``open_stream(…, classes=…)``), which ``classes`` may repeat; where it was opened with none, its labels are
        numbers, and ``classes`` names those ≤ 0 and those above, -1 and 1 by default. With ``grow_classes=True`` a
        stream opened with ``grow_classes=True`` tells its classes as they come. Batch methods take two: with a
        ``batch_size`` they learn batch by batch, GraDes in several passes, so that it needs files, no pipes; the others
        hold all rows in memory.
        """
        given = self.get_params(deep=False)
        if given.get("shuffle"):
            raise InvalidParameterError(f"{self._algorithm}: a stream is taken in its order, shuffle must be False")
        with as_before_on_error(self, in_place=False):
            self._check_common_parameters()
            return self._adopt(learn_stream(self._model_of_stream(stream, classes), stream, given.get("n_passes", 1)))

    @available_if(lambda self: hasattr(self, "partial_fit"))
    def partial_fit_stream(self, stream: Stream, classes: Any = None) -> Self:
        """Goes on learning from a stream, one pass; begins if nothing was learned yet.

        An error leaves the model as it was, so that nothing is learned twice when the stream is mended. Rows that wait
        for their batch at the end of the stream (BCW, SBCW) are learned as a smaller one.
        """
        with as_before_on_error(self, in_place=False):
            if not self.__sklearn_is_fitted__():
                self._check_common_parameters()
                return self._adopt(learn_stream(self._model_of_stream(stream, classes), stream))
            self._check_unchanged_parameters()
            self._require_growing_like(stream)
            if self._model.classes.grow:
                return self._adopt(learn_stream(self._copy_to_teach(), stream))
            told, own = tuple(classes_for(stream, classes)), tuple(self._model.classes)
            named = classes is not None or not _by_sign(stream)
            if told != own and (named or len(own) > 2):
                raise InvalidInputError(f"the model has the classes {own!r}, the stream {told!r}")
            return self._adopt(learn_stream(self._copy_to_teach(), stream))

    def _copy_to_teach(self) -> Model:
        """A model of its own that goes on."""
        return self._model.copy()

    def predict_stream(self, stream: Stream) -> Iterator[NDArray[Any]]:
        """Predictions for a stream, an array per batch; unknown columns count nothing."""
        check_is_fitted(self)
        require_stream(stream)
        self._model.require_features(stream.feature_space, "the data")
        return map(self._predict_batch, stream.batches())

    @reads
    def _predict_batch(self, batch: Batch) -> NDArray[Any]:
        return self._chosen_labels(self._model.learner.scores(batch))

    def open_stream(self, paths: Any, format: str | None = None, **options: Any) -> Stream:  # noqa: A002
        r"""A stream of files, read as the data this model has learned from was.

        Its label and weight columns, columns left out, text, hashing, classes and normalisation need not be said again.
        Columns it has learned from must be there; others may be, too. ``labels=False`` opens rows without labels.

        Parameters
        ----------
        paths, format, **options
            As of `thinstream.open_stream`. Options that would make features mean something else are refused.

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
        return open_like(self._model, paths, options_of(format, options))

    def _require_growing_like(self, stream: Stream) -> None:
        if finds_classes(stream) and not self.get_params(deep=False).get("grow_classes"):
            raise InvalidInputError(
                f"{self._algorithm}: the stream finds its classes as they come, the model needs grow_classes=True"
            )

    def _model_of_stream(self, stream: Stream, classes: Any) -> Model:
        require_stream(stream)
        self._require_growing_like(stream)
        if finds_classes(stream):
            known: Classes = self._classes_of(() if classes is None else list(classes))
        else:
            known = classes_for(stream, classes)
            known = self._classes_of(known) if self.get_params(deep=False).get("grow_classes") else known
        self.__dict__.pop("feature_names_in_", None)
        return self._fresh_model(known, labels=np.array(known), feature_space=stream.feature_space)


def finds_classes(stream: Stream) -> bool:
    """Whether a stream tells its classes as they come."""
    return getattr(stream, "book", None) is not None


def _by_sign(stream: Stream) -> bool:
    """Whether labels are numbers, positive above 0: told by nobody, or found by looking to be 0 and 1 and the like."""
    if stream.classes is None:
        return True
    options = getattr(stream, "options", None)
    found = getattr(stream, "finds_classes", False) or "classes" in (getattr(options, "found", None) or ())
    numbers = [label for label in stream.classes if isinstance(label, int | float) and not isinstance(label, bool)]
    return found and len(numbers) == len(stream.classes) == 2 and numbers[0] <= 0 < numbers[1]


def classes_for(stream: Stream, classes: Any) -> Classes:
    """The labels a stream's coded ones stand for, in its order: told by the stream, else given, else ∓1."""
    require_stream(stream)
    told = stream.classes
    if classes is None:
        return Classes(*(told or (-1, 1)))
    given = tuple(classes)
    if _by_sign(stream) and len(given) == 2 and set(given) != set(told or ()):
        return Classes(*given)
    if told is not None and (len(given) != len(told) or set(given) != set(told)):
        raise InvalidInputError(f"classes: the stream was opened with {told!r}, got {given!r}; it is opened with all")
    if told is None and len(given) != 2:
        raise InvalidInputError(
            f"classes: the stream was opened with 2 classes, numbers ≤ 0 and above, got {given!r}; "
            "tell it of all: open_stream(…, classes=…)"
        )
    return Classes(*(told or given))
