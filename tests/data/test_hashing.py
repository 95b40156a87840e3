"""Hashes against published values and a twin in plain integers; rows summed against dictionaries."""

import json
import subprocess
import sys
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from thinstream.data import from_memory, open_stream
from thinstream.data.text.hashing import Hashing, Numbering, absorbed, finished, hashed, murmur
from thinstream.data.text.sorting import tidy_rows
from thinstream.errors import InvalidParameterError
from thinstream.jit import compiled

M = 2**32 - 1


def naive(data, seed):
    """MurmurHash3_x86_32 in Python's integers."""

    def turned(x, by):
        return (x << by | x >> 32 - by) & M

    def mixed(k):
        return turned(k * 0xCC9E2D51 & M, 15) * 0x1B873593 & M

    h, whole = seed, len(data) // 4 * 4
    for i in range(0, whole, 4):
        h = turned(h ^ mixed(int.from_bytes(data[i : i + 4], "little")), 13) * 5 + 0xE6546B64 & M
    if data[whole:]:
        h ^= mixed(int.from_bytes(data[whole:], "little"))
    h ^= len(data)
    h = (h ^ h >> 16) * 0x85EBCA6B & M
    h = (h ^ h >> 13) * 0xC2B2AE35 & M
    return h ^ h >> 16


@compiled(murmur.__module__)
def compiled_murmur(text, start, stop, seed):
    return murmur(text, start, stop, seed)


PUBLISHED = [
    (b"", 0, 0x00000000),
    (b"", 1, 0x514E28B7),
    (b"", 0xFFFFFFFF, 0x81F16F39),
    (b"\x00\x00\x00\x00", 0, 0x2362F9DE),
    (b"\xff\xff\xff\xff", 0, 0x76293B50),
    (b"\x21\x43\x65\x87", 0, 0xF55B516B),
    (b"\x21\x43\x65\x87", 0x5082EDEE, 0x2362F9DE),
    (b"\x21\x43\x65", 0, 0x7E4A8634),
    (b"\x21\x43", 0, 0xA0F7B07A),
    (b"\x21", 0, 0x72661CF4),
    (b"The quick brown fox jumps over the lazy dog", 0x9747B28C, 0x2FA826CD),
    (b"hello", 0, 0x248BFA47),
]


@pytest.mark.parametrize(("data", "seed", "expected"), PUBLISHED)
def test_published_values(data, seed, expected):
    assert naive(data, seed) == expected
    assert compiled_murmur(np.frombuffer(data, np.uint8), 0, len(data), np.uint64(seed)) == expected


@pytest.mark.twin
@given(st.binary(max_size=40), st.binary(max_size=9), st.binary(max_size=9), st.integers(0, M))
def test_any_bytes_anywhere(data, before, behind, seed):
    text = np.frombuffer(before + data + behind, np.uint8)
    assert compiled_murmur(text, len(before), len(before) + len(data), np.uint64(seed)) == naive(data, seed)


@compiled(murmur.__module__)
def compiled_in_parts(text, ends, seed):
    found, word, held, start = seed, np.uint64(0), np.uint64(0), 0
    for k in range(len(ends)):
        found, word, held = absorbed(text, start, ends[k], found, word, held)
        start = ends[k]
    return finished(found, word, held, start)


@pytest.mark.twin
@given(st.lists(st.binary(max_size=11), max_size=6), st.integers(0, M))
def test_bytes_in_parts(parts, seed):
    ends = np.cumsum([len(part) for part in parts], dtype=np.int64)
    text = np.frombuffer(b"".join(parts), np.uint8)
    assert compiled_in_parts(text, ends, np.uint64(seed)) == naive(b"".join(parts), seed)


@pytest.mark.twin
def test_long_rows_are_sorted_alike():
    """By digits, equal numbers in the order they came in: sums of other orders have other bits."""
    rng = np.random.default_rng(0)
    for size, most in ((63, 10), (64, 300), (1000, 1 << 22), (3000, 1 << 31)):
        indices = rng.integers(most, size=size, dtype=np.int64).astype(np.int32)
        values = rng.normal(size=size) * 10.0 ** rng.integers(-8, 8, size)
        _, _, found, sums, _, _ = tidy_rows(np.array([0, size]), indices.copy(), values.copy(), "float64")
        expected = {}
        for j, x in zip(indices.tolist(), values.tolist()):
            expected[j] = expected[j] + x if j in expected else x
        assert dict(zip(found.tolist(), sums.tolist())) == expected
        assert (np.diff(found) > 0).all()


@pytest.mark.twin
@pytest.mark.parametrize("kind", [np.int32, np.int64])
def test_short_rows_are_sorted_alike(kind):
    """By comparing many at a time, where others lie behind them."""
    rng = np.random.default_rng(0)
    sizes = [*range(70), 40]
    indptr = np.cumsum([0, *sizes])
    indices = rng.integers(30, size=indptr[-1]).astype(kind) << (20 if kind is np.int32 else 57)
    values = rng.normal(size=len(indices)) * 10.0 ** rng.integers(-8, 8, len(indices))
    rows, ends, found, sums, _, _ = tidy_rows(indptr.copy(), indices.copy(), values.copy(), "float64")
    assert rows == len(sizes)
    for i in range(rows):
        expected = {}
        for j, x in zip(indices[indptr[i] : indptr[i + 1]].tolist(), values[indptr[i] : indptr[i + 1]].tolist()):
            expected[j] = expected[j] + x if j in expected else x
        row = slice(ends[i], ends[i + 1])
        assert list(zip(found[row].tolist(), sums[row].tolist())) == sorted(expected.items())


def test_the_same_numbers_in_every_process():
    ask = "print(Hashing().index('free'), Hashing(31, seed=7).index('ü', 'ns'))"
    code = f"from thinstream.data.text.hashing import Hashing; {ask}"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert found.split() == ["4088942", "1921417431"]
    assert Hashing(31, seed=7).index("ü", "ns") == naive("ü".encode(), naive(b"ns", 7)) & 2**31 - 1


@given(st.lists(st.tuples(st.text(max_size=8), st.integers(0, M), st.floats(-9, 9))), st.integers(1, 31), st.booleans())
def test_many_names_at_once(names, bits, signed):
    words = [name.encode("utf-8", "surrogatepass") for name, _, _ in names]
    ends = np.cumsum([len(word) for word in words], dtype=np.int64)
    values = np.array([value for _, _, value in names], np.float64)
    seeds = np.array([seed for _, seed, _ in names], np.uint64)
    indices = hashed(b"".join(words), ends, seeds, values, Hashing(bits, signed))
    hashes = [naive(word, seed) for word, (_, seed, _) in zip(words, names)]
    assert indices.tolist() == [h % 2**bits for h in hashes]
    assert values.tolist() == [-v if signed and h >= 2**31 else v for h, (_, _, v) in zip(hashes, names)]


@pytest.mark.twin
@given(
    st.lists(
        st.lists(
            st.tuples(
                st.integers(0, 60) | st.sampled_from([255, 256, 65_535, 65_536, 1 << 24, (1 << 31) - 1]),
                st.sampled_from([1.0, -1.0, 0.1, 1e-50, 0.0, 3e14]),
            ),
            max_size=150,
        )
    ),
    st.sampled_from(["float32", "float64"]),
)
def test_rows_are_sorted_and_summed_in_order(rows, dtype):
    indptr = np.cumsum([0, *(len(row) for row in rows)], dtype=np.int64)
    pairs = [pair for row in rows for pair in row]
    found = tidy_rows(
        indptr.copy(), np.array([j for j, _ in pairs], np.int32), np.array([x for _, x in pairs], np.float64), dtype
    )
    expected, good = [], 0
    for row in rows:
        sums = {}
        for j, x in row:
            sums[j] = sums[j] + x if j in sums else x
        if any(abs(x) > (1e15 if dtype == "float32" else 1e150) for x in sums.values()):
            break
        good += 1
        expected.append(
            [(j, np.dtype(dtype).type(sums[j])) for j in sorted(sums) if np.dtype(dtype).type(sums[j]) != 0]
        )
    rows_found, indptr, indices, values, width, largest = found
    assert rows_found == good
    assert indptr.tolist() == np.cumsum([0, *map(len, expected)]).tolist()
    flat = [pair for row in expected for pair in row]
    assert list(zip(indices.tolist(), values.tolist())) == [(j, float(x)) for j, x in flat]
    assert values.dtype == dtype
    if good == len(rows):
        assert width == max((j + 1 for j, _ in flat), default=0)
        assert largest == max((abs(float(x)) for _, x in flat), default=0)


@pytest.mark.twin
@pytest.mark.parametrize("others", [0, 5, 40, 300])
def test_equal_features_are_summed_in_the_order_they_came_in(others):
    rng = np.random.default_rng(others)
    row = [(int(j), 1.0) for j in rng.integers(0, 99, others)]
    for part in (1e14, 0.1, -1e14, 1e-3, 0.7, 3e13, -0.2):  # any other order gives other bits
        row.insert(int(rng.integers(max(0, len(row) - 40), len(row) + 1)), (50, part))
    total = 0.0
    for j, x in row:
        total += x if j == 50 else 0.0
    sums = np.array([x for _, x in row])
    _, _, indices, values, _, _ = tidy_rows(
        np.array([0, len(row)]), np.array([j for j, _ in row], np.int32), sums, "float64"
    )
    assert values[indices == 50] == [total]


@pytest.mark.parametrize("count", [20, 47, 48, 300])
def test_long_rows_of_numbers_of_62_bits_are_sorted(count):
    given = np.random.default_rng(count).integers(0, 2**62, count)
    _, _, indices, values, _, _ = tidy_rows(np.array([0, count]), given.copy(), np.arange(1.0, count + 1), "float64")
    np.testing.assert_array_equal(indices, np.sort(given))
    np.testing.assert_array_equal(values, 1.0 + np.argsort(given))


def test_description_goes_through_json():
    how = Hashing(20, True, 5)
    assert Hashing.from_dict(json.loads(json.dumps(how.as_dict()))) == how
    with pytest.raises(InvalidParameterError, match="must have hash='murmur3_x86_32', bits, signed and seed, got"):
        Hashing.from_dict({"hash": "md5", "bits": 3, "signed": False, "seed": 0})
    with pytest.raises(InvalidParameterError, match="bits must be an integer from 1 to 62, got 63"):
        Hashing.from_dict({**how.as_dict(), "bits": 63})


@pytest.mark.parametrize("wrong", [{"bits": 0}, {"bits": 2.0}, {"bits": True}, {"seed": -1}, {"signed": 1}])
def test_settings_are_checked(wrong):
    (name,) = wrong
    with pytest.raises(InvalidParameterError, match=f"Hashing: {name} must be"):
        Hashing(**wrong)


@pytest.mark.parametrize("signed", [False, True])
def test_pairs_have_the_numbers_of_their_names(signed):
    numbers = Numbering(Hashing(bits=20, signed=signed))
    categories = ["Oslo", "", "=", "größe", "x=y"]
    for column in ("city", ""):
        names = numbers([f"{column}={category}" for category in categories])
        assert numbers([(column, category) for category in categories]).tolist() == names.tolist()
    assert numbers([("city", None), ("a b", None)]).tolist() == numbers(["city", "a b"]).tolist()


@pytest.mark.parametrize("signed", [False, True])
def test_columns_with_an_equals_sign_are_read_alike_everywhere(tmp_path, signed):
    """Files, frames and dicts number these features as pairs do: the sign is part of the column's name."""
    (tmp_path / "a.csv").write_text("label,x=1,y=z\n1,2,w=q\n-1,3,v\n")
    (tmp_path / "a.jsonl").write_text('{"label":1,"x=1":2,"y=z":"w=q"}\n{"label":-1,"x=1":3,"y=z":"v"}\n')
    hashing = Hashing(bits=20, signed=signed)
    frame = pd.DataFrame({"x=1": [2.0, 3.0], "y=z": ["w=q", "v"]})
    records = [(row, y) for row, y in zip(frame.to_dict("records"), [1, -1], strict=True)]
    streams = [open_stream(tmp_path / name, bits=20, signed=signed) for name in ("a.csv", "a.jsonl")]
    streams += [from_memory(frame, [1, -1], hasher=Numbering(hashing)), from_memory(records, hasher=Numbering(hashing))]
    features = [("x=1", None), ("y=z", "w=q"), ("y=z", "v")]
    size, word, other = Numbering(hashing)(features).tolist()
    expected = []
    for row in ({size: 2.0, word: 1.0}, {size: 3.0, other: 1.0}):
        expected.append({(~j if j < 0 else j): (-x if j < 0 else x) for j, x in row.items()})
    for stream in streams:
        [batch] = stream.batches()
        ends = batch.indptr.tolist()
        rows = [
            dict(zip(batch.indices[low:high].tolist(), batch.values[low:high].tolist(), strict=True))
            for low, high in pairwise(ends)
        ]
        assert rows == expected
