"""Vowpal Wabbit text, every feature hashed.

    line  =  [label [importance [initial]]] [tag]|[namespace[:scale]] {feature[:value]} {|…}

A tag touches the bar or begins with a quote. All names are hashed, including those that look like integers.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thinstream.batch import Spelled, plain, texts_at
from thinstream.data.cells import NAMED, NNZ, NO_NAMES, ROWS, STATE, Out, is_needed
from thinstream.data.crosses import find_slots, slots_at
from thinstream.data.text.characters import WIDE, first_of, fits, line_end, name_ends, number
from thinstream.data.text.hashed_rows import HashedFormat, NamedFeatures, Raw
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


@compiled(*(f"thinstream.data.{name}" for name in ("cells", "crosses", "text.hashing", "text.characters")))
def _parse(text: Any, meaning: Any, patterns: Any, out: Any, features: Any, state: Any) -> Any:
    """Parse lines: return verdict, offset of a bad byte, line end, and whether there are weights and tags."""
    begin, size, rows, nnz, names = 0, len(text), 0, 0, 0
    weighted, tagged = False, False
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
            return verdict, i, end, weighted, tagged
        while i < stop:  # at a bar
            space = i + 1
            i = _word_end(text, space, stop)
            space_stop, scale = i, 1.0
            space_seed = murmur(text, space, space_stop, meaning.root)
            crossed = meaning.named != NO_NAMES and slots_at(text, space, space_stop, patterns) != 0
            if i < stop and text[i] == _COLON:
                scale, last = number(text, i + 1, stop)
                if last == i + 1 or not abs(scale) < np.inf or not _over(text, last, stop):
                    return _SCALE, i + 1, end, weighted, tagged
                i = last
            while True:
                i = _skipped(text, i, stop)
                if i >= stop or text[i] == _PIPE:
                    break
                name, value = i, scale
                i = _word_end(text, i, stop)
                name_stop = i
                if name_stop == name:
                    return _NAME, i, end, weighted, tagged
                if i < stop and text[i] == _COLON:
                    value, last = number(text, i + 1, stop)
                    if last == i + 1 or not abs(value) < np.inf or not _over(text, last, stop):
                        return _VALUE, i + 1, end, weighted, tagged
                    value *= scale
                    i = last
                if not abs(value) <= meaning.limit:
                    return _LIMIT, name, end, weighted, tagged
                if value != 0:
                    hashed = murmur(text, name, name_stop, space_seed)
                    index = np.int64(hashed & meaning.mask)
                    features.indices[nnz], features.values[nnz] = index, signed_by(hashed, meaning.signed, value)
                    if meaning.named != NO_NAMES and is_needed(meaning.named, crossed, features.seen, index):
                        features.names[names, 0], features.names[names, 1] = nnz, meaning.signed and turns_sign(hashed)
                        features.names[names, 2], features.names[names, 3] = space, space_stop
                        features.names[names, 4], features.names[names, 5] = name, name_stop
                        names += 1
                    nnz += 1
        out.labels[rows], out.weights[rows] = label, importance
        out.starts[rows], out.ends[rows] = begin, end
        if len(out.ids) > 0:
            out.ids[rows, 0], out.ids[rows, 1] = tag, tag_stop
        weighted, tagged = weighted or is_weighted, tagged or tag_stop > tag
        rows += 1
        out.indptr[rows] = nnz
        state[ROWS], state[NNZ], state[NAMED] = rows, nnz, names
        begin = end
    return _FINE, size, size, weighted, tagged


@compiled()
def _spell(text: Any, names: Any, heads: Any, spans: Any) -> Any:
    """Write namespaces with their separators, each once in a row, and fill in spans; return the end of the heads.

    Heads follow the text.
    """
    fill, start, stop = np.int64(0), np.int64(-1), np.int64(-1)
    low = high = fill
    for k in range(len(names)):
        if names[k, 2] != start or names[k, 3] != stop:
            start, stop, low = names[k, 2], names[k, 3], fill
            for i in range(start, stop):
                heads[fill] = text[i]
                fill += 1
            if fill > low and heads[fill - 1] != _EQUALS:
                heads[fill] = _CARET
                fill += 1
            high = fill
        spans[k, 0], spans[k, 1] = len(text) + low, len(text) + high
        spans[k, 2], spans[k, 3] = names[k, 4], names[k, 5]
    return fill


def _spelled(text: Text, names: NDArray[np.int32]) -> Spelled:
    """Return the names of features."""
    size = int(np.sum(names[:, 3] - names[:, 2] + 1, dtype=np.int64))
    heads, spans = np.empty(size, np.uint8), np.empty((len(names), 4), np.int32)
    size = int(_spell(text, names, heads, spans))
    return Spelled(np.concatenate([text, heads[:size]]), spans)


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
        most, state, text = len(text) // 2 + 2, np.zeros(STATE, np.int64), plain(text)
        (meaning, features), out = self.begin(most, columns=6), Out.empty(most, self.tags)
        patterns = self.crosses.patterns(single=True)
        verdict, offset, end, weighted, tagged = _parse(text, meaning, patterns, out, features, state)
        rows, names = int(state[ROWS]), features.names[: state[NAMED]]
        error = None if verdict == _FINE else (ParseError(offset, self._message(verdict, text, offset)), end)
        tags = texts_at(text, np.ascontiguousarray(out.ids[:rows, :2])) if tagged and self.tags else None
        named = None
        if meaning.named != NO_NAMES:
            slots = np.zeros(len(names), np.uint64)
            find_slots(text, names, patterns, slots)
            named = NamedFeatures(names[:, 0].astype(np.int64), _spelled(text, names), slots, names[:, 1] != 0)
        return self.parsed(text, Raw.of(out, features, rows, weighted), error, named, tags)

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
