"""Texts to hashed features, compiled: what `Wording.features` says, and its hashes.

A format leaves runs: places in its text, or whatever else stands for some features of a row, and where among the
others they belong. `run_features` takes those of text apart; what it cannot do (İ, Σ, bytes that are no UTF-8) and all
other runs it asks Python for. `Spliced` puts all of them among the features that are there already.
"""

from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinstream.jit import compiled, scalar
from thinstream.spelling import Spelled
from thinstream.streams.expansion import require_few
from thinstream.streams.text.hashing import Hashing, encode_names, hashed, murmur, signed_by
from thinstream.streams.text.letters import BITS, ODD, SPACE, WORD, decoded, encoded, letter_table
from thinstream.streams.text.names import readable
from thinstream.streams.text.vectors import WIDE, copy_word, first_of, fits
from thinstream.streams.text.wording import CHARS, Wording

_BLANK = 32
#: Room for features is made for words of one letter; usual texts need a third of it.
_ROOMY = 3
#: (namespace, name, value)
Feature = tuple[str, str, float]
Integers = NDArray[np.int64]


class _How(NamedTuple):
    """A `Wording` as compiled code has it."""

    letters: NDArray[np.int32]
    quick: NDArray[np.uint8]  # of each byte the letter to write in its place; 0: none of ASCII
    lower: int  # what to add to capitals of ASCII
    words: tuple[int, int]
    chars: tuple[int, int]  # (1, 0): none
    stop: NDArray[np.uint8]  # words left out, one behind another
    ends: Integers
    slots: Integers  # where in a table of their hashes they are, from 1 on


class Runs(NamedTuple):
    """Features that are still to be found: those of texts, and others (−1 for a column)."""

    places: Integers  # features of the format before each
    columns: Integers  # of the text
    starts: Integers
    stops: Integers


class RunFeatures(NamedTuple):
    """What was found in runs, one behind another."""

    counts: Integers  # of each run
    indices: NDArray[Any]
    values: NDArray[np.float64]
    names: Spelled | None  # where names travel with rows


@scalar
def _entry(text: Any, i: Any, stop: Any, letters: Any) -> Any:
    """(entry of the character at ``text[i]``, its bytes: none if it is to be left to Python)."""
    c = np.int64(text[i])
    if c < 128:
        return np.int64(letters[c]), 1
    c, size = decoded(text, i, stop)
    found = np.int64(letters[c]) if c < len(letters) else c << BITS
    return found, 0 if found & ODD else size


@scalar
def _copied(text: Any, i: Any, stop: Any, quick: Any, lower: Any, bag: Any, fill: Any) -> Any:
    """Copies letters of ASCII; returns where both ends are then."""
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
    """Whether a word is in the stop list."""
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


@compiled(*(f"thinstream.streams.text.{name}" for name in ("digits", "hashing", "letters", "vectors")))
def _take_apart(
    text: Any, runs: Any, seeds: Any, how: Any, mask: Any, signed: Any, counts: Any, out: Any, bag: Any, heads: Any
) -> Any:
    """Features of all texts, one behind another; counts are −1 of what is left to Python. Returns (how many, bytes).

    Where names are asked for, they stay in the bag, behind the ``heads`` of columns, up to the byte that is returned.
    """
    longest = 0
    for k in range(len(counts)):
        longest = max(longest, runs.stops[k] - runs.starts[k])
    begins = np.empty(longest + 2, np.int64)
    (indices, values, spans), letters, quick = out, how.letters, how.quick
    nnz, spelled = 0, len(heads) > 0
    kept = np.int64(heads[-1, 1, 1]) if spelled else np.int64(0)
    for k in range(len(counts)):
        counts[k] = -1
        if runs.columns[k] < 0:
            continue
        first, fine, (low, high) = nnz, True, how.words
        i, stop, fill, begin, words = runs.starts[k], runs.stops[k], kept, kept, 0
        seed = seeds[runs.columns[k], 0]
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
                        indices[nnz] = np.int64(code & np.uint64(mask))
                        values[nnz] = signed_by(code, signed, 1.0)
                        if spelled:
                            _span(spans, nnz, heads, runs.columns[k], 0, begins[words - n], fill)
                        nnz += 1
                    bag[fill] = _BLANK
                    fill += 1
                    begin = fill
            if i >= stop:
                break
            i += size
        before = fill if spelled else np.int64(0)
        i, fill, count, (low, high) = runs.starts[k], before, 0, how.chars
        seed = seeds[runs.columns[k], 1]
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
                    indices[nnz] = np.int64(code & np.uint64(mask))
                    values[nnz] = signed_by(code, signed, 1.0)
                    if spelled:
                        _span(spans, nnz, heads, runs.columns[k], 1, begins[start], begins[start + n])
                    nnz += 1
            counts[k] = nnz - first
            kept = fill if spelled else kept
        else:
            nnz = first
    return nnz, kept


@scalar
def _span(spans: Any, k: Any, heads: Any, column: Any, kind: Any, start: Any, stop: Any) -> None:
    """Where a name is."""
    spans[k, 0], spans[k, 1] = heads[column, kind, 0], heads[column, kind, 1]
    spans[k, 2], spans[k, 3] = start, stop


@compiled()
def _insert_spans(among: Any, places: Any, counts: Any, more: Any, out: Any) -> None:
    """Spans of one list with runs of another before those at some places."""
    done, taken, at = 0, 0, 0
    for k in range(len(places) + 1):
        last = places[k] if k < len(places) else len(among)
        while done < last:
            for part in range(4):
                out[at, part] = among[done, part]
            done, at = done + 1, at + 1
        for _ in range(counts[k] if k < len(places) else 0):
            for part in range(4):
                out[at, part] = more[taken, part]
            taken, at = taken + 1, at + 1


@compiled()
def _insert(among: Any, places: Any, counts: Any, more: Any, out: Any) -> None:
    """Pairs of one list with runs of another before those at some places."""
    done, taken, at = 0, 0, 0
    for k in range(len(places) + 1):
        last = places[k] if k < len(places) else len(among[0])
        while done < last:
            out[0][at], out[1][at] = among[0][done], among[1][done]
            done, at = done + 1, at + 1
        for _ in range(counts[k] if k < len(places) else 0):
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
    """Room for the features of texts of so many bytes."""
    (low, high), (few, many) = wording.words, wording.chars or (1, 0)
    return int(((sizes + 1) // 2).sum()) * max(high - low + 1, 0) + int(sizes.sum()) * (many - few + 1)


def run_features(
    text: NDArray[np.uint8],
    runs: Runs,
    columns: Sequence[str],
    wording: Wording,
    hashing: Hashing,
    odd: Callable[[int], Sequence[Feature]],
) -> RunFeatures:
    """The features of each run; ``odd`` has those of the runs that are no texts, or none for compiled code."""
    counts = np.empty(len(runs.places), np.int64)
    texts = runs.columns >= 0
    room = most_features(wording, (runs.stops - runs.starts)[texts])
    require_few(room // (1 if wording.chars else _ROOMY), "words or n-grams")
    indices, values = np.empty(room, hashing.kind), np.empty(room)
    spans = np.empty((room if hashing.spells else 0, 4), np.int32)
    # a character in lower case may have three bytes for two; between words there is a byte already
    sizes = 2 * (runs.stops - runs.starts)[texts] + 8
    most = 2 * int(sizes.sum()) if hashing.spells else int(sizes.max(initial=0))
    bag, heads = _with_heads(columns if hashing.spells else (), most + WIDE)
    seeds = np.array([[hashing.namespace(name), hashing.namespace(name + CHARS)] for name in columns], np.uint64)
    how, mask = _compiled_form(wording), np.uint64(hashing.mask)
    out = indices, values, spans
    nnz, kept = _take_apart(text, runs, seeds.reshape(-1, 2), how, mask, hashing.signed, counts, out, bag, heads)
    left, names = np.flatnonzero(counts < 0), Spelled(bag[:kept], spans[:nnz]) if hashing.spells else None
    if not len(left):
        return RunFeatures(counts, indices[:nnz], values[:nnz], names)
    asked = [odd(k) for k in left.tolist()]
    sizes = np.array([*map(len, asked)], np.int64)
    found = [feature for features in asked for feature in features]
    more = np.array([value for _, _, value in found], np.float64)
    spaces = {space: hashing.namespace(space) for space in {space for space, _, _ in found}}
    numbers = hashed(
        *encode_names([name for _, name, _ in found]),
        np.array([spaces[space] for space, _, _ in found], np.uint64),
        more,
        hashing,
    )
    before = np.concatenate([[0], np.cumsum(np.maximum(counts, 0))])[left]
    counts[left] = sizes
    asked_names = Spelled.of((readable(space, ""), name) for space, name, _ in found) if hashing.spells else None
    both = _inserted((indices[:nnz], values[:nnz]), before, sizes, (numbers, more))
    return RunFeatures(counts, *both, _inserted_names(names, before, sizes, asked_names))


def _with_heads(columns: Sequence[str], more: int) -> tuple[NDArray[np.uint8], Integers]:
    """Room for names behind the heads that those of columns have: of words, and of characters."""
    text, ends = encode_names([readable(column + end, "") for column in columns for end in ("", CHARS)])
    bag = np.empty(len(text) + more, np.uint8)
    bag[: len(text)] = np.frombuffer(text, np.uint8)
    starts = np.concatenate([[0], ends[:-1]]) if len(ends) else ends
    return bag, np.stack([starts, ends], axis=1).reshape(-1, 2, 2).astype(np.int64)


def _inserted_names(among: Spelled | None, places: Integers, counts: Integers, more: Spelled | None) -> Spelled | None:
    if among is None or more is None:
        return None
    if not len(among.spans) or not len(more.spans):
        return among if len(among.spans) else more
    both = Spelled.joined([among, more])
    spans = np.empty_like(both.spans)
    _insert_spans(both.spans[: len(among.spans)], places, counts, both.spans[len(among.spans) :], spans)
    return Spelled(both.text, spans)


def _inserted(
    among: tuple[NDArray[Any], NDArray[np.float64]],
    places: Integers,
    counts: Integers,
    more: tuple[NDArray[Any], NDArray[np.float64]],
) -> tuple[NDArray[Any], NDArray[np.float64]]:
    if not len(among[0]) or not len(more[0]):
        return among if len(among[0]) else more
    total = len(among[0]) + len(more[0])
    out = np.empty(total, among[0].dtype), np.empty(total)
    _insert(among, places, counts, more, out)
    return out


class Spliced:
    """Features of runs among others, and where each is then."""

    def __init__(
        self,
        indices: NDArray[Any],
        values: NDArray[np.float64],
        runs: Runs,
        found: RunFeatures,
        names: Spelled | None = None,
    ) -> None:
        self.counts = found.counts
        self.before = np.concatenate([[0], np.cumsum(found.counts)])  # features of runs before each run
        self.starts = runs.places + self.before[:-1]
        self.indices, self.values = _inserted((indices, values), runs.places, found.counts, found[1:3])
        self.names = _inserted_names(names, runs.places, found.counts, found.names)

    def indptr(self, indptr: Integers, runs: Integers) -> Integers:
        """Where rows end now, given how many runs there are up to each end before."""
        return np.asarray(indptr + self.before[runs])

    @cached_property
    def places(self) -> Integers:
        """Where the features of runs are."""
        within = np.arange(self.before[-1]) - np.repeat(self.before[:-1], self.counts)
        return np.asarray(np.repeat(self.starts, self.counts) + within)

    def find(self, place: int) -> tuple[int, int]:
        """(run, which of its features) at a place, or (−1, which of the others)."""
        k = int(np.searchsorted(self.starts, place, side="right")) - 1
        if k >= 0 and place - self.starts[k] < self.counts[k]:
            return k, place - int(self.starts[k])
        return -1, place - int(self.before[k + 1])
