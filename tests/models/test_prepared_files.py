"""Files of models that prepare their rows: the same bytes after going on, weights only, normalized streams."""

import tracemalloc
import zlib
from dataclasses import replace

import numpy as np
import pytest

import thinstream as ts
from tests.export.test_preparation import KINDS, WIDTH, rows, trained
from tests.models.test_models import reforged
from thinstream.data.labels import Classes
from thinstream.engine.rows import unit_rows
from thinstream.errors import InvalidInputError, InvalidParameterError, ModelFileError
from thinstream.models import packing
from thinstream.models import packing as packing_scales
from thinstream.models.blend import COUNTING
from thinstream.models.container import get
from thinstream.models.file import read, write
from thinstream.models.head import ALIKE
from thinstream.models.model import Model
from thinstream.models.packing import SMALL, full_blend, lengthened


@pytest.mark.parametrize("kind", KINDS[1:])
@pytest.mark.parametrize("labels", [(-1, 1), ("a", "b", "c")])
def test_a_model_goes_on_with_the_same_bytes(kind, labels, tmp_path):
    one, two = rows(200, len(labels), WIDTH, "float32", 5), rows(200, len(labels), WIDTH, "float32", 6)
    whole, parts = trained(kind, labels, "float32"), trained(kind, labels, "float32")
    for batch in (one, two):
        whole.learner.learn(batch)
    parts.learner.learn(one)
    write(tmp_path / "part.ts", parts)
    parts = read(tmp_path / "part.ts")
    parts.learner.learn(two)
    write(tmp_path / "a.ts", whole)
    write(tmp_path / "b.ts", parts)
    assert (tmp_path / "a.ts").read_bytes() == (tmp_path / "b.ts").read_bytes()


@pytest.mark.parametrize("kind", KINDS[1:])
@pytest.mark.parametrize("labels", [(-1, 1), ("a", "b", "c")])
def test_weights_alone_predict_the_same_bits(kind, labels, tmp_path):
    model = trained(kind, labels, "float32")
    write(tmp_path / "m.ts", model, "weights")
    found, batch = read(tmp_path / "m.ts"), rows(100, len(labels), WIDTH + 3, "float32", 7)
    assert found.learner.weights_only
    assert found.learner.scores(batch).tobytes() == model.learner.scores(batch).tobytes()
    assert found.learner.weights().tobytes() == model.learner.weights().tobytes()
    write(tmp_path / "again.ts", found, "weights")
    assert (tmp_path / "again.ts").read_bytes() == (tmp_path / "m.ts").read_bytes()


def test_of_sparse_weights_only_their_scales_are_kept(tmp_path):
    model = Model.fresh("fsol", Classes(-1, 1), n_features=WIDTH, scale="max", parameters={"l1": 3.0})
    model.learner.learn(rows(300, 2, WIDTH, "float32", 1))
    assert 0 < model.learner.nnz < WIDTH // 2
    write(tmp_path / "m.ts", model, "weights")
    assert len(get(tmp_path / "m.ts")[1]["scales/max"]) == model.learner.nnz


def test_a_loaded_model_normalizes_if_its_stream_did(tmp_path):
    """A model in memory gets normalized rows from its stream. A loaded model normalizes them, bit for bit the same."""
    path, saved = tmp_path / "m.ts", Model.fresh("arow", Classes(-1, 1), n_features=WIDTH)
    batch, new = rows(100, 2, WIDTH, "float32", 1), rows(50, 2, WIDTH + 4, "float32", 2)
    first, second = (np.empty_like(each.values) for each in (batch, new))
    for each, values in ((batch, first), (new, second)):
        unit_rows(each.indptr.astype(np.int64), each.values, values)
    saved.learner.learn(_with(batch, first))
    write(path, Model(saved.learner, saved.classes, {"normalize": "l2"}))
    found = read(path)
    assert (found.feature_space, found.preparation.kinds) == ({}, {"scale": None, "normalize": "l2"})
    assert found.learner.scores(new).tobytes() == saved.learner.scores(_with(new, second)).tobytes()
    again = read(path)
    again.learner.learn(batch)
    saved.learner.learn(_with(batch, first))
    assert again.learner.outputs.weights().tobytes() == saved.learner.weights().tobytes()
    assert ts.load(path).get_params()["normalize"] == "l2"


def _with(batch, values):
    return replace(batch, values=values)


@pytest.mark.parametrize("kind", ["max", "rms", "idf"])
def test_damaged_scales_are_refused(kind, tmp_path):
    model = trained([(kind, None)], (-1, 1), "float32")
    head, arrays = packing.describe(model.learner), packing.pack(model.learner, "full")
    head |= {"grade": "full", "classes": [-1, 1]}
    name = "scales/" + {"max": "max", "rms": "squares", "idf": "documents"}[kind]
    assert packing.unpack(head, arrays).weights().tobytes() == model.learner.weights().tobytes()
    for changed, message in (
        ({name: arrays[name][1:]}, "its array"),
        ({name: arrays[name].astype(np.float32)}, "is float32"),
        ({name: -arrays[name]}, "must all be ≥ 0"),
        ({"scales/indices": arrays["scales/indices"][::-1]}, "must be sorted"),
        ({"scales/indices": arrays["scales/indices"] + 1000}, "must be sorted and unique, from 0 to"),
    ):
        with pytest.raises(ModelFileError, match=message):
            packing.unpack(head, arrays | changed)
    if kind == "idf":
        assert arrays["scales/rows"].tolist() == [model.learner.t]
        for bad in (np.empty(0), -arrays["scales/rows"]):
            with pytest.raises(ModelFileError, match="its "):
                packing.unpack(head, arrays | {"scales/rows": bad})
    with pytest.raises(ModelFileError, match="preparation of rows is empty"):
        packing.unpack(head | {"preparation": {"scale": None, "normalize": None}}, arrays)
    with pytest.raises(InvalidParameterError, match="scale must be"):
        packing.unpack(head | {"preparation": {"scale": "no", "normalize": None}}, arrays)


def test_asking_both_the_stream_and_the_model_is_an_error(tmp_path):
    path = tmp_path / "d.svm"
    path.write_text("1 1:3 2:4\n-1 1:1\n" * 20)
    stream = ts.open_stream(path, normalize="l2")
    for given in ({"normalize": "l2"}, {"scale": "max"}):
        with pytest.raises(InvalidParameterError, match="Remove normalize from the stream"):
            ts.FSOL(**given).fit_stream(stream)
    one, other = ts.FSOL().fit_stream(stream), ts.FSOL(normalize="l2").fit_stream(ts.open_stream(path))
    assert np.array_equal(one.coef_, other.coef_)
    with pytest.raises(InvalidParameterError, match="Remove normalize from the stream"):
        next(other.predict_stream(stream))
    with pytest.raises(InvalidInputError, match="Read the rows with the same options"):
        next(one.predict_stream(ts.open_stream(path)))
    one.save(tmp_path / "m.ts")
    loaded = ts.load(tmp_path / "m.ts")
    assert loaded.normalize == "l2"
    (found,) = loaded.predict_stream(loaded.open_stream(path))
    assert found.tolist() == [1, -1] * 20


@pytest.mark.parametrize("kind", ["max", "rms"])
@pytest.mark.parametrize("several", [False, True])
def test_scales_of_thin_models_are_short_and_nothing_is_lost(kind, several, tmp_path):
    rng = np.random.default_rng(3)
    X = (rng.poisson(0.05, (400, 3000)) * rng.choice([1, 0.1], 3000)).astype(np.float32)
    y = X[:, :1500].sum(axis=1) > X[:, 1500:].sum(axis=1)
    unit = {"scale": kind, "normalize": "l2"}
    model = (ts.Auto(portfolio=[ts.FSOL(), ts.AROW(**unit)]) if several else ts.AROW(**unit)).fit(X, y)
    small = model.thin(50)
    small.save(tmp_path / "small", weights_only=True)
    assert (tmp_path / "small").stat().st_size < 12_000  # scales of 3,000 features took 60,000
    found = ts.load(tmp_path / "small")
    assert found.decision_function(X).tobytes() == small.decision_function(X).tobytes()
    assert found.thin(20).coef_.tobytes() == small.thin(20).coef_.tobytes()
    found.save(tmp_path / "again", weights_only=True)
    assert (tmp_path / "again").read_bytes() == (tmp_path / "small").read_bytes()
    # the length of rows is that of all features, to 32 bits
    exact, short = (
        one.scales.divisors(3000)
        for each in (model, small)
        for one in each._model.learner.served().preparation.each
        if one.scales is not None
    )
    np.testing.assert_allclose(short, exact, rtol=1e-7)


UNIT = {"scale": "rms", "normalize": "l2"}


@pytest.mark.parametrize(
    ("key", "content", "message"),
    [
        ("scales/squares.short", b"no zlib", "cannot be read"),
        ("scales/squares.short", zlib.compress(bytes(20))[:-1], "incomplete"),
        ("scales/squares.short", zlib.compress(b"12345"), "20 bytes per feature"),
        ("scales/0/squares.short", zlib.compress(bytes(20)), "does not belong"),
        ("scales/counts.short", zlib.compress(bytes(20)), "does not belong"),
        ("scales/squares.short", zlib.compress(bytes(80)), "more than 60 bytes"),
    ],
)
def test_short_scales_that_are_damaged_are_refused(key, content, message):
    with pytest.raises(ModelFileError, match=message):
        lengthened({key: np.frombuffer(content, np.uint8)}, {"n_features": 3, "preparation": UNIT})


def zeros(mebibytes):
    """Compressed zeros, about a thousandth of their size."""
    stream = zlib.compressobj(9)
    return b"".join([*(stream.compress(bytes(1 << 20)) for _ in range(mebibytes)), stream.flush()])


@pytest.mark.parametrize("several", [1, 4])
@pytest.mark.parametrize("n_features", [0, 1000, 2**40])
def test_decompressed_scales_are_bounded_whatever_the_header_declares(n_features, several, tmp_path):
    """A small file must not need gigabytes, even if its checksum is correct and its header declares many features."""
    bomb = np.frombuffer(zeros(256), np.uint8)
    described = UNIT if several == 1 else {"several": [UNIT] * several}
    keys = ["scales/squares.short"] if several == 1 else [f"scales/{k}/squares.short" for k in range(several)]
    ts.AROW(**UNIT).fit(np.eye(4), [0, 1, 0, 1]).save(tmp_path / "m", weights_only=True)
    reforged(tmp_path / "m", dict.fromkeys(keys, bomb), n_features=n_features, preparation=described)
    tracemalloc.start()
    try:
        with pytest.raises(ModelFileError, match="when decompressed"):
            ts.load(tmp_path / "m")
        assert tracemalloc.get_traced_memory()[1] < 2.5 * SMALL
    finally:
        tracemalloc.stop()


def test_a_bomb_without_a_header_is_refused(tmp_path):
    ts.AROW(**UNIT).fit(np.eye(4), [0, 1, 0, 1]).save(tmp_path / "m", weights_only=True)
    reforged(tmp_path / "m", {"scales/squares.short": np.frombuffer(zeros(1), np.uint8)}, preparation=None)
    with pytest.raises(ModelFileError, match="no valid preparation of rows: None"):
        ts.load(tmp_path / "m")


def test_scales_that_compress_too_well_are_stored_uncompressed(tmp_path, monkeypatch):
    """What is written can be read: the writer observes the limits of the reader."""
    X = np.eye(4000, dtype=np.float32)
    small = ts.AROW(**UNIT).fit(X, np.arange(4000) % 2).thin(50)
    small.save(tmp_path / "compressed", weights_only=True)
    monkeypatch.setattr(packing_scales, "SMALL", 1000)
    with pytest.raises(ModelFileError, match="when decompressed"):
        ts.load(tmp_path / "compressed")
    small.save(tmp_path / "long", weights_only=True)
    assert "scales/squares" in get(tmp_path / "long")[1]
    assert ts.load(tmp_path / "long").decision_function(X).tobytes() == small.decision_function(X).tobytes()


def test_how_much_rows_count_in_a_head_is_kept(tmp_path):
    X, y = np.eye(4), [0, 1, 0, 1]
    for portfolio, counting in ((None, COUNTING), (["arow", "fsol"], ALIKE)):
        ts.Auto(portfolio=portfolio).fit(X, y).save(tmp_path / "m")
        assert ts.load(tmp_path / "m")._model.learner.outputs.one.head.counting == counting


def test_in_files_that_do_not_say_how_much_rows_count_all_count_alike(tmp_path, monkeypatch):
    model = ts.Auto().fit(np.eye(4), [0, 1, 0, 1])
    assert "head/counting" in full_blend(model._model.learner.outputs.one)
    arrays = {
        name: array for name, array in full_blend(model._model.learner.outputs.one).items() if name != "head/counting"
    }
    monkeypatch.setattr("thinstream.models.packing.full_blend", lambda *_: arrays)
    model.save(tmp_path / "m")
    assert ts.load(tmp_path / "m")._model.learner.outputs.one.head.counting == ALIKE
