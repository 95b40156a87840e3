"""Dicts of features, hashed by name: from a list, an iterator, or a function that makes one."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from dataclasses import replace
from itertools import islice
from numbers import Real
from typing import Any

import numpy as np

from thinstream.batch import Batch, Position
from thinstream.errors import InvalidInputError, InvalidParameterError
from thinstream.streams.crossing.declared import MARK
from thinstream.streams.crossing.rows import MOST, cross_rows
from thinstream.streams.crossing.spelling import spelled
from thinstream.streams.stream import START
from thinstream.streams.tables.cells import Hasher, RowStream, finite, weights_of
from thinstream.streams.tables.columns import ABSENT, says_nothing
from thinstream.streams.tables.texts import Csr, Texts
from thinstream.streams.text.hashing import Numbering

_Source = Iterable[Any] | Callable[[], Iterable[Any]]


class Records(RowStream):
    """Dicts, or pairs (dict, label), or triples (dict, label, weight), as a stream.

    A number is a value under its name; True is 1; text is a category, 1 under ``name=text``; a list is a number under
    ``name[0]``, ``name[1]``, …, or counts its texts; a dict within is ``name.inner``. False and 0 are absent; None, NaN
    and words like NA are what ``missing`` says, a key that is not there is nothing.

    Parameters
    ----------
    source : iterable, or function that returns one
        An iterator can be read once only; a list, or a function, can be gone through again.
    hasher : Hasher
        Numbers features by their names.
    classes, dtype, rows_per_batch, missing, text …
        As in `from_memory`.

    """

    def __init__(self, source: _Source, hasher: Hasher | None, *, rows_per_batch: int = 1 << 12, **shared: Any) -> None:
        if hasher is None:
            raise InvalidParameterError(
                "dicts have names for features, which need a hasher (Numbering(), of thinstream.streams), got none"
            )
        if not callable(source) and not isinstance(source, Iterable):
            raise InvalidInputError(f"X must be an iterable of dicts, or a function that returns one, got {source!r}")
        super().__init__(hasher, rows_per_batch=rows_per_batch, **shared)
        self._source, self._hash, self._begun = source, hasher, False

    @property
    def size(self) -> int | None:
        """Rows, if the source knows."""
        return len(self._source) if isinstance(self._source, Sized) else None

    def fingerprint(self) -> dict[str, Any]:
        """The number of rows, where it is known: looking at them could use them up."""
        return {"kind": "records", "rows": self.size}

    def batches(self, start: Position = START) -> Iterator[Batch]:
        """The rows from ``start.row`` on; those before are skipped."""
        source = self._source() if callable(self._source) else self._source
        records = iter(source)
        if records is source and not callable(self._source):
            if self._begun:
                raise InvalidInputError("an iterator can be read once only; pass a list, or a function that makes one")
            self._begun = True
        return self._batches(islice(records, start.row, None), start.row)

    def _batches(self, records: Iterator[Any], row: int) -> Iterator[Batch]:
        while taken := list(islice(records, self.rows_per_batch)):
            end = row + len(taken)
            yield replace(self._batch(taken, row), position=Position(offset=end, row=end))
            row = end

    def _batch(self, taken: list[Any], first: int) -> Batch:
        triples = [_triple(record, first + k) for k, record in enumerate(taken)]
        numbers: dict[str, int] = {}  # names in order of appearance
        columns, codes, values, ends = [], [], [], [0]
        texts: dict[str, list[tuple[int, str]]] = {name: [] for name in self.texts.names}
        for k, (features, _, _) in enumerate(triples):
            if texts:
                features = _without_texts(features, texts, k, first)
            for column, name, value in _flat(features, "", first + k, self.missing or "as-is"):
                columns.append(column)
                codes.append(numbers.setdefault(name, len(numbers)))
                values.append(value)
            ends.append(len(codes))
        hashed = self._hash(list(numbers))[codes] if codes else self._hash([])
        given, names, turned = np.array(values, dtype=np.float64), list(numbers), hashed < 0
        indptr, indices = np.array(ends, dtype=np.int64), np.where(turned, ~hashed, hashed)
        signed = np.where(turned, -given, given)
        plain, members = (indptr, indices, signed), None
        if self.crosses:
            members = spelled([names[code] for code in codes], self.crosses.slots_of(columns), given, indptr)
            indptr, indices, signed, _ = cross_rows(self.crosses, plain, members)
            if len(indptr) <= len(taken):
                row = first + len(indptr) - 1
                raise InvalidInputError(f"X: a row may have {MOST:,} crosses, got more at row {row}")

        def where(k: int) -> str:
            parts = [k] if members is None else cross_rows(self.crosses, plain, members, traced=True).parts[k].tolist()
            name = MARK.join(names[codes[part]] for part in parts if part >= 0)
            return f"row {first + int(np.searchsorted(indptr, k, side='right')) - 1}, feature {name!r}"

        labels, weights = [label for _, label, _ in triples], [weight for _, _, weight in triples]
        filled = [1.0 if weight is None else weight for weight in weights]
        named = None
        if isinstance(self._hash, Numbering) and self._hash.spells and not self.crosses:
            named = self._hash.spelled(names).at(np.array(codes, np.int64))
        rows = Csr(indptr, indices, finite(signed, self.dtype, "X", where), self._hash.width, named)
        if any(texts.values()):
            given_texts = [
                Texts.of(name, [text for _, text in found], np.array([row for row, _ in found], np.int64))
                for name, found in texts.items()
            ]
            rows = self.with_texts(rows, given_texts, "X", first)
        return rows.batch(
            None if all(label is None for label in labels) else self.coded(self._array(labels), "X", first),
            None if all(weight is None for weight in weights) else weights_of(np.array(filled), "X", first),
            first,
        )

    def _array(self, labels: list[Any]) -> Any:
        """Labels as an array: of objects unless all are numbers, so that nothing becomes text (or True a number)."""
        numeric = self.book is None and all(isinstance(label, Real | np.bool_) for label in labels)
        return np.array(labels, dtype=np.float64 if numeric else object)


def _triple(record: Any, row: int) -> tuple[Mapping[str, Any], Any, Any]:
    """(features, label, weight), None for what is not given."""
    parts = record if isinstance(record, tuple) else (record,)
    features, label, weight = (*parts, None, None)[:3] if 1 <= len(parts) <= 3 else (None, None, None)
    if not isinstance(features, Mapping):
        allowed = "a dict, (dict, label) or (dict, label, weight)"
        raise InvalidInputError(f"X: each record must be {allowed}, got {record!r} at row {row}")
    return features, label, weight


def _without_texts(
    features: Mapping[Any, Any], texts: dict[str, list[tuple[int, str]]], k: int, first: int
) -> dict[Any, Any]:
    """What is no text; texts are added to those of their key."""
    for name in texts:
        value = features.get(name)
        for part in value if isinstance(value, list | tuple) else [value]:
            if isinstance(part, str):
                texts[name].append((k, part))
            elif part is not None and part == part:
                what = f"is named as text, so it must be a text, got {part!r} at row {first + k}"
                raise InvalidInputError(f"X: feature {name!r} {what}")
    return {key: value for key, value in features.items() if key not in texts}


def _flat(features: Mapping[Any, Any], prefix: str, row: int, missing: str) -> Iterator[tuple[str, str, float]]:
    """Columns, names and values of what is present."""
    for key, value in features.items():
        column = f"{prefix}{key}"
        if isinstance(value, Mapping):
            yield from _flat(value, f"{column}.", row, missing)
        elif isinstance(value, list | tuple):
            for k, item in enumerate(value):
                yield from _cell(column, column if isinstance(item, str) else f"{column}[{k}]", item, row)
        elif missing == "as-is" or not says_nothing(value):
            yield from _cell(column, column, value, row)
        elif missing == "indicator":
            yield column, f"{column}={ABSENT}", 1.0
        elif missing == "error":
            raise InvalidInputError(f"X: feature {column!r} must have a value, got {value!r} at row {row}")


def _cell(column: str, name: str, value: Any, row: int) -> Iterator[tuple[str, str, float]]:
    if value is None:
        return
    if isinstance(value, str):
        yield column, f"{name}={value}", 1.0
    elif isinstance(value, Real | np.bool_):
        if value != 0:
            yield column, name, float(value)
    else:
        allowed = "a number, text, True, False, None, a list or a dict of these"
        raise InvalidInputError(f"X: feature {name!r} must be {allowed}, got {value!r} at row {row}")
