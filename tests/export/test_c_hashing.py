"""The C header of a model of names and texts makes rows of them as its stream did: run for real, it scores alike."""

import json
import shutil
import subprocess
from dataclasses import fields

import numpy as np
import pytest

import thinstream as ts
from thinstream.data import Hashing, Numbering
from thinstream.data.options import Options, spelling
from thinstream.data.text.tokens import Wording
from thinstream.export import LinearModel, export

_MAIN = """
#include "m.h"
#include <stdio.h>
#include <stdlib.h>

int main(void) {
    static char field[3][1 << 14];
    static uint32_t indices[4096];
    static REAL values[4096];
    for (;;) {
        size_t n = 0;
        for (int k = 0; k < 3; k++) { /* a number, a category, a text; each ends with a 0 */
            int c;
            size_t at = 0;
            while ((c = getchar()) > 0) {
                field[k][at++] = (char) c;
            }
            if (c == EOF) {
                return 0;
            }
            field[k][at] = 0;
        }
        if (*field[0]) {
            n = m_add(indices, values, n, "", "size", (REAL) atof(field[0]));
        }
        n = m_add_category(indices, values, n, "city", field[1]);
        n = m_add_text(indices, values, n, "subject", field[2]);
        printf("%a\\n", (double) m_score(indices, values, n));
    }
}
"""
#: Some that people type, and some of everything; a capital sigma is the one whose lower case depends on others.
USUAL = "abcXYZ019_ .,!?-'\n\tÄÖüß€“”éÉñÑжЖДдλΛ中文字İıﬁ𝒳𐐀😀ǅ\u00a0\u0301"
ANY = np.random.default_rng(0).integers(1, 0x30000, 3000).tolist()
CHARACTERS = np.array([*USUAL * 20, *(chr(c) for c in ANY if not 0xD800 <= c < 0xE000 and c != 0x3A3)])


def drawn(n, seed):
    """Rows with numbers, categories and texts of odd characters."""
    rng = np.random.default_rng(seed)
    common = ["free", "FREE", "Geld", "noon", "Привет", "ÄRGER", "日本"]
    found = []
    for _ in range(n):
        odd = ["".join(rng.choice(CHARACTERS, rng.integers(1, 9))) for _ in range(rng.integers(0, 8))]
        text = " ".join([*rng.choice(common, rng.integers(0, 4)), *odd])
        row = {"city": str(rng.choice(["Oslo", "São Paulo", "Rome, IT"])), "subject": text}
        found.append(row | ({"size": round(rng.normal(), 3)} if rng.random() < 0.8 else {}))
    return found


@pytest.mark.parametrize(("signed", "normalize", "dtype"), [(False, None, "float32"), (True, "l2", "float64")])
def test_scores_of_names_and_texts(signed, normalize, dtype, tmp_path):
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler: cc is not on the PATH")
    lines = [{**row, "label": int(("", "free") in Wording().features(row["subject"]))} for row in drawn(300, 1)]
    (tmp_path / "d.jsonl").write_text("".join(json.dumps(row) + "\n" for row in lines))
    stream = ts.open_stream(tmp_path / "d.jsonl", text=("subject",), signed=signed, bits=12, dtype=dtype)
    model = ts.AROW(normalize=normalize, dtype=dtype).fit_stream(stream)
    export(LinearModel.of(model._model), tmp_path / "m.h")
    (tmp_path / "main.c").write_text(_MAIN.replace("REAL", "float" if dtype == "float32" else "double"))
    strict = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic"]
    built = subprocess.run([compiler, *strict, "main.c", "-o", "main"], cwd=tmp_path, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    rows = drawn(1000, 2)
    fields = [f for row in rows for f in (repr(row["size"]) if "size" in row else "", row["city"], row["subject"])]
    text = "".join(f"{field}\0" for field in fields).encode()
    out = subprocess.run([tmp_path / "main"], input=text, capture_output=True, check=True).stdout.decode()
    scores = [float.fromhex(line) for line in out.split()]
    np.testing.assert_allclose(scores, model.decision_function(rows), rtol=1e-4, atol=1e-5)


def test_texts_that_are_not_taken_apart_into_words_are_left_to_the_caller(tmp_path):
    (tmp_path / "d.jsonl").write_text('{"label": 1, "s": "a b"}\n{"label": 0, "s": "c"}\n')
    stream = ts.open_stream(tmp_path / "d.jsonl", text=("s",), ngrams=(1, 2), stop=("the",), bits=8)
    export(LinearModel.of(ts.FSOL().fit_stream(stream)._model), tmp_path / "m.h")
    header = (tmp_path / "m.h").read_text()
    assert 'Text must be tokenized before rows are scored: {"ngrams": [1, 2], "stop": ["the"]}' in header
    assert "m_add(" in header
    assert "m_add_text" not in header


def test_cells_that_say_nothing_and_dates_are_told(tmp_path):
    rows = [f"{k % 2},{'' if k % 3 else k},2024-05-{k % 28 + 1:02d}" for k in range(60)]
    (tmp_path / "d.csv").write_text("\n".join(["label,age,sent", *rows]) + "\n")
    stream = ts.open_stream(tmp_path / "d.csv", numeric=("age",), dates=("sent",), bits=20)
    model = ts.AROW().fit_stream(stream)
    export(LinearModel.of(model._model), tmp_path / "m.h")
    header = (tmp_path / "m.h").read_text()
    assert 'A missing cell is the category "?" of its column' in header
    assert '.weekday Fri, .hour 13): ["sent"]' in header
    export(LinearModel.of(model._model), tmp_path / "m.json")
    kept = json.loads((tmp_path / "m.json").read_text())
    assert (kept["space"]["missing"], kept["space"]["dates"]) == ("indicator", ["sent"])
    names = ["age=?", "sent.year=2024", "sent.month=05", "sent.day=17", "sent.weekday=Fri"]
    weights = dict(zip(kept["indices"], kept["weights"], strict=True))
    score = kept["intercept"] + sum(weights[j] for j in Numbering(Hashing(bits=20))(names).tolist())
    assert score == pytest.approx(float(model.decision_function(["1,,2024-05-17"])[0]), rel=1e-5)


def test_numbered_features_need_no_hashing(tmp_path):
    export(LinearModel.of(ts.FSOL().fit(np.eye(3), [0, 1, 1])._model), tmp_path / "m.h")
    assert "_add" not in (tmp_path / "m.h").read_text()


def test_every_part_of_a_feature_space_is_accounted_for():
    """A new one needs code in the header, or a refusal, and then a line here."""
    carried = {"bits", "signed", "text", "normalize", "categorical"}  # the caller says what is a category
    said = {"cross", "zero_based"}  # in the header's comment: rows come crossed, columns from 0
    said |= {"ngrams", "chars", "lower", "stop", "binary"}  # texts taken apart, where that is not into words
    assert {option.name for option in fields(Options) if spelling(option).in_space} == carried | said
    cells = {"missing", "dates"}  # in the header's comment and in the space of JSON and ONNX
    roles = {
        "label",
        "weight",
        "ignore",
        "id",
        "time",
        "indices",
        "values",
        "header",
        "delimiter",
        "positive_above",
    }  # no features, or where
    kinds = {"numeric", "columns", "strict"}  # what a cell may be, not what becomes of it
    kept = {option.name for option in fields(Options) if spelling(option).remembered and not spelling(option).in_space}
    assert cells <= kept <= cells | roles | kinds
