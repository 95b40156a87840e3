"""Vowpal Wabbit text, every feature hashed.

    line  =  [label [importance [initial]]] [tag]|[namespace[:scale]] {feature[:value]} {|…}

A tag touches the bar or begins with a quote. All names are hashed, including those that look like integers.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thinstream.batch import Spelled, plain, texts_at
from thinstream.data.crosses import namespace_slots
from thinstream.data.text.characters import WIDE, first_of, fits, line_end, name_ends, number
from thinstream.data.text.hashed_rows import ALL, HashedFormat, NamesAt, Raw
from thinstream.data.text.hashing import murmur, signed_by, turns_sign
from thinstream.data.text.protocol import Parsed, ParseError, Text, given_at
from thinstream.engine.protocol import LARGEST
from thinstream.jit import compiled, scalar

_FINE, _HEAD, _BAR, _IMPORTANCE, _SCALE, _NAME, _VALUE, _LIMIT = range(8)
_MESSAGES = {
    _HEAD: "before the | there may be a label, an importance and an initial value (finite decimal numbers), and a tag",
    _BAR: "a row must have a | before its features",
    _IMPORTANCE: "an importance must be a finite decimal number ≥ 0",
    _SCALE: "the scale of a namespace must be a finite decimal number followed by a blank",
    _NAME: "a feature must have a name",
    _VALUE: "a value must be a finite decimal number followed by a blank",
}
_SPACE, _TAB, _RETURN, _COLON, _PIPE, _QUOTE, _EQUALS, _CARET = 32, 9, 13, 58, 124, 39, 61, 94
#: Whether each byte ends a name.
_OVER = np.isin(np.arange(256), [_SPACE, _TAB, _COLON, _PIPE])


@scalar
def _blank(c: Any) -> Any:
    return (c == _SPACE) | (c == _TAB)


@scalar
def _skipped(text: Any, i: Any, stop: Any) -> Any:
    while i < stop and _blank(text[i]):
        i += 1
    return i


@scalar
def _word_end(text: Any, i: Any, stop: Any) -> Any:
    """Return the end of a name: a blank, a colon or a bar."""
    while fits(text, i):
        count = first_of(name_ends(text, i))
        i += count
        if count < WIDE or i >= stop:
            return min(i, stop)
    while i < stop and not _OVER[text[i]]:
        i += 1
    return i


@scalar
def _over(text: Any, i: Any, stop: Any) -> Any:
    """Return whether a number may end here."""
    return i >= stop or _blank(text[i]) or text[i] == _PIPE


@scalar
def _head(text: Any, i: Any, stop: Any) -> Any:
    """Parse up to the bar: return verdict, offset, label, importance, whether it was given, and the span of the tag."""
    label, importance, weighted, count = np.nan, 1.0, False, 0
    while True:
        i = _skipped(text, i, stop)
        if i >= stop:
            return _BAR, i, label, importance, weighted, i, i
        if text[i] == _PIPE:
            return _FINE, i, label, importance, weighted, i, i
        end = i
        while end < stop and not _blank(text[end]) and text[end] != _PIPE:
            end += 1
        if text[i] == _QUOTE or (end < stop and text[end] == _PIPE):  # a tag
            bar = _skipped(text, end, stop)
            if bar >= stop or text[bar] != _PIPE:
                return _BAR, bar, label, importance, weighted, i, i
            return _FINE, bar, label, importance, weighted, (i + 1 if text[i] == _QUOTE else i), end
        value, last = number(text, i, end)
        if last < end or count == 3 or not abs(value) < np.inf:
            return (_IMPORTANCE if count == 1 else _HEAD), i, label, importance, weighted, i, i
        if count == 0:
            label = value
        elif count == 1:
            if value < 0:
                return _IMPORTANCE, i, label, importance, weighted, i, i
            importance, weighted = value, True
        count += 1
        i = end


@compiled(*(f"thinstream.data.text.{name}" for name in ("hashing", "characters")))
def _parse(text: Any, seed: Any, mask: Any, signed: Any, limit: Any, out: Any, tags: Any, spans: Any) -> Any:
    """Parse lines: return verdict, offset of a bad byte, line end, rows, and whether there are weights and tags."""
    begin, size, rows, nnz = 0, len(text), 0, 0
    weighted, tagged = False, False
    out.indptr[0] = 0
    while begin < size:
        stop = line_end(text, begin)
        end = min(stop + 1, size)
        if stop > begin and text[stop - 1] == _RETURN:
            stop -= 1
        if _skipped(text, begin, stop) >= stop:
            begin = end
            continue
        verdict, i, label, importance, is_weighted, tag, tag_stop = _head(text, begin, stop)
        if verdict != _FINE:
            return verdict, i, end, rows, weighted, tagged
        while i < stop:  # at a bar
            space = i + 1
            i = _word_end(text, space, stop)
            space_stop, scale = i, 1.0
            space_seed = murmur(text, space, space_stop, seed)
            if i < stop and text[i] == _COLON:
                scale, last = number(text, i + 1, stop)
                if last == i + 1 or not abs(scale) < np.inf or not _over(text, last, stop):
                    return _SCALE, i + 1, end, rows, weighted, tagged
                i = last
            while True:
                i = _skipped(text, i, stop)
                if i >= stop or text[i] == _PIPE:
                    break
                name, value = i, scale
                i = _word_end(text, i, stop)
                name_stop = i
                if name_stop == name:
                    return _NAME, i, end, rows, weighted, tagged
                if i < stop and text[i] == _COLON:
                    value, last = number(text, i + 1, stop)
                    if last == i + 1 or not abs(value) < np.inf or not _over(text, last, stop):
                        return _VALUE, i + 1, end, rows, weighted, tagged
                    value *= scale
                    i = last
                if not abs(value) <= limit:
                    return _LIMIT, name, end, rows, weighted, tagged
                if value != 0:
                    hashed = murmur(text, name, name_stop, space_seed)
                    out.indices[nnz] = np.int64(hashed & np.uint64(mask))
                    out.values[nnz] = signed_by(hashed, signed, value)
                    if len(spans) > 0:
                        spans[nnz, 0], spans[nnz, 1] = space, space_stop
                        spans[nnz, 2], spans[nnz, 3] = name, name_stop
                        spans[nnz, 4] = signed and turns_sign(hashed)
                    nnz += 1
        out.labels[rows], out.weights[rows] = label, importance
        out.starts[rows], out.ends[rows] = begin, end
        tags[rows, 0], tags[rows, 1] = tag, tag_stop
        weighted, tagged = weighted or is_weighted, tagged or tag_stop > tag
        rows += 1
        out.indptr[rows] = nnz
        begin = end
    return _FINE, size, size, rows, weighted, tagged


@compiled()
def _spell_heads(text: Any, spans: Any, heads: Any, out: Any) -> Any:
    """Write namespaces with their separators, concatenated; fill in the spans of all names."""
    fill, size, space = np.int64(0), len(text), np.int64(-1)
    begin = fill
    for k in range(len(spans)):
        if spans[k, 0] != space:
            space, begin = spans[k, 0], fill
            for i in range(space, spans[k, 1]):
                heads[fill] = text[i]
                fill += 1
            if fill > begin and heads[fill - 1] != _EQUALS:
                heads[fill] = _CARET
                fill += 1
        out[k, 0], out[k, 1] = size + begin, size + fill
        out[k, 2], out[k, 3] = spans[k, 2], spans[k, 3]
    return fill


def _spelled(text: Text, spans: NDArray[np.int32], positions: Any) -> Spelled:
    """Return the names of the features at some positions."""
    spans = np.ascontiguousarray(spans[positions])
    heads, name_spans = np.empty(2 * len(text) + 1, np.uint8), np.empty((len(spans), 4), np.int32)
    size = _spell_heads(text, spans, heads, name_spans)
    return Spelled(np.concatenate([text, heads[:size]]), name_spans)


@dataclass
class VW(HashedFormat):
    r"""Vowpal Wabbit's text format. Labels above 0 are positive, importances are weights, initial values are ignored.

    Parameters
    ----------
    tags : bool
        Whether tags are the ids of rows.

    Examples
    --------
    >>> text = np.frombuffer(b"1 2.0 'first|subject free offer:0.5\n-1 |subject:2 hello |from joe\n", np.uint8)
    >>> from thinstream.data.text.hashing import Hashing
    >>> parsed = VW(Hashing(bits=10)).parse(text)
    >>> parsed.labels, parsed.weights, parsed.tags
    (array([ 1., -1.]), array([2., 1.]), ['first', ''])
    >>> parsed.indptr, parsed.values
    (array([0, 2, 4]), array([1. , 0.5, 2. , 1. ], dtype=float32))

    """

    tags: bool = True
    takes_any_bytes = True  # names may have bytes that are not UTF-8

    def parse(self, text: Text) -> Parsed:
        # the shortest row is a bar and a newline, the shortest feature a letter and a blank
        most, how = len(text) // 2 + 2, self.hashing
        raw, spans = Raw.empty(most, how.kind), np.empty((most if self.needs_names else 0, 5), np.int32)
        tags, text = np.empty((most, 2), np.int64), plain(text)
        seed, mask, limit = np.uint64(how.root), np.uint64(how.mask), LARGEST[self.dtype]
        verdict, offset, end, rows, weighted, tagged = _parse(text, seed, mask, how.signed, limit, raw, tags, spans)

        tagged = tagged and self.tags
        named = texts_at(text, tags[:rows, 0], tags[:rows, 1]) if tagged else None
        error = None if verdict == _FINE else (ParseError(offset, self._message(verdict, text, offset)), end)
        raw, slots, unsigned = raw.first(rows, weighted), None, None
        spell: NamesAt | None = None
        if self.needs_names:
            spans = spans[: raw.indptr[-1]]
            spell = partial(_spelled, text, spans)
        if self.crosses and spell is not None:
            spell = spell(ALL).at
            slots = namespace_slots(spell(ALL), self.crosses)
            unsigned = np.where(spans[:, 4] != 0, -raw.values, raw.values) if how.signed else raw.values
        return self.parsed(text, raw, error, spell, slots, unsigned, named)

    def id_of(self, record: Text) -> str:
        """Return the tag of a bad line, if it has one."""
        head, bar, _ = bytes(record).lstrip().partition(b"|")
        words = head.split()
        if not (self.tags and bar and words) or head[-1:].isspace():
            return ""
        return words[-1].removeprefix(b"'").decode("utf-8", "replace")

    def _message(self, verdict: int, text: Text, offset: int) -> str:
        if verdict == _LIMIT:
            largest = LARGEST[self.dtype]
            allowed = f"|value · scale| must be at most {largest:g} (sums of squares would overflow in {self.dtype})"
        else:
            allowed = _MESSAGES[verdict]
        return f"{allowed}, got {given_at(text, offset)}"
