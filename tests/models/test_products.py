"""Products of features against naive twins: rows, members, and models that predict with them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import thinstream as ts
from tests.models.test_blend import FEATURES, rows
from tests.models.test_head import twin
from thinstream.algorithms.auto import Member
from thinstream.batch import Batch
from thinstream.engine.loop import Costs
from thinstream.errors import InvalidParameterError
from thinstream.models import blend as blending
from thinstream.models.blend import Blend
from thinstream.models.merging import merge, merge_pipelines
from thinstream.models.model import make_learner
from thinstream.models.pipeline import Pipeline
from thinstream.models.preparation import Preparation
from thinstream.models.products import Products, expanded, factors, feature_columns, n_products, product_columns
from thinstream.models.slots import FewFeatures

SCW = Member("scw", {"C": 1.0}, "rms", "l2", 300, True)
MEMBERS = [Member("arow", {}), Member("arow", {}, "rms", "l2"), SCW, SCW._replace(algorithm="adafobos", parameters={})]


def dicts(batch):
    """The rows as dicts from features to values."""
    edges = zip(batch.indptr[:-1], batch.indptr[1:], strict=True)
    return [dict(zip(batch.indices[a:b].tolist(), batch.values[a:b].tolist(), strict=True)) for a, b in edges]


def naive(batch):
    """The rows with all products, by pairs of features: (j, None) is feature j, (i, j) a product."""
    found = []
    for row in dicts(batch):
        wide = {(j, None): x for j, x in row.items()}
        for i, x in row.items():
            for j, z in row.items():
                if i < j or (i == j and x != 1.0):
                    wide[i, j] = x * z
        found.append(wide)
    return found


def naive_batch(batch):
    """The same as a batch, with a column for each pair."""
    columns = {(j, None): j for j in range(FEATURES)}
    for i in range(FEATURES):
        columns |= {(i, j): len(columns) + j - i for j in range(i, FEATURES)}
    wide = [sorted((columns[pair], x) for pair, x in row.items()) for row in naive(batch)]
    indptr = np.append(0, np.cumsum([*map(len, wide)]))
    indices, values = (np.array([pair[k] for row in wide for pair in row]) for k in range(2))
    return Batch.of(indptr, indices.astype(np.int32), values, len(columns), y=batch.y, weights=batch.weights), columns


matrices = st.lists(
    st.lists(st.sampled_from([0.0, 1.0, -1.0, 0.5, 3.0]), min_size=5, max_size=5), min_size=1, max_size=6
)


@pytest.mark.twin
@given(matrices, st.permutations(range(5)))
def test_rows_with_products_are_the_naive_ones(matrix, order):
    X = np.array(matrix)
    where = np.nonzero(X)
    batch = Batch.of(np.append(0, np.cumsum(np.count_nonzero(X, axis=1))), where[1].astype(np.int32), X[where], 5)
    found = dicts(Products(np.array(order), 5).expand(batch, np.dtype("float64")))
    one, two = Products(np.array(order), 5).factors(np.arange(6, 5 + n_products(5)))
    pairs = dict(zip(range(6, 5 + n_products(5)), zip(one.tolist(), two.tolist(), strict=True), strict=True))
    assert [{(j, None) if j < 5 else pairs[j]: x for j, x in row.items()} for row in found] == naive(batch)
    few = FewFeatures(5)
    few.numbers = np.array(order)
    own = expanded(batch, few, np.dtype("float64"))
    assert own.n_features == n_products(5)
    assert [sorted(row.values()) for row in dicts(own)] == [sorted(row.values()) for row in found]


def test_no_two_products_share_a_number():
    larger, smaller = factors(np.arange(n_products(300)))
    assert len(set(zip(larger.tolist(), smaller.tolist(), strict=True))) == n_products(300)
    assert np.all(larger >= smaller)
    assert larger.max() == 300
    both = np.concatenate([[0], feature_columns(300), product_columns(300)])
    assert np.array_equal(np.sort(both), np.arange(n_products(300)))


def test_products_of_the_largest_values_stay_finite():
    batch = Batch.of(np.array([0, 2]), np.array([0, 1]), np.array([1e144, -1e144]), 2)
    assert np.isfinite(Products(np.arange(2), 2).expand(batch, np.dtype("float64")).values).all()
    blend = Blend(MEMBERS, n_features=2, dtype="float64")
    blend.learn(batch.labelled(np.ones(1, np.int8), None))
    assert np.isfinite(blend.scores(batch)).all()


@pytest.mark.twin
def test_members_learn_the_naive_products():
    batch = rows(30, 250, weighted=True)
    blend = Blend(MEMBERS, n_features=FEATURES, dtype="float64", fit_intercept=True)
    z = blend.learn(batch)
    wide, _ = naive_batch(batch)
    alone = []
    for member in blend.members:
        data = wide if member.products else batch
        options = {"n_features": data.n_features, "dtype": "float64", "fit_intercept": True}
        learner = make_learner(member.algorithm, **options, **member.parameters)
        alone.append((Pipeline.of(learner, Preparation(*member[2:4])), data))
    scores = np.column_stack([model.learn(data) for model, data in alone])
    expected, w, _, m, _, _ = twin(scores, batch.y, batch.weights, Costs())
    np.testing.assert_allclose(z, expected, rtol=1e-6, atol=1e-8)
    new = rows(31, 40)
    own = [naive_batch(new)[0] if member.products else new for member in blend.members]
    after = np.column_stack([model.scores(data) for (model, _), data in zip(alone, own, strict=True)])
    np.testing.assert_allclose(blend.scores(new), after @ (w / m), rtol=1e-6, atol=1e-8)
    one_by_one = [blend.scores(new.until(k + 1).after(k)) for k in range(40)]
    assert np.concatenate(one_by_one).tobytes() == blend.scores(new).tobytes()
    blend.version += 1  # as after an update: weights of the features of a few rows only are read
    assert blend.scores(new.until(1)).tobytes() == one_by_one[0].tobytes()


@pytest.mark.parametrize("most", [5, 300])
def test_numbers_of_features_do_not_matter(most):
    """Hashed features have high numbers; members go when too many features have occurred."""
    batch, width = rows(32, 300), 1 << 22
    numbers = np.sort(np.random.default_rng(0).choice(width, FEATURES, replace=False)).astype(np.int32)
    hashed = Batch.of(batch.indptr, numbers[batch.indices], batch.values, width, y=batch.y)
    members = [member._replace(max_features=most) if member.products else member for member in MEMBERS]
    few = Blend(members, n_features=FEATURES, dtype="float32")
    many = Pipeline.of(Blend(members, n_features=0, dtype="float32", grow=True)).compacted()
    assert few.learn(batch).tobytes() == many.learn(hashed).tobytes()
    assert few.table() == many.blends[0].table()
    assert (few.table()[2]["out"] is None) == (most == 300)
    assert few.scores(batch).tobytes() == many.scores(hashed).tobytes()
    assert few.scores(batch).tobytes() == many.served().scores(hashed).tobytes()
    assert few.scores(batch).tobytes() == many.to_dense().scores(hashed).tobytes()


def test_rows_with_many_values_have_no_products(monkeypatch):
    monkeypatch.setattr(blending, "MOST_VALUES", 3)
    batch, tables = rows(33, 300), []
    for cut in (0, 10, 64, 130):
        blend = Blend(MEMBERS, n_features=FEATURES, dtype="float64")
        blend.learn(batch.until(cut))
        blend.learn(batch.after(cut))
        tables.append(blend.table())
    assert tables[0][2]["out"] == "more than 300 features or 3 values per row after 64 rows"
    assert tables == tables[:1] * 4
    assert blend.few is None


def test_models_with_products_merge_whatever_the_order_of_appearance():
    numbers = np.arange(FEATURES)[::-1].astype(np.int32)
    batches = [rows(34, 80), rows(35, 80)]
    batches[1] = Batch.of(batches[1].indptr, numbers[batches[1].indices], batches[1].values, FEATURES, y=batches[1].y)
    parts = [Blend([SCW._replace(algorithm="arow", parameters={})], n_features=FEATURES, dtype="float64") for _ in "12"]
    alone = []
    for part, batch in zip(parts, batches, strict=True):
        part.learn(batch)
        wide, columns = naive_batch(batch)
        learner = make_learner("arow", n_features=wide.n_features, dtype="float64")
        alone.append(Pipeline.of(learner, Preparation("rms", "l2")))
        alone[-1].learn(wide)
    assert parts[0].few.numbers.tolist() != parts[1].few.numbers.tolist()
    found, other = merge(parts), merge([*parts][::-1])
    expected = merge_pipelines(alone)
    new = rows(36, 30)
    share = found.head.coefficients()[0]
    np.testing.assert_allclose(found.scores(new), share * expected.scores(naive_batch(new)[0]), rtol=1e-6, atol=1e-9)
    assert found.scores(new).tobytes() == other.scores(new).tobytes()
    found.learn(rows(37, 20))
    assert len(columns) == FEATURES + FEATURES * (FEATURES + 1) // 2


def test_products_are_learned_by_default_and_can_be_switched_off():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 6)).astype(np.float32)
    y = X[:, 0] * X[:, 1] > 0.3 * X[:, 2]
    linear, model = ts.Auto(interactions=False).fit(X, y), ts.Auto().fit(X, y)
    assert (linear.predict(X) != y).mean() > 0.3
    assert (model.predict(X) != y).mean() < 0.1
    assert [line["learner"] for line in model.lanes_ if line.get("products")] == ["SCW", "AdaFOBOS"]
    assert not any(line.get("products") for line in linear.lanes_)
    assert model.coef_.shape == (1, 6)
    thin = model.thin(4)
    assert (thin.predict(X) != y).mean() < 0.2


def test_members_with_products_must_be_for_few_features():
    with pytest.raises(InvalidParameterError, match="a member with products needs max_features and normalize"):
        ts.Auto(portfolio=[Member("arow", {}, "rms", "l2", products=True)]).fit(np.eye(2), [0, 1])
