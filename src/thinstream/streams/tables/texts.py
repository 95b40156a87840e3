"""Texts of tables taken apart, as those of files are: by compiled code, over the buffers of whole columns."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinstream.batch import Batch
from thinstream.errors import InvalidInputError, InvalidParameterError
from thinstream.learners.learner import LARGEST
from thinstream.spelling import Spelled
from thinstream.streams.text.hashing import Hashing, encode_names
from thinstream.streams.text.tidying import tidy_named_rows
from thinstream.streams.text.tokens import Feature, Runs, run_features
from thinstream.streams.text.wording import Wording, as_range, as_stop_list


class Csr(NamedTuple):
    """Sparse rows; what has no order yet gets one where a `Batch` is made of it."""

    indptr: NDArray[np.int64]
    indices: NDArray[Any]
    values: NDArray[Any]
    width: int
    names: Spelled | None = None  # of the features, where they travel with rows

    def batch(self, y: Any, weights: Any, first: int, once: bool = False) -> Batch:
        """The rows in order, equal features summed."""
        if self.names is None:
            return Batch.of(self.indptr, self.indices, self.values, self.width, y, weights, first)
        tidy = tidy_named_rows(
            self.indptr.copy(),
            self.indices.copy(),
            self.values.astype(np.float64),
            self.values.dtype.name,
            once,
            self.names,
        )
        if tidy.rows < len(self.indptr) - 1:  # which tells what is wrong
            return self._replace(names=None).batch(y, weights, first)
        return Batch(*tidy[1:4], self.width, y, weights, tidy.largest, first, names=tidy.names)


class Texts(NamedTuple):
    """Texts in UTF-8, parts of one buffer, and in which row each is."""

    name: str
    buffer: NDArray[np.uint8]
    starts: NDArray[np.int64]
    stops: NDArray[np.int64]
    rows: NDArray[np.int64]

    @classmethod
    def of(cls, name: str, texts: Sequence[str], rows: NDArray[np.int64] | None = None) -> "Texts":
        """Of Python's strings, in the given rows or one a row."""
        data, stops = encode_names([*texts])
        starts = np.concatenate([[0], stops[:-1]]).astype(np.int64) if len(stops) else stops
        return cls(name, np.frombuffer(data, np.uint8), starts, stops, np.arange(len(stops)) if rows is None else rows)


class Wanted:
    """Which columns of tables are texts, and how these are taken apart; see `Options`."""

    def __init__(
        self,
        text: Sequence[str] = (),
        ngrams: Any = None,
        chars: Any = None,
        lower: bool = True,
        stop: Any = (),
        binary: bool = False,
    ) -> None:
        if isinstance(text, str) or not all(isinstance(name, str) for name in text):
            raise InvalidParameterError(f"text must be a list of names of columns, got {text!r}")
        self.names, self.binary = tuple(text), binary
        self.wording = Wording(as_range("ngrams", ngrams), as_range("chars", chars), lower, as_stop_list(stop))

    @property
    def space(self) -> dict[str, Any]:
        """What of it is part of what features mean."""
        if not self.names:
            return {}
        told: Mapping[str, Any] = {
            "ngrams": self.wording.ngrams and list(self.wording.ngrams),
            "chars": self.wording.chars and list(self.wording.chars),
            "stop": list(self.wording.stop),
        }
        found = {"text": sorted(self.names), **{name: value for name, value in told.items() if value}}
        found |= {} if self.wording.lower else {"lower": False}
        return found | ({"binary": True} if self.binary else {})

    def added(self, rows: Csr, texts: Sequence[Texts], hashing: Hashing, dtype: str, place: str, first: int) -> Csr:
        """The rows with the features of their texts, equal ones summed."""
        n, offsets = len(rows.indptr) - 1, np.cumsum([0, *(len(each.buffer) for each in texts)])
        pairs = [*zip(texts, offsets.tolist(), strict=False)]
        runs = Runs(
            np.zeros(sum(len(each.rows) for each in texts), np.int64),
            np.repeat(np.arange(len(texts)), [len(each.rows) for each in texts]),
            np.concatenate([each.starts + offset for each, offset in pairs]).astype(np.int64),
            np.concatenate([each.stops + offset for each, offset in pairs]).astype(np.int64),
        )
        buffer = np.concatenate([each.buffer for each in texts])
        names = [each.name for each in texts]

        def features(k: int) -> list[Feature]:
            name, text = names[runs.columns[k]], bytes(buffer[runs.starts[k] : runs.stops[k]])
            return [(name + end, word, 1.0) for end, word in self.wording.features(text.decode("utf-8", "replace"))]

        found = run_features(buffer, runs, names, self.wording, hashing, features)
        spelled = None
        owners = np.concatenate([each.rows for each in texts])
        of_row = np.concatenate([np.repeat(np.arange(n), np.diff(rows.indptr)), np.repeat(owners, found.counts)])
        order = np.argsort(of_row, kind="stable")
        if rows.names is not None and found.names is not None:
            spelled = Spelled.joined([rows.names, found.names]).at(order)
        tidy = tidy_named_rows(
            np.concatenate([[0], np.cumsum(np.bincount(of_row, minlength=n))]).astype(np.int64),
            np.concatenate([rows.indices, found.indices])[order].astype(hashing.kind),
            np.concatenate([rows.values.astype(np.float64), found.values])[order],
            dtype,
            self.binary,
            spelled,
        )
        if (good := tidy.rows) < n:
            limit = f"|values| of a row, equal features summed, must be at most {LARGEST[dtype]:g}"
            raise InvalidInputError(f"{place}: {limit}, got more at row {first + good}")
        return Csr(*tidy[1:4], rows.width, tidy.names)
