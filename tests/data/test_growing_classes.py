"""Classes that streams find as they come."""

import csv

import numpy as np
import pytest

import thinstream as ts
from tests.data.test_classes import CLASSES, cells, libsvm
from tests.models.test_one_vs_rest import made_small
from thinstream.data import from_memory
from thinstream.data.labels import in_order
from thinstream.data.text.hashing import Hashing, Numbering
from thinstream.errors import InvalidInputError, InvalidParameterError


@pytest.fixture(scope="module")
def rows():
    X, y = made_small()
    late = np.argsort(np.where(y == 0, np.arange(len(y)) < 100, 0), kind="stable")  # many of class 0 come last
    return X[late], y[late]


def numbers_of(stream):
    return np.concatenate([batch.y for batch in stream.batches()])


def assert_found(stream, labels):
    """The stream gives the labels, numbered in order of appearance."""
    wanted, numbers = in_order(np.array(labels))
    assert numbers_of(stream).tolist() == numbers.tolist()
    assert list(stream.classes) == wanted
    assert {type(label) for label in stream.classes} == {type(label) for label in wanted}


@pytest.mark.parametrize("threads", [0, 3])
@pytest.mark.parametrize("kind", ["csv", "jsonl", "svm", "vw"])
def test_text(kind, threads, rows, tmp_path, monkeypatch):
    """In order of appearance, however the text is cut and whichever thread is first."""
    X, y = rows
    path, labels = tmp_path / f"d.{kind}", [CLASSES[k] for k in y]
    if kind in ("csv", "jsonl"):
        cells(X, y, path, kind)
    elif kind == "svm":
        libsvm(X, y + 5, path)
        labels = (y + 5).tolist()
    else:
        path.write_text("".join(f"{k + 5} | a:{v}\n" for k, v in zip(y, X[:, 0].toarray().ravel())))
        labels = (y + 5).tolist()
    for size in (None, 400):
        if size is not None:
            monkeypatch.setattr("thinstream.data.sources.PIECE", size)
        stream = ts.open_stream(path, grow_classes=True, threads=threads)
        assert_found(stream, labels)
        assert numbers_of(stream).tolist() == in_order(np.array(labels))[1].tolist()  # and in a second pass


def test_tables(rows):
    X, y = rows
    labels = [CLASSES[k] for k in y]
    assert_found(from_memory(X, labels, grow_classes=True, rows_per_batch=7), labels)
    assert_found(from_memory(X, y, grow_classes=True), y.tolist())
    assert_found(from_memory(X, y == 1, grow_classes=True), (y == 1).tolist())
    records = [({"a": 1.0}, label) for label in labels]
    assert_found(from_memory(records, hasher=Numbering(Hashing()), grow_classes=True, rows_per_batch=7), labels)
    assert from_memory(X, grow_classes=True).classes == ()
    assert all(batch.y is None for batch in from_memory(X, grow_classes=True).batches())


def test_arrow_files(rows, tmp_path):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    X, y = rows
    for labels in ([CLASSES[k] for k in y], y.tolist(), (y == 1).tolist()):
        table = pa.table({"label": labels, "a": X[:, 0].toarray().ravel()})
        parquet.write_table(table, tmp_path / "d.parquet")
        assert_found(ts.open_stream(tmp_path / "d.parquet", grow_classes=True), labels)


def test_told_classes_come_first(rows, tmp_path):
    X, y = rows
    path = cells(X, y, tmp_path / "d.csv", "csv")
    stream = ts.open_stream(path, grow_classes=True, classes=("west", "south"))
    numbers_of(stream)
    assert set(stream.classes) == {*CLASSES, "west"}
    assert stream.classes[:2] == ("west", "south")


@pytest.mark.parametrize(
    ("ending", "text", "message"),
    [
        (
            "csv",
            "label,a\nx,1\ny,2\n7,3\n",
            "example 3: labels must all be of one type; others are strings like 'x', got 7",
        ),
        (
            "csv",
            "label,a\n1,1\n2,2\nx,3\n",
            "example 3: labels must all be of one type; others are numbers like 1, got 'x'",
        ),
        ("jsonl", '{"label": true}\n{"label": 1}\n', "example 2: labels must all be of one type; others are booleans"),
        ("jsonl", '{"label": "a"}\n{"label": ["b"]}\n', "line 2, column 1: a label must be"),
        ("csv", "label,a\nx,1\n,2\n", "example 2 has no label, and other rows have one"),
        ("svm", "1 1:1\nx 1:1\n", "line 2, column 1: a row must begin with its label"),
    ],
)
def test_bad_labels_come_after_the_rows_before_them(ending, text, message, tmp_path):
    path = tmp_path / f"d.{ending}"
    path.write_text(text)
    batches, good = ts.open_stream(path, grow_classes=True).batches(), 0
    if text.count("\n") - (ending == "csv") > 1:
        good = len(next(batches))
    with pytest.raises(InvalidInputError, match=message):
        next(batches)
    assert good == text.count("\n") - 1 - (ending == "csv")


def test_labels_that_are_no_text_are_refused(tmp_path):
    path = tmp_path / "d.csv"
    path.write_bytes(b"label,a\nx,1\n\xff\xfe,2\ny,3\n")
    with pytest.raises(InvalidInputError, match="line 3, column 1: a label must be"):
        list(ts.open_stream(path, grow_classes=True).batches())


def test_quotes_blanks_and_many_labels_in_csv(tmp_path):
    labels = [f"class {k % 700}" for k in range(2000)]
    labels[3], labels[9] = 'with "quotes", and commas', "two\nlines"
    path = tmp_path / "d.csv"
    with path.open("w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["label", "a"])
        out.writerows((label, 1.5) for label in labels)
    assert_found(ts.open_stream(path, grow_classes=True), labels)
    path.write_text("label,a\n 1 ,1\n1.0,1\n01,1\n2.5,1\n")
    stream = ts.open_stream(path, grow_classes=True)
    assert numbers_of(stream).tolist() == [0, 0, 0, 1]
    assert stream.classes == (1, 2.5)


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_estimators_learn_them(kind, rows, tmp_path):
    """The bits of a model that was told all classes, whatever the stream; it goes on with other streams, and rows."""
    X, y = rows
    path = cells(X, y, tmp_path / f"d.{kind}", kind)
    whole = ts.AROW().fit_stream(ts.open_stream(path, classes=tuple(sorted(CLASSES)), bits=10))
    model = ts.AROW(grow_classes=True).fit_stream(ts.open_stream(path, grow_classes=True, bits=10))
    for name in ("classes_", "coef_", "intercept_", "n_updates_", "t_"):
        assert np.array_equal(getattr(model, name), getattr(whole, name)), name
    again = ts.open_stream(path, grow_classes=True, bits=10, classes=("unmet", *CLASSES[::-1]))  # numbered otherwise
    model.partial_fit_stream(again)
    whole.partial_fit_stream(ts.open_stream(path, classes=tuple(sorted(CLASSES)), bits=10))
    assert model.coef_.tobytes() == whole.coef_.tobytes()
    predicted = np.concatenate(list(model.predict_stream(model.open_stream(path, labels=False))))
    assert predicted.tolist() == np.concatenate(list(whole.predict_stream(whole.open_stream(path)))).tolist()
    fixed = ts.AROW(grow_classes=True).fit_stream(ts.open_stream(path, classes=CLASSES, bits=10))
    assert fixed.classes_.tolist() == sorted(CLASSES)
    with pytest.raises(InvalidInputError, match="also needs it"):
        ts.AROW().fit_stream(ts.open_stream(path, grow_classes=True, bits=10))


def test_two_classes_that_are_told_as_signs(rows):
    X, y = rows
    stream = from_memory(X, np.where(y == 1, 1, -1))
    model = ts.FSOL(grow_classes=True).fit_stream(stream)
    assert model.classes_.tolist() == [-1, 1]
    assert model.coef_.shape == (2, 6)
    assert model.coef_[1].tobytes() == ts.FSOL().fit_stream(stream).coef_[0].tobytes()


def test_a_cache_does_not_grow(rows, tmp_path):
    path = cells(*rows, tmp_path / "d.csv", "csv")
    with pytest.raises(InvalidParameterError, match="Leave out cache or grow_classes"):
        ts.open_stream(path, grow_classes=True, cache=True)
