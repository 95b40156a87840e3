"""More than two classes in streams and in training runs."""

import csv
import json

import numpy as np
import pytest

import thinstream as ts
from tests.models.test_one_vs_rest import assert_same, made_small
from thinstream.data import from_memory, write_cache
from thinstream.errors import InvalidInputError, InvalidParameterError

CLASSES = ("north", "east", "south")


@pytest.fixture(scope="module")
def rows():
    return made_small()


def libsvm(X, y, path):
    lines = []
    for i, label in enumerate(y):
        row = X[i]
        lines.append(f"{label} " + " ".join(f"{j + 1}:{v!r}" for j, v in zip(row.indices, row.data.tolist())))
    path.write_text("\n".join(lines) + "\n")
    return path


def cells(X, y, path, kind):
    """CSV or JSON Lines with names of columns."""
    dense, labels = X.toarray().tolist(), [CLASSES[k] for k in y]
    if kind == "csv":
        lines = ["label,a,b,c,d,e,f", *(",".join([label, *map(repr, row)]) for label, row in zip(labels, dense))]
    else:
        lines = [json.dumps({"label": label, **dict(zip("abcdef", row))}) for label, row in zip(labels, dense)]
    path.write_text("\n".join(lines) + "\n")
    return path


def test_a_libsvm_file_learns_as_its_matrix(rows, tmp_path):
    X, y = rows
    path = libsvm(X, y + 5, tmp_path / "d.svm")
    stream = ts.open_stream(path, classes=(5, 6, 7))
    model = ts.FSOL().fit_stream(stream)
    assert model.classes_.tolist() == [5, 6, 7]
    assert_same(model, ts.FSOL().fit(X.astype(np.float32), y + 5))
    np.testing.assert_array_equal(np.concatenate(list(model.predict_stream(stream))), model.predict(X))
    model.partial_fit_stream(stream)
    assert model.t_ == 400
    turned = ts.FSOL().fit_stream(ts.open_stream(path, classes=(7, 5, 6)))
    assert turned.classes_.tolist() == [7, 5, 6]
    assert turned.coef_.tobytes() == ts.FSOL().fit(X.astype(np.float32), y + 5).coef_[[2, 0, 1]].tobytes()
    turned.partial_fit(X, y + 5, classes=[5, 6, 7])
    assert turned.coef_.tobytes() == model.coef_[[2, 0, 1]].tobytes()
    with pytest.raises(InvalidInputError, match=r"model has the classes \(5, 6, 7\), and the stream has \(7, 5, 6\)"):
        model.partial_fit_stream(ts.open_stream(path, classes=(7, 5, 6)))
    with pytest.raises(InvalidInputError, match=r"line 1, column 1: a label must be 0, 1 or 2, got '5'"):
        ts.FSOL().fit_stream(ts.open_stream(path, classes=(0, 1, 2)))
    assert ts.open_stream(path).classes == (5, 6, 7)
    with pytest.raises(InvalidInputError, match="the stream has two classes"):
        ts.FSOL().fit_stream(ts.open_stream(path, look=0), classes=("a", "b", "c"))
    with pytest.raises(InvalidInputError, match=r"of the stream, \(5, 6, 7\), got \('north', 'east', 'south'\)"):
        ts.FSOL().fit_stream(stream, classes=CLASSES)
    assert ts.FSOL().fit_stream(stream, classes=(7, 6, 5)).classes_.tolist() == [5, 6, 7]


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_texts_of_named_columns(kind, rows, tmp_path):
    """Both give the numbers of the classes, cached or not; another label is refused with its place."""
    X, y = rows
    path = cells(X, y, tmp_path / f"d.{kind}", kind)
    model = ts.FSOL().fit_stream(ts.open_stream(path, classes=CLASSES, bits=10))
    assert model.classes_.tolist() == list(CLASSES)
    batches = list(ts.open_stream(path, classes=CLASSES, bits=10).batches())
    assert batches[0].y.dtype == np.int32
    np.testing.assert_array_equal(np.concatenate([batch.y for batch in batches]), y)
    assert_same(ts.FSOL().fit_stream(ts.open_stream(path, classes=CLASSES, bits=10, cache=True)), model)
    with pytest.raises(InvalidInputError, match=r"a label must be .*north.*east.*west.* got .*south"):
        list(ts.open_stream(path, classes=("north", "east", "west"), bits=10).batches())
    with pytest.raises(InvalidParameterError, match="two or more different strings or numbers"):
        ts.open_stream(path, classes=("north", "east", "north"))


@pytest.mark.parametrize(
    "classes", [("a", "ab", "abc", "b"), (1, -2, 1.5, 10), ("x", "1", 1.5), ('say "so"', "ä,ö", "")]
)
def test_labels_that_resemble_each_other(classes, tmp_path):
    """Whole cells count, numbers by their value, quoted or not."""
    number = np.random.default_rng(0).integers(0, len(classes) - ("" in classes), 50)
    with open(tmp_path / "d.csv", "w", newline="") as file:
        writer = csv.writer(file, quoting=csv.QUOTE_MINIMAL)
        writer.writerows([["label", "f"], *([classes[k], i + 1] for i, k in enumerate(number))])
    found = np.concatenate([batch.y for batch in ts.open_stream(tmp_path / "d.csv", classes=classes).batches()])
    np.testing.assert_array_equal(found, number)
    if all(not isinstance(label, str) for label in classes):
        lines = [f"{classes[k]} 1:1\n" for k in number]
        (tmp_path / "d.svm").write_text("".join(lines))
        found = np.concatenate([batch.y for batch in ts.open_stream(tmp_path / "d.svm", classes=classes).batches()])
        np.testing.assert_array_equal(found, number)


def test_arrow_and_memory(rows, tmp_path):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    X, y = rows
    labels = np.array(CLASSES)[y]
    table = {"label": pa.array(labels.tolist()), **{name: X.toarray()[:, j] for j, name in enumerate("abcdef")}}
    pq.write_table(pa.table(table), tmp_path / "d.parquet")
    found = np.concatenate([b.y for b in ts.open_stream(tmp_path / "d.parquet", classes=CLASSES).batches()])
    np.testing.assert_array_equal(found, y)
    stream = from_memory(X, labels, classes=CLASSES)
    model = ts.FSOL().fit_stream(stream)
    assert_same(model, ts.FSOL().fit_stream(write_cache(stream, tmp_path / "d.cache")))
    assert model.classes_.tolist() == list(CLASSES)
    with pytest.raises(InvalidInputError, match="labels must be 'north', 'east' or 'west', got 'south' at row"):
        from_memory(X, labels, classes=("north", "east", "west"))


def test_labels_missing_in_places(tmp_path):
    (tmp_path / "d.csv").write_text("label,a\nx,1\n,2\n")
    with pytest.raises(InvalidInputError, match="example 2 has no label, and other rows have one"):
        list(ts.open_stream(tmp_path / "d.csv", classes=("x", "y", "z")).batches())
