"""Exports: what another program computes from the file is what the learner says."""

import builtins
import hashlib
import io
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.export.linear_models import AWKWARD, MODELS, WIDTH, close, each, made, rows, trained_model
from thinstream.algorithms.registry import algorithms
from thinstream.data.labels import Classes
from thinstream.errors import InvalidInputError, MissingPackageError, UnknownNameError
from thinstream.export import FORMATS, LinearModel, export
from thinstream.export.formats.c import hexadecimals
from thinstream.export.linear import decimals, json_value
from thinstream.export.picture import draw
from thinstream.lanes.learner import Learner
from thinstream.models.file import read as read_model
from thinstream.models.file import write as write_model
from thinstream.models.model import Model


@pytest.fixture(params=MODELS)
def trained(request):
    return trained_model(*request.param)


def written(linear, kind, name="model"):
    file = io.BytesIO()
    FORMATS[kind].write(linear, file, name)
    return file.getvalue()


# Linear models --------------------------------------------------------------------------------------------------------


def test_a_linear_model_holds_the_weights(trained):
    learner, linear, _ = trained
    dense = np.zeros(WIDTH, dtype=linear.weights.dtype)
    dense[linear.indices] = linear.weights
    np.testing.assert_array_equal(dense, learner.weights())
    assert 0 < len(linear.weights) < WIDTH
    assert linear.n_features == WIDTH
    assert linear.intercepts[0] == learner.intercept
    assert linear.parameters == learner.parameters
    assert linear.names == {j: AWKWARD[j] for j in linear.indices.tolist() if j < len(AWKWARD)}


def test_labels_and_parameters_become_plain():
    learner = Learner("fsol", n_features=2, eta=np.float32(0.5))
    linear = LinearModel.of(Model(learner, Classes(np.int64(0), np.str_("x"))))
    assert list(map(type, linear.classes)) == [int, str]
    assert type(linear.parameters["eta"]) is float
    assert json_value(np.datetime64("2024-01-01")) == "2024-01-01"
    assert json_value(None) is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"weights": np.array([1, 2])}, "must be float32 or float64, got int64"),
        ({"weights": np.ones(3)}, r"there must be one index per weight, got \(2,\) and \(3,\)"),
        ({"indices": np.array([1, 1])}, "sorted, unique and from 0 to 3"),
        ({"indices": np.array([1, 4])}, "sorted, unique and from 0 to 3"),
        ({"indices": np.array([-1, 2])}, "sorted, unique and from 0 to 3"),
        ({"weights": np.array([1.0, np.inf])}, "must be finite, got inf at feature 2"),
        ({"intercepts": np.array([np.nan])}, "intercept must be finite, got nan"),
    ],
)
@pytest.mark.parametrize("kind", FORMATS)
def test_a_model_that_cannot_be_exported(kind, change, message):
    linear = made([0.0, 1.0, 2.0, 0.0])._replace(**change)
    with pytest.raises(InvalidInputError, match=message):
        written(linear, kind)


@pytest.mark.parametrize("name", [algorithm.name for algorithm in algorithms("batch")])
def test_batch_learners_are_exported_too(name, tmp_path):
    rng = np.random.default_rng(3)
    model = Model.fresh(name, Classes("ham", "spam"), n_features=20, fit_intercept=True)
    model.learner.learn(rows(rng, 60, 20, model.learner.dtype))
    model.learner.finish()
    batch = rows(rng, 30, 20, model.learner.dtype, y=False)
    write_model(tmp_path / "m.ts", model)
    linear = LinearModel.of(read_model(tmp_path / "m.ts"))
    read = json.loads(written(linear, "json"))
    assert (read["algorithm"], read["parameters"]) == (name, LinearModel.of(model).parameters)
    dense = dict(zip(read["indices"], read["weights"]))
    found = [read["intercept"] + sum(dense.get(j, 0.0) * x for j, x in zip(*row)) for row in each(batch)]
    np.testing.assert_allclose(found, model.learner.scores(batch), rtol=1e-4, atol=1e-5)


# Numbers --------------------------------------------------------------------------------------------------------------


@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False)))
def test_decimals_of_float32(numbers):
    array = np.array(numbers, dtype=np.float32)
    read = np.array([np.float32(float(text)) for text in decimals(array)], dtype=np.float32)
    assert read.tobytes() == array.tobytes()


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False)))
def test_decimals_and_hexadecimals_of_float64(numbers):
    array = np.array(numbers, dtype=np.float64)
    for texts, read in ((decimals(array), float), (hexadecimals(array), float.fromhex)):
        assert np.array([read(text) for text in texts], dtype=np.float64).tobytes() == array.tobytes()


def test_a_decimal_that_a_double_would_round_to_the_neighbour():
    """The shortest decimal of this float32, read as a double and rounded again, is another float32."""
    number = np.array([0x15AE43FD], dtype=np.uint32).view(np.float32)
    assert np.float32(float("7.038531e-26")) != number[0]
    assert str(number[0]) == "7.038531e-26"
    assert np.float32(float(decimals(number)[0])) == number[0]


def test_decimals_are_the_shortest():
    assert decimals(np.array([0.1, 1 / 3, -123.25, 1e-45, 1e20], dtype=np.float32)) == [
        "0.1", "0.33333334", "-123.25", "1e-45", "1e+20",
    ]  # fmt: skip


# Text -----------------------------------------------------------------------------------------------------------------

_MEANING = {"t": "\t", "n": "\n", "r": "\r"}


def unescaped(text):
    return re.sub(r"\\(.)", lambda found: _MEANING.get(found[1], found[1]), text, flags=re.S)


def read_text(raw):
    """Head as a dict, and {column or name: weight} in order; written from the description alone."""
    head, weights = {}, {}
    for line in raw.decode("utf-8").split("\n")[:-1]:
        key, _, value = line.partition("\t")
        if line.startswith("#"):
            head[key.removeprefix("# ")] = unescaped(value)
        else:
            column = re.fullmatch("[0-9]+", key)
            weights[int(key) if column else unescaped(key)] = value
    return head, weights


def test_text_reads_back(trained):
    _, linear, _ = trained
    head, weights = read_text(written(linear, "text"))
    dtype = linear.weights.dtype
    assert (head["negative"], head["positive"]) == linear.classes
    assert dtype.type(head["intercept"]) == linear.intercepts[0]
    assert "are column numbers, from 0" in written(linear, "text").decode().split("\n")[1]
    expected = {linear.names.get(j, j): w for j, w in zip(linear.indices.tolist(), linear.weights)}
    assert {feature: dtype.type(weight) for feature, weight in weights.items()} == expected


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), unique=True, min_size=1, max_size=8))
def test_any_name_survives_text_and_json(names):
    linear = made(np.arange(1, len(names) + 3), names=dict(enumerate(names)))
    _, weights = read_text(written(linear, "text"))
    assert weights == {(names[j] if j < len(names) else j): str(j + 1.0) for j in range(len(names) + 2)}
    assert json.loads(written(linear, "json"))["names"] == {str(j): name for j, name in enumerate(names)}


def test_text_is_sorted_by_size_then_column():
    _, weights = read_text(written(made([0.5, -2.0, 0.0, 2.0, -0.5]), "text"))
    assert list(weights.items()) == [(1, "-2.0"), (3, "2.0"), (0, "0.5"), (4, "-0.5")]
    _, weights = read_text(written(made(np.tile([1.0, -1.0, 2.0], 1000)), "text"))
    columns = np.arange(3000)
    assert list(weights) == [*columns[columns % 3 == 2], *columns[columns % 3 != 2]]


def test_text_of_more_than_a_block(monkeypatch):
    from thinstream.export.formats import text

    linear = made(np.random.default_rng(0).standard_normal(50))
    whole = written(linear, "text")
    monkeypatch.setattr(text, "BLOCK", 7)
    assert written(linear, "text") == whole


def test_names_of_broken_bytes():
    """Lone surrogates, from bytes that were no UTF-8."""
    broken = b"caf\xe9".decode("utf-8", "surrogateescape")
    linear = made([1.0], names={0: broken}, classes=(broken, "\ud800"))
    assert rb"caf\udce9	1.0" in written(linear, "text")
    assert json.loads(written(linear, "json"))["names"] == {"0": broken}
    assert rb"/* caf\udce9 */" in written(linear, "c")
    written(linear, "onnx", broken)


# JSON -----------------------------------------------------------------------------------------------------------------


def test_json_reads_back(trained):
    learner, linear, batch = trained
    read = json.loads(written(linear, "json"))
    assert list(read) == [
        "algorithm", "parameters", "dtype", "classes", "n_features", "intercept",
        "indices", "weights", "names", "space",
    ]  # fmt: skip
    weights = np.array(read["weights"], dtype=read["dtype"])
    assert weights.tobytes() == linear.weights.tobytes()
    assert read["indices"] == linear.indices.tolist()
    assert read["classes"] == list(linear.classes)
    assert {int(j): name for j, name in read["names"].items()} == linear.names
    assert (read["algorithm"], read["parameters"]) == (learner.algorithm.name, learner.parameters)
    dense = dict(zip(read["indices"], weights.tolist()))
    found = [read["intercept"] + sum(dense.get(j, 0.0) * x for j, x in zip(*row)) for row in each(batch)]
    close(found, learner, linear, batch)


# ONNX -----------------------------------------------------------------------------------------------------------------


def onnx_outputs(raw, indices, values):
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(raw, providers=["CPUExecutionProvider"])
    return session.run(["scores", "labels"], {"indices": indices, "values": values})


def padded(batch, with_index):
    longest = int(np.diff(batch.indptr).max())
    indices = np.full((len(batch), longest), with_index, dtype=np.int64)
    values = np.zeros((len(batch), longest), dtype=batch.values.dtype)
    for i, (j, x) in enumerate(each(batch)):
        indices[i, : len(j)], values[i, : len(j)] = j, x
    return indices, values


@pytest.mark.parametrize("with_index", [0, -1])
def test_onnx_scores_as_the_learner(trained, with_index):
    learner, linear, batch = trained
    scores, labels = onnx_outputs(written(linear, "onnx"), *padded(batch, with_index))
    assert scores.dtype == linear.weights.dtype
    close(scores, learner, linear, batch)
    assert labels.tolist() == [linear.classes[int(score > 0)] for score in scores]


def test_onnx_ignores_columns_it_does_not_know():
    raw = written(made([1.0, 0.0, 2.0, 0.0], intercept=0.25), "onnx")
    indices = np.array([[2, 3, 4, 10**12, -1, -3, -(10**12)]])
    scores, _ = onnx_outputs(raw, indices, np.full(indices.shape, 3.0, np.float32))
    assert scores.tolist() == [6.25]


@pytest.mark.parametrize("shape", [(3, 0), (0, 4), (0, 0)])
def test_onnx_of_no_rows_and_of_empty_rows(shape):
    raw = written(made([1.0, 2.0], intercept=0.5), "onnx")
    scores, labels = onnx_outputs(raw, np.zeros(shape, np.int64), np.zeros(shape, np.float32))
    assert scores.tolist() == [0.5] * shape[0]
    assert labels.tolist() == [1] * shape[0]


@pytest.mark.parametrize(
    ("pair", "told", "dtype"),
    [
        ((-1, 1), (-1, 1), "int64"),
        ((False, True), (False, True), "bool"),
        ((0.5, 1.5), (0.5, 1.5), "float64"),
        (("a", "b"), ("a", "b"), "object"),
        ((0, 2**70), ("0", str(2**70)), "object"),
        ((1, "b"), ("1", "b"), "object"),
    ],
)
def test_onnx_labels(pair, told, dtype):
    raw = written(made([1.0], classes=pair), "onnx")
    _, labels = onnx_outputs(raw, np.zeros((3, 1), np.int64), np.array([[-1], [0], [1]], np.float32))
    assert labels.tolist() == [told[0], told[0], told[1]]
    assert labels.dtype.name == dtype


def test_onnx_stays_sparse_and_says_what_it_is():
    onnx = pytest.importorskip("onnx")
    raw = written(made([0.0, 1.0], "float64")._replace(n_features=10**9, indices=np.array([10**6])), "onnx", "n")
    assert len(raw) < 2000
    model = onnx.load_from_string(raw)
    onnx.checker.check_model(model)  # its inference of shapes, full_check, does not know sparse initialisers
    assert len(model.graph.sparse_initializer) == 1
    assert (model.graph.name, model.opset_import[0].version) == ("n", 13)
    facts = {entry.key: entry.value for entry in model.metadata_props}
    assert (facts["algorithm"], json.loads(facts["parameters"])) == ("FSOL", {"eta": 0.5})
    assert (json.loads(facts["classes"]), facts["n_features"]) == ([-1, 1], str(10**9))


# Files ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        *("m.txt", "m.tsv", "m.json", "m.onnx", "m.h", "m.H", "m.js", "m.sql", "m.svg"),
        pytest.param("m.png", marks=pytest.mark.slow),
    ],
)
def test_the_same_model_gives_the_same_bytes(name, tmp_path):
    linear = made(np.random.default_rng(2).standard_normal(80), names={3: "drei", 1: "eins"})
    shuffled = linear._replace(names=dict(reversed(linear.names.items())))
    contents = []
    for folder, one in (("a", linear), ("b", shuffled)):
        (tmp_path / folder).mkdir()
        write = draw if name.endswith(("png", "svg")) else export
        write(one, tmp_path / folder / name)
        contents.append((tmp_path / folder / name).read_bytes())
        assert [path.name for path in (tmp_path / folder).iterdir()] == [name]
    assert contents[0] == contents[1]


@pytest.mark.parametrize("kind", [name for name in FORMATS if name != "sql_table"])  # which needs named columns
def test_a_model_without_weights(kind, tmp_path):
    linear = LinearModel.of(Model(Learner("fsol", n_features=5), Classes(0, 1)))
    export(linear, str(tmp_path / "empty"), format=kind)
    assert (tmp_path / "empty").stat().st_size > 0


def test_an_error_leaves_the_file_as_it_was(tmp_path):
    path = tmp_path / "model.json"
    path.write_text("before")
    with pytest.raises(InvalidInputError, match="the intercept must be finite, got inf"):
        export(made([1.0], intercept=float("inf")), path)
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]
    export(made([1.0]), path)
    assert json.loads(path.read_text())["weights"] == [1.0]


def test_unknown_formats(tmp_path):
    with pytest.raises(UnknownNameError, match=r"must be '.h', .* got '.pkl'"):
        export(made([1.0]), tmp_path / "m.pkl")
    with pytest.raises(UnknownNameError, match="got ''"):
        export(made([1.0]), "model")
    with pytest.raises(UnknownNameError, match=r"format must be 'c', .* got 'csv'"):
        export(made([1.0]), tmp_path / "m.txt", format="csv")
    with pytest.raises(UnknownNameError, match=r"must be '.png' or '.svg', got '.jpg'"):
        draw(made([1.0]), tmp_path / "m.jpg")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("name", "package", "extra"), [("m.onnx", "onnx", "onnx"), ("m.png", "matplotlib", "plot")])
def test_a_missing_package(name, package, extra, tmp_path, monkeypatch):
    real = builtins.__import__

    def without(module, *rest, **more):
        if module.split(".")[0] == package:
            raise ImportError(module)
        return real(module, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingPackageError, match=rf"{package}.*pip install '{package}>="):
        (draw if extra == "plot" else export)(made([1.0]), tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_nothing_heavy_is_imported_before_it_is_needed():
    code = (
        "import sys, thinstream.export, thinstream.export.picture;"
        "print([m for m in ('onnx', 'matplotlib', 'scipy.sparse', 'sklearn', 'pandas', 'pyarrow') if m in sys.modules])"
    )
    source = str(Path(sys.modules["thinstream"].__file__).parents[1])
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {source!r}); {code}"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "[]\n"


@pytest.mark.parametrize(
    ("classes", "kind", "digest"),
    [
        (2, "text", "de4404e0a80360c1"),
        (2, "json", "c04a584fccb9aef9"),
        (2, "c", "bd863a2a469ad4b0"),
        (3, "text", "848ba87f2481928c"),
        (3, "json", "a6041f55d096abc5"),
        (3, "c", "2d9fac8678735999"),
    ],
)
def test_bytes_of_exports_do_not_change(classes, kind, digest):
    """Other programs may read them."""
    dense = (np.arange(120) * 37 % 23 - 11) * (np.arange(120) % 3 > 0) / 7
    dense = dense[:40] if classes == 2 else dense.reshape(3, 40)
    labels, intercepts = ("häm", 'sp"am', "x\n")[:classes], np.array([0.1, -2.0, 0.5], np.float32)
    names = {j: AWKWARD[j] for j in range(len(AWKWARD)) if np.atleast_2d(dense)[:, j].any()}
    linear = made(dense, classes=labels, names=names, feature_space={"bits": 18})
    linear = linear._replace(intercepts=intercepts[: len(linear.intercepts)])
    assert hashlib.sha256(written(linear, kind)).hexdigest()[:16] == digest
