"""Exports of models that prepare their rows: the scorer, run for real, is the model, or the export refuses by name."""

import io
import json
import shutil
import struct
import subprocess

import numpy as np
import pytest

from tests.models.linear_models import each
from tests.models.test_exports import onnx_outputs, padded
from thinstream.batch import Batch
from thinstream.errors import InvalidInputError
from thinstream.learners import Classes
from thinstream.models.exports import FORMATS, LinearModel, export
from thinstream.models.model import Model
from thinstream.preparing import NORMALIZE, SCALE

WIDTH = 40
#: What each format does with rows prepared so: every pair of scale and normalize has its line.
TABLE = {
    (None, None): {"text", "json", "onnx", "c"},
    ("max", None): {"text", "json", "onnx", "c"},
    ("rms", None): {"text", "json", "onnx", "c"},
    ("idf", None): {"text", "json", "onnx", "c"},
    (None, "l2"): {"text", "json", "onnx", "c"},
    ("max", "l2"): {"json", "onnx", "c"},
    ("rms", "l2"): {"json", "onnx", "c"},
    ("idf", "l2"): {"json", "onnx", "c"},
}
CASES = [
    pytest.param(*kind, labels, dtype, id="-".join([*map(str, kind), str(len(labels)), dtype]))
    for kind in TABLE
    for labels, dtype in (((-1, 1), "float32"), (("a", "b", "c"), "float64"), ((-1, 1), "float64"))
]

_MAIN = """
#include "m.h"
#include <stdio.h>

int main(void) {
    uint32_t n;
    static uint32_t indices[64];
    static REAL values[64], scores[CLASSES];
    while (fread(&n, sizeof n, 1, stdin) == 1) {
        if (fread(indices, sizeof *indices, n, stdin) != n || fread(values, sizeof *values, n, stdin) != n) {
            return 1;
        }
        CALL
        for (size_t k = 0; k < sizeof scores / sizeof *scores; k++) {
            printf("%a ", (double) scores[k]);
        }
        printf("%s\\n", m_label(indices, values, n));
    }
    return 0;
}
"""


def test_every_preparation_is_in_the_table():
    assert set(TABLE) == {(scale, normalize) for scale in SCALE for normalize in NORMALIZE}


def rows(n, classes, width, dtype, seed):
    """Features of very different units, an eighth of them unknown to the model, some rows empty."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(0, 12, n)
    indices = [np.sort(rng.choice(width, k, replace=False)) for k in lengths]
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    at = np.concatenate(indices).astype(np.int32)
    values = (rng.normal(size=len(at)) * 10.0 ** (at % 7 - 3)).astype(dtype)
    y = rng.integers(0, classes, n).astype(np.int32)
    return Batch.of(indptr, at, values, width, y if classes > 2 else np.where(y, 1, -1).astype(np.int8))


def trained(scale, normalize, labels, dtype):
    model = Model.fresh(
        "arow", Classes(*labels), n_features=WIDTH, scale=scale, normalize=normalize, dtype=dtype, fit_intercept=True
    )
    model.learner.learn(rows(500, len(labels), WIDTH - 5, dtype, 1))  # the last five are never met
    return model


def same(found, model, batch):
    """To rounding, relative to the largest sums."""
    scores = model.learner.scores(batch).astype(np.float64).reshape(len(batch), -1)
    tolerance = 2e-4 if model.learner.dtype == np.float32 else 1e-10
    np.testing.assert_allclose(
        np.asarray(found, np.float64).reshape(scores.shape),
        scores,
        rtol=tolerance,
        atol=tolerance * np.abs(scores).mean(),
    )
    assert np.abs(scores).max() > 0.1


def evaluated(read, batch):
    """Scores by what a JSON file says, in plain Python."""
    scales = (
        None if "scales" not in read else dict(zip(read["scales"]["indices"], read["scales"]["values"], strict=True))
    )
    models = read.get("models", [read])
    weights = [dict(zip(each["indices"], each["weights"], strict=True)) for each in models]
    found = []
    for indices, values in each(batch):
        pairs = list(zip(indices.tolist(), values.tolist(), strict=True))
        length = 1.0
        if read["space"].get("normalize") == "l2":
            kept = [x if scales is None else x / scales[j] for j, x in pairs if scales is None or j in scales]
            length = sum(x * x for x in kept) ** 0.5 or 1.0
        sums = [sum(one.get(j, 0.0) * x for j, x in pairs) for one in weights]
        found.append([s / length + each["intercept"] for s, each in zip(sums, models, strict=True)])
    return found


@pytest.mark.parametrize(("scale", "normalize", "labels", "dtype"), CASES)
def test_an_exported_scorer_is_the_model(scale, normalize, labels, dtype, tmp_path):
    model = trained(scale, normalize, labels, dtype)
    linear, batch = LinearModel.of(model), rows(1000, len(labels), WIDTH + 6, dtype, 2)
    allowed = TABLE[scale, normalize]
    same(evaluated(json.loads(written(linear, "json")), batch), model, batch)
    scores, found = onnx_outputs(written(linear, "onnx"), *padded(batch, -1))
    same(scores, model, batch)
    assert found.tolist() == [linear.classes[k] for k in model.classes.chosen(scores)]
    scores, found = in_c(tmp_path, linear, batch)
    same(scores, model, batch)
    assert found == [str(linear.classes[k]) for k in model.classes.chosen(scores[:, 0] if len(labels) == 2 else scores)]
    if "text" in allowed:
        same(from_text(written(linear, "text").decode(), batch, labels), model, batch)
    else:
        with pytest.raises(InvalidInputError, match="AROW scales features and then normalizes rows"):
            written(linear, "text")


def written(linear, kind):
    file = io.BytesIO()
    FORMATS[kind].write(linear, file, "m")
    return file.getvalue()


def in_c(folder, linear, batch):
    """Scores and labels by a program compiled against the header."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler: cc is not on the PATH")
    export(linear, folder / "m.h")
    call = "scores[0] = m_score(indices, values, n);" if linear.is_binary else "m_scores(indices, values, n, scores);"
    main = _MAIN.replace("REAL", "float" if linear.weights.dtype == np.float32 else "double").replace("CALL", call)
    (folder / "main.c").write_text(main.replace("CLASSES", str(len(linear.intercepts))))
    strict = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-O1"]
    built = subprocess.run([compiler, *strict, "main.c", "-o", "main"], cwd=folder, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    stream = b"".join(struct.pack("=I", len(j)) + j.astype(np.uint32).tobytes() + x.tobytes() for j, x in each(batch))
    out = subprocess.run([folder / "main"], input=stream, capture_output=True, check=True).stdout.decode()
    lines = [line.split(" ") for line in out.splitlines()]
    return np.array([[float.fromhex(score) for score in line[:-1]] for line in lines]), [line[-1] for line in lines]


def from_text(text, batch, labels):
    """Scores by the lines of a text, whose head says whether rows are of unit length."""
    lines = [line.split("\t") for line in text.splitlines()]
    head = [line for line in lines if line[0].startswith("#")]
    unit = any("over the row's length" in line[0] for line in head)
    intercepts = [float(line[-1]) for line in head if line[0] == "# intercept"]
    order = {"": 0} if len(labels) == 2 else {label: k for k, label in enumerate(labels)}
    weights = np.zeros((len(intercepts), batch.n_features))
    for line in lines[len(head) :]:
        weights[order[line[1] if len(line) == 3 else ""], int(line[0])] = float(line[-1])
    found = []
    for j, x in each(batch):
        values = x.astype(np.float64)
        length = np.sqrt((values**2).sum()) if unit and len(values) else 1.0
        found.append(weights[:, j] @ values / length + intercepts)
    return found
