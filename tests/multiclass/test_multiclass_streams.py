"""More than two classes in streams, in training runs and in exports."""

import csv
import io
import json
import shutil
import subprocess

import numpy as np
import pytest
import scipy.sparse as sp

import thinstream as ts
from tests.multiclass.test_multiclass import assert_same, made
from thinstream.batch import Batch
from thinstream.errors import InvalidInputError, InvalidParameterError
from thinstream.learners import Classes
from thinstream.models.exports import FORMATS, LinearModel, export
from thinstream.models.model import Model, Names
from thinstream.streams import from_memory, write_cache

CLASSES = ("north", "east", "south")


@pytest.fixture(scope="module")
def rows():
    """Rows of small numbers, which any text gives back, with their classes."""
    X, y = made(n=200, d=6, classes=(0, 1, 2))
    return sp.csr_matrix(np.round(X.toarray(), 2)), y


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
    with pytest.raises(InvalidInputError, match=r"the model has the classes \(5, 6, 7\), the stream \(7, 5, 6\)"):
        model.partial_fit_stream(ts.open_stream(path, classes=(7, 5, 6)))
    with pytest.raises(InvalidInputError, match=r"line 1, column 1: a label must be 0, 1 or 2, got '5'"):
        ts.FSOL().fit_stream(ts.open_stream(path, classes=(0, 1, 2)))
    with pytest.raises(InvalidInputError, match="the stream was opened with 2 classes"):
        ts.FSOL().fit_stream(ts.open_stream(path), classes=("a", "b", "c"))
    renamed = ts.FSOL().fit_stream(stream, classes=CLASSES)
    assert set(renamed.predict(X)) <= set(CLASSES)


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
    with pytest.raises(InvalidParameterError, match="two different labels"):
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
    with pytest.raises(InvalidInputError, match="example 2 has no label, others have"):
        list(ts.open_stream(tmp_path / "d.csv", classes=("x", "y", "z")).batches())


# Exports --------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=["float32", "float64"])
def exported(request, rows):
    X, y = rows
    model = ts.FSOL(l1=2.0, fit_intercept=True, dtype=request.param).fit(X, y)
    batch = Batch.of(X.indptr, X.indices, X.data, 6)
    names = Names.of(["first one", "*/"], [0, 3])
    return model, LinearModel.of(Model(model._model.learner, Classes('no "r" */', "späm\n", "x"), names=names)), batch


def test_exported_text_and_json(exported):
    model, linear, _ = exported
    file = io.BytesIO()
    FORMATS["json"].write(linear, file, "m")
    found = json.loads(file.getvalue())
    assert found["classes"] == list(linear.classes)
    for k, each in enumerate(found["models"]):
        dense = np.zeros(6, model.coef_.dtype)
        dense[each["indices"]] = each["weights"]
        assert dense.tobytes() == model.coef_[k].tobytes()
        assert np.array(each["intercept"], model.coef_.dtype) == model.intercept_[k]
    file = io.BytesIO()
    FORMATS["text"].write(linear, file, "m")
    lines = [line.split("\t") for line in file.getvalue().decode().splitlines()]
    body = [line for line in lines if not line[0].startswith("#")]
    assert len(body) == model.nnz_
    sizes = [abs(float(weight)) for _, _, weight in body]
    assert sizes == sorted(sizes, reverse=True)
    labels, columns = {'no "r" */': 0, "späm\\n": 1, "x": 2}, {"first one": 0, "*/": 3}
    for feature, label, weight in body:
        j = columns.get(feature, feature)
        assert model.coef_[labels[label], int(j)] == model.coef_.dtype.type(weight)


def test_exported_onnx(exported):
    runtime = pytest.importorskip("onnxruntime")
    model, linear, batch = exported
    file = io.BytesIO()
    FORMATS["onnx"].write(linear, file, "m")
    session = runtime.InferenceSession(file.getvalue(), providers=["CPUExecutionProvider"])
    dense = np.zeros((len(batch), 8), model.coef_.dtype)
    rows = np.repeat(np.arange(len(batch)), np.diff(batch.indptr))
    dense[rows, batch.indices] = batch.values
    dense[:, 6:] = 9.0  # columns the model does not know
    indices = np.broadcast_to(np.arange(8), dense.shape).astype(np.int64)
    scores, labels = session.run(["scores", "labels"], {"indices": indices, "values": dense})
    expected = model._model.learner.scores(batch)
    np.testing.assert_allclose(scores, expected, rtol=1e-4, atol=1e-4)
    assert labels.tolist() == [linear.classes[k] for k in scores.argmax(axis=1)]


MAIN = """
#include "m.h"
#include <stdio.h>

int main(void) {
    uint32_t indices[3] = {0, 3, 77};
    REAL values[3] = {1, 2, 5}, scores[M_N_CLASSES];
    m_scores(indices, values, 3, scores);
    for (size_t k = 0; k < M_N_CLASSES; k++) {
        printf("%a ", (double) scores[k]);
    }
    printf("%zu %s", m_predict(indices, values, 3), m_label(indices, values, 3));
    return 0;
}
"""


def test_exported_c(exported, tmp_path):
    model, linear, _ = exported
    if shutil.which("cc") is None:
        pytest.skip("no C compiler: cc is not on the PATH")
    export(linear, tmp_path / "m.h")
    real = "float" if model.coef_.dtype == np.float32 else "double"
    (tmp_path / "main.c").write_text(MAIN.replace("REAL", real))
    strict = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic"]
    subprocess.run(["cc", *strict, "main.c", "-o", "main"], cwd=tmp_path, check=True)
    found = subprocess.run([tmp_path / "main"], capture_output=True, check=True).stdout.decode()
    *scores, number, label = found.split(" ", 4)
    row = np.array([1, 0, 0, 2, 0, 0])
    np.testing.assert_allclose([float.fromhex(s) for s in scores], model.coef_ @ row + model.intercept_, rtol=1e-5)
    assert label == linear.classes[int(number)]
    assert int(number) == int(np.argmax(model.coef_ @ row + model.intercept_))


@pytest.mark.parametrize("kind", FORMATS)
def test_a_model_without_weights(kind, tmp_path):
    model = ts.FSOL(l1=1e9).fit(np.eye(3), [1, 2, 3])
    export(LinearModel.of(Model(model._model.learner, Classes(1, 2, 3))), tmp_path / "m", format=kind)
    assert (tmp_path / "m").stat().st_size > 0
