"""Models of more than two classes, exported."""

import io
import json
import shutil
import subprocess

import numpy as np
import pytest

import thinstream as ts
from tests.models.test_one_vs_rest import made_small
from thinstream.batch import Batch
from thinstream.data.labels import Classes
from thinstream.export import FORMATS, LinearModel, export
from thinstream.models.model import Model, Names


@pytest.fixture(scope="module")
def rows():
    return made_small()


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


@pytest.mark.parametrize("kind", [name for name in FORMATS if name != "sql_table"])  # which needs named columns
def test_a_model_without_weights(kind, tmp_path):
    model = ts.FSOL(l1=1e9).fit(np.eye(3), [1, 2, 3])
    export(LinearModel.of(Model(model._model.learner, Classes(1, 2, 3))), tmp_path / "m", format=kind)
    assert (tmp_path / "m").stat().st_size > 0
