"""The threshold of a model: kept in its file, in merges and in every export."""

import io
import json

import numpy as np
import pytest

from tests.export.linear_models import made
from tests.export.test_c import run_c
from thinstream.batch import Batch
from thinstream.data.labels import Classes
from thinstream.errors import InvalidInputError, InvalidParameterError, MergeError, ModelFileError
from thinstream.export import FORMATS, LinearModel
from thinstream.models.file import read, write
from thinstream.models.model import Model, score_of

WEIGHTS = [0.0, 1.0, -2.0, 0.5]
EXAMPLES = [([1], [1.5]), ([1], [0.75]), ([2], [1.0]), ([1, 3], [0.5, 0.5]), ([], [])]
SCORES = [1.5, 0.75, -2.0, 0.75, 0.0]


def model_of(threshold, algorithm="arow", classes=("no", "yes"), **options):
    model = Model.fresh(algorithm, Classes(*classes), n_features=4, **options)
    return model.with_threshold(threshold)


def head_of(path):
    raw = path.read_bytes()
    size = int.from_bytes(raw[:8], "little")
    return json.loads(json.loads(raw[8 : 8 + size])["__metadata__"]["thinstream"])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("threshold", [0.7, -3.25, 1e-30, -1e30])
def test_files_keep_it(threshold, dtype, tmp_path):
    model = model_of(threshold, dtype=dtype)
    assert model.threshold == float(np.dtype(dtype).type(threshold))
    for grade in ("full", "weights"):
        write(tmp_path / "m.ts", model, grade)
        assert read(tmp_path / "m.ts").threshold == model.threshold


def test_files_leave_out_a_threshold_of_zero(tmp_path):
    write(tmp_path / "m.ts", model_of(0.0))
    assert "threshold" not in head_of(tmp_path / "m.ts")
    assert read(tmp_path / "m.ts").threshold == 0.0


def test_a_forged_threshold_is_refused(tmp_path):
    model = model_of(0.5)
    object.__setattr__(model, "threshold", 7)
    write(tmp_path / "m.ts", model)
    with pytest.raises(ModelFileError, match="its threshold must be a finite number, got 7"):
        read(tmp_path / "m.ts")


def test_two_classes_only():
    with pytest.raises(InvalidParameterError, match="a threshold needs a model of two classes, but this model has 3"):
        model_of(0.5, classes=("a", "b", "c"))
    model = Model.fresh("arow", Classes("a", "b", "c"), n_features=4)
    with pytest.raises(InvalidInputError, match="two classes"):
        Model(model.learner, model.classes, threshold=1.0)


def test_models_to_merge_agree_in_it():
    models = [model_of(0.5), model_of(0.5), model_of(0.25)]
    for model in models:
        model.learner.learn(Batch.of(np.array([0, 1]), np.array([2]), np.ones(1, np.float32), 4, np.ones(1, np.int8)))
    assert models[0].merge(models[1]).threshold == 0.5
    with pytest.raises(MergeError, match=r"agree in threshold, got 0\.5 and 0\.25"):
        models[0].merge(models[2])


def test_probabilities_and_scores():
    logistic = model_of(0.0, "ftrlproximal")
    assert logistic.has_probabilities
    assert score_of(0.8, logistic) == pytest.approx(np.log(4))
    with pytest.raises(InvalidParameterError, match=r"a probability between 0 and 1 for this model, got 1\.5"):
        score_of(1.5, logistic)
    plain = model_of(0.0)
    assert score_of(-1.5, plain) == -1.5
    for bad in (np.inf, "high", None):
        with pytest.raises(InvalidParameterError, match="threshold must be a finite score"):
            score_of(bad, plain)


def test_what_is_called_positive():
    model = model_of(0.75)
    assert model.chosen(np.array(SCORES, np.float32)).tolist() == [1, 0, 0, 0, 0]


# Exports --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("threshold", [0.75, 0.1, -1.0])
def test_c_decides_by_it(threshold, dtype, tmp_path):
    threshold = float(np.dtype(dtype).type(threshold))
    linear = made(WEIGHTS, dtype, ("no", "yes"), threshold=threshold)
    found = run_c(tmp_path, linear, [(np.array(j), np.array(x)) for j, x in EXAMPLES])
    assert [score for score, *_ in found] == SCORES
    assert [predicted for _, predicted, _ in found] == [int(s > threshold) for s in SCORES]
    assert [label for *_, label in found] == [("no", "yes")[s > threshold] for s in SCORES]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("threshold", [0.75, 0.1, -1.0])
def test_onnx_decides_by_it(threshold, dtype):
    onnxruntime = pytest.importorskip("onnxruntime")
    threshold = float(np.dtype(dtype).type(threshold))
    file = io.BytesIO()
    FORMATS["onnx"].write(made(WEIGHTS, dtype, ("no", "yes"), threshold=threshold), file, "model")
    session = onnxruntime.InferenceSession(file.getvalue())
    indices, values = np.zeros((len(EXAMPLES), 2), np.int64), np.zeros((len(EXAMPLES), 2), dtype)
    for row, (j, x) in enumerate(EXAMPLES):
        indices[row, : len(j)], values[row, : len(x)] = j, x
    scores, labels = session.run(["scores", "labels"], {"indices": indices, "values": values})
    assert scores.tolist() == SCORES
    assert labels.tolist() == [("no", "yes")[s > threshold] for s in SCORES]


def test_json_and_text_have_it():
    linear = made(WEIGHTS, "float32", ("no", "yes"), threshold=0.25)
    for kind in ("json", "text"):
        file = io.BytesIO()
        FORMATS[kind].write(linear, file, "model")
        if kind == "json":
            assert json.loads(file.getvalue())["threshold"] == 0.25
        else:
            assert "# threshold\t0.25\n" in file.getvalue().decode()


def test_exports_follow_the_model():
    assert LinearModel.of(model_of(0.5)).threshold == 0.5
    with pytest.raises(InvalidInputError, match="the threshold must be finite, and 0 unless there are two"):
        made(WEIGHTS, threshold=np.nan).check()
