"""Estimators and streams: a bad record leaves the model as it was, and features must mean the same."""

import pickle

import numpy as np
import pytest

import thinstream as ts
from thinstream.errors import InvalidInputError, ThinstreamError

GOOD = "+1 1:1 3:0.5\n-1 2:1\n" * 40


@pytest.fixture
def files(tmp_path):
    (tmp_path / "good.svm").write_text(GOOD)
    (tmp_path / "bad.svm").write_text(GOOD + "+1 1:1 2:x\n" + GOOD)
    (tmp_path / "words.csv").write_text("label,text\n" + "1,free money now\n0,see you at noon\n" * 30)
    return tmp_path


@pytest.mark.parametrize("name", ["FSOL", "AROW", "SSOL"])
def test_a_bad_record_leaves_a_fitted_model_as_it_was(name, files):
    """What was read before the record must not stay half learned."""
    model = ts.make(name).fit_stream(ts.open_stream(files / "good.svm"))
    before, t, coef = pickle.dumps(model._model.learner), model.t_, model.coef_.copy()
    with pytest.raises(ThinstreamError, match=r"bad\.svm"):
        model.partial_fit_stream(ts.open_stream(files / "bad.svm"))
    assert pickle.dumps(model._model.learner) == before
    assert model.t_ == t
    np.testing.assert_array_equal(model.coef_, coef)
    model.partial_fit_stream(ts.open_stream(files / "good.svm"))
    assert model.t_ == 2 * t


def test_going_on_from_a_stream_has_the_bits_of_one_run(files):
    twice = ts.AROW().fit_stream(ts.open_stream([files / "good.svm", files / "good.svm"]))
    model = ts.AROW().fit_stream(ts.open_stream(files / "good.svm"))
    model.partial_fit_stream(ts.open_stream(files / "good.svm"))
    np.testing.assert_array_equal(model.coef_, twice.coef_)


def words(files, bits):
    return ts.open_stream(files / "words.csv", text=("text",), bits=bits, classes=(0, 1))


@pytest.mark.parametrize("name", ["FSOL", "BCW"])
def test_a_stream_of_other_features_is_refused(name, files):
    """Hashed into other numbers, words would mean nothing to the model."""
    model = ts.make(name).fit_stream(words(files, 12))
    assert np.concatenate(list(model.predict_stream(words(files, 12)))).tolist()[:2] == [1, 0]
    with pytest.raises(InvalidInputError, match="Read the rows with the same options"):
        model.predict_stream(words(files, 10))
    if name == "FSOL":
        before = pickle.dumps(model._model.learner)
        with pytest.raises(InvalidInputError, match="Read the rows with the same options"):
            model.partial_fit_stream(words(files, 10))
        assert pickle.dumps(model._model.learner) == before


def test_a_loaded_model_knows_its_features_too(files):
    ts.FSOL().fit_stream(words(files, 12)).save(files / "m.ts")
    with pytest.raises(InvalidInputError, match="Read the rows with the same options"):
        ts.load(files / "m.ts").predict_stream(words(files, 10))


def test_the_run_of_a_stream_is_reported(files):
    model = ts.FSOL().fit_stream(ts.open_stream(files / "good.svm"))
    assert model._model.report["rows"] == 80


def test_labels_in_another_order_are_refused(files):
    """Learned as they come, they would teach the model the opposite."""
    model = ts.FSOL().fit_stream(words(files, 12))
    for classes in ((1, 0), (2, 3)):
        other = ts.open_stream(files / "words.csv", text=("text",), bits=12, classes=classes)
        with pytest.raises(InvalidInputError, match=r"the model has the classes \(0, 1\), and the stream has"):
            model.partial_fit_stream(other)
    assert model.t_ == 60


@pytest.mark.parametrize("call", ["fit_stream", "partial_fit_stream", "predict_stream"])
def test_a_path_is_no_stream(call, files):
    model = ts.FSOL().fit_stream(ts.open_stream(files / "good.svm"))
    with pytest.raises(
        InvalidInputError, match=r"stream must be a stream, got 'a\.svm'\. Open files with thinstream\.open_stream"
    ):
        getattr(model, call)("a.svm")


def test_records_passed_over_are_counted_once(files):
    stream = ts.open_stream(files / "bad.svm", on_error="skip")
    ts.FSOL(n_passes=2).fit_stream(stream)
    assert stream.skipped.count == 1
