"""Names hashed into 2^62 numbers: in every format the same, and as 22 bits of them are."""

import json

import numpy as np
import pytest

from tests.data.test_hashing import naive as murmur3
from thinstream.data import Hashing, Numbering, from_memory
from thinstream.data.opening import open_stream
from thinstream.errors import InvalidParameterError

WIDE = Hashing(bits=62)
ROWS = [
    {"label": k % 2, "age": 20 + k, "city": f"c{k % 3}", "body": f"see you {k} at größe {k % 5}"} for k in range(40)
]


def naive(name, namespace=""):
    """Two hashes with two seeds, the upper 30 bits of the number from the second."""
    low = murmur3(name.encode(), murmur3(namespace.encode(), 0))
    high = murmur3(name.encode(), max(murmur3(namespace.encode(), 0x9747B28C), 1))
    return (max(high, 1) << 32 | low) & (1 << 62) - 1


def numbers_in(stream):
    (batch,) = stream.batches()
    assert batch.n_features <= 1 << 62
    return [{*batch.indices[a:b].tolist()} for a, b in zip(batch.indptr[:-1], batch.indptr[1:])]


def streams(folder, bits):
    """The same rows in four ways."""
    (folder / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    lines = [f"{row['label']},{row['age']},{row['city']},{row['body']}\n" for row in ROWS]
    (folder / "a.csv").write_text("label,age,city,body\n" + "".join(lines))
    features = [({k: v for k, v in row.items() if k != "label"}, row["label"]) for row in ROWS]
    how = {"text": ("body",), "bits": bits, "ngrams": (1, 2)}
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pa.Table.from_pylist(ROWS), folder / "a.parquet")
    yield from (open_stream(folder / name, **how) for name in ("a.jsonl", "a.csv", "a.parquet"))
    yield from_memory(features, hasher=Numbering(Hashing(bits=bits)), text=("body",), ngrams=(1, 2))


@pytest.mark.slow  # numbers of 8 bytes compile all parsers once more
def test_all_formats_agree(tmp_path):
    first, *others = [numbers_in(stream) for stream in streams(tmp_path, 62)]
    assert all(rows == first for rows in others)
    assert {naive("age"), naive("c0", "city="), naive("größe", "body"), naive("see you", "body")} <= first[0]
    narrow = [numbers_in(stream) for stream in streams(tmp_path, 22)]
    assert all(rows == [{number & (1 << 22) - 1 for number in row} for row in first] for rows in narrow)


def test_numbers_of_names():
    assert WIDE.index("age") == naive("age")
    assert Numbering(WIDE)(["age", "city=Oslo"]).tolist() == [naive("age"), naive("Oslo", "city=")]
    assert Hashing().index("age") == naive("age") & (1 << 22) - 1
    assert (WIDE.kind, Hashing(bits=31).kind) == (np.int64, np.int32)


@pytest.mark.slow
def test_vw(tmp_path):
    (tmp_path / "a.vw").write_text("1 |a x:2 y |b x\n")
    assert numbers_in(open_stream(tmp_path / "a.vw", bits=62)) == [{naive("x", "a"), naive("y", "a"), naive("x", "b")}]


def test_what_is_narrower(tmp_path):
    (tmp_path / "a.csv").write_text("label,a,b\n1,x,y\n0,y,z\n")
    with pytest.raises(InvalidParameterError, match="crossed features need bits of at most 31, got bits=62"):
        open_stream(tmp_path / "a.csv", cross=[("a", "b")], bits=62)
    with pytest.raises(InvalidParameterError, match="bits must be an integer from 1 to 62, got 63"):
        Hashing(bits=63)
