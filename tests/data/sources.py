"""What tests of streams share: rows as plain Python, a naive hasher, and a stream that says what it is told."""

import zlib

import numpy as np
from hypothesis import strategies as st

from thinstream.batch import Batch, Position


class Crc:
    """A hasher: CRC-32 of the name, the sign from its highest bit."""

    def __init__(self, bits=20, signed=False):
        self.bits, self.signed, self.width = bits, signed, 1 << bits

    def place(self, name):
        """(number, sign) of a name."""
        found = zlib.crc32(name.encode())
        return found & (self.width - 1), -1 if self.signed and found >> 31 else 1

    def __call__(self, names):
        places = [self.place(name) for name in names]
        return np.array([j if sign > 0 else ~j for j, sign in places], dtype=np.int32)

    def as_dict(self):
        return {"bits": self.bits, "signed": self.signed}


def naive_row(named, hasher, dtype="float32"):
    """{number: value} of {name: value}: equal numbers summed, zeros left out."""
    found = {}
    for name, value in named.items():
        j, sign = hasher.place(name)
        found[j] = np.dtype(dtype).type(found.get(j, 0) + sign * np.dtype(dtype).type(value))
    return {j: float(x) for j, x in found.items() if x != 0}


def rows(batches):
    """[(label, weight, {number: value})], after a look at what a batch promises."""
    found = []
    for batch in batches:
        assert batch.checked
        assert batch.indptr[0] == 0
        assert batch.nnz == 0 or np.abs(batch.values[: batch.nnz]).max() <= batch.largest
        for i in range(len(batch)):
            used = slice(batch.indptr[i], batch.indptr[i + 1])
            indices = batch.indices[used].tolist()
            assert indices == sorted(set(indices))
            assert all(0 <= j < batch.n_features for j in indices)
            y = None if batch.y is None else int(batch.y[i])
            weight = None if batch.weights is None else float(batch.weights[i])
            found.append((y, weight, dict(zip(indices, batch.values[used].tolist()))))
    return found


def resumes(stream):
    """Going on from the position of every batch, and from the start, gives the rest."""
    batches = list(stream.batches())
    whole = rows(batches)
    assert [batch.first_row for batch in batches] == [0, *(batch.position.row for batch in batches[:-1])][
        : len(batches)
    ]
    for batch in batches:
        rest = stream.batches(Position(*batch.position))
        assert rows(rest) == whole[batch.position.row :]
        assert stream.done(batch.position) == batch.position.row
    return whole


def batch_of(some, dtype="float32", n_features=100, labelled=True, weighted=False):
    """A batch of [(label, weight, {number: value})]."""
    entries = [sorted(features.items()) for _, _, features in some]
    return Batch.of(
        np.cumsum([0, *map(len, entries)]),
        np.array([j for row in entries for j, _ in row], dtype=np.int32 if n_features <= 2**31 else np.int64),
        np.array([x for row in entries for _, x in row], dtype=dtype),
        n_features,
        np.array([y for y, _, _ in some], dtype=np.int8) if labelled else None,
        np.array([w for _, w, _ in some], dtype=float) if weighted else None,
    )


class Told:
    """A stream of given batches."""

    unit, size, classes = "rows", None, None

    def __init__(self, batches, dtype="float32", feature_space=None, name="told", normalise=None):
        self.given, self.dtype, self.feature_space, self.name, self.normalise = (
            batches,
            dtype,
            feature_space or {},
            name,
            normalise,
        )

    def batches(self, start=Position()):  # noqa: B008
        row = 0
        for k, batch in enumerate(self.given):
            if isinstance(batch, Exception):
                raise batch
            row += len(batch)
            if row > start.row:
                yield Batch(**{f: getattr(batch, f) for f in batch.__slots__} | {"position": Position(k, 7, 0, row)})

    def fingerprint(self):
        return {"name": self.name, "parts": (1, 2)}


numbers32 = st.floats(-1e6, 1e6, width=32).filter(bool)
some_rows = st.lists(
    st.tuples(
        st.sampled_from([-1, 1]),
        st.floats(0, 10),
        st.dictionaries(st.integers(0, 99), numbers32, max_size=5),
    ),
    max_size=8,
)
