"""The experiment behind Auto's portfolio: what it judges, and whom it chooses."""

import lzma

import numpy as np
import pytest
from benchmarks.portfolio import scores as scoring
from benchmarks.portfolio.candidates import CANDIDATES, DIAGONAL, PREPARATIONS, WITH_FULL, Candidate, candidate_of
from benchmarks.portfolio.judging import Judge, Outcome, worse
from benchmarks.portfolio.scores import Kept, Stream
from benchmarks.portfolio.selecting import greedy

from thinstream.algorithms.auto import Member
from thinstream.models.blend import COUNTING, PORTFOLIO
from thinstream.models.head import Head


@pytest.fixture(scope="module")
def kept():
    """Scores of a good model, of its twin with noise, and of one that knows nothing, on two sets."""
    rng, found = np.random.default_rng(0), {}
    for name in ("a", "b"):
        y = np.where(rng.random(2000) < 0.5, 1, -1).astype(np.int8)
        good = y + rng.normal(size=2000)
        other = y + 2 * rng.normal(size=2000)
        found[Stream(name, 0)] = Kept(
            np.column_stack([rng.normal(size=2000), other, good]).astype(np.float32), y, 2000 if name == "a" else 1600
        )
    return found


def test_every_member_of_the_portfolio_is_a_candidate():
    names = {str(one) for one in CANDIDATES}
    assert len(names) == len(CANDIDATES)
    assert {str(candidate_of(member)) for member in PORTFOLIO} <= names
    assert {one.preparation for one in DIAGONAL} == set(PREPARATIONS)
    assert all(one.member.parameters["covariance"] == "full" for one in WITH_FULL)


def test_the_later_half_counts_and_where_rows_are_in_time_those_that_are_not_learned(kept):
    judge = Judge(kept)
    assert judge.sets == ["a", "b"]
    one = kept[Stream("a", 0)]
    z = Head(2, counting=COUNTING).learn(one.scores[:, [1, 2]], one.y)
    assert judge.outcome("a", [1, 2]).error == pytest.approx(100 * np.mean((z[1000:] > 0) != (one.y[1000:] > 0)))
    one, head = kept[Stream("b", 0)], Head(2, counting=COUNTING)
    head.learn(one.scores[:1600, [1, 2]], one.y[:1600])
    last = one.scores[1600:, [1, 2]] @ head.coefficients()
    found = judge.outcome("b", [1, 2])
    assert found.error == pytest.approx(100 * np.mean((last > 0) != (one.y[1600:] > 0)))
    assert found.loss == pytest.approx(np.mean(np.logaddexp(0, -one.y[1600:] * last)))
    assert found.rows == 400


def test_greedy_begins_with_the_best_and_adds_what_helps(kept):
    judge = Judge(kept)
    reference = judge.outcomes([0])
    steps = greedy(judge, [0, 1, 2], 2, reference)
    assert [step.columns for step in steps] == [[2], [2, 1]]
    assert steps[1].worth < steps[0].worth < 0
    assert steps[0].worth == pytest.approx(worse(judge.outcomes([2]), reference))


def test_worse_is_a_mean_over_sets():
    one, other = Outcome(10.0, 0.3, 10**6), Outcome(5.0, 0.3, 10**6)
    assert worse({"a": one, "b": other}, {"a": other, "b": one}) == pytest.approx(0.0)
    assert worse({"a": one}, {"a": other}) == pytest.approx(100 * (2**0.75 - 1), rel=1e-4)


@pytest.mark.slow  # compiles candidates in lanes
def test_scores_are_those_of_single_runs_and_stand_still_behind_the_cut(tmp_path, monkeypatch):
    """The rows are the training rows of versus, in its order; the rest is not read."""
    from thinstream.batch import Batch
    from thinstream.lanes.learner import Learner

    rng = np.random.default_rng(1)
    lines = [f"{'+1' if rng.random() < 0.5 else '-1'} {j + 1}:{v}" for j, v in enumerate(rng.integers(1, 9, 100))]
    with lzma.open(tmp_path / "elec2.svm.xz", "wt") as file:
        file.write("\n".join(lines) + "\n")
    monkeypatch.setenv("THINSTREAM_DATA", str(tmp_path))
    stream = Stream("elec2", 0)
    X, y = scoring.rows_of(stream)
    assert X.shape == (70, 70)
    found = scoring.scores(X, y, 56, [Candidate("plain", Member("arow", {"r": 1.0}))])
    model = Learner("arow", n_features=70, fit_intercept=True, r=1.0)
    rows = Batch.of(X.indptr, X.indices, X.data, 70, y=y)
    expected = np.concatenate([model.learn(rows.until(56)), model.scores(rows.after(56))])
    np.testing.assert_array_equal(found[:, 0], expected)
