"""Model files: round trips with the same bits, the same bytes for the same model, and no damage goes unnoticed."""

import json
import os
import subprocess
import sys
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file, save_file

import thinstream as ts
from thinstream.algorithms.registry import algorithms, find
from thinstream.batch import Batch
from thinstream.data.labels import Classes
from thinstream.engine.loop import Costs
from thinstream.engine.memory import kept_width, record_views
from thinstream.errors import InvalidInputError, InvalidParameterError, ModelFileError, WeightsOnlyError
from thinstream.lanes.learner import Frozen, Learner
from thinstream.models.container import canonical, digest, put
from thinstream.models.file import FORMAT, read, write
from thinstream.models.model import Model, Names, make_learner

NAMES = [algorithm.name for algorithm in algorithms("online")]
PARAMETERS = {
    "SOFS": {"B": 5},
    "SMIDAS": {"p": 3.0, "l1": 0.01},
    "StableSparsePerceptron": {"max_density": 0.7, "l1": 0.01},
}
LABELS = Classes("ham", "spam")


@pytest.fixture(autouse=True)
def _without_waiting_for_the_disk(monkeypatch):
    """What fsync is for is not seen here, and it takes most of the time."""
    monkeypatch.setattr(os, "fsync", lambda handle: None)


def stream(rng, n, d, density=0.3):
    X = sp.csr_matrix(rng.normal(size=(n, d)) * (rng.random((n, d)) < density))
    y = np.where(rng.random(n) < 0.4, 1, -1).astype(np.int8)
    return Batch.of(X.indptr, X.indices, X.data, d, y=y)


def same_bits(one, other):
    """Two learners are the same, but for room to grow."""
    assert one.algorithm is other.algorithm
    assert one.rule == other.rule
    for name in ("n_features", "offset", "grow", "costs"):
        assert getattr(one, name) == getattr(other, name)
    width = kept_width(one.rule, one.memory, one.n_features + one.offset)
    for a, b in zip(record_views(one.algorithm, one.memory, width), record_views(other.algorithm, other.memory, width)):
        assert a.dtype == b.dtype
        assert a.tobytes() == b.tobytes()
    for a, b in zip(one.memory[2:], other.memory[2:]):
        assert a.dtype == b.dtype
        assert a.tobytes() == b.tobytes()


def learned(name="fsol", n=30, d=12, seed=0, **options):
    learner = Learner(name, n_features=d, **options)
    learner.learn(stream(np.random.default_rng(seed), n, d))
    return learner


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=15)
@given(
    seed=st.integers(0, 2**32 - 1),
    d=st.sampled_from([1, 3, 9, 40]),
    dtype=st.sampled_from(["float32", "float64"]),
    intercept=st.booleans(),
    grow=st.booleans(),
    costs=st.sampled_from([Costs(), Costs(0.5, 3.0), Costs(balanced=True)]),
)
def test_going_on_after_loading_is_going_on(name, seed, d, dtype, intercept, grow, costs, tmp_path_factory):
    """Learn, save, load, learn: the bits, and the file, of a model that was never stopped; also while it grows."""
    rng, folder = np.random.default_rng(seed), tmp_path_factory.getbasetemp()
    grow = grow and name != "StableSparsePerceptron"
    options = {"dtype": dtype, "fit_intercept": intercept, "grow": grow, "costs": costs, **PARAMETERS.get(name, {})}
    model = Model(Learner(name, n_features=d, **options), LABELS)
    pieces = [stream(rng, int(rng.integers(0, 12)), d) for _ in range(2)]
    last = stream(rng, 8, d + 3 * grow)
    for piece in pieces:
        model.learner.learn(piece)
        write(folder / "cut", model)
        resumed = read(folder / "cut")
        same_bits(model.learner.outputs.one, resumed.learner.outputs.one)
        assert resumed.learner.parameters == model.learner.parameters
        np.testing.assert_array_equal(model.learner.learn(last), resumed.learner.learn(last))
        same_bits(model.learner.outputs.one, resumed.learner.outputs.one)
        write(folder / "one", model)
        write(folder / "other", resumed)
        assert (folder / "one").read_bytes() == (folder / "other").read_bytes()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("intercept", [False, True])
def test_weights_alone_predict_with_the_same_bits(name, dtype, intercept, tmp_path):
    """Scores, weights and counters of a weights-only model are those of the learner."""
    learner = learned(name, d=40, dtype=dtype, fit_intercept=intercept, **PARAMETERS.get(name, {}))
    rows = stream(np.random.default_rng(9), 50, 40)
    write(tmp_path / "m", Model(learner, LABELS), "weights")
    frozen = read(tmp_path / "m").learner.outputs.one
    assert isinstance(frozen, Frozen)
    for one in (frozen, Frozen.of(learner), Frozen.of(frozen)):
        assert one.scores(rows).tobytes() == learner.scores(rows).tobytes()
        assert one.weights().tobytes() == learner.weights().tobytes()
        assert one.intercept == learner.intercept
        for counter in ("nnz", "t", "n_positives", "false_negatives", "false_positives", "n_updates", "n_mistakes"):
            assert getattr(one, counter) == getattr(learner, counter)
        assert one.cumulative_loss == learner.cumulative_loss
        assert one.algorithm is learner.algorithm
        assert one.parameters == learner.parameters
    write(tmp_path / "again", Model(frozen, LABELS), "weights")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "m").read_bytes()
    with pytest.raises(WeightsOnlyError, match=f"this {name} has only its weights.*saved in full"):
        frozen.learn(rows)
    with pytest.raises(WeightsOnlyError, match="Save it with weights_only=True"):
        write(tmp_path / "m", Model(frozen, LABELS))


def test_everything_around_a_learner_comes_back(tmp_path):
    """Labels with their types, space, names, extra, arrays."""
    names = Names.of(["größe", "", "a\x00b", "\ud800"], [7, 2, 11, 3])
    arrays = {
        "h": np.arange(6).reshape(2, 3)[:, ::-1],
        "x": np.array(2.5, ">f4"),
        "b": np.array([True]),
        "": np.zeros(0),
    }
    space = {"hashed": True, "bits": 18}
    extra = {"position": {"row": np.int64(2**60), "offset": 0.1}, "list": [None, "\ud800", (1, 2)]}
    model = Model(learned(), Classes(np.str_("a"), "b"), space, names, extra, arrays)
    write(tmp_path / "m", model)
    back = read(tmp_path / "m")
    assert back.names.indices.tolist() == [2, 3, 7, 11]
    assert back.names.texts == ["", "\ud800", "größe", "a\x00b"]
    assert back.feature_space == space
    assert back.extra == {"position": {"row": 2**60, "offset": 0.1}, "list": [None, "\ud800", [1, 2]]}
    assert set(back.arrays) == set(arrays)
    for name, array in arrays.items():
        np.testing.assert_array_equal(back.arrays[name], array)
        assert back.arrays[name].shape == array.shape
    write(tmp_path / "m", model, "weights")
    assert read(tmp_path / "m").arrays == {}
    assert read(tmp_path / "m").names.texts == back.names.texts
    for classes in [(0, 1), (-1.5, 2.5), (False, True), ("0", "1"), (np.int8(3), np.int8(4)), (0, 2**70)]:
        write(tmp_path / "m", replace(model, classes=Classes(*classes)))
        found = read(tmp_path / "m").classes
        assert found == classes
        assert [type(label) for label in found] == [type(np.asarray(label).tolist()) for label in classes]


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ({"extra": {1: 2}}, "extra: keys must be strings to be stored, got 1"),
        ({"extra": {"a": {"b": object}}}, r"extra\['a'\]\['b'\]: only strings.*got <class 'object'>"),
        ({"feature_space": {"a": float("nan")}}, r"space\['a'\]: only .*finite numbers.*got nan"),
        ({"classes": Classes(b"a", b"b")}, "classes: .*got b'a'"),
        ({"classes": Classes(None, 1)}, "classes: labels must be strings, numbers or booleans to be stored, got None"),
        ({"arrays": {"z": np.array([1j])}}, "array 'arrays/z' must have booleans, integers or floats, got complex128"),
        ({"arrays": {"\ud800": np.zeros(1)}}, "names must be strings that can be encoded in UTF-8"),
        ({"names": Names(np.array([1, 1]), ["a", "b"])}, "names: indices must be ≥ 0, sorted and unique"),
        ({"names": Names(np.array([1]), ["a", "b"])}, "one index per name is needed, got 1 indices and 2 names"),
    ],
)
def test_what_cannot_be_stored_raises_and_leaves_the_file(part, message, tmp_path):
    """Said before a byte is written."""
    (tmp_path / "m").write_text("before")
    with pytest.raises(InvalidInputError, match=message):
        write(tmp_path / "m", replace(Model(learned(), LABELS), **part))
    with pytest.raises(InvalidParameterError, match="grade must be 'full' or 'weights', got 'tiny'"):
        write(tmp_path / "m", Model(learned(), LABELS), "tiny")
    assert (tmp_path / "m").read_text() == "before"
    assert os.listdir(tmp_path) == ["m"]


def test_untouched_features_and_room_to_grow_take_no_space(tmp_path):
    """A model of a million features that has seen few is small, in memory that has grown, too."""
    learner = Learner("arow", n_features=1_000_000, grow=True)
    learner.learn(stream(np.random.default_rng(0), 20, 30))
    write(tmp_path / "m", Model(learner, LABELS))
    assert (tmp_path / "m").stat().st_size < 2_000
    same_bits(learner, read(tmp_path / "m").learner.outputs.one)
    dense = learned("arow", d=30, n=200)
    write(tmp_path / "m", Model(dense, LABELS))
    found = load_file(tmp_path / "m")
    assert "indices" not in found
    assert found["state"].shape == (30, 2)


def test_a_touched_record_may_look_fresh_but_for_a_sign(tmp_path):
    """−0 is not 0: bits are compared, not values."""
    learner = Learner("perceptron", n_features=100)
    learner.memory.state[7] = -0.0
    write(tmp_path / "m", Model(learner, LABELS))
    assert np.signbit(read(tmp_path / "m").learner.outputs.one.memory.state[7])


def test_other_tools_can_read_it(tmp_path):
    """The file is plain safetensors; weights are there by name."""
    learner = learned("fsol", l1=1.0)
    write(tmp_path / "m.safetensors", Model(learner, LABELS), "weights")
    found = load_file(tmp_path / "m.safetensors")
    where, weights = learner.sparse_weights()
    np.testing.assert_array_equal(found["indices"], where)
    np.testing.assert_array_equal(found["weights"], weights)


@pytest.mark.parametrize(("name", "grade"), [("sofs", "full"), ("fsol", "weights")])
def test_no_damage_goes_unnoticed(name, grade, tmp_path):
    """Every byte changed in several ways, every length cut: an error that names the file, or the same model."""
    options = {"B": 2} if name == "sofs" else {}
    model = Model(learned(name, d=3, **options), LABELS, names=Names.of(["a"]), arrays={"h": np.arange(2)})
    write(tmp_path / "m", model, grade)
    good, harmless, unnamed = (tmp_path / "m").read_bytes(), 0, []

    def attempt(content):
        (tmp_path / "bad").unlink(missing_ok=True)  # writing over a file may wait for the disk
        (tmp_path / "bad").write_bytes(content)
        try:
            found = read(tmp_path / "bad")
        except ModelFileError as error:
            unnamed.extend([] if str(error).startswith(f"{tmp_path / 'bad'}: ") else [str(error)])
            return 0
        write(tmp_path / "again", found, grade)
        assert (tmp_path / "again").read_bytes() == good
        return 1

    for place in range(len(good)):
        for mask in (0x01, 0x20, 0x80):
            harmless += attempt(good[:place] + bytes([good[place] ^ mask]) + good[place + 1 :])
    assert harmless < 40  # the padding of the header, at most
    for length in range(len(good)):
        assert attempt(good[:length]) == 0
    assert attempt(good + b"\0") == 0
    assert attempt(good) == 1
    assert unnamed == []


def test_what_is_no_model_file(tmp_path):
    """Each with its path and what is wrong."""
    file = tmp_path / "x"

    def message():
        with pytest.raises(ModelFileError) as caught:
            read(file)
        assert isinstance(caught.value, ValueError)
        assert str(caught.value).startswith(f"{file}: ")
        return str(caught.value).removeprefix(f"{file}: ")

    assert message() == "does not exist"
    file.write_bytes(b"")
    assert message() == "is empty"
    for content in (b"hello", b"\xff" * 50, b"PK\x03\x04" + b"0" * 100, b"\x80\x05pickle" * 9, bytes(8), b"\n" * 99):
        file.write_bytes(content)
        assert message() == "is not a model file"
    save_file({"weight": np.ones(3)}, file)
    assert message() == "is a safetensors file, but not a model file of thinstream"
    save_file({"weight": np.ones(3)}, file, metadata={"format": "pt"})
    assert message() == "is a safetensors file, but not a model file of thinstream"
    for text in ("", "[]", "{", "[" * 100_000, '{"a": 1}', "NaN"):
        save_file({"weight": np.ones(3)}, file, metadata={"thinstream": text})
        assert "damaged: its description was changed" in message()
    save_file({}, file, metadata={"thinstream": "{}"})
    assert "checksum" in message()
    file.unlink()
    file.mkdir()
    assert message() == "is a folder, not a model file"
    file.rmdir()
    os.mkfifo(file)
    assert message() == "is a device or a pipe, not a model file"


def forged(path, *, arrays=None, **changes):
    """The file with parts of its description changed, and a checksum that fits."""
    write(path, Model(learned("sofs", B=2, d=6), LABELS))
    return reforged(path, arrays, **changes)


def reforged(path, arrays=None, **changes):
    """A file that is there, changed likewise; arrays of None are left out."""
    found = load_file(path)
    raw = path.read_bytes()
    header = json.loads(raw[8 : 8 + int.from_bytes(raw[:8], "little")])
    head = json.loads(header["__metadata__"]["thinstream"])
    del head["sha256"]
    head = {key: value for key, value in (head | changes).items() if value is not None}
    found = {name: array for name, array in (found | (arrays or {})).items() if array is not None}
    with open(path, "wb") as file:
        put(file, canonical(head | {"sha256": digest(canonical(head), found)}), found)
    return path


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": FORMAT + 1}, "has format version 2, but .* supports only version 1"),
        ({"format": 0}, "has format version 0, but .* supports only version 1"),
        ({"format": True}, "checksum"),
        ({"algorithm": "Nonesuch"}, "unknown algorithm 'Nonesuch'"),
        ({"algorithm": 3}, "its algorithm must be of type str, got 3"),
        ({"algorithm": "fsol"}, "FSOL has no parameter 'B'"),
        ({"parameters": {"B": -1}}, "SOFS: B must be a whole number ≥ 1, got -1"),
        ({"parameters": {"C": 1}}, "SOFS has no parameter 'C'"),
        ({"parameters": {"B": 3}}, "its array 'own' is float64 of shape \\(4,\\), not float64 of shape \\(6,\\)"),
        ({"dtype": "float64"}, "its array 'state' is float32"),
        ({"dtype": "int8"}, "dtype must be 'float32' or 'float64', got 'int8'"),
        ({"n_features": 7}, "its array 'state' is float32 of shape \\(6, 2\\), not float32 of shape \\(7, 2\\)"),
        ({"n_features": -1}, "its number of features must be ≥ 0"),
        ({"n_features": 10**17}, "does not fit into memory|this machine has|cannot|too big"),
        ({"n_features": 10**30}, "is not a model that this version can load"),
        ({"n_features": True}, "its n_features must be of type int, got True"),
        ({"costs": {"negative": -1.0, "positive": 1.0, "balanced": False}}, "class costs > 0"),
        ({"costs": {"surprise": 1}}, "is not a model that this version can load"),
        ({"classes": ["a"]}, "is not a model that this version can load"),
        ({"classes": ["a", "a"]}, r"its classes must be different, got \['a', 'a'\]"),
        ({"classes": None}, "is not a model that this version can load"),
        ({"grade": "weights"}, "its array 'indices' is missing"),
        ({"grade": "half"}, "its grade must be 'full' or 'weights', got 'half'"),
        ({"arrays": {"own": np.array([0.0, 1e9, 1.0, 1.0])}}, "the state of SOFS is inconsistent"),
        ({"arrays": {"own": np.array([3.0, 3.0, 1.0, 1.0])}}, "the state of SOFS is inconsistent"),
        ({"arrays": {"clocks": np.full((6, 1), 2.0)}}, "the state of SOFS is inconsistent"),
        ({"arrays": {"clocks": np.full((6, 1), np.nan)}}, "its array 'clocks' has numbers that are not finite"),
        ({"arrays": {"counts": np.full(5, -1)}}, "its counters must be"),
        ({"arrays": {"indices": np.array([0, 0])}}, "its array 'indices' must be sorted and unique, from 0 to 5"),
    ],
)
def test_contents_are_checked_even_if_the_checksum_fits(changes, message, tmp_path):
    """A newer library's files, or forgeries: refused with what is wrong, never run and never believed."""
    path = forged(tmp_path / "m", **changes)
    with pytest.raises(ModelFileError, match=message) as caught:
        read(path)
    assert str(caught.value).startswith(f"{path}: ")


EVERY = [(algorithm.name, {}) for algorithm in algorithms()] + [
    (name, {"covariance": "full"}) for name in ("SSOL", "CW", "AROW", "NAROW", "SCW", "SOP", "ARCSOGD")
]


def unlearned(path, name, parameters, grade="full", n_features=6):
    """A file of a model that has weights, though nothing was compiled to learn them."""
    learner = make_learner(name, n_features=n_features, fit_intercept=True, parameters=parameters)
    if find(name).kind == "batch":
        learner.w[:] = 0.5
    else:
        learner.memory.state[:] = 0.5
    if find(name).kind == "online" and grade == "weights":
        kept = {"where": np.arange(3), "values": np.ones(3), "counts": np.zeros(5, np.int64), "fit_intercept": True}
        learner = Frozen(name, parameters, n_features=n_features, **kept)
    write(path, Model(learner, LABELS), grade)
    return path


@pytest.mark.parametrize("grade", ["full", "weights"])
@pytest.mark.parametrize(("name", "parameters"), EVERY)
def test_what_is_not_finite_is_refused(name, parameters, grade, tmp_path):
    """Whatever the array: no score would be a number."""
    path = unlearned(tmp_path / "m", name, parameters, grade)
    kept, changed = path.read_bytes(), 0
    for key, array in load_file(path).items():
        if array.dtype.kind != "f" or not array.size:
            continue
        for bad in (np.nan, np.inf, -np.inf):
            forged = array.copy()
            forged.reshape(-1)[-1] = bad
            reforged(path, {key: forged})
            with pytest.raises(ModelFileError, match=f"its array '{key}' has numbers that are not finite"):
                read(path)
            path.write_bytes(kept)
            changed += 1
    assert changed >= 3


@pytest.mark.parametrize("grade", ["full", "weights"])
@pytest.mark.parametrize(("name", "parameters"), EVERY)
def test_sizes_are_not_believed(name, parameters, grade, tmp_path):
    """A file of a few hundred bytes never asks for gigabytes."""
    path = unlearned(tmp_path / "m", name, parameters, grade)
    kept = path.read_bytes()
    tracemalloc.start()
    try:
        for n_features in (10**9, 10**12, 10**15):
            reforged(path, n_features=n_features)
            if grade == "weights" and find(name).kind == "online":  # keeps what is not 0, however many there are
                learner = read(path).learner
                assert learner.n_features == n_features
                assert learner.n_slots == learner.nnz + 1
            else:
                with pytest.raises(ModelFileError, match=r"shape|this machine has|memory"):
                    read(path)
            path.write_bytes(kept)
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()


def test_sizes_of_own_arrays_and_of_all_classes_are_not_believed(tmp_path):
    path = unlearned(tmp_path / "m", "SOFS", {"B": 2})
    tracemalloc.start()
    try:
        with pytest.raises(ModelFileError, match=r"its array 'own' is float64 of shape \(4,\), not .* \(2000000000,\)"):
            read(reforged(path, parameters={"B": 10**9}))
        count = 1000
        classes, costs = [f"c{k}" for k in range(count)], {"negative": 1.0, "positive": 1.0, "balanced": False}
        arrays = load_file(unlearned(path, "AROW", {}, n_features=0))
        arrays = {f"{k}/{name}": array for k in range(count) for name, array in arrays.items()}
        arrays |= {f"{k}/indices": np.empty(0, np.int32) for k in range(count)} | {"mistakes": np.zeros(1, np.int64)}
        with pytest.raises(
            ModelFileError, match=r"AROW of 1000 classes needs .* GB of memory .*, but this machine has"
        ):
            read(reforged(path, arrays, n_features=10**9, classes=classes, costs=[costs] * count))
        assert tracemalloc.get_traced_memory()[1] < 50_000_000
    finally:
        tracemalloc.stop()


def test_declared_numbers_allocate_nothing_that_the_file_does_not_have(tmp_path):
    """A small file with a correct checksum must not get gigabytes, virtual memory included."""
    X, y = sp.identity(8, format="csr"), np.arange(8) % 2
    forged = {}
    for name, model in {
        "own": ts.SOFS(B=2),
        "sketch": ts.AROW(max_features=4),
        "P": ts.Auto(portfolio=["fsol"]),
    }.items():
        model.fit(X, y).save(tmp_path / name)
        forged[name] = load_file(tmp_path / name)
    rows = {"indices": np.arange(2, dtype=np.int32), "state": forged["own"]["state"][:2]}
    rows["clocks"] = forged["own"]["clocks"][:2]
    reforged(tmp_path / "own", rows, n_features=10**9, parameters={"B": 10**9})
    reforged(tmp_path / "sketch", budget={"max_features": 2**29, "admit": 2})
    members = [{"learner": "fsol", "parameters": {}, "scale": None, "normalize": None}] * 3000
    record = {name: array for name, array in forged["P"].items() if name.startswith("record/")}
    noted = {"record/noted": (0, 2), "record/noted_mistakes": (0, 3000), "record/noted_shares": (0, 3000)}
    record = {n: np.zeros(noted.get(n, (3000, *array.shape[1:])), array.dtype) for n, array in record.items()}
    record["record/places"] = np.arange(3000, dtype=record["record/places"].dtype)
    reforged(tmp_path / "P", record, members=members)
    tracemalloc.start()
    try:
        for name in forged:
            with pytest.raises(ModelFileError, match=f"its array .*{name}'"):
                read(tmp_path / name)
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()


def test_members_of_a_blend_that_left_it_are_checked(tmp_path):
    ts.Auto(portfolio=["fsol", "arow"]).fit(np.eye(4), [0, 1, 0, 1]).save(tmp_path / "m")
    wrong = {"learner": 7, "parameters": {}, "scale": None, "normalize": None}
    model = read(tmp_path / "m").learner.outputs.one
    model.keep(np.array([0]))
    write(tmp_path / "m", Model(model, Classes("a", "b")))
    reforged(tmp_path / "m", members=[model.record.members[0].described, wrong])
    with pytest.raises(ModelFileError, match="can load"):
        read(tmp_path / "m")


def test_a_text_in_a_file_makes_it_no_file_of_a_batch_method(tmp_path):
    texts = ('"grade":"batch"', '{"batch":{}}', "batch/w")
    for text in texts:
        learner = Learner("fsol", n_features=2)
        write(tmp_path / "m", Model(learner, Classes(text, "b"), {"kind": text}, Names.of([text]), {"batch": text}))
        model = read(tmp_path / "m")
        assert (type(model.learner.outputs.one), model.classes[0], model.extra) == (Learner, text, {"batch": text})


def test_a_file_of_an_unknown_version_is_refused(tmp_path):
    path = forged(tmp_path / "m", format=2, library="9.0")
    with pytest.raises(ModelFileError) as raised:
        read(path)
    assert str(raised.value) == (
        f"{path}: has format version 2, but thinstream {ts.__version__} supports only version 1. Use the thinstream "
        "version that wrote the file (9.0), or train the model again without this file"
    )


def test_every_sofs_state_that_is_learned_is_sound():
    """The check of the heap never refuses what the loop has made."""
    for seed in range(30):
        rng = np.random.default_rng(seed)
        learner = Learner("sofs", n_features=4, B=int(rng.integers(1, 9)), grow=True)
        for d in (4, 9, 20):
            learner.learn(stream(rng, 10, d))
            assert learner.rule.sound(learner.memory)


MAKE = """
import sys, numpy as np
from thinstream.batch import Batch
from thinstream.models.file import write
from thinstream.models.model import Model
from thinstream.models.model import Names
from thinstream.data.labels import Classes
from thinstream.lanes.learner import Learner
assert "sklearn" not in sys.modules and "safetensors" not in sys.modules
learner = Learner("fsol", n_features=4, eta=0.3)
rows = Batch.of(np.array([0, 2, 3]), np.array([0, 2, 1]), np.array([1.0, 2, 3]), 4, y=np.array([1, -1], np.int8))
learner.learn(rows)
extra = {name: len(name) for name in {"one", "three", "seven"}}
write(sys.argv[1], Model(learner, Classes(0, 1), extra=extra, arrays={name: np.ones(3) for name in {"a", "b", "c"}}))
"""


def test_the_same_model_gives_the_same_file_in_every_process(tmp_path):
    """Whatever the order of sets and dicts there; and writing needs neither scikit-learn nor safetensors."""
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        subprocess.run([sys.executable, "-c", MAKE, tmp_path / seed], check=True, env=environment)
    assert (tmp_path / "1").read_bytes() == (tmp_path / "2").read_bytes()
    assert read(tmp_path / "1").learner.t == 2
