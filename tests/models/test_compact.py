"""A compact learner is the wide one, bit for bit, whatever it is made of."""

import copy
import pickle

import numpy as np
import pytest

from tests.models.equality import FEATURES, SPACE, WIDTH, both, stream, unseen
from thinstream.algorithms.auto import Member
from thinstream.batch import Batch
from thinstream.data.labels import Classes, GrowingClasses
from thinstream.errors import InvalidInputError
from thinstream.models import pipeline
from thinstream.models import pipeline as room
from thinstream.models.file import read, write
from thinstream.models.importance import importance
from thinstream.models.model import Model
from thinstream.models.thin import thin
from thinstream.tuning.thin_curve import measured

TWO, THREE = Classes("ham", "spam"), Classes("a", "b", "c")
SEVERAL = [
    Member("arow", {}),
    Member("fsol", {}, normalize="l2"),
    Member("arow", {"covariance": "full"}, max_features=16),
]
KINDS = {
    "two classes": ("arow", TWO, {}),
    "three classes": ("arow", THREE, {}),
    "clocks": ("adafobos", TWO, {"l1": 0.01}),
    "scaled": ("arow", TWO, {"scale": "max", "normalize": "l2"}),
    "tf-idf": ("arow", TWO, {"scale": "idf", "normalize": "l2"}),
    "scaled by rms, three classes": ("fsol", THREE, {"scale": "rms"}),
    "blend": ("auto", TWO, {"portfolio": ["arow", "fsol"]}),
    "blend for several kinds of rows": ("auto", TWO, {"portfolio": SEVERAL}),
}
SLOW = {"clocks", "scaled by rms, three classes"}
each_kind = pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=[pytest.mark.slow] if kind in SLOW else []) for kind in KINDS]
)


def learned(model, batches=3, seed=0):
    for batch in stream(model.classes, batches, seed=seed):
        model, _ = model.learn(batch, model.classes)
    return model


def same_numbers(wide, compact):
    """Everything that can be read."""
    rows = unseen(wide.classes)
    assert compact.learner.scores(rows).tobytes() == wide.learner.scores(rows).tobytes()
    assert compact.learner.weights().tobytes() == wide.learner.weights().tobytes()
    for name in ("n_features", "n_weights", "nnz", "t", "n_mistakes"):
        assert getattr(compact.learner, name) == getattr(wide.learner, name), name
    for one, other in zip(wide.learner.models, compact.learner.models, strict=True):
        assert one.intercept == other.intercept
        for expected, found in zip(one.sparse_weights(), other.sparse_weights(), strict=True):
            assert found.tolist() == expected.tolist()
    if wide.learner.has_variance:
        assert compact.learner.variance().tobytes() == wide.learner.variance().tobytes()


def same_bits(wide, compact, tmp_path):
    """The bytes of files as well."""
    same_numbers(wide, compact)
    assert compact.n_weights_met == wide.n_weights_met
    rows = unseen(wide.classes)
    for grade in ("full", "weights"):
        written = [tmp_path / f"{grade}-{k}" for k in range(3)]
        write(written[0], wide, grade)
        write(written[1], compact, grade)
        again = read(written[1])
        assert again.learner.encoder is not None  # as room.HASHED is 0 by now
        write(written[2], again, grade)
        assert len({path.read_bytes() for path in written}) == 1
        assert again.learner.scores(rows).tobytes() == wide.learner.scores(rows).tobytes()


@each_kind
@pytest.mark.parametrize("seed", [0, 1])
def test_the_bits_are_those_of_the_wide_model(kind, seed, monkeypatch, tmp_path):
    algorithm, classes, options = KINDS[kind]
    scores = []

    def learn(model):
        for batch in stream(classes, seed=seed):
            model, found = model.learn(batch, classes)
            scores.append(found.tobytes())
        return model

    wide, compact = both(monkeypatch, algorithm, classes, learn=learn, **options)
    assert scores[:3] == scores[3:]
    same_bits(wide, compact, tmp_path)
    assert compact.learner.n_slots <= FEATURES + 1


@each_kind
def test_cuts_copies_and_files_on_the_way_change_nothing(kind, monkeypatch, tmp_path):
    algorithm, classes, options = KINDS[kind]
    monkeypatch.setattr(room, "HASHED", 0)

    def fresh():
        return Model.fresh(algorithm, classes, feature_space=SPACE, grow=True, **options)

    write(tmp_path / "whole", learned(fresh()))
    model = fresh()
    for k, batch in enumerate(stream(classes)):
        for part in (batch.until(7), batch.after(7)):
            model, _ = model.learn(part, classes)
        if k == 0:
            write(tmp_path / "half", model)
            model = read(tmp_path / "half")
        elif k == 1:
            model = pickle.loads(pickle.dumps(copy.deepcopy(model)))
    write(tmp_path / "parts", model)
    assert (tmp_path / "parts").read_bytes() == (tmp_path / "whole").read_bytes()


@each_kind
def test_shards_merge_by_the_numbers_of_their_features(kind, monkeypatch, tmp_path):
    algorithm, classes, options = KINDS[kind]

    def learn(model):
        shards = [learned(model.copy(), 1, seed=seed) for seed in (0, 2)]
        merged = shards[0].merge(shards[1])
        for shard in shards if shards[0].learner.encoder is not None else ():
            assert shard.learner.encoder.numbers.tolist() != merged.learner.encoder.numbers.tolist()
        return merged

    wide, compact = both(monkeypatch, algorithm, classes, learn=learn, **options)
    if kind == "clocks":  # merging sets those of all features, also of those nobody has met
        same_numbers(wide, compact)
    else:
        same_bits(wide, compact, tmp_path)


def test_a_shard_that_is_not_compact_merges_with_one_that_is(monkeypatch):
    wide, compact = both(monkeypatch, "arow", TWO, learn=learned)
    mixed, expected = compact.merge(learned(compact.copy(), seed=2)), wide.merge(learned(wide.copy(), seed=2))
    assert mixed.merge(wide).learner.weights().tobytes() == expected.merge(wide).learner.weights().tobytes()


def test_classes_that_come_later_are_learned_in_slots(monkeypatch, tmp_path):
    def learn(model):
        for k, batch in enumerate(stream(THREE)):
            seen = GrowingClasses(*list(THREE)[: k + 1])
            model, _ = model.learn(batch.labelled(np.minimum(batch.y, k)), seen)
        return model

    wide, compact = both(monkeypatch, "arow", GrowingClasses(), learn=learn)
    same_bits(wide, compact, tmp_path)
    assert list(compact.classes) == list(THREE)


@pytest.mark.parametrize("kind", ["two classes", "three classes", "scaled"])
def test_thinning_keeps_the_same_weights(kind, monkeypatch, tmp_path):
    algorithm, classes, options = KINDS[kind]
    wide, compact = both(monkeypatch, algorithm, classes, learn=learned, **options)
    curves = [measured(model, stream(classes, 2, seed=8)) for model in (wide, compact)]
    np.testing.assert_array_equal(curves[0].values, curves[1].values)
    same_bits_of_weights([thin(wide, 20), thin(compact, 20)], tmp_path)
    given = importance(wide.learner, 0.0)
    same_bits_of_weights([thin(wide, 10, given), thin(compact, 10, given)], tmp_path)


def same_bits_of_weights(models, tmp_path):
    paths = [tmp_path / f"{k}" for k in range(2)]
    for path, model in zip(paths, models, strict=True):
        write(path, model, "weights")
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_a_model_most_of_whose_numbers_occur_is_whole_again(monkeypatch):
    monkeypatch.setattr(room, "HASHED", 0)
    model = learned(Model.fresh("arow", TWO, feature_space=SPACE, grow=True))
    assert model.learner.encoder is not None
    every = np.arange(WIDTH // 2)
    rows = Batch.of(np.array([0, len(every)]), every.astype(np.int32), np.ones(len(every), np.float32), WIDTH)
    model, _ = model.learn(rows.labelled(np.array([1], np.int8)), TWO)
    assert model.learner.encoder is None
    wide = learned(Model.fresh("arow", TWO, grow=True))
    wide, _ = wide.learn(rows.labelled(np.array([1], np.int8)), TWO)
    assert model.learner.weights().tobytes() == wide.learner.weights().tobytes()
    model, _ = model.learn(next(stream(TWO, 1, seed=4)), TWO)
    assert model.learner.encoder is None


def test_numbers_far_wider_than_what_occurs_need_not_be_hashed():
    far = 2_000_000_000
    rows = Batch.of(np.array([0, 2, 3]), np.array([3, far, 3], np.int32), np.ones(3, np.float32), far + 1)
    model, _ = Model.fresh("arow", TWO, grow=True).learn(rows.labelled(np.array([1, -1], np.int8)), TWO)
    where, _ = next(iter(model.learner.models)).sparse_weights()
    assert where.tolist() == [3, far]
    fixed = Model.fresh("arow", THREE, n_features=far + 1)
    fixed, _ = fixed.learn(rows.labelled(np.array([1, 2], np.int32)), THREE)
    assert fixed.learner.n_features == far + 1
    assert not fixed.learner.grow


@pytest.mark.parametrize(
    ("algorithm", "options"),
    [("sofs", {"B": 5}), ("auto", {"portfolio": ["arow"], "max_nnz": 5}), ("auto", {"max_density": 0.1})],
)
def test_what_depends_on_all_numbers_stays_wide(algorithm, options, monkeypatch):
    monkeypatch.setattr(room, "HASHED", 0)
    options = {"portfolio": ["arow"], **options} if algorithm == "auto" else options
    model = Model.fresh(algorithm, TWO, feature_space=SPACE, grow=True, **options)
    assert room.compact_if_large(model.learner, WIDTH, hashed=True) is model.learner


def test_bad_rows_are_said_by_their_numbers_and_leave_the_model_as_it_was(monkeypatch):
    monkeypatch.setattr(room, "HASHED", 0)
    model = learned(Model.fresh("arow", TWO, feature_space=SPACE, grow=True))
    before = pickle.dumps(model.learner.weights())
    far = Batch.of(np.array([0, 1]), np.array([8000], np.int32), np.array([1e20]), WIDTH)
    with pytest.raises(InvalidInputError, match=r"X has 1e\+20 at row 0, column 8000; float32 allows 1e\+15"):
        model.learn(far.labelled(np.array([1], np.int8)), TWO)
    model.learner.grow = False
    wider = Batch.of(np.array([0, 1]), np.array([WIDTH + 9], np.int32), np.ones(1), WIDTH + 10)
    with pytest.raises(InvalidInputError, match=rf"X has {WIDTH + 10} features, but the model has \d+; pass grow=True"):
        model.learn(wider.labelled(np.array([1], np.int8)), TWO)
    assert pickle.dumps(model.learner.weights()) == before


def test_room_is_foreseen_for_the_features_that_occur(monkeypatch):
    monkeypatch.setattr(room, "HASHED", 0)
    model = learned(Model.fresh("arow", TWO, feature_space=SPACE, grow=True))
    before = model.learner.weights().tobytes()
    rows = Batch.of(np.array([0, 1]), np.array([1], np.int32), np.ones(1), WIDTH).labelled(np.array([1], np.int8))
    with monkeypatch.context() as small:
        small.setattr(pipeline, "physical_memory", lambda: 640)
        with pytest.raises(InvalidInputError, match=r"AROW needs .* GB of memory for [\d,]+ features"):
            model.learn(rows, TWO)
    assert model.learner.weights().tobytes() == before
