"""Vowpal Wabbit text, every feature hashed.

    line  =  [label [importance [initial]]] [tag]|[namespace[:scale]] {feature[:value]} {|…}

A tag touches the bar or begins with a quote. All names are hashed, those that look like integers too; so numbers of
features equal those of other tools only where they hash in the same way.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thinstream.batch import plain
from thinstream.jit import compiled, scalar
from thinstream.learners.learner import LARGEST
from thinstream.spelling import Spelled
from thinstream.streams.crossing.spelling import of_namespaces
from thinstream.streams.text.decimal import number
from thinstream.streams.text.hashed_rows import HashedFormat, Raw
from thinstream.streams.text.hashing import murmur, signed_by, turns_sign
from thinstream.streams.text.names import readable
from thinstream.streams.text.protocol import Parsed, ParseError, Text, given_at
from thinstream.streams.text.vectors import WIDE, first_of, fits, line_end, name_ends

_FINE, _HEAD, _BAR, _IMPORTANCE, _SCALE, _NAME, _VALUE, _LIMIT = range(8)
_MESSAGES = {
    _HEAD: "before the | there may be a label, an importance and an initial value, finite decimal numbers, and a tag",
    _BAR: "a row must have a | before its features",
    _IMPORTANCE: "an importance must be a finite decimal number ≥ 0",
    _SCALE: "the scale of a namespace must be a finite decimal number followed by a blank",
    _NAME: "a feature must have a name",
    _VALUE: "a value must be a finite decimal number followed by a blank",
}
_SPACE, _TAB, _RETURN, _COLON, _PIPE, _QUOTE, _EQUALS, _CARET = 32, 9, 13, 58, 124, 39, 61, 94
#: Of each byte whether a name is over there.
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
    """Where a name is over: at a blank, a colon, a bar."""
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
    """Whether a number may end here."""
    return i >= stop or _blank(text[i]) or text[i] == _PIPE


@scalar
def _head(text: Any, i: Any, stop: Any) -> Any:
    """What is before the bar: (verdict, offset, label, importance, whether it was given, start and stop of the tag)."""
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


@compiled(*(f"thinstream.streams.text.{name}" for name in ("decimal", "digits", "hashing", "vectors")))
def _parse(text: Any, seed: Any, mask: Any, signed: Any, limit: Any, out: Any, tags: Any, spans: Any) -> Any:
    """(verdict, offset of the first bad byte, end of its line, rows, whether there are importances, and tags)."""
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
        verdict, i, label, importance, given, tag, tag_stop = _head(text, begin, stop)
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
        weighted, tagged = weighted or given, tagged or tag_stop > tag
        rows += 1
        out.indptr[rows] = nnz
        begin = end
    return _FINE, size, size, rows, weighted, tagged


@compiled()
def _spell_heads(text: Any, spans: Any, heads: Any, out: Any) -> Any:
    """Namespaces with what stands behind them, one behind another; ``out`` takes the places of all names."""
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


def _spelled(text: Text, spans: NDArray[np.int64]) -> Spelled:
    """Names as they travel with rows."""
    heads, found = np.empty(2 * len(text) + 1, np.uint8), np.empty((len(spans), 4), np.int32)
    size = _spell_heads(text, spans, heads, found)
    return Spelled(np.concatenate([text, heads[:size]]), found)


@dataclass
class VW(HashedFormat):
    r"""Vowpal Wabbit's text format. Labels above 0 are positive; importances are weights; initial values are ignored.

    Parameters
    ----------
    tags : bool
        Whether rows are called by their tags.

    Examples
    --------
    >>> text = np.frombuffer(b"1 2.0 'first|subject free offer:0.5\n-1 |subject:2 hello |from joe\n", np.uint8)
    >>> from thinstream.streams.text.hashing import Hashing
    >>> parsed = VW(Hashing(bits=10)).parse(text)
    >>> parsed.labels, parsed.weights, parsed.tags
    (array([ 1., -1.]), array([2., 1.]), ['first', ''])
    >>> parsed.indptr, parsed.values
    (array([0, 2, 4]), array([1. , 0.5, 2. , 1. ], dtype=float32))

    """

    tags: bool = True
    takes_any_bytes = True  # of names, whatever they encode

    def parse(self, text: Text) -> Parsed:
        """The rows of whole lines, up to the first bad one."""
        # the shortest row is a bar and an end of line, the shortest feature a letter and a blank
        most, how = len(text) // 2 + 2, self.hashing
        raw, spans = Raw.empty(most, how.kind), self.room_for_spans(most)
        tags, text = np.empty((most, 2), np.int64), plain(text)
        seed, mask, limit = np.uint64(how.root), np.uint64(how.mask), LARGEST[self.dtype]
        verdict, offset, end, rows, weighted, tagged = _parse(text, seed, mask, how.signed, limit, raw, tags, spans)

        tagged = tagged and self.tags
        whole = text.tobytes() if tagged or len(spans) else b""

        def word(start: int, stop: int) -> str:
            return whole[start:stop].decode("utf-8", "replace")

        def name_at(place: int) -> str:
            space, space_stop, name, name_stop, _ = spans[place].tolist()
            return readable(word(space, space_stop), word(name, name_stop))

        named = [word(start, stop) for start, stop in tags[:rows].tolist()] if tagged else None
        error = None if verdict == _FINE else (ParseError(offset, self._message(verdict, text, offset)), end)
        raw, members = raw.first(rows, weighted), None
        if self.crosses:
            spans = spans[: raw.indptr[-1]]
            members = of_namespaces(text, spans, self.crosses, self.unsigned(raw.values, spans), raw.indptr)
        spelled = _spelled(text, spans[: raw.indptr[-1]]) if self.hashing.spells else None
        return self.parsed(text, raw, error, name_at, named, members=members, spelled=spelled)

    def called(self, record: Text) -> str:
        """The tag of a bad line, if it has one."""
        head, bar, _ = bytes(record).lstrip().partition(b"|")
        words = head.split()
        if not (self.tags and bar and words) or head[-1:].isspace():
            return ""
        return words[-1].removeprefix(b"'").decode("utf-8", "replace")

    def _message(self, verdict: int, text: Text, offset: int) -> str:
        if verdict == _LIMIT:
            largest = LARGEST[self.dtype]
            allowed = f"|value · scale| must be at most {largest:g} ({self.dtype}: sums of squares would overflow)"
        else:
            allowed = _MESSAGES[verdict]
        return f"{allowed}, got {given_at(text, offset)}"
