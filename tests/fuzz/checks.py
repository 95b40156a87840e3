"""What must hold for every text, whatever is in it."""

import hashlib
import math
import zlib
from itertools import pairwise

import numpy as np

from thinstream.errors import ThinstreamError


class Finding(Exception):
    """Something that must not be."""


def require(holds, what, *given):
    if not holds:
        raise Finding(" ".join([what, *(f"({thing!r})" for thing in given)]))


def outcome(make, twin, data, place):
    """Digest of what a fresh format makes of the text, after every check.

    ``place`` puts bytes into an array: at the edge of readable memory, for example.
    """
    form = make()
    try:
        head = form.header(place(data))
    except ThinstreamError as refused:
        return f"refused: {refused}"
    require(0 <= head <= len(data), "header takes bytes that are not there", head, len(data))
    body = data[head:]
    with np.errstate(over="ignore"):  # interpreted, wrapping integers warn
        parsed = form.parse(place(body))
        check(parsed, body)
        if twin is not None:
            wrong = twin(parsed, body, form)
            require(wrong is None, f"disagrees with the twin: {wrong}")
        for limit in {len(body) // 2, zlib.crc32(body) % (len(body) + 1)}:
            check_cut(form, parsed, body, limit, place)
    return hashlib.sha256(repr(canonical(parsed)).encode()).hexdigest()


def check(parsed, text):
    """What `Parsed` promises."""
    labels, indptr, indices, values = parsed.labels, parsed.indptr, parsed.indices, parsed.values
    rows = len(labels)
    require(labels.dtype == np.float64 and labels.ndim == 1, "labels must be float64", labels.dtype)
    require(not np.isinf(labels).any(), "a label is infinite")
    require(
        indptr.dtype == np.int64 and indptr.shape == (rows + 1,), "indptr must be int64, one more than rows", indptr
    )
    require(indptr[0] == 0 and (np.diff(indptr) >= 0).all(), "indptr must rise from 0", indptr)
    require(len(indices) == len(values) == indptr[-1], "indptr must end at the number of indices and values")
    require(indices.dtype in (np.int32, np.int64), "indices must be int32 or int64", indices.dtype)
    require(values.dtype in (np.float32, np.float64), "values must be float32 or float64", values.dtype)
    require((indices >= 0).all(), "an index is negative")
    rises = np.diff(indices) > 0
    starts = indptr[1:-1]
    starts = starts[(starts > 0) & (starts < len(indices))]
    rises[starts - 1] = True  # from one row to the next anything goes
    require(rises.all(), "indices of a row must be sorted and unique", indices.tolist())
    require(np.isfinite(values).all() and (values != 0).all(), "values must be finite and not 0", values.tolist())
    require(parsed.width > indices.max(initial=-1), "width is too small", parsed.width)  # zeros left out may count
    largest = float(np.abs(values).max()) if len(values) else 0.0
    require(math.isfinite(parsed.largest) and parsed.largest >= largest, "largest is too small", parsed.largest)
    check_place(parsed, text)
    if parsed.weights is not None:
        weights = parsed.weights
        require(weights.dtype == np.float64 and weights.shape == (rows,), "weights must be float64, one a row", weights)
        require(np.isfinite(weights).all() and (weights >= 0).all(), "weights must be finite and ≥ 0", weights)
    if parsed.tags is not None:
        require(
            len(parsed.tags) == rows and all(isinstance(tag, str) for tag in parsed.tags), "tags must be str, one a row"
        )


def check_place(parsed, text):
    """Lines and bytes taken fit the text, and error lies within them."""
    taken, error = parsed.taken, parsed.error
    require(0 <= taken <= len(text), "more bytes taken than there are", taken, len(text))
    require(error is not None or taken == len(text), "without error all bytes are taken", taken, len(text))
    lines = text.count(b"\n", 0, taken) + (taken > 0 and text[taken - 1 : taken] != b"\n")
    require(parsed.lines == lines, "lines are not those of the bytes taken", parsed.lines, lines)
    require(taken == len(text) or text[taken - 1 : taken] == b"\n", "a record does not end there", taken)
    if error is not None:
        require(0 <= error.offset <= taken, "error outside of what was taken", error.offset, taken)
        require(isinstance(error.message, str) and error.message, "error without a message", error)


def check_cut(form, whole, text, limit, place):
    """Cut where a record ends, the pieces give what the whole gives."""
    cut = form.records(place(text[:limit]))
    require(0 <= cut <= limit, "records ends outside of the text", cut, limit)
    if cut == 0:
        return
    head = form.parse(place(text[:cut]))
    check(head, text[:cut])
    pieces = [(head, 0)]
    if head.error is None:
        tail = form.parse(place(text[cut:]))
        check(tail, text[cut:])
        pieces.append((tail, cut))
    rows = [row for piece, _ in pieces for row in rows_of(piece)]
    require(rows == rows_of(whole), f"cut at {cut} of {len(text)} the rows are others")
    last, offset = pieces[-1]
    place_of = None if last.error is None else (last.error.offset + offset, last.error.message)
    there = None if whole.error is None else tuple(whole.error)
    require(place_of == there, f"cut at {cut} the error is another", place_of, there)


def rows_of(parsed):
    """Rows as bytes that are equal if every bit is; dtypes may differ between pieces."""
    ends = parsed.indptr.tolist()
    return [
        (
            parsed.labels[i].tobytes(),
            parsed.indices[a:b].tolist(),
            [value.hex() for value in parsed.values[a:b].tolist()],
            1.0 if parsed.weights is None else float(parsed.weights[i]),  # a piece may have none
            "" if parsed.tags is None else parsed.tags[i],
        )
        for i, (a, b) in enumerate(pairwise(ends))
    ]


def canonical(thing):
    """Plain values, the same for the same bits, whether numpy's or Python's."""
    if isinstance(thing, np.ndarray):
        return thing.dtype.str, thing.shape, thing.tobytes()
    if isinstance(thing, float | np.floating):
        return float(thing).hex()
    if isinstance(thing, int | np.integer):
        return int(thing)
    if isinstance(thing, list | tuple):
        return [canonical(part) for part in thing]
    if isinstance(thing, dict):
        return sorted((canonical(key), canonical(value)) for key, value in thing.items())
    return repr(thing)
