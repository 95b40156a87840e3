"""A budget of features: beside a twin by the book, in any cuts, through files, for all kinds of learners."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.models.naive_budget import NaiveBudget
from thinstream.algorithms.auto import Member
from thinstream.batch import Batch
from thinstream.data.labels import Classes, GrowingClasses
from thinstream.errors import InvalidParameterError, MergeError
from thinstream.export.linear import LinearModel
from thinstream.models.file import read, write
from thinstream.models.model import Model
from thinstream.models.thin import thin
from thinstream.tuning.thin_curve import measured

TWO, THREE = Classes("ham", "spam"), Classes("a", "b", "c")
WIDTH = 2**31 - 1
SEVERAL = [
    Member("arow", {}),
    Member("fsol", {}, normalize="l2"),
    Member("arow", {"covariance": "full"}, max_features=16),
]
KINDS = {
    "two classes": ("arow", TWO, {}),
    "three classes": ("arow", THREE, {}),
    "of unit length": ("arow", TWO, {"normalize": "l2"}),
    "scaled": ("arow", TWO, {"scale": "max", "normalize": "l2"}),
    "tf-idf": ("arow", TWO, {"scale": "idf", "normalize": "l2"}),
    "blend": ("auto", TWO, {"portfolio": ["arow", "fsol"]}),
    "blend for several kinds of rows": ("auto", TWO, {"portfolio": SEVERAL}),
    "blend of three": ("auto", THREE, {"portfolio": ["arow", "fsol"], "normalize": "l2"}),
}
each_kind = pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=[pytest.mark.slow] if kind == "blend of three" else []) for kind in KINDS]
)


def stream(classes, rows=120, seed=0, vocabulary=80, dtype=np.float32):
    """Rows of words, some common and most rare, numbered far apart; one batch."""
    random = np.random.default_rng(seed)
    numbers = np.random.default_rng(7).choice(WIDTH, vocabulary, replace=False)
    share = 1.0 / np.arange(1, vocabulary + 1)
    chosen = [
        np.sort(random.choice(numbers, random.integers(1, 9), replace=False, p=share / share.sum()))
        for _ in range(rows)
    ]
    indptr = np.cumsum([0, *map(len, chosen)])
    two = random.choice([-1, 1], rows).astype(np.int8)
    y = two if classes.are_two else random.integers(0, len(classes), rows).astype(np.int32)
    values = random.normal(size=indptr[-1]).astype(dtype)
    return Batch.of(indptr, np.concatenate(chosen).astype(np.int32), values, WIDTH).labelled(y)


def fresh(kind, max_features=24, **more):
    algorithm, classes, options = KINDS[kind]
    return Model.fresh(algorithm, classes, grow=True, max_features=max_features, **options, **more)


def learned(model, batch, *cuts):
    scores = []
    for start, stop in zip([0, *cuts], [*cuts, len(batch)], strict=True):
        model, found = model.learn(batch.until(stop).after(start), model.classes)
        scores.append(found)
    return model, np.concatenate(scores)


@given(st.integers(0, 5), st.integers(1, 40), st.integers(1, 3), st.lists(st.integers(1, 79), max_size=3, unique=True))
def test_it_is_what_the_book_says(seed, max_features, admit, cuts):
    batch = stream(TWO, 80, seed, dtype=np.float64)
    naive, expected = NaiveBudget(max_features, admit), []
    for i in range(len(batch)):
        row = slice(batch.indptr[i], batch.indptr[i + 1])
        pairs = list(zip(batch.indices[row].tolist(), batch.values[row].tolist(), strict=True))
        expected.append(naive.learn(pairs, int(batch.y[i])))
    fresh = Model.fresh("arow", TWO, grow=True, max_features=max_features, admit=admit, dtype="float64")
    model, scores = learned(fresh, batch, *sorted(cuts))
    assert np.allclose(scores, expected, rtol=1e-9, atol=1e-12)
    numbers = model.learner.encoder.numbers
    assert sorted(numbers[numbers >= 0].tolist()) == sorted(naive.kept)
    where, weights = next(iter(model.learner.models)).sparse_weights()
    assert {*where.tolist()} <= {*naive.kept}
    assert np.allclose(weights, [naive.kept[number][0] for number in where.tolist()], rtol=1e-9)


@each_kind
def test_cuts_and_files_on_the_way_change_nothing(kind, tmp_path):
    classes = KINDS[kind][1]
    batch, more = stream(classes), stream(classes, seed=1)
    whole, scores = learned(fresh(kind), batch)
    parts, found = learned(fresh(kind), batch, 1, 50, 51)
    assert found.tobytes() == scores.tobytes()
    write(tmp_path / "whole", whole)
    write(tmp_path / "parts", parts)
    assert (tmp_path / "parts").read_bytes() == (tmp_path / "whole").read_bytes()
    again = read(tmp_path / "whole")
    assert again.budget == {"max_features": 24, "admit": 2}
    for model in (whole, again):
        model, _ = learned(model, more)
        write(tmp_path / f"on-{model is whole}", model)
    assert (tmp_path / "on-True").read_bytes() == (tmp_path / "on-False").read_bytes()


@each_kind
def test_it_never_has_more_features_than_its_budget(kind):
    model = fresh(kind, max_features=10, admit=1)
    for seed in range(4):
        model, _ = learned(model, stream(KINDS[kind][1], 60, seed, vocabulary=500))
        assert model.learner.n_slots <= 11
        assert len(model.learner.encoder.used) <= 10
    assert model.learner.nnz <= 10 * model.learner.n_weights // WIDTH
    assert model.learner.n_features == WIDTH


@each_kind
def test_what_predicts_of_it_takes_rows_by_the_same_features(kind, tmp_path):
    classes = KINDS[kind][1]
    model, _ = learned(fresh(kind), stream(classes))
    rows = replace(stream(classes, 40, seed=3, vocabulary=300), y=None)
    scores = model.learner.scores(rows)
    write(tmp_path / "weights", model, "weights")
    small = read(tmp_path / "weights")
    assert small.learner.weights_only
    assert np.allclose(small.learner.scores(rows), scores, rtol=1e-5, atol=1e-6)
    write(tmp_path / "again", small, "weights")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "weights").read_bytes()
    assert np.allclose(
        exported_scores(LinearModel.of(model), rows), scores.reshape(len(rows), -1), rtol=1e-4, atol=1e-5
    )
    all_of_it = thin(model, 10_000)
    assert np.allclose(all_of_it.learner.scores(rows), scores, rtol=1e-5, atol=1e-6)
    assert measured(model, [stream(classes, 40, seed=3)]).examples.sum() == 40


def exported_scores(linear, rows):
    """As exports say: weights·x over the length of x, where scales divide it, and what has none is no part of it."""
    found = np.zeros((len(rows), len(linear.intercepts)))
    for i in range(len(rows)):
        row = slice(rows.indptr[i], rows.indptr[i + 1])
        x = dict(zip(rows.indices[row].tolist(), rows.values[row].tolist(), strict=True))
        found[i] = linear.intercepts
        for vector in linear.vectors:
            scale = None if vector.scales is None else dict(zip(*vector.scales, strict=True))
            length = 1.0
            if vector.normalize:
                length = np.sqrt(sum((v / scale[j]) ** 2 for j, v in x.items() if j in scale)) or 1.0
            for j, k, w in zip(vector.indices.tolist(), vector.rows.tolist(), vector.weights.tolist(), strict=True):
                found[i, k] += x.get(j, 0.0) * w / length
    return found


def test_rows_of_weight_0_are_no_sight():
    batch = stream(TWO)
    absent = batch.labelled(batch.y, np.zeros(len(batch)))
    model, _ = learned(fresh("two classes"), absent)
    assert len(model.learner.encoder.used) == 0
    one, _ = learned(fresh("two classes"), batch)
    both, _ = learned(learned(fresh("two classes"), absent)[0], batch)
    assert both.learner.encoder.numbers.tolist() == one.learner.encoder.numbers.tolist()


def test_a_feature_comes_at_its_nth_sight_and_what_came_once_long_ago_is_forgotten():
    row = Batch.of(np.array([0, 1]), np.array([77], np.int32), np.ones(1, np.float32), WIDTH)
    model = fresh("two classes", max_features=100, admit=3)
    for seen in (1, 2, 3):
        model, _ = model.learn(row.labelled(np.ones(1, np.int8)), TWO)
        assert model.learner.encoder.numbers.tolist() == ([77] if seen == 3 else [])
    rare = Batch.of(np.arange(2001), np.arange(2000, dtype=np.int32) * 1000, np.ones(2000, np.float32), WIDTH)
    model = fresh("two classes", max_features=100, admit=2)
    model, _ = model.learn(row.labelled(np.ones(1, np.int8)), TWO)
    model, _ = model.learn(rare.labelled(np.ones(2000, np.int8)), TWO)
    model, _ = model.learn(row.labelled(np.ones(1, np.int8)), TWO)
    assert 77 not in model.learner.encoder.numbers


def sparse(model):
    return [[each.tobytes() for each in one.sparse_weights()] for one in model.learner.models]


def test_classes_that_come_later():
    batch = stream(THREE)
    y = np.minimum(batch.y, np.arange(len(batch)) // 40).astype(np.int32)
    found = []
    for cuts in ((), (60,), (30, 90)):
        model = Model.fresh("arow", GrowingClasses(), grow=True, max_features=20)
        for start, stop in zip([0, *cuts], [*cuts, len(batch)], strict=True):
            seen = GrowingClasses(*"abc"[: int(y[:stop].max()) + 1])
            model, _ = model.learn(batch.labelled(y).until(stop).after(start), seen)
        found.append((sparse(model), model.learner.n_mistakes))
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("kind", ["two classes", "three classes", "scaled", "blend"])
def test_shards_merge_to_one_within_the_budget(kind):
    classes = KINDS[kind][1]
    one, other = (learned(fresh(kind), stream(classes, seed=seed))[0] for seed in (0, 1))
    merged, turned = one.merge(other), other.merge(one)
    assert merged.learner.drops_unknown
    assert len(merged.learner.encoder.used) == 24
    kept = {*one.learner.encoder.numbers.tolist(), *other.learner.encoder.numbers.tolist()}
    assert {*merged.learner.encoder.numbers.tolist()} <= kept
    assert sparse(merged) == sparse(turned)
    assert merged.learner.t == 240
    learned(merged, stream(classes, seed=2))


def test_what_cannot_be_is_said():
    with pytest.raises(
        InvalidParameterError, match="SOFS: max_features needs an algorithm that learns online and updates"
    ):
        Model.fresh("sofs", TWO, max_features=10)
    with pytest.raises(InvalidParameterError, match="max_features must be an integer from 1 to 1073741824, got 0"):
        Model.fresh("arow", TWO, max_features=0)
    with pytest.raises(InvalidParameterError, match="admit must be an integer from 1 to 255, got 256"):
        Model.fresh("arow", TWO, max_features=10, admit=256)
    with pytest.raises(MergeError, match="models to merge must agree in budget, got"):
        fresh("two classes").merge(fresh("two classes", max_features=25))
