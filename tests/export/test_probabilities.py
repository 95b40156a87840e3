"""Exports of models whose scores are log-odds have probabilities, also where scores are extreme."""

import json
import sqlite3
import subprocess

import numpy as np
import pytest
import scipy.sparse as sp

import thinstream as ts
from tests.export.linear_models import each
from tests.export.scorers import cells_of, program, written
from tests.export.test_exports import padded
from thinstream.batch import Batch
from thinstream.errors import UnknownNameError
from thinstream.export import LinearModel, export
from thinstream.models.model import probabilities

rng = np.random.default_rng(0)
X = sp.random_array((400, 12), density=0.4, rng=rng, format="csr", dtype=np.float32)
SCORE = X @ np.linspace(-2, 2, 12)

_MAIN = """
#include "m.h"
#include <stdio.h>

int main(void) {
    uint32_t n;
    static uint32_t indices[64];
    static REAL values[64];
    static double shares[CLASSES];
    while (fread(&n, sizeof n, 1, stdin) == 1) {
        if (fread(indices, sizeof *indices, n, stdin) != n || fread(values, sizeof *values, n, stdin) != n) {
            return 1;
        }
        CALL
        for (size_t k = 0; k < CLASSES; k++) {
            printf("%a ", shares[k]);
        }
    }
    return 0;
}
"""


@pytest.fixture(scope="module", params=[(2, 1.0), (2, 1e4), (3, 1.0), (3, 1e4)], ids=str)
def case(request):
    """A linear model, some rows, and the probabilities of all classes; scores may be huge."""
    classes, factor = request.param
    y = np.digitize(SCORE, np.quantile(SCORE, np.linspace(0, 1, classes + 1)[1:-1]))
    model = ts.Auto(portfolio=[ts.AROW(), ts.FSOL(normalize="l2")]).fit(X, y)
    linear = LinearModel.of(model._model)
    linear = linear._replace(
        weights=(linear.weights * factor).astype(np.float32),
        intercepts=(linear.intercepts - (5 * factor if factor > 1 else 0)).astype(np.float32),
        others=tuple(one._replace(weights=(one.weights * factor).astype(np.float32)) for one in linear.others),
    )
    batch = Batch.of(X.indptr.astype(np.int32), X.indices.astype(np.int32), X.data, 12).until(100)
    return linear, batch, classes


def expected(linear, scores):
    return probabilities(scores[:, 0] if linear.is_binary else scores)


def in_onnx(linear, batch, folder):
    onnxruntime = pytest.importorskip("onnxruntime")
    session = onnxruntime.InferenceSession(written(linear, "onnx"))
    given = dict(zip(("indices", "values"), padded(batch, -1), strict=True))
    scores, shares = session.run(["scores", "probabilities"], given)
    return scores.reshape(len(batch), -1), shares


def in_c(linear, batch, folder):
    compiler = program("cc")
    export(linear, folder / "m.h")
    binary = "shares[1] = m_probability(indices, values, n); shares[0] = 1 - shares[1];"
    call = binary if linear.is_binary else "m_probabilities(indices, values, n, shares);"
    main = _MAIN.replace("CALL", call).replace("REAL", "float").replace("CLASSES", str(len(linear.classes)))
    (folder / "main.c").write_text(main)
    strict = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-O1"]
    built = subprocess.run([compiler, *strict, "main.c", "-o", "main"], cwd=folder, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    stream = b"".join(np.uint32(len(j)).tobytes() + j.astype(np.uint32).tobytes() + x.tobytes() for j, x in each(batch))
    out = subprocess.run([folder / "main"], input=stream, capture_output=True, check=True).stdout.decode()
    return None, np.array([float.fromhex(share) for share in out.split()]).reshape(len(batch), -1)


def in_node(linear, batch, folder):
    node = program("node")
    export(linear, folder / "m.mjs")
    (folder / "main.mjs").write_text(
        'import { readFileSync } from "node:fs"; import { probability, score } from "./m.mjs";\n'
        "const rows = JSON.parse(readFileSync(0, 'utf8')).map((cells) => new Map(cells));\n"
        "console.log(JSON.stringify(rows.map((row) => [[score(row)].flat(), [probability(row)].flat()])));\n"
    )
    maps = [list(zip(j.tolist(), x.tolist(), strict=True)) for j, x in each(batch)]
    done = subprocess.run([node, "main.mjs"], input=json.dumps(maps).encode(), capture_output=True, cwd=folder)
    assert done.returncode == 0, done.stderr.decode()
    scores, shares = (np.array(part) for part in zip(*json.loads(done.stdout), strict=True))
    return scores, np.column_stack([1 - shares, shares]) if linear.is_binary else shares


def from_lines(linear, lines, rows):
    if linear.is_binary:
        shares = np.array([line[3] for line in lines])
        return np.array([[line[1]] for line in lines]), np.column_stack([1 - shares, shares])
    scores, shares = (np.array([line[k] for line in lines]).reshape(rows, -1) for k in (2, 4))
    return scores, shares


def in_sqlite(linear, batch, folder):
    connection = sqlite3.connect(":memory:")
    connection.execute('CREATE TABLE features("row" INTEGER, "feature" BIGINT, "value" DOUBLE)')
    connection.executemany("INSERT INTO features VALUES (?, ?, ?)", cells_of(linear, batch))
    return from_lines(linear, connection.execute(written(linear, "sql").decode()).fetchall(), len(batch))


def in_duckdb(linear, batch, folder):
    connection = pytest.importorskip("duckdb").connect()
    connection.execute('CREATE TABLE features("row" INTEGER, "feature" BIGINT, "value" DOUBLE)')
    columns = [list(column) for column in zip(*cells_of(linear, batch), strict=True)]
    given = "unnest(?::INTEGER[]), unnest(?::BIGINT[]), unnest(?::DOUBLE[])"
    connection.execute(f"INSERT INTO features SELECT {given}", columns)
    return from_lines(linear, connection.execute(written(linear, "sql").decode()).fetchall(), len(batch))


@pytest.mark.parametrize("run", [in_onnx, in_c, in_node, in_sqlite, in_duckdb])
def test_probabilities_are_those_of_the_scores(run, case, tmp_path):
    linear, batch, classes = case
    scores, shares = run(linear, batch, tmp_path)
    if scores is None:
        scores, _ = in_sqlite(linear, batch, tmp_path)
    assert shares.shape == (len(batch), classes)
    assert np.isfinite(shares).all()
    assert shares.sum(axis=1) == pytest.approx(np.ones(len(batch)))
    tolerance = 1e-5 * max(1.0, np.abs(scores).max())  # of scores in float32
    np.testing.assert_allclose(shares, expected(linear, scores.astype(np.float64)), rtol=tolerance, atol=1e-6)


def test_models_without_probabilities_export_none():
    linear = LinearModel.of(ts.AROW().fit(X, SCORE > 0)._model)
    for kind in ("js", "sql", "c", "onnx"):
        assert b"probabilit" not in written(linear, kind).replace(b"probability of", b"")


def test_an_estimator_exports_itself(tmp_path):
    model = ts.Auto(portfolio=[ts.FSOL()]).fit(X, SCORE > 0)
    for name in ("m.h", "m.mjs", "m.sql", "m.json", "m.txt"):
        model.export(tmp_path / name)
        assert (tmp_path / name).stat().st_size > 100
    model.export(tmp_path / "odd", format="json")
    assert (tmp_path / "odd").read_bytes() == (tmp_path / "m.json").read_bytes()
    with pytest.raises(UnknownNameError, match="the extension must be"):
        model.export(tmp_path / "m.doc")
