"""What the tests of all hashed formats share: a twin of the hash, checks that hold for any text, pieces."""

import numpy as np

from tests.data.test_hashing import naive
from thinstream.data.text.protocol import Parsed

LIMIT = {"float32": 1e15, "float64": 1e150}


def as_text(data, behind=b""):
    """The bytes as an array, at the end of a buffer or with more behind them."""
    whole = np.frombuffer(bytearray(b"x" + data + behind), np.uint8)
    return whole[1 : 1 + len(data)]


def check(parsed: Parsed, data: bytes, dtype="float32"):
    """What any `Parsed` promises."""
    n = len(parsed.labels)
    assert len(parsed.indptr) == n + 1
    assert parsed.indptr[0] == 0
    assert parsed.indptr[-1] == len(parsed.indices) == len(parsed.values)
    for low, high in zip(parsed.indptr[:-1], parsed.indptr[1:]):
        assert (np.diff(parsed.indices[low:high]) > 0).all()
    assert parsed.values.dtype == dtype
    assert np.isfinite(parsed.values).all()
    assert (parsed.values != 0).all()
    assert (parsed.indices >= 0).all()
    if len(parsed.values):
        assert parsed.largest >= np.abs(parsed.values).max()
        assert parsed.width > parsed.indices.max()
    assert parsed.taken <= len(data)
    assert parsed.lines == len(data[: parsed.taken].split(b"\n")) - data[: parsed.taken].endswith(b"\n") - (
        parsed.taken == 0
    )
    assert parsed.weights is None or (parsed.weights >= 0).all()
    if parsed.error is None:
        assert parsed.taken == len(data)
    else:
        assert 0 <= parsed.error.offset <= parsed.taken
        assert parsed.error.message.isprintable()


def rows_of(parsed):
    """Rows as plain tuples, NaN as None."""
    weights = np.ones(len(parsed.labels)) if parsed.weights is None else parsed.weights
    for k, label in enumerate(parsed.labels.tolist()):
        low, high = parsed.indptr[k], parsed.indptr[k + 1]
        features = dict(zip(parsed.indices[low:high].tolist(), parsed.values[low:high].tolist()))
        yield (None if label != label else label), float(weights[k]), features


def hashed(features, bits=22, signed=False, seed=0, dtype="float32", errors="strict"):
    """(namespace, name, value) to a row, by the definition."""
    sums = {}
    for space, name, value in features:
        code = naive(name.encode("utf-8", errors), naive(space.encode("utf-8", errors), seed))
        index, value = code % 2**bits, -value if signed and code >= 2**31 else value
        if value:
            sums[index] = sums[index] + value if index in sums else value
    sums = {index: float(np.dtype(dtype).type(value)) for index, value in sums.items()}
    return {index: value for index, value in sums.items() if value}


def in_pieces(form, data, cuts):
    """Rows of the text cut at the ends of records nearest to some places."""
    found, start = [], 0
    for cut in [*sorted(cuts), len(data)]:
        size = form.records(as_text(data[start:cut])) if cut < len(data) else len(data) - start
        if size > 0:
            parsed = form.parse(as_text(data[start : start + size], b"9|:,"))
            assert parsed.error is None
            found += list(rows_of(parsed))
            start += size
    return found


def parse_error(form, data):
    """(offset, message) of the first error in the text."""
    parsed = form.parse(as_text(data))
    check(parsed, data)
    assert parsed.error is not None
    return tuple(parsed.error)
