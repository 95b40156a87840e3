"""Matrices, frames and dicts as streams, against naive conversion cell by cell."""

import json
import subprocess
import sys

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import thinstream as ts
from tests.data.sources import Crc, naive_row, resumes, rows
from thinstream.batch import Position
from thinstream.data.in_memory import from_memory
from thinstream.errors import InvalidInputError, InvalidParameterError

FORMS = {
    "array": np.asarray,
    "fortran": np.asfortranarray,
    "list": lambda X: X.tolist(),
    "csr": sp.csr_matrix,
    "csr_array": sp.csr_array,
    "coo": sp.coo_matrix,
    "csc": sp.csc_array,
    "pandas": pd.DataFrame,
    "polars": lambda X: pl.DataFrame(X, schema=[f"c{j}" for j in range(X.shape[1])]),
}
CRC = Crc(bits=6, signed=True)  # so narrow that features collide

small = st.one_of(st.just(0), st.integers(-3, 3), st.floats(-1e6, 1e6, width=32))


def naive(X):
    return [{j: float(np.float32(x)) for j, x in enumerate(row) if np.float32(x) != 0} for row in X.tolist()]


@pytest.mark.parametrize("form", FORMS)
@given(
    X=st.tuples(st.integers(1, 6), st.integers(1, 5)).flatmap(lambda s: hnp.arrays(float, s, elements=small)),
    rows_per_batch=st.integers(1, 7),
    data=st.data(),
)
def test_matrices_and_frames(form, X, rows_per_batch, data):
    y = data.draw(st.lists(st.integers(-1, 2), min_size=len(X), max_size=len(X)))
    weights = data.draw(st.lists(st.floats(0, 5), min_size=len(X), max_size=len(X)))
    stream = from_memory(FORMS[form](X), y, weights, rows_per_batch=rows_per_batch, look=0)
    labels = [1 if label > 0 else -1 for label in y]
    assert resumes(stream) == list(zip(labels, weights, naive(X)))
    whole = rows(stream.batches())
    for row in range(len(X) + 1):
        assert rows(stream.batches(Position(row=row))) == whole[row:]
    assert (stream.size, stream.n_features, stream.feature_space) == (*X.shape, {})
    assert max(len(batch) for batch in stream.batches()) <= rows_per_batch


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.int8, np.uint8, bool])
@pytest.mark.parametrize("form", ["array", "csr", "pandas", "polars"])
def test_types_of_numbers(form, dtype):
    X = np.array([[0, 1, 0], [1, 0, 1]]).astype(dtype)
    for wanted in ("float32", "float64"):
        [batch] = from_memory(FORMS[form](X), dtype=wanted).batches()
        assert batch.values.dtype == wanted
        assert rows([batch]) == [(None, None, {1: 1.0}), (None, None, {0: 1.0, 2: 1.0})]


def test_sparse_matrices_are_not_copied():
    X = sp.random(50, 40, 0.2, format="csr", dtype=np.float32, random_state=0)
    for batch in from_memory(X, rows_per_batch=7).batches():
        assert np.shares_memory(batch.values, X.data)
        assert np.shares_memory(batch.indices, X.indices)


CELLS = {
    "number": st.one_of(st.none(), st.floats(-1e6, 1e6, width=32)),
    "count": st.one_of(st.none(), st.integers(-5, 5)),
    "flag": st.one_of(st.none(), st.booleans()),
    "text": st.one_of(st.none(), st.sampled_from(["a", "b", "é", ""])),
    "kind": st.one_of(st.none(), st.sampled_from(["x", "y"])),
}


def named(row):
    """{name: value} of a record, as JSON lines have it."""
    found = {}
    for name, value in row.items():
        if isinstance(value, str):
            found[f"{name}={value}"] = 1
        elif value:
            found[name] = value
    return found


def pandas_frame(table):
    types = {"number": "Float64", "count": "Int64", "flag": "boolean", "text": "str", "kind": "category"}
    return pd.DataFrame({name: pd.Series(cells, dtype=types[name]) for name, cells in table.items()})


def polars_frame(table):
    types = {"number": pl.Float64, "count": pl.Int16, "flag": pl.Boolean, "text": pl.String, "kind": pl.Categorical}
    return pl.DataFrame({name: pl.Series(cells, dtype=types[name]) for name, cells in table.items()})


@pytest.mark.parametrize("frame", [pandas_frame, polars_frame])
@given(records=st.lists(st.fixed_dictionaries(CELLS), min_size=1, max_size=6), rows_per_batch=st.integers(1, 7))
def test_frames_hashed_by_name(frame, records, rows_per_batch):
    table = {name: [record[name] for record in records] for name in CELLS}
    stream = from_memory(frame(table), hasher=CRC, rows_per_batch=rows_per_batch, missing="as-is")
    expected = [naive_row(named(record), CRC) for record in records]
    found = [features for _, _, features in resumes(stream)]
    assert [row.keys() for row in found] == [row.keys() for row in expected]
    for row, wanted in zip(found, expected):
        assert row == pytest.approx(wanted, rel=1e-5, abs=0.1)  # sums of collided features, in float32
    assert stream.feature_space == {"hashing": {"bits": 6, "signed": True}}
    assert stream.n_features == 64


values = st.one_of(
    *CELLS.values(),
    st.lists(st.floats(-9, 9, width=32), max_size=3),
    st.lists(st.sampled_from(["u", "v"]), max_size=3),
    st.dictionaries(st.sampled_from("pq"), st.floats(-9, 9, width=32)),
)


def flattened(record, prefix=""):
    """[(name, value)], written independently."""
    found = []
    for key, value in record.items():
        name = prefix + key
        if isinstance(value, dict):
            found += flattened(value, name + ".")
        elif isinstance(value, list):
            for k, item in enumerate(value):
                found += flattened({name: item}) if isinstance(item, str) else flattened({f"{name}[{k}]": item})
        elif isinstance(value, str):
            found.append((f"{name}={value}", 1))
        elif value:
            found.append((name, value))
    return found


wide = Crc(bits=30, signed=True)  # so wide that none of these names collide


@given(
    st.lists(st.tuples(st.dictionaries(st.sampled_from("abcde"), values), st.integers(-1, 2)), max_size=7),
    st.integers(1, 8),
)
def test_dicts(records, rows_per_batch):
    known = {"hasher": wide, "missing": "as-is", "classes": None}
    stream = from_memory(records, rows_per_batch=rows_per_batch, look=0, **known)
    expected = []
    for record, label in records:
        sums = {}
        for name, value in flattened(record):
            sums[name] = sums.get(name, 0) + value
        expected.append((1 if label > 0 else -1, None, naive_row(sums, wide)))
    assert resumes(stream) == expected
    assert stream.size == len(records)
    assert rows(from_memory(iter(records), **known).batches()) == expected
    assert rows(from_memory(lambda: iter(records), **known).batches()) == expected


def test_dicts_alone_and_with_weights():
    records = [{"a": 1}, {"b": np.float32(2)}, {"c": np.True_}]
    found = rows(from_memory(records, hasher=wide).batches())
    assert [(y, weight) for y, weight, _ in found] == [(None, None)] * 3
    triples = [(record, label, 2.0) for record, label in zip(records, ["no", "yes", "no"])]
    found = rows(from_memory(triples, hasher=wide, classes=("no", "yes")).batches())
    assert [(y, weight) for y, weight, _ in found] == [(-1, 2.0), (1, 2.0), (-1, 2.0)]
    assert [[abs(x) for x in features.values()] for _, _, features in found] == [[1.0], [2.0], [1.0]]


def test_an_iterator_goes_on_and_is_read_once():
    records = [({"a": k + 1}, 1) for k in range(5)]
    stream = from_memory(iter(records), hasher=wide, rows_per_batch=2)
    assert stream.size is None
    assert len(rows(stream.batches(Position(row=3)))) == 2
    with pytest.raises(InvalidInputError, match=r"an iterator can be read only once. Pass a list, or a function"):
        stream.batches()
    again = from_memory(lambda: iter(records), hasher=wide, rows_per_batch=2)
    assert [len(rows(again.batches(Position(row=k)))) for k in (0, 4, 0)] == [5, 1, 5]


def test_an_iterator_is_not_read_ahead():
    taken = []

    def endless():
        k = 0
        while True:
            k += 1
            taken.append(k)
            yield {"a": k}, 1

    stream = from_memory(endless(), hasher=wide, rows_per_batch=3)
    batches = stream.batches()
    next(batches), next(batches)
    assert len(taken) == 6


LABELS = {
    "numbers": ([0, 3, -2.5], None, [-1, 1, -1]),
    "booleans": ([False, True, False], None, [-1, 1, -1]),
    "text": (["ham", "spam", "ham"], ("ham", "spam"), [-1, 1, -1]),
    "numbers by class": ([2, 1, 2], (2, 1), [-1, 1, -1]),
    "series": (pd.Series([0, 1, 0], index=[7, 8, 9]), None, [-1, 1, -1]),
    "polars": (pl.Series(["a", "b", "a"]), ("a", "b"), [-1, 1, -1]),
    "strings of pandas": (pd.Series(["a", "b", "a"]), ("a", "b"), [-1, 1, -1]),
    "categories": (pd.Series(["a", "b", "a"], dtype="category"), ("a", "b"), [-1, 1, -1]),
}


@pytest.mark.parametrize("case", LABELS)
def test_labels(case):
    y, classes, expected = LABELS[case]
    [batch] = from_memory(np.eye(3), y, classes=classes, look=0).batches()
    assert batch.y.dtype == np.int8
    assert batch.y.tolist() == expected


X = np.eye(3)
frame = pd.DataFrame({"a": [1.0, 2.0, 3.0], "b": ["x", "y", "z"]})
BAD = {
    "nan": (lambda: from_memory([[1.0, np.nan]]), "NaN .* at row 0, column 1"),
    "infinity": (lambda: from_memory(sp.csr_array(X * np.inf)), r"NaN .*at row 0, column|infinity .*at row 0"),
    "too large": (lambda: from_memory([[1.0], [1e300]]), r"1e\+300, too large for float32, at row 1, column 0"),
    "too large, sparse": (lambda: from_memory(sp.csr_array([[0, 1e300]])), "too large for float32, at row 0, column 1"),
    "nan in frame": (
        lambda: from_memory(pd.DataFrame({"a": [1, np.nan]})),
        r"NaN .* column 'a'\. .*hasher=Numbering\(",
    ),
    "infinity in frame": (lambda: from_memory(pd.DataFrame({"a": [1, np.inf]})), "infinity .* at row 1, column 'a'$"),
    "nan in polars": (lambda: from_memory(pl.DataFrame({"a": [1.0, np.nan]})), "NaN .* at row 1, column 'a'"),
    "text": (lambda: from_memory(frame), "column 'b' has text or categories, which need a hasher"),
    "durations": (
        lambda: from_memory(pd.DataFrame({"d": pd.to_timedelta([1])}), hasher=CRC),
        "column 'd' must have numbers, booleans, times, strings or categories, got timedelta",
    ),
    "durations of polars": (
        lambda: from_memory(pl.DataFrame({"d": [1]}).select(pl.col("d").cast(pl.Duration)), hasher=CRC),
        "column 'd' must have .*, got Duration",
    ),
    "objects": (
        lambda: from_memory(pd.DataFrame({"o": [object()]}), hasher=CRC),
        "X: 'o' must be a number, a string, .* got <object",
    ),
    "complex": (lambda: from_memory(np.eye(2) * 1j), "must be a matrix of numbers.*complex"),
    "complex, sparse": (lambda: from_memory(sp.csr_array(np.eye(2) * 1j)), "must have numbers, got complex"),
    "vector": (lambda: from_memory(np.ones(3)), "got 1 dimensions"),
    "hashed matrix": (lambda: from_memory(X, hasher=CRC), "a hasher needs feature names"),
    "labels": (lambda: from_memory(X, [1, 0]), r"so labels must have shape \(3,\), got \(2,\)"),
    "weights": (lambda: from_memory(X, [1, 0, 1], [1, 2]), "so weights must have shape"),
    "negative weight": (lambda: from_memory(X, None, [1, -2, 1]), "finite and ≥ 0, got -2.0 at row 1"),
    "some labels": (lambda: from_memory(X, [1, np.nan, 1]), "row 1 has no label, but other rows have one"),
    "text labels": (
        lambda: from_memory(X, [*"aba"], look=0),
        r"labels such as 'a' need classes=\(negative, positive\)",
    ),
    "one label": (lambda: from_memory(X, ["a", "a", "a"]), "there must be at least two classes, but all .* are 'a'"),
    "third class": (lambda: from_memory(X, [*"abc"], classes=("a", "b")), "must be 'a' or 'b', got 'c' at row 2"),
    "no hasher": (lambda: from_memory([{"a": 1}]), r"need a hasher, got None"),
    "dicts and y": (lambda: from_memory([{"a": 1}], [1], hasher=CRC), "dicts come with their labels"),
    "not a dict": (lambda: from_memory(iter([3]), hasher=CRC), r"must be a dict, .* got 3 at row 0"),
    "strange value": (lambda: from_memory([{"a": {1}}], hasher=CRC), "'a' must be .* got .1. at row 0"),
    "infinity in dict": (
        lambda: from_memory([{}, {"a": np.inf}], hasher=CRC),
        "numbers must be finite, got .* in 'a' at row 1",
    ),
    "not iterable": (lambda: from_memory(3, hasher=CRC), "must be an iterable of dicts"),
    "position": (lambda: (from_memory(X), Position(row=4)), "X has 3 rows, so reading cannot resume at row 4"),
}


@pytest.mark.parametrize("case", BAD)
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_errors_say_what_and_where(case):
    make, message = BAD[case]

    def read():
        made = make()
        stream, start = made if isinstance(made, tuple) else (made, Position())
        return list(stream.batches(start))

    error = InvalidParameterError if case == "no hasher" else InvalidInputError
    with pytest.raises(error, match=message):
        read()


@pytest.mark.parametrize(
    "options", [{"dtype": "float16"}, {"rows_per_batch": 0}, {"classes": "ab"}, {"classes": (1, 1)}, {"classes": [1]}]
)
def test_parameters(options):
    with pytest.raises(InvalidParameterError, match=next(iter(options))):
        from_memory(X, [1, 0, 1], **options)


def test_fingerprints_tell_sources_apart():
    streams = [from_memory(X), from_memory(X * 2), from_memory(X, [1, 0, 1]), from_memory(X[:2]), from_memory(X[:, :2])]
    found = [json.dumps(stream.fingerprint()) for stream in streams]
    assert len(set(found)) == len(found)
    assert from_memory(sp.csr_array(X)).fingerprint() == from_memory(X).fingerprint()


def test_frames_are_read_by_place_not_by_label():
    scrambled = pd.DataFrame({"a": [1.0, 2.0, 3.0]}, index=[2, 0, 1])
    assert [row[2] for row in rows(from_memory(scrambled, rows_per_batch=1).batches())] == [
        {0: 1.0},
        {0: 2.0},
        {0: 3.0},
    ]


def test_imports_nothing_large():
    modules = ("in_memory", "cache", "tables.arrow")
    code = "import sys\n" + "".join(f"import thinstream.data.{module}\n" for module in modules)
    code += "print([m for m in ('pandas', 'polars', 'scipy.sparse', 'sklearn', 'pyarrow') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_classes_are_found():
    assert from_memory(X, [*"bab"]).classes == ("a", "b")
    assert from_memory(X, np.array([0, 1, 1])).classes == (0, 1)
    assert from_memory(X, [1, -1, 1]).classes is None
    assert from_memory(X, [True, False, True]).classes == (False, True)
    assert from_memory(X, [7, 5, 6.0]).classes == (5, 6, 7)
    assert from_memory([({"a": 1}, "u"), ({"a": 2}, "v")], hasher=CRC).classes == ("u", "v")
    assert from_memory(iter([({"a": 1}, 1)]), hasher=CRC).classes is None
    stream = from_memory(X, [0, 1, 1])
    assert ts.FSOL().fit_stream(stream).classes_.tolist() == [0, 1]
    named = ts.FSOL().fit_stream(stream, classes=("ham", "spam"))
    assert named.partial_fit_stream(stream).classes_.tolist() == ["ham", "spam"]


def test_options_that_do_not_exist():
    with pytest.raises(InvalidParameterError, match=r"no option 'label'; .*'classes'.* from_memory\(X, y, weights\)"):
        from_memory(np.eye(2), label="a")
    with pytest.raises(InvalidParameterError, match="no option 'clases'; did you mean 'classes'"):
        from_memory(np.eye(2), clases=(0, 1))
