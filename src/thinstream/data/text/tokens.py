r"""Text to features: word n-grams and character n-grams. `Wording` is the definition in Python; the rest is compiled.

Words are sequences of letters, digits and underscores (``\w+``), without stop words. A feature is a word, or n words
joined by blanks, in the namespace of the text's column. Character n-grams are taken from the text with one blank for
each white space between words. They are in a separate namespace, ``column~``.

A format leaves runs: spans of texts, and positions for their features among the other features of a row. `run_features`
tokenizes the texts, and `Spliced` inserts their features. Python tokenizes texts that compiled code does not support
(those with İ, Σ, or bytes that are not UTF-8).
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinstream.batch import Spelled
from thinstream.data.cells import NO_NAMES, Meaning, is_needed
from thinstream.data.options import Range, require_few
from thinstream.data.text.characters import (
    BITS,
    ODD,
    SPACE,
    WIDE,
    WORD,
    copy_word,
    decoded,
    encoded,
    first_of,
    fits,
    letter_table,
)
from thinstream.data.text.hashing import Hashing, encode_names, hashed, murmur, signed_by
from thinstream.data.text.protocol import readable
from thinstream.jit import compiled, scalar

_WORD = re.compile(r"\w+")
#: The end of the namespace of character n-grams.
CHARS = "~"


@dataclass(frozen=True)
class Wording:
    """How text is tokenized.

    Parameters
    ----------
    ngrams : (low, high) or None
        Lengths of word n-grams. None: single words, or none if ``chars`` is given.
    chars : (low, high) or None
        Lengths of character n-grams.
    lower : bool
        Whether text is converted to lower case.
    stop : words
        Words that are removed before n-grams are made.

    Examples
    --------
    >>> Wording().features("Buy NOW, it's free_42!")
    [('', 'buy'), ('', 'now'), ('', 'it'), ('', 's'), ('', 'free_42')]
    >>> Wording(ngrams=(1, 2), stop=("the",)).features("The cat sat")
    [('', 'cat'), ('', 'sat'), ('', 'cat sat')]
    >>> Wording(chars=(2, 3)).features("a  bc")
    [('~', 'a '), ('~', 'a b'), ('~', ' b'), ('~', ' bc'), ('~', 'bc')]

    """

    ngrams: Range | None = None
    chars: Range | None = None
    lower: bool = True
    stop: Sequence[str] = ()

    @property
    def words(self) -> Range:
        """Lengths of word n-grams; (1, 0): none."""
        return self.ngrams or ((1, 0) if self.chars else (1, 1))

    @cached_property
    def left_out(self) -> frozenset[str]:
        """The stop words, in the case of the text."""
        return frozenset(word for entry in self.stop for word in _WORD.findall(self._cased(entry)))

    def features(self, text: str) -> list[tuple[str, str]]:
        """Return the features of a text in order, as (end of the namespace, name)."""
        text = self._cased(text)
        return [*(("", name) for name in self._words_of(text)), *((CHARS, name) for name in self._chars_of(text))]

    def _cased(self, text: str) -> str:
        return text.lower() if self.lower else text

    def _words_of(self, text: str) -> Iterator[str]:
        low, high = self.words
        words = [word for word in _WORD.findall(text) if word not in self.left_out] if high else []
        for end in range(1, len(words) + 1):
            for n in range(low, min(high, end) + 1):
                yield " ".join(words[end - n : end])

    def _chars_of(self, text: str) -> Iterator[str]:
        if self.chars is None:
            return
        low, high = self.chars
        text = " ".join(text.split())
        for start in range(len(text)):
            for n in range(low, min(high, len(text) - start) + 1):
                yield text[start : start + n]


_BLANK = 32
#: Room is allocated for words of one letter. Typical text needs a third of it.
_ROOMY = 3
#: (namespace, name, value)
Feature = tuple[str, str, float]
Integers = NDArray[np.int64]


class _Out(NamedTuple):
    """Arrays for the features of texts."""

    indices: NDArray[Any]
    values: NDArray[np.float64]
    named: Integers  # features whose names are needed
    spans: NDArray[np.int32]  # of these names
    seen: NDArray[np.uint8]  # see `thinstream.data.cells.Features`


class _How(NamedTuple):
    """A `Wording` for compiled code."""

    letters: NDArray[np.int32]
    quick: NDArray[np.uint8]  # the replacement of each byte; 0: not an ASCII letter
    lower: int  # added to ASCII capitals
    words: tuple[int, int]
    chars: tuple[int, int]  # (1, 0): none
    stop: NDArray[np.uint8]  # stop words, concatenated
    ends: Integers
    slots: Integers  # a hash table of their numbers, which start at 1


class Runs(NamedTuple):
    """Texts to be tokenized."""

    positions: Integers  # number of other features before each text
    columns: Integers  # column of each text
    starts: Integers
    stops: Integers


class RunFeatures(NamedTuple):
    """The features of all texts."""

    counts: Integers  # number of features of each text
    indices: NDArray[Any]
    values: NDArray[np.float64]
    named: Integers  # features whose names are needed
    names: Spelled


@scalar
def _entry(text: Any, i: Any, stop: Any, letters: Any) -> Any:
    """Return the table entry and the length of the character at ``text[i]``; length 0 if Python must read it."""
    c = np.int64(text[i])
    if c < 128:
        return np.int64(letters[c]), 1
    c, size = decoded(text, i, stop)
    entry = np.int64(letters[c]) if c < len(letters) else c << BITS
    return entry, 0 if entry & ODD else size


@scalar
def _copied(text: Any, i: Any, stop: Any, quick: Any, lower: Any, bag: Any, fill: Any) -> Any:
    """Copy ASCII letters; return the ends in the text and in the copy."""
    while fits(text, i):
        count = min(first_of(copy_word(text, i, bag, fill, lower)), stop - i)
        i, fill = i + count, fill + count
        if count < WIDE:
            return i, fill
    while i < stop and quick[text[i]] > 0:
        bag[fill] = quick[text[i]]
        i, fill = i + 1, fill + 1
    return i, fill


@scalar
def _is_left_out(bag: Any, start: Any, stop: Any, how: Any) -> Any:
    """Return whether a word is a stop word."""
    size = len(how.slots)
    slot = np.int64(murmur(bag, start, stop, np.uint64(0))) & size - 1
    while how.slots[slot] > 0:
        k = how.slots[slot] - 1
        low = how.ends[k - 1] if k > 0 else np.int64(0)
        same = how.ends[k] - low == stop - start
        for j in range(stop - start if same else 0):
            same = same and bag[start + j] == how.stop[low + j]
        if same:
            return True
        slot = slot + 1 & size - 1
    return False


@compiled(*(f"thinstream.data.{name}" for name in ("cells", "text.hashing", "text.characters")))
def _tokenize(
    text: Any, runs: Any, seeds: Any, how: Any, meaning: Any, counts: Any, out: Any, bag: Any, heads: Any, crossed: Any
) -> Any:
    """Tokenize all texts; return the numbers of features and of names, and of bytes used in the bag.

    Counts are −1 for texts that Python must read. Names, if needed, stay in the bag after the ``heads`` of columns.
    """
    longest = 0
    for k in range(len(counts)):
        longest = max(longest, runs.stops[k] - runs.starts[k])
    begins = np.empty(longest + 2, np.int64)
    (indices, values, named, spans, seen), letters, quick = out, how.letters, how.quick
    nnz, names, mask, signed, is_named = 0, 0, meaning.mask, meaning.signed, meaning.named != NO_NAMES
    kept = np.int64(heads[-1, 1, 1]) if is_named else np.int64(0)
    for k in range(len(counts)):
        counts[k] = -1
        if runs.columns[k] < 0:
            continue
        first, first_name, fine, (low, high) = nnz, names, True, how.words
        i, stop, fill, begin, words = runs.starts[k], runs.stops[k], kept, kept, 0
        column = runs.columns[k]
        seed = seeds[column, 0]
        while high > 0:
            i, fill = _copied(text, i, stop, quick, how.lower, bag, fill)
            size = 1
            if i < stop and text[i] >= 128:
                entry, size = _entry(text, i, stop, letters)
                if size == 0:
                    fine = False
                    break
                if entry & WORD:
                    fill = encoded(entry >> BITS, bag, fill)
                    i += size
                    continue
            if fill > begin:
                if len(how.slots) > 0 and _is_left_out(bag, begin, fill, how):
                    fill = begin
                else:
                    begins[words] = begin
                    words += 1
                    for n in range(low, min(high, words) + 1):
                        code = murmur(bag, begins[words - n], fill, seed)
                        index = np.int64(code & mask)
                        indices[nnz], values[nnz] = index, signed_by(code, signed, 1.0)
                        if is_named and is_needed(meaning.named, crossed[column], seen, index):
                            named[names] = nnz
                            _span(spans, names, heads, column, 0, begins[words - n], fill)
                            names += 1
                        nnz += 1
                    bag[fill] = _BLANK
                    fill += 1
                    begin = fill
            if i >= stop:
                break
            i += size
        before = fill if is_named else np.int64(0)
        i, fill, count, (low, high) = runs.starts[k], before, 0, how.chars
        seed = seeds[column, 1]
        while high > 0 and fine and i < stop:
            entry, size = _entry(text, i, stop, letters)
            if size == 0:
                fine = False
                break
            i += size
            if not entry & SPACE:
                begins[count] = fill
                fill = encoded(entry >> BITS, bag, fill)
                count += 1
            elif count > 0 and bag[fill - 1] != _BLANK:
                begins[count] = fill
                bag[fill] = _BLANK
                fill, count = fill + 1, count + 1
        if count > 0 and bag[fill - 1] == _BLANK:
            fill, count = fill - 1, count - 1
        begins[count] = fill
        if fine:
            for start in range(count):
                for n in range(low, min(high, count - start) + 1):
                    code = murmur(bag, begins[start], begins[start + n], seed)
                    index = np.int64(code & mask)
                    indices[nnz], values[nnz] = index, signed_by(code, signed, 1.0)
                    if is_named and is_needed(meaning.named, crossed[column], seen, index):
                        named[names] = nnz
                        _span(spans, names, heads, column, 1, begins[start], begins[start + n])
                        names += 1
                    nnz += 1
            counts[k] = nnz - first
            kept = fill if names > first_name else kept
        else:
            nnz, names = first, first_name
    return nnz, names, kept


@scalar
def _span(spans: Any, k: Any, heads: Any, column: Any, head: Any, start: Any, stop: Any) -> None:
    """Fill in the span of a name."""
    spans[k, 0], spans[k, 1] = heads[column, head, 0], heads[column, head, 1]
    spans[k, 2], spans[k, 3] = start, stop


@compiled()
def _insert(among: Any, positions: Any, counts: Any, more: Any, out: Any) -> None:
    """Insert pairs at some positions into a list of pairs."""
    done, taken, at = 0, 0, 0
    for k in range(len(positions) + 1):
        last = positions[k] if k < len(positions) else len(among[0])
        while done < last:
            out[0][at], out[1][at] = among[0][done], among[1][done]
            done, at = done + 1, at + 1
        for _ in range(counts[k] if k < len(positions) else 0):
            out[0][at], out[1][at] = more[0][taken], more[1][taken]
            taken, at = taken + 1, at + 1


@lru_cache(64)
def _compiled_form(wording: Wording) -> _How:
    stop = sorted(word.encode("utf-8", "surrogatepass") for word in wording.left_out)
    ends = np.cumsum([len(word) for word in stop], dtype=np.int64)
    slots = np.zeros(1 << (2 * len(stop)).bit_length() if stop else 0, np.int64)
    for k, word in enumerate(stop):
        text = np.frombuffer(word, np.uint8)
        slot = int(murmur(text, 0, len(text), np.uint64(0))) % len(slots)
        while slots[slot]:
            slot = (slot + 1) % len(slots)
        slots[slot] = k + 1
    text = np.frombuffer(bytearray(b"".join(stop)), np.uint8)
    letters = letter_table(wording.lower)
    quick = np.where((letters[:256] & WORD > 0) & (np.arange(256) < 128), letters[:256] >> BITS, 0).astype(np.uint8)
    return _How(letters, quick, 32 if wording.lower else 0, wording.words, wording.chars or (1, 0), text, ends, slots)


def most_features(wording: Wording, sizes: Integers) -> int:
    """Return an upper bound for the number of features of texts with these sizes."""
    (low, high), (few, many) = wording.words, wording.chars or (1, 0)
    return int(((sizes + 1) // 2).sum()) * max(high - low + 1, 0) + int(sizes.sum()) * (many - few + 1)


def run_features(
    text: NDArray[np.uint8],
    runs: Runs,
    columns: Sequence[str],
    wording: Wording,
    hashing: Hashing,
    meaning: Meaning,
    seen: NDArray[np.uint8],
    crossed: NDArray[np.bool_],
) -> RunFeatures:
    """Return the features of each text, with the names that are needed; see `thinstream.data.cells.Features`."""
    counts, named = np.empty(len(runs.positions), np.int64), meaning.named != NO_NAMES
    room = most_features(wording, runs.stops - runs.starts)
    require_few(room // (1 if wording.chars else _ROOMY), "words or n-grams")
    names = room if named else 0
    out = _Out(
        np.empty(room, hashing.kind), np.empty(room), np.empty(names, np.int64), np.empty((names, 4), np.int32), seen
    )
    # the lower case of a character may have three bytes instead of two
    sizes = 2 * (runs.stops - runs.starts) + 8
    most = 2 * int(sizes.sum()) if named else int(sizes.max(initial=0))
    bag, heads = _with_heads(columns, most + WIDE)
    seeds = np.array([[hashing.namespace(name), hashing.namespace(name + CHARS)] for name in columns], np.uint64)
    how = _compiled_form(wording)
    nnz, count, kept = _tokenize(text, runs, seeds.reshape(-1, 2), how, meaning, counts, out, bag, heads, crossed)
    left, spelled = np.flatnonzero(counts < 0), Spelled(bag[:kept], out.spans[:count])
    tokens = RunFeatures(counts, out.indices[:nnz], out.values[:nnz], out.named[:count], spelled)
    if not len(left):
        return tokens
    asked = [
        [(columns[runs.columns[k]] + end, word, 1.0) for end, word in wording.features(_text_of(text, runs, k))]
        for k in left.tolist()
    ]
    sizes = np.array([*map(len, asked)], np.int64)
    others = [feature for features in asked for feature in features]
    values = np.array([value for _, _, value in others], np.float64)
    spaces = {space: hashing.namespace(space) for space in {space for space, _, _ in others}}
    numbers = hashed(
        *encode_names([name for _, name, _ in others]),
        np.array([spaces[space] for space, _, _ in others], np.uint64),
        values,
        hashing,
    )
    before = np.concatenate([[0], np.cumsum(np.maximum(counts, 0))])[left]
    counts[left] = sizes
    names_of_others = Spelled.of((readable(space, ""), name) for space, name, _ in others if named)
    more = RunFeatures(sizes, numbers, values, np.arange(len(names_of_others.spans)), names_of_others)
    both = Spliced(tokens.indices, tokens.values, before, more)
    order, positions = both.merged(tokens.named, more)
    names_of_both = Spelled.joined([spelled, names_of_others]).at(order)
    return RunFeatures(counts, both.indices, both.values, positions, names_of_both)


def _text_of(text: NDArray[np.uint8], runs: Runs, k: int) -> str:
    return bytes(text[runs.starts[k] : runs.stops[k]]).decode("utf-8", "replace")


def _with_heads(columns: Sequence[str], more: int) -> tuple[NDArray[np.uint8], Integers]:
    """Return room for names after the heads of columns: for words, and for characters."""
    text, ends = encode_names([readable(column + end, "") for column in columns for end in ("", CHARS)])
    bag = np.empty(len(text) + more, np.uint8)
    bag[: len(text)] = np.frombuffer(text, np.uint8)
    starts = np.concatenate([[0], ends[:-1]]) if len(ends) else ends
    return bag, np.stack([starts, ends], axis=1).reshape(-1, 2, 2).astype(np.int64)


def _inserted(
    among: tuple[NDArray[Any], NDArray[np.float64]],
    positions: Integers,
    counts: Integers,
    more: tuple[NDArray[Any], NDArray[np.float64]],
) -> tuple[NDArray[Any], NDArray[np.float64]]:
    if not len(among[0]) or not len(more[0]):
        return among if len(among[0]) else more
    total = len(among[0]) + len(more[0])
    out = np.empty(total, among[0].dtype), np.empty(total)
    _insert(among, positions, counts, more, out)
    return out


class Spliced:
    """Features of texts inserted among other features; ``positions`` are the numbers of other features before them."""

    def __init__(
        self, indices: NDArray[Any], values: NDArray[np.float64], positions: Integers, tokens: RunFeatures
    ) -> None:
        self.positions = positions
        self.before = np.concatenate([[0], np.cumsum(tokens.counts)])  # number of features of earlier texts
        self.indices, self.values = _inserted((indices, values), positions, tokens.counts, tokens[1:3])

    def indptr(self, indptr: Integers, runs: Integers) -> Integers:
        """Return the new ends of rows, given the number of texts up to each end."""
        return np.asarray(indptr + self.before[runs])

    def merged(self, others: Integers, tokens: RunFeatures) -> tuple[Integers, Integers]:
        """Return the order of some other features followed by named features of texts, and their new positions."""
        after = others + self.before[np.searchsorted(self.positions, others, side="right")]
        texts = np.searchsorted(self.before, tokens.named, side="right") - 1
        positions = np.concatenate([after, self.positions[texts] + tokens.named])
        order = np.argsort(positions, kind="stable")
        return order, positions[order]
