"""Rows of one source and their labels from another, joined by id: a stream in the order in which labels come."""

from collections import deque
from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinstream.batch import Batch, Position
from thinstream.errors import InvalidInputError, meant
from thinstream.late_labels.store import Id
from thinstream.late_labels.waiting import Labelled, Waiting
from thinstream.learners.protocol import AnyLearner
from thinstream.streams.stream import START, Stream

#: Ids of labels without a row that are told, of each kind.
TOLD = 3


class Timed(NamedTuple):
    """A stream of rows with ids, and one of the same rows whose ids are their times; without that time stands still."""

    stream: Stream
    times: Stream | None
    named: str  # in messages

    def batches(self) -> Iterator[tuple[Batch, NDArray[np.float64]]]:
        """Batches with their times, which never go back."""
        clocks = None if self.times is None else self.times.batches()
        last = -np.inf
        for batch in self.stream.batches():
            self._require_ids(batch)
            if clocks is None:
                yield batch, np.zeros(len(batch))
                continue
            texts = next(clocks).ids or ()
            found = np.array([self._time(text, batch.first_row + k) for k, text in enumerate(texts)])
            back = np.flatnonzero(np.diff(np.concatenate([[last], found])) < 0)
            if len(back):
                row = batch.first_row + int(back[0])
                raise InvalidInputError(
                    f"{self.named}: times must not go back, example {row + 1} is earlier than the one before it"
                )
            last = found[-1] if len(found) else last
            yield batch, found

    def _require_ids(self, batch: Batch) -> None:
        for k, each in enumerate(batch.ids or [""] * len(batch)):
            if not each:
                row, keys = batch.first_row + k + 1, getattr(getattr(self.stream, "form", None), "without_id", [])
                name = getattr(getattr(self.stream, "options", None), "id", None)
                hint = f", no {name!r}; {meant(name, keys)}" if name and keys and name not in keys else ""
                raise InvalidInputError(f"{self.named}: example {row} has no id{hint}")

    def _time(self, text: str, row: int) -> float:
        try:
            found = float(text)
        except ValueError:
            try:
                found = datetime.fromisoformat(text).timestamp()
            except ValueError:
                found = np.nan
        if not np.isfinite(found):
            raise InvalidInputError(
                f"{self.named}: times are numbers or dates as 2026-11-16T08:00, example {row + 1} has {text!r}"
            )
        return found


class JoinedStream:
    """Labelled rows, in the order in which labels come; a row is scored by the learner when it comes, and kept.

    With times, rows and labels come in the order of time, at equal times rows first. Without, all rows come before the
    first label. Whoever takes a batch learns it before the next is asked for.

    Parameters
    ----------
    rows, labels : Timed
        Rows without labels, and labels, whose other columns count nothing.
    learner : AnyLearner
        What scores rows when they come.
    waiting : Waiting
        Where they are kept; its clock is told.

    """

    unit, size = "rows", None
    names = skipped = None

    def __init__(self, rows: Timed, labels: Timed, learner: AnyLearner, waiting: Waiting, clock: "Clock") -> None:
        self._rows, self._labels, self._learner = rows, labels, learner
        self.waiting, self._clock = waiting, clock
        self.scores: deque[NDArray[Any]] = deque()  # that the rows of the last batch got when they came
        self.unmatched: dict[str, list[Id]] = {}  # the first ids of labels without a row
        self.feature_space, self.dtype = rows.stream.feature_space, rows.stream.dtype
        self.names = rows.stream.names
        self.options = getattr(rows.stream, "options", None)

    @property
    def classes(self) -> tuple[Any, ...] | None:
        """The classes of the labels."""
        return self._labels.stream.classes

    @property
    def book(self) -> Any:
        """Of classes that are found as they come."""
        return getattr(self._labels.stream, "book", None)

    @property
    def feature_columns(self) -> list[str]:
        """Columns of features, where there are any."""
        return getattr(self._rows.stream, "feature_columns", [])

    @property
    def layout(self) -> dict[str, Any] | None:
        """What the cells of a line are, where there are any."""
        return getattr(self._rows.stream, "layout", None)

    def done(self, position: Position) -> None:
        """Nobody knows how much there is."""

    def fingerprint(self) -> dict[str, Any]:
        """That of both sources."""
        return {"rows": self._rows.stream.fingerprint(), "labels": self._labels.stream.fingerprint()}

    def warm_up(self) -> None:
        """Loads the compiled parsers."""
        for each in (self._rows.stream, self._labels.stream):
            getattr(each, "warm_up", lambda: None)()

    def batches(self, start: Position = START) -> Iterator[Batch]:
        """Rows that have got their labels."""
        for is_labels, batch, times in _in_order(self._rows.batches(), self._labels.batches(), self._rows.times):
            if not is_labels:
                self._keep(batch, times)
                continue
            for part, now in self._moments(batch, times):
                self._clock.now = now
                yield from self._labelled(part)

    def _keep(self, batch: Batch, times: NDArray[np.float64]) -> None:
        self._clock.now = float(times[-1]) if len(times) else self._clock.now
        scores = self._learner.scores(batch)
        self.waiting.put(list(batch.ids or ()), batch, scores, self._learner.dtype, times.tolist())

    def _moments(self, batch: Batch, times: NDArray[np.float64]) -> Iterator[tuple[Batch, float]]:
        """Labels of one time each, where rows expire in time."""
        cuts = [0, len(batch)]
        if self.waiting.store.seconds is not None:
            cuts = [0, *(np.flatnonzero(np.diff(times)) + 1).tolist(), len(batch)]
        for a, b in pairwise(cuts):
            yield batch.until(b).after(a), float(times[b - 1]) if b > a else self._clock.now

    def _labelled(self, labels: Batch) -> Iterator[Batch]:
        ids = list(labels.ids or ())
        outcome, places = self.waiting.look(ids)
        if places:
            y, weights = labels.require_labels(), labels.weights
            with self.waiting.taking([ids[k] for k in places], self._learner.n_features) as (rows, scores):
                self.scores.clear()
                self.scores.extend(scores)
                yield rows.labelled(y[places], None if weights is None else weights[places])
        self.waiting.count(outcome)
        self._remember(outcome)

    def _remember(self, outcome: Labelled) -> None:
        for name, ids in outcome.unmatched.items():
            told = self.unmatched.setdefault(name, [])
            told += ids[: TOLD - len(told)]

    def taken(self, many: int) -> list[NDArray[Any]]:
        """The scores that the next rows of the last batch got when they came."""
        return [self.scores.popleft() for _ in range(many)]


class Clock:
    """Tells the time of the sources."""

    now = 0.0

    def __call__(self) -> float:
        """The time of what was taken last."""
        return self.now


Timely = tuple[Batch, NDArray[np.float64]]


def _in_order(rows: Iterator[Timely], labels: Iterator[Timely], timed: Any) -> Iterator[tuple[bool, Batch, Any]]:
    """(whether they are labels, batch, times) in the order of time, rows first; without times all rows first."""
    if timed is None:
        for batch, times in rows:
            yield False, batch, times
        for batch, times in labels:
            yield True, batch, times
        return
    row, label = next(rows, None), next(labels, None)
    while row is not None or label is not None:
        if row is not None:
            until = len(row[0]) if label is None or not len(label[1]) else _count(row[1], label[1][0], "right")
            if until:
                yield False, row[0].until(until), row[1][:until]
                row = _rest(row, until, rows)
                continue
        if label is not None:
            until = len(label[0]) if row is None or not len(row[1]) else _count(label[1], row[1][0], "left")
            if until:
                yield True, label[0].until(until), label[1][:until]
            label = _rest(label, until, labels)
        if row is not None and not len(row[0]):
            row = next(rows, None)


def _count(times: NDArray[np.float64], moment: float, side: Any) -> int:
    return int(np.searchsorted(times, moment, side))


def _rest(part: Timely, taken: int, source: Iterator[Timely]) -> Timely | None:
    batch, times = part
    return next(source, None) if taken == len(batch) else (batch.after(taken), times[taken:])


def scores_by_class(found: Sequence[NDArray[Any]], shape: tuple[int, ...]) -> NDArray[Any]:
    """Scores as a learner gives them; a class not met when a row came has the lowest there is.

    >>> scores_by_class([np.array([1.0, 2.0])], (1, 3)).tolist()
    [[1.0, 2.0, -1.7976931348623157e+308]]
    """
    if len(shape) == 1:
        return np.concatenate(found) if found else np.empty(0)
    dtype = found[0].dtype if found else np.dtype(np.float64)
    scores = np.full(shape, np.finfo(dtype).min, dtype)
    for k, row in enumerate(found):
        scores[k, : len(row)] = row
    return scores
