"""Spectral radii and paths of GraDes against matrices formed in full, exponents against exact fractions."""

from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import thinstream as ts
from tests.algorithms.batch.naive import naive_grades
from tests.algorithms.online.golden import stream as golden_stream
from thinstream.algorithms.batch import grades
from thinstream.diagnostics.bounds import follow, safe_gamma, spectral_radius
from thinstream.diagnostics.diagnosis import exponents
from thinstream.errors import InvalidInputError, InvalidParameterError

seeds = st.integers(0, 2**32 - 1)


def matrix(seed, m, d, density=0.5):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(m, d)) * (rng.random((m, d)) < density)


@given(seed=seeds, m=st.integers(1, 70), d=st.integers(1, 70), scale=st.floats(0.1, 5.0), data=st.data())
@settings(max_examples=40)
def test_spectral_radius_is_that_of_the_matrix(seed, m, d, scale, data):
    """Of M, and of D_J·M, which is not symmetric; solved whole or by Lanczos."""
    X = matrix(seed, m, d)
    assume(X.any())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(grades, "SMALL", data.draw(st.sampled_from([3, 200])))
        check_radius(X, scale, sorted(data.draw(st.sets(st.integers(0, d - 1), min_size=1))))


def check_radius(X, scale, J):
    d = X.shape[1]
    gamma = scale * np.linalg.norm(X, 2) ** 2
    M = np.eye(d) - X.T @ X / gamma
    assert spectral_radius(sp.csr_matrix(X), gamma) == pytest.approx(np.abs(np.linalg.eigvalsh(M)).max(), rel=1e-7)
    D = np.diag(np.isin(np.arange(d), J).astype(float))
    assert spectral_radius(X, gamma, support=J) == pytest.approx(np.abs(np.linalg.eigvals(D @ M)).max(), rel=1e-7)
    assert safe_gamma(X) == pytest.approx(np.linalg.norm(X, 2) ** 2, rel=1e-9)


@given(seed=seeds, m=st.integers(1, 60), extra=st.integers(1, 30))
@settings(max_examples=20)
def test_more_features_than_rows_never_come_below_1(seed, m, extra):
    """[E18]: whatever γ, and although GraDes converges with a large one."""
    X = matrix(seed, m, m + extra)
    assert spectral_radius(X, 1e6 * (1 + safe_gamma(X))) == 1.0


def test_nothing_in_no_time():
    assert spectral_radius(np.zeros((3, 2)), 1.0) == 1.0
    assert spectral_radius(np.zeros((60, 50)), 1.0) == pytest.approx(1.0)
    assert spectral_radius(np.ones((3, 2)), 1.0, support=[]) == 0.0
    assert safe_gamma(np.zeros((50, 60))) == 0.0


def test_a_wide_matrix_is_never_formed():
    """200,000 features: M would have 320 GB."""
    rng = np.random.default_rng(0)
    where = rng.integers(200_000, size=20_000)
    X = sp.csr_matrix((rng.normal(size=20_000), (np.repeat(np.arange(100), 200), where)), shape=(100, 200_000))
    norm = safe_gamma(X)
    assert norm == pytest.approx(np.linalg.eigvalsh((X @ X.T).toarray())[-1], rel=1e-9)
    assert spectral_radius(X, norm / 10) == pytest.approx(9.0, rel=1e-9)


@given(seed=seeds, s=st.integers(1, 12), share=st.floats(0.2, 4.0))
@settings(max_examples=30)
def test_the_path_is_that_of_the_definition(seed, s, share):
    X = matrix(seed, 15, 10)
    y = np.where(np.random.default_rng(seed).random(15) < 0.5, 1.0, -1.0)
    gamma = share * np.linalg.norm(X, 2) ** 2
    _, potentials, edge = naive_grades(X, y, gamma, s, 6)
    assume(edge > 1e-9)
    path = follow(X, y, gamma=gamma, n_nonzero=s, n_iter=6, radii=True)
    np.testing.assert_allclose(path.potential, potentials, rtol=1e-9)
    assert path.radius[0] == pytest.approx(spectral_radius(X, gamma))
    for t in range(1, 7):
        w, _, _ = naive_grades(X, y, gamma, s, t)
        assert path.radius[t] == pytest.approx(spectral_radius(X, gamma, support=np.flatnonzero(w)), rel=1e-9)
        assert path.nnz[t] == np.count_nonzero(w)


@given(seed=seeds, s=st.integers(1, 12))
@settings(max_examples=30)
def test_the_potential_falls_with_a_safe_gamma(seed, s):
    X = matrix(seed, 15, 10)
    assume(X.any())
    path = follow(X, np.sign(np.arange(15) % 2 - 0.5), n_nonzero=s, n_iter=20)
    assert np.all(np.diff(path.potential) <= 1e-9)


def test_a_radius_above_1_makes_the_potential_grow():
    """P2 Figures 1 to 4: without a threshold, on the data a small γ was made for nothing else happens."""
    X, y, *_ = golden_stream()
    path = follow(X, y, gamma=3.0, n_nonzero=20, n_iter=10, radii=True)
    assert path.radius.min() > 5
    assert np.all(np.diff(np.log10(path.potential)) > 1)
    ended = follow(X, y, gamma=0.1, n_nonzero=20, n_iter=1000)
    assert len(ended.potential) < 1000
    assert np.all(np.isfinite(ended.potential))


def floor_log2(x):
    """By the definition, 2^e ≤ |x| < 2^(e + 1), in fractions."""
    value = abs(Fraction(x))
    e = value.numerator.bit_length() - value.denominator.bit_length()
    while Fraction(2) ** e > value:
        e -= 1
    while Fraction(2) ** (e + 1) <= value:
        e += 1
    return e


numbers = (
    st.floats(-1e30, 1e30, allow_subnormal=True) | st.floats(-1e-300, 1e-300) | st.sampled_from([0.0, 1.0, 2.0**-51])
)


@given(st.lists(numbers, min_size=1, max_size=20), st.integers(1, 60))
def test_exponents(values, reach):
    """P2 Table 3: share within reach of the largest, mean and population standard deviation."""
    found, expected = exponents(values, reach), [floor_log2(x) for x in values if x]
    assert found.nonzero == len(expected)
    if expected:
        assert (found.largest, found.smallest) == (max(expected), min(expected))
        assert found.within == pytest.approx(sum(e >= max(expected) - reach for e in expected) / len(expected))
        assert (found.mean, found.std) == pytest.approx((np.mean(expected), np.std(expected)))


def test_exponents_reach_as_far_as_the_precision():
    assert exponents(np.array([1.0, 2.0**-51, 2.0**-52])).within == pytest.approx(2 / 3)
    assert exponents(np.array([1.0, 2.0**-22, 2.0**-23], np.float32)).within == pytest.approx(2 / 3)
    assert np.isnan(exponents([0.0]).within)
    assert exponents([np.inf, np.nan, 4.0]).largest == 2


def test_smidas_spreads_its_weights_the_wider_the_larger_p():
    """P2 Table 3, the way it goes: with 2 ln d few weights are within reach, with 0.5 ln d nearly all."""
    train, _ = ts.datasets.sparse_gaussian(2000, 1, seed=0)
    found = {}
    for factor in (0.5, 2.0):
        model = ts.SMIDAS(eta=0.5, p=factor * np.log(1000), dtype="float64", fit_intercept=False).fit(train.X, train.y)
        found[factor] = exponents(model.coef_)
    assert found[0.5].within > 0.99 > found[2.0].within
    assert found[2.0].std > 2 * found[0.5].std


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: spectral_radius([[1.0]], 0.0), InvalidParameterError, "gamma must be a number > 0, got 0.0"),
        (lambda: spectral_radius([1.0], 1.0), InvalidInputError, "X must have two dimensions"),
        (lambda: spectral_radius([[1.0]], 1.0, [1]), InvalidInputError, "support must be from 0 to 0"),
        (lambda: follow([[1.0]], [1, -1]), InvalidInputError, "X has 1 rows, y has 2 labels"),
        (lambda: safe_gamma([[np.nan]]), InvalidInputError, "X contains NaN at row 0, column 0"),
    ],
)
def test_bad_input(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_the_support_may_be_a_mask():
    X = np.random.default_rng(4).normal(size=(30, 6))
    mask = np.array([True, False, True, False, False, True])
    assert spectral_radius(X, 100.0, mask) == pytest.approx(spectral_radius(X, 100.0, [0, 2, 5]))
    with pytest.raises(InvalidInputError, match=r"a mask must have one entry per feature \(6\)"):
        spectral_radius(X, 100.0, mask[:5])
