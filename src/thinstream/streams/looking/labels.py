"""Labels met while looking, and how often."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from thinstream.errors import InvalidInputError
from thinstream.streams.class_book import label_of, local_numbers
from thinstream.streams.formats import Format
from thinstream.streams.looking.heads import are_small, heads
from thinstream.streams.options import Options
from thinstream.streams.sources import display_name
from thinstream.streams.text.protocol import Text, TextFormat

#: Different labels that may be classes.
MOST = 1000
#: Bytes parsed first, twice as many each time: a column of ids must not become as many classes.
_PIECE = 1 << 14
_BAD = 100  # records, after which there is no point in going on
_ROWS = 1 << 16  # of a table at a time
_SMALL_TABLE = 1 << 20  # rows of one that is looked at to its end: a column is read without the others


def labels_met(known: Format, files: list[str], options: Options, records: int) -> "Counter[Any]":
    """How often each label occurs, until there are more than could be classes."""
    no_features = [name for name in (options.weight, options.id) if name is not None]
    probe = replace(
        options, found=(), grow_classes=True, names=0, cross=(), text=(), numeric=(), categorical=(), columns=(),
        weight=None, id=None, strict=False, ignore=(*options.ignore, *no_features), zero_based=True, missing="as-is",
    )  # fmt: skip
    stream = known.open(known, files if known.is_table else [], probe)
    found = _in_tables(stream, records) if known.is_table else _in_texts(stream, files, records)
    met: Counter[Any] = Counter()
    for labels in found:
        met.update(labels)
        if len(met) > MOST:
            break
    return met


def _in_texts(stream: Any, files: list[str], records: int) -> Iterator[dict[Any, int]]:
    left = None if are_small(files) else records
    is_json = stream.reading["format"] == "jsonl"
    for file, (text, whole) in zip(files, heads(files, records), strict=False):
        if is_json and (quick := _in_objects(stream.form.label, text, whole, left)) is not None:
            yield quick
            left = None if left is None else left - sum(quick.values())
            continue
        try:
            for labels, rows in _in_text(stream.form, text, whole, left):
                yield labels
                left = None if left is None else left - rows
        except InvalidInputError as error:
            raise InvalidInputError(f"{display_name(file)}, line 1: {error}") from None


def _in_text(form: TextFormat, text: Text, whole: bool, left: int | None) -> Iterator[tuple[dict[Any, int], int]]:
    """Labels of the first rows of a text, all if ``left`` is None, and of how many rows."""
    at, size, bad = form.header(text) if len(text) else 0, _PIECE, 0
    end = len(text) if whole else at + form.records(text[at:])
    while at < end and bad < _BAD and left != 0:
        stop = min(at + size, end)
        stop = end if stop == end else at + form.records(text[at:stop])
        size = min(2 * size, end)  # bad records end a piece early: there may be many pieces
        if stop == at:
            continue
        labels, known, taken, is_bad = _labels_of(form, text[at:stop])
        at, bad, labels = at + taken, bad + is_bad, labels[:left]
        rows = len(labels)
        left = None if left is None else left - rows
        met, places = local_numbers(labels[~np.isnan(labels)], known)
        yield dict(zip(met, np.bincount(places, minlength=len(met)).tolist(), strict=True)), rows


def _labels_of(form: Any, text: Text) -> tuple[Any, list[Any] | None, int, bool]:
    """(labels or their places, all labels if it is places, bytes taken, whether a bad record ended it)."""
    if hasattr(form, "labels_in"):
        found: tuple[Any, list[Any], int, bool] = form.labels_in(text)
        return found
    parsed = form.parse(text)
    return parsed.labels, parsed.met, parsed.taken, parsed.error is not None


def _in_objects(key: str, text: Text, whole: bool, left: int | None) -> "Counter[Any] | None":
    """Of lines of JSON, without reading them; None where the key does not stand in each line once.

    It cannot be part of a text, where quotes have a backslash before them.
    """
    data = text.tobytes()
    lines = data.splitlines()[: None if whole else -1]
    lines = [line for line in lines if line.strip()][:left]
    mark = re.escape(json.dumps(key).encode()) + rb"\s*:\s*"
    found = re.findall(mark + rb'("(?:[^"\\]|\\.)*"|[^\s,}\]]+)', b"\n".join(lines))
    if len(found) != len(lines):
        return None
    met: Counter[Any] = Counter()
    for written, count in Counter(found).items():
        try:
            label = json.loads(written)
        except ValueError:
            return None
        if label is not None:
            met[label_of(label) if isinstance(label, float) else label] += count
    return met


def _in_tables(stream: Any, records: int) -> Iterator[dict[Any, int]]:
    """Of the column of the label alone."""
    from thinstream.streams.tables.arrow_columns import labels_of

    size = stream.size
    left = records if size is None or size > _SMALL_TABLE else size
    for number, place in enumerate(stream.places):
        part = stream.part(number)
        if stream.label not in part.columns:
            return
        for batch in part.records([stream.label], 0, _ROWS):
            labels = labels_of(batch.column(0), stream.label, place)[:left].tolist()
            left -= len(labels)
            yield Counter(label_of(x) if isinstance(x, float) else x for x in labels if x is not None and x == x)
            if left <= 0:
                return
