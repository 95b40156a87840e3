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
from thinstream.blend.member import Member
from thinstream.learners import Classes
from thinstream.models.exports import FORMATS, LinearModel, export
from thinstream.models.file import read, write
from thinstream.models.model import Model
from thinstream.preparing import NORMALIZE, SCALE

WIDTH = 40
#: How rows are prepared: every pair of scale and normalize, and models of several vectors.
KINDS = [
    [(None, None)],
    [("max", None)],
    [("rms", None)],
    [("idf", None)],
    [(None, "l2")],
    [("max", "l2")],
    [("rms", "l2")],
    [("idf", "l2")],
    [(None, None), ("rms", "l2")],
    [(None, "l2"), ("max", "l2"), ("rms", None)],
]
CASES = [
    pytest.param(kinds, labels, dtype, id="-".join([*(str(each) for kind in kinds for each in kind), labels[0], dtype]))
    for kinds in KINDS
    for labels, dtype in ((("no", "yes"), "float32"), (("a", "b", "c"), "float64"), (("0", "1"), "float64"))
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
    assert {kind for kind, *more in KINDS if not more} == {(scale, unit) for scale in SCALE for unit in NORMALIZE}


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


def trained(kinds, labels, dtype):
    options = {"n_features": WIDTH, "dtype": dtype, "fit_intercept": True}
    if len(kinds) == 1:
        model = Model.fresh(
            "arow", Classes(*labels), **options, **dict(zip(("scale", "normalize"), *kinds, strict=True))
        )
    else:
        portfolio = [Member("arow", {}, *kind) for kind in kinds]
        model = Model.fresh("auto", Classes(*labels), **options, parameters={"portfolio": portfolio})
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
    found = np.zeros((len(batch), len(read.get("models", [read]))))
    found += [each["intercept"] for each in read.get("models", [read])]
    for vector in (read | {"normalize": read["space"].get("normalize")}, *read.get("beside", [])):
        scales = vector.get("scales") and dict(
            zip(vector["scales"]["indices"], vector["scales"]["values"], strict=True)
        )
        weights = [dict(zip(one["indices"], one["weights"], strict=True)) for one in vector.get("models", [vector])]
        found += summed(weights, scales, vector["normalize"] == "l2", batch)
    return found


def summed(weights, scales, unit, batch):
    """Weights times values of rows, over the lengths of these where they are of unit length."""
    found = []
    for indices, values in each(batch):
        pairs = list(zip(indices.tolist(), values.tolist(), strict=True))
        kept = [x if scales is None else x / scales[j] for j, x in pairs if scales is None or j in scales]
        length = (sum(x * x for x in kept) ** 0.5 or 1.0) if unit else 1.0
        found.append([sum(one.get(j, 0.0) * x for j, x in pairs) / length for one in weights])
    return found


@pytest.mark.parametrize(("kinds", "labels", "dtype"), CASES)
def test_an_exported_scorer_is_the_model(kinds, labels, dtype, tmp_path):
    model = trained(kinds, labels, dtype)
    linear, batch = LinearModel.of(model), rows(1000, len(labels), WIDTH + 6, dtype, 2)
    same(evaluated(json.loads(written(linear, "json")), batch), model, batch)
    scores, found = onnx_outputs(written(linear, "onnx"), *padded(batch, -1))
    same(scores, model, batch)
    assert found.tolist() == [linear.classes[k] for k in model.classes.chosen(scores)]
    scores, found = in_c(tmp_path, linear, batch)
    same(scores, model, batch)
    assert found == [str(linear.classes[k]) for k in model.classes.chosen(scores[:, 0] if len(labels) == 2 else scores)]
    same(from_text(written(linear, "text").decode(), batch, labels), model, batch)
    write(tmp_path / "model.ts", model, "weights")
    assert read(tmp_path / "model.ts").learner.scores(batch).tobytes() == model.learner.scores(batch).tobytes()


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
    """Scores by the lines of a text, whose head lines say what follows and how rows are prepared."""
    lines = [line.split("\t") for line in text.splitlines()]
    found = np.zeros((len(batch), 1 if len(labels) == 2 else len(labels)))
    found += [float(line[-1]) for line in lines if line[0] == "# intercept"]
    vectors, scaled = [([{} for _ in found[0]], {}, any("over the" in line[0] for line in lines[:3]))], False
    for line in lines:
        if line[0].startswith("# added to the score of"):
            vectors.append(([{} for _ in found[0]], {}, "length" in line[0]))
        if line[0] == "# feature":
            scaled = line[1].startswith("scale")
        elif not line[0].startswith("#"):
            weights, scales, _ = vectors[-1]
            own = scales if scaled else weights[labels.index(line[1]) if len(line) == 3 else 0]
            own[int(line[0])] = float(line[-1])
    for weights, scales, unit in vectors:
        found += summed(weights, scales or None, unit, batch)
    return found
