"""The table of cases `tests/data/cells.json`, in exports that make rows of cells or of named features."""

import json
import subprocess

import numpy as np
import pytest

from tests.data.test_cells import BITS, CASES, expected_row
from tests.export.linear_models import made
from tests.export.scorers import _in_sql, program
from thinstream.batch import Batch
from thinstream.data import Hashing
from thinstream.data.text.protocol import readable
from thinstream.export import export

GOOD = [k for k, case in enumerate(CASES) if not isinstance(case["features"], str)]


def model_of(case, weights=None):
    """A model that has learned from the column of a case, with weights for some features."""
    name, role = case.get("column", "c"), case["role"]
    space = {"hashing": Hashing(bits=BITS).as_dict(), "missing": case.get("missing", "indicator")}
    space |= {role: [name]} if role in ("text", "categorical", "dates") else {}
    space |= {"binary": True} if case.get("binary") else {}
    columns = {"features": [name], "numeric": [name] if role == "numeric" else [], "others": []}
    if any(isinstance(value, dict) for value in case.get("values", ())):
        columns = {"features": [], "numeric": [], "others": []}
    found = sorted(weights or {0: 1.0})
    return made([1.0], "float64")._replace(
        indices=np.array(found), rows=np.zeros(len(found), np.int64), n_features=1 << BITS,
        weights=np.array([(weights or {0: 1.0})[j] for j in found]), feature_space=space, columns=columns,
    )  # fmt: skip


def test_cells_in_javascript(tmp_path):
    """Each module also exports the function that turns a row into columns."""
    runs = []
    for number, case in enumerate(CASES):
        path = tmp_path / f"m{number}.mjs"
        export(model_of(case), path)
        path.write_text(path.read_text() + "\nexport { namedColumns };\n")
        runs += [(number, {case.get("column", "c"): value}) for value in case.get("values", ())]
    script = """
    import { readFileSync } from "node:fs";
    for (const [number, row] of JSON.parse(readFileSync(0, "utf8"))) {
      const { namedColumns } = await import(`./m${number}.mjs`);
      try { console.log(JSON.stringify([...namedColumns(row)])); }
      catch (error) { console.log(JSON.stringify(error.message)); }
    }
    """
    (tmp_path / "main.mjs").write_text(script)
    command = [program("node"), "main.mjs"]
    done = subprocess.run(command, input=json.dumps(runs), capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for (number, row), line in zip(runs, done.stdout.splitlines(), strict=True):
        case, found = CASES[number], json.loads(line)
        if isinstance(case["features"], str):
            limit = case["features"] == "must be at most"  # a scorer sums up any number
            assert limit or isinstance(found, str), (case, row, found)
        else:
            assert not isinstance(found, str), (case, row, found)
            wanted = expected_row(case["features"], case.get("binary", False))
            assert {index: value for index, value in found if value} == wanted, (case, row)


_MAIN = """
#include "m.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int count, char **words) {
    static uint32_t indices[99];
    static double values[99];
    size_t n = 0, k;
    int i;
    for (i = 1; i + 3 < count; i += 4) {
        if (*words[i] == 'n') {
            n = m_add(indices, values, n, words[i + 1], words[i + 2], atof(words[i + 3]));
        } else if (*words[i] == 'c') {
            n = m_add_category(indices, values, n, words[i + 1], words[i + 2]);
        } else {
            n = m_add_text(indices, values, n, words[i + 1], words[i + 2]);
        }
    }
    for (k = 0; k < n; k++) {
        printf("%lu %.17g\\n", (unsigned long) indices[k], values[k]);
    }
    return (int) strlen("");
}
"""


def test_features_in_c(tmp_path):
    export(model_of({"role": "text"}), tmp_path / "m.h")
    (tmp_path / "main.c").write_text(_MAIN)
    built = subprocess.run(
        [program("cc"), "-std=c99", "-O1", "main.c", "-o", "main"], cwd=tmp_path, capture_output=True, text=True
    )
    assert built.returncode == 0, built.stderr
    for number in GOOD:
        case, words = CASES[number], []
        features = [feature for feature in case["features"] if feature[1]]  # what is empty adds nothing
        for space, name, value in features:
            if case["role"] == "text":
                words += ["t", space, name, ""]
            else:
                words += ["c", space[:-1], name, ""] if space else ["n", "", name, repr(value)]
        out = subprocess.run([tmp_path / "main", *words], capture_output=True, text=True, check=True).stdout
        found = {int(index): float(value) for index, value in map(str.split, out.splitlines())}
        if not case.get("binary"):  # rows of C are sums
            assert found == expected_row(features), case


@pytest.mark.parametrize("number", GOOD)
def test_features_in_sql(number):
    import sqlite3

    case = CASES[number]
    row = expected_row(case["features"])
    model = model_of(case, {index: k + 1.5 for k, index in enumerate(row)})
    cells = [(0, readable(space, name), float(value)) for space, name, value in case["features"]]
    one = Batch.of(np.array([0, 0]), np.zeros(0, np.int32), np.zeros(0, np.float32), 1)
    connection = sqlite3.connect(":memory:")

    def insert(lines, kind):
        connection.executemany("INSERT INTO features VALUES (?, ?, ?)", lines)

    scores, _ = _in_sql(connection, insert, model, one, [cells])
    wanted = row if not case.get("binary") else expected_row(case["features"], True)
    assert scores[0, 0] == pytest.approx(sum((k + 1.5) * wanted[index] for k, index in enumerate(row)))
