"""Every export run for real, as other programs would: scores and labels of rows.

A scorer takes a linear model, a batch and a folder, and returns scores, rows × columns, and labels as text (None where
the format has none). ``records`` are the rows as dicts, where features have names.
"""

import io
import json
import re
import shutil
import sqlite3
import struct
import subprocess

import numpy as np
import pytest

from tests.export.linear_models import each
from tests.export.test_exports import onnx_outputs, padded
from thinstream.batch import Batch
from thinstream.export import FORMATS, export

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
        printf("%s%c", m_label(indices, values, n), 0);
    }
    return 0;
}
"""


def written(linear, kind):
    file = io.BytesIO()
    FORMATS[kind].write(linear, file, "m")
    return file.getvalue()


def program(name):
    """The path of a program, or the test is skipped."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not on the PATH")
    return found


def from_json(linear, batch, folder, records=None):
    return evaluated(json.loads(written(linear, "json")), batch), None


def evaluated(read, batch):
    """Scores by what a JSON file says, in plain Python."""
    if "products" in read:
        batch = with_products(batch, read["products"]["features"], read["products"]["first"])
    found = np.zeros((len(batch), len(read.get("models", [read]))))
    found += [each["intercept"] for each in read.get("models", [read])]
    for vector in (read | {"normalize": read["space"].get("normalize")}, *read.get("others", [])):
        scales = vector.get("scales") and dict(
            zip(vector["scales"]["indices"], vector["scales"]["values"], strict=True)
        )
        weights = [dict(zip(one["indices"], one["weights"], strict=True)) for one in vector.get("models", [vector])]
        found += summed(weights, scales, vector["normalize"] == "l2", batch)
    return found


def with_products(batch, features, first):
    """The rows with products of features, whose numbers begin at ``first``."""
    slots = {column: slot for slot, column in enumerate(features, 1)}
    rows = []
    for indices, values in each(batch):
        row = {j: x for j, x in zip(indices.tolist(), values, strict=True) if j in slots}
        known = [*row]
        for k, j in enumerate(known):
            for i in known[: k + 1]:
                a, b = max(slots[i], slots[j]), min(slots[i], slots[j])
                if i != j or row[i] != 1:
                    row[first + a * (a + 1) // 2 + b] = row[i] * row[j]
        rows.append(sorted((j, x) for j, x in row.items()))
    width = first + (len(features) + 1) * (len(features) + 2) // 2
    columns = [j for row in rows for j, _ in row]
    values = np.array([x for row in rows for _, x in row], batch.values.dtype)
    return Batch.of(
        np.append(0, np.cumsum([*map(len, rows)])), np.array(columns, np.int64), values, max(width, batch.n_features)
    )


def summed(weights, scales, unit, batch):
    """Weights times values of rows, over the lengths of these where they are of unit length."""
    found = []
    for indices, values in each(batch):
        pairs = list(zip(indices.tolist(), values.tolist(), strict=True))
        kept = [x if scales is None else x / scales[j] for j, x in pairs if scales is None or j in scales]
        length = (sum(x * x for x in kept) ** 0.5 or 1.0) if unit else 1.0
        found.append([sum(one.get(j, 0.0) * x for j, x in pairs) / length for one in weights])
    return found


def in_onnxruntime(linear, batch, folder, records=None):
    scores, labels = onnx_outputs(written(linear, "onnx"), *padded(batch, -1))
    return scores.reshape(len(batch), -1), [str(label) for label in labels.tolist()]


def in_c(linear, batch, folder, records=None):
    """By a program compiled against the header."""
    compiler = program("cc")
    export(linear, folder / "m.h")
    call = "scores[0] = m_score(indices, values, n);" if linear.is_binary else "m_scores(indices, values, n, scores);"
    main = _MAIN.replace("REAL", "float" if linear.weights.dtype == np.float32 else "double").replace("CALL", call)
    (folder / "main.c").write_text(main.replace("CLASSES", str(len(linear.intercepts))))
    strict = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-O1"]
    built = subprocess.run([compiler, *strict, "main.c", "-o", "main"], cwd=folder, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    stream = b"".join(struct.pack("=I", len(j)) + j.astype(np.uint32).tobytes() + x.tobytes() for j, x in each(batch))
    out = subprocess.run([folder / "main"], input=stream, capture_output=True, check=True).stdout.decode()
    lines = [line.split(" ", len(linear.intercepts)) for line in out.split("\0")[:-1]]
    return np.array([[float.fromhex(score) for score in line[:-1]] for line in lines]), [line[-1] for line in lines]


_MEANING = {"t": "\t", "n": "\n", "r": "\r"}


def unescaped(text):
    return re.sub(r"\\(.)", lambda found: _MEANING.get(found[1], found[1]), text, flags=re.S)


def from_text(linear, batch, folder, records=None):
    """By the lines of a text, whose head lines say what follows and how rows are prepared."""
    labels, columns = list(map(str, linear.classes)), {name: j for j, name in linear.names.items()}
    lines = [line.split("\t") for line in written(linear, "text").decode().split("\n")[:-1]]
    if linear.products is not None:
        batch = with_products(batch, linear.products.numbers.tolist(), linear.products.base)
    found = np.zeros((len(batch), len(linear.intercepts)))
    found += [float(line[-1]) for line in lines if line[0] == "# intercept"]
    vectors, scaled = [([{} for _ in found[0]], {}, any("/ length" in line[0] for line in lines[:3]))], False
    for line in lines:
        if line[0].startswith("# further weights, for"):
            vectors.append(([{} for _ in found[0]], {}, "length" in line[0]))
        if line[0] == "# feature":
            scaled = line[1].startswith("scale")
        elif not line[0].startswith("#"):
            weights, scales, _ = vectors[-1]
            own = scales if scaled else weights[labels.index(unescaped(line[1])) if len(line) == 3 else 0]
            own[int(line[0]) if re.fullmatch("[0-9]+", line[0]) else columns[unescaped(line[0])]] = float(line[-1])
    for weights, scales, unit in vectors:
        found += summed(weights, scales or None, unit, batch)
    return found, None


_NODE = """
import { readFileSync } from "node:fs";
import { predict, score } from "./m.mjs";

const { maps, records } = JSON.parse(readFileSync(0, "utf8"));
const rows = records ?? maps.map((cells) => new Map(cells));
console.log(JSON.stringify(rows.map((row) => [[score(row)].flat(), String(predict(row))])));
"""


def in_node(linear, batch, folder, records=None):
    """By a module that imports the exported one; rows of names are objects."""
    node = program("node")
    export(linear, folder / "m.mjs")
    (folder / "main.mjs").write_text(_NODE)
    maps = [list(zip(j.tolist(), x.tolist(), strict=True)) for j, x in each(batch)]
    given = json.dumps({"maps": maps, "records": records}).encode()
    done = subprocess.run([node, "main.mjs"], input=given, capture_output=True, cwd=folder)
    assert done.returncode == 0, done.stderr.decode()
    scores, labels = zip(*json.loads(done.stdout), strict=True)
    return np.array(scores), list(labels)


def cells_of(linear, batch, spelled=None):
    """Lines of a table (row, feature, value): features are spelled by whoever has names for them, else columns."""
    names = [*linear.names] and all(j in linear.names for vector in linear.vectors for j in vector.indices.tolist())
    for i, (columns, values) in enumerate(each(batch)):
        known = [linear.names.get(j, f"no name {j}") if names else j for j in columns.tolist()]
        yield from spelled[i] if spelled else [(i, *cell) for cell in zip(known, values.tolist(), strict=True)]
        yield i, None, None  # rows without features are rows


def _in_sql(connection, insert, linear, batch, spelled):
    cells = list(cells_of(linear, batch, spelled))
    kind = "VARCHAR" if any(isinstance(feature, str) for _, feature, _ in cells) else "BIGINT"
    connection.execute(f'CREATE TABLE features("row" INTEGER, "feature" {kind}, "value" DOUBLE)')
    insert(cells, kind)
    found = connection.execute(written(linear, "sql").decode()).fetchall()
    connection.close()
    if linear.is_binary:
        assert [line[0] for line in found] == list(range(len(batch)))
        return np.array([[line[1]] for line in found]), [str(line[2]) for line in found]
    scores = np.array([line[2] for line in found]).reshape(len(batch), -1)
    return scores, [str(line[1]) for line in found if line[3] == 1]


def in_sqlite(linear, batch, folder, records=None):
    connection = sqlite3.connect(":memory:")

    def insert(cells, kind):
        connection.executemany("INSERT INTO features VALUES (?, ?, ?)", cells)

    return _in_sql(connection, insert, linear, batch, records and list(spelled_rows(linear, records)))


def in_duckdb(linear, batch, folder, records=None):
    connection = pytest.importorskip("duckdb").connect()

    def insert(cells, kind):
        """By columns: DuckDB takes seconds for thousands of single rows."""
        columns = f"unnest(?::INTEGER[]), unnest(?::{kind}[]), unnest(?::DOUBLE[])"
        connection.execute(f"INSERT INTO features SELECT {columns}", [list(column) for column in zip(*cells)])

    return _in_sql(connection, insert, linear, batch, records and list(spelled_rows(linear, records)))


def spelled_rows(linear, records):
    """Features of dicts by the names that are hashed: numbers, categories, words of texts."""
    for i, record in enumerate(records):
        found = []
        for name, value in record.items():
            if name in linear.feature_space.get("text", ()):
                found += [(i, f"{name}^{word}", 1.0) for word in re.findall(r"\w+", value.lower())]
            else:
                found.append((i, f"{name}={value}", 1.0) if isinstance(value, str) else (i, name, value))
        yield found


#: Every way of scoring rows with an export.
SCORERS = {
    "text": from_text,
    "json": from_json,
    "onnx": in_onnxruntime,
    "c": in_c,
    "js": in_node,
    "sqlite": in_sqlite,
    "duckdb": in_duckdb,
}
