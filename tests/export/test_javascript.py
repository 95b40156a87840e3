"""The ES module of a model makes rows of objects as the model's stream did, in Node and in a page."""

import json
import re
import shutil
import subprocess
import threading
import unicodedata
from dataclasses import fields
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files

import numpy as np
import pytest

import thinstream as ts
from tests.export.linear_models import made
from tests.export.scorers import in_node, program
from tests.export.test_c_hashing import drawn
from thinstream.batch import Batch
from thinstream.data.options import NOTHING, Options, spelling
from thinstream.export import LinearModel, export

NOBODY = Batch.of(np.array([0]), np.zeros(0, np.int32), np.zeros(0, np.float32), 1)


def texts(n, seed):
    """Rows whose characters Python's Unicode knows: engines have newer ones."""
    for row in drawn(n, seed):
        known = (c for c in row["subject"] if unicodedata.category(c) != "Cn")
        yield row | {"subject": "".join(known)}


def learned(folder, lines, name="d.jsonl", **options):
    text = lines if isinstance(lines, str) else "".join(json.dumps(line) + "\n" for line in lines)
    (folder / name).write_text(text, "utf-8")
    return ts.AROW().fit_stream(ts.open_stream(folder / name, bits=16, **options))


def same(model, rows, folder):
    scores, labels = in_node(LinearModel.of(model._model), NOBODY, folder, rows)
    expected = model.decision_function(rows)
    assert np.ptp(expected) > 0.1
    np.testing.assert_allclose(scores[:, 0], expected, rtol=1e-4, atol=1e-5)
    assert labels == [str(label) for label in model.predict(rows)]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"ngrams": (1, 3), "stop": ("the", "FREE"), "binary": True},
        {"chars": (2, 4), "signed": True},
        {"ngrams": (2, 2), "chars": (3, 3), "lower": False},
        {"cross": [("city", "size"), ("subject", "subject"), ("city", "subject", "size")]},
    ],
    ids=lambda options: "-".join(options) or "plain",
)
def test_texts_and_crosses(options, tmp_path):
    lines = [{**row, "label": int("free" in row["subject"].lower())} for row in texts(200, 1)]
    same(learned(tmp_path, lines, text=("subject",), **options), [*texts(300, 2)], tmp_path)


def test_objects_as_json_lines_have_them(tmp_path):
    rng = np.random.default_rng(0)
    rows = [
        {
            "age": int(rng.integers(90)),
            "paid": bool(rng.random() < 0.5),
            "size": [1.5, float(rng.normal()), 0],
            "user": {"name": "ann", "deep": {"x": None, "y": "NA"}},
            "tags": [*map(str, rng.choice(["a", "é", "?"], 2))],
            "gone": None,
            "nan": str(rng.choice(["NaN", " ", "x"])),
            "__proto__": float(rng.normal()),
        }
        for _ in range(200)
    ]
    model = learned(tmp_path, [{**row, "label": int(row["paid"])} for row in rows])
    same(model, rows, tmp_path)


@pytest.mark.parametrize("missing", ["indicator", "ignore", "as-is"])
def test_cells_of_tables(missing, tmp_path):
    days = ["2024-05-17", "1999-12-31", "2024-02-29T13:05", "2023-01-01 00:59:10"]
    ages = ["", "31", "4.5", "?", "-1e3"]
    lines = [f"{k % 2},{ages[k * k % 5]},{days[k // 2 % 4]},{k % 7 or 'NA'},{k % 3}" for k in range(300)]
    text = "\n".join(["label,age,sent,zip,shop", *lines]) + "\n"
    columns = {"numeric": ("age",), "dates": ("sent",), "categorical": ("zip",), "ignore": ("shop",)}
    model = learned(tmp_path, text, "d.csv", missing=missing, **columns)
    rows = [
        {"age": "", "sent": days[0], "zip": 3},
        {"age": 31, "sent": days[1], "zip": 3.0, "shop": 5},
        {"age": "4.5", "sent": days[2], "zip": "NA"},
        {"age": None, "sent": days[3], "zip": True},
        {"age": -1000.5, "sent": days[3], "zip": 1e-7},
    ]
    same(model, rows, tmp_path)


def test_a_model_of_one_text_takes_texts(tmp_path):
    model = learned(
        tmp_path, [{"label": k % 2, "body": ["see you", "free offer"][k % 2]} for k in range(50)], text=("body",)
    )
    same(model, ["Free!", "you see", ""], tmp_path)


def test_words_and_lower_case_are_those_of_python(tmp_path):
    """For every character that Python's Unicode knows; newer ones are the engine's affair."""
    code = files("thinstream.export.formats").joinpath("hashed.js").read_text("utf-8")
    words = re.search(r"text\.match\((/.*?/gu)\)", code)[1]
    known = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000 and unicodedata.category(chr(c)) != "Cn"]
    script = (
        "const known = JSON.parse(require('fs').readFileSync(0));"
        f"console.log(JSON.stringify(known.map((c) => (String.fromCodePoint(c).match({words}) ?? []).length)));"
        "console.log(JSON.stringify(known.map((c) => ('x' + String.fromCodePoint(c) + 'y').toLowerCase())));"
    )
    done = subprocess.run([program("node"), "-e", script], input=json.dumps(known), capture_output=True, text=True)
    found, lowered = map(json.loads, done.stdout.strip().split("\n"))
    assert found == [len(re.findall(r"\w+", chr(c))) for c in known]
    assert lowered == [f"x{chr(c)}y".lower() for c in known]


def test_rows_that_cannot_be_scored(tmp_path):
    export(made([1.0, 2.0], names={0: "a", 1: "b"}), tmp_path / "m.mjs")
    (tmp_path / "d.csv").write_text("label,age\n0,3\n1,4\n")
    export(LinearModel.of(ts.AROW().fit_stream(ts.open_stream(tmp_path / "d.csv"))._model), tmp_path / "h.mjs")
    script = """
    import * as numbered from "./m.mjs";
    import * as hashed from "./h.mjs";
    for (const [model, row] of [
      [numbered, [1, NaN]], [numbered, { a: "x" }], [numbered, "a"], [numbered, null],
      [hashed, { agee: 1 }], [hashed, { age: Infinity }], [hashed, "text"], [hashed, 7],
    ]) {
      try { model.score(row); console.log("scored"); } catch (error) { console.log(`${error.name}: ${error.message}`); }
    }
    console.log(numbered.score({ a: 1, c: 5 }), numbered.score([1, 1, 9]), numbered.score(Float32Array.of(0, 0.5)));
    """
    (tmp_path / "main.mjs").write_text(script)
    done = subprocess.run([program("node"), "main.mjs"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        "TypeError: values must be finite numbers, got NaN in column 1",
        "TypeError: values must be finite numbers, got x in column 0",
        'TypeError: a row must be an array, a Map of columns or an object of names, got "a"',
        "TypeError: a row must be an array, a Map of columns or an object of names, got null",
        'TypeError: the model has no column "agee"',
        "TypeError: age: numbers must be finite, got null",
        "TypeError: a row must be an object; strings are only for models of one text column",
        "TypeError: a row must be an object with names, an array, or a Map from columns, got 7",
        "1 3 1",
    ]


def test_in_a_page(tmp_path):
    """Imported by a page, and inside it as it is, with a label that would end its element."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("no chromium on the PATH")
    linear = made([1.0, -2.0], classes=("</script>", "<!--"), names={0: "__proto__", 1: "</script>"})
    export(linear, tmp_path / "m.js")
    module = (tmp_path / "m.js").read_text()
    shown = (
        'document.body.append(`${predict([1, 0])} ${score(JSON.parse(\'{"__proto__": 3, "\\u003c/script>": 1}\'))}|`);'
    )
    scripts = [f"{module}\n{shown}", f'import {{ predict, score }} from "./m.js";\n{shown}']
    page = "".join(f'<script type="module">{script}</script>' for script in scripts)
    (tmp_path / "index.html").write_text(f"<!doctype html><meta charset=utf-8><body>{page}</body>")
    handler = partial(SimpleHTTPRequestHandler, directory=str(tmp_path))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}/index.html"
        options = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}"]
        command = [browser, *options, "--virtual-time-budget=5000", "--dump-dom", address]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        server.shutdown()
    assert done.stdout.count("&lt;!-- 1|") == 2, done.stdout + done.stderr[-2000:]


def test_words_for_nothing_are_the_same():
    code = files("thinstream.export.formats").joinpath("hashed.js").read_text("utf-8")
    assert json.loads(re.search(r"const NOTHING = new Set\((\[.*?\])\)", code)[1]) == ["", *NOTHING]


def test_every_part_of_a_feature_space_is_accounted_for():
    """A new one needs code in hashed.js, a test above, and then a line here."""
    done = {"bits", "signed", "text", "categorical", "cross", "ngrams", "chars", "lower", "stop", "binary"}
    elsewhere = {"normalize", "zero_based"}  # in the vectors; columns are from 0
    assert {option.name for option in fields(Options) if spelling(option).in_space} == done | elsewhere


@pytest.mark.parametrize("name", ["scorer.js", "hashed.js", "numbered.js"])
def test_the_code_is_ascii_but_for_its_mark(name):
    code = files("thinstream.export.formats").joinpath(name).read_text("utf-8")
    assert {c for c in code if not c.isascii()} <= {"×"}
