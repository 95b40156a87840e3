"""The parts of a search: candidates, scorings, cutting at given rows, elimination, ranks."""

import math

import numpy as np
import pytest
import scipy.sparse as sp
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.model_selection import ParameterGrid

from thinstream.batch import Batch
from thinstream.data.labels import Classes
from thinstream.errors import InvalidInputError, InvalidParameterError
from thinstream.training.metrics import EXAMPLES, RIGHT, Tradeoff
from thinstream.tuning import search as elimination
from thinstream.tuning.counts import LaneCounts, LaneTallies
from thinstream.tuning.measures import NAMES, WITH_ERRORS, scoring_of
from thinstream.tuning.passes import Matrix, cut
from thinstream.tuning.search import Elimination, LogUniform, _ranks, grid, make_trials, sample, search
from thinstream.tuning.study import StudyConfig

SIGNS = Classes(-1, 1)


def made(rows=4096, width=20, seed=0, noise=0.3):
    generator = np.random.default_rng(seed)
    X = sp.random_array((rows, width), density=0.3, format="csr", rng=generator)
    y = np.where(X @ generator.normal(size=width) + noise * generator.normal(size=rows) > 0, 1, -1).astype(np.int8)
    return Batch.of(X.indptr, X.indices, X.data.astype(np.float32), width, y)


@given(st.dictionaries(st.sampled_from("abcd"), st.lists(st.integers(0, 9), min_size=1, max_size=3), max_size=3))
def test_a_grid_has_the_points_of_scikit_learn_in_its_order(space):
    assert grid(space) == list(ParameterGrid(space))
    assert grid([space, {"e": [1.5]}]) == list(ParameterGrid([space, {"e": [1.5]}]))


def test_values_of_numpy_become_those_of_python():
    (point,) = grid({"eta": np.array([0.5]), "fit_intercept": [np.True_]})
    assert [type(value) for value in point.values()] == [float, bool]


@pytest.mark.parametrize(
    ("space", "message"),
    [
        ({"eta": 0.5}, r"grid: eta must have a list of values, got 0.5"),
        ({"eta": "0.5"}, r"grid: eta must have a list of values, got '0.5'"),
        ({"eta": []}, r"grid: eta must have at least one value, got none"),
        ({"eta": LogUniform(1, 2)}, r"grid: eta must be a list of values, got the distribution .*n_iter"),
        ([], r"a grid must be a dict \{name: values\} or a list of dicts, got \[\]"),
        ("eta", r"a grid must be a dict"),
        ([3], r"a grid must be a dict"),
    ],
)
def test_what_is_no_grid_is_refused(space, message):
    with pytest.raises(InvalidParameterError, match=message):
        grid(space)


def test_random_candidates_are_drawn_by_seed_from_lists_without_repeating():
    space = {"eta": [1, 2, 3, 4], "r": [5, 6]}
    found = sample(space, 5, np.random.default_rng(3))
    assert found == sample(space, 5, np.random.default_rng(3)) != sample(space, 5, np.random.default_rng(4))
    assert len({tuple(point.items()) for point in found}) == 5
    assert sorted(map(str, sample(space, 99, np.random.default_rng(0)))) == sorted(map(str, grid(space)))
    with pytest.raises(InvalidParameterError, match="whole number ≥ 1, got 0"):
        sample(space, 0, np.random.default_rng(0))


def test_random_candidates_are_drawn_from_distributions():
    space = [{"eta": LogUniform(1e-4, 1.0), "r": [1, 2]}, {"r": scipy.stats.randint(5, 7)}]
    found = sample(space, 400, np.random.default_rng(0))
    eta = np.array([point["eta"] for point in found if "eta" in point])
    assert 150 < len(eta) < 250
    assert 1e-4 <= eta.min() < 2e-4
    assert 0.5 < eta.max() <= 1.0
    assert np.median(np.log10(eta)) == pytest.approx(-2.0, abs=0.3)
    assert {point["r"] for point in found} == {1, 2, 5, 6}
    assert all(type(point["r"]) is int for point in found)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"etta": 1}, r"FSOL: 'eta', 'l1'.* can be searched, got 'etta'"),
        ({"dtype": "float64"}, r"can be searched, got 'dtype'"),
        ({"eta": -1}, r"FSOL: eta must be a number > 0, got -1"),
        ({"l1_schedule": "x"}, r"FSOL: l1_schedule must be 'eta'"),
        ({"fit_intercept": 2}, r"FSOL: fit_intercept must be True or False, got 2"),
        ({"class_weight": {5: 1}}, r"FSOL: class_weight has the label 5"),
    ],
)
def test_candidates_are_checked_before_anything_is_read(setting, message):
    with pytest.raises(InvalidParameterError, match=message):
        make_trials("fsol", [{}, setting], {}, SIGNS)


def test_a_candidate_has_its_own_values_upon_the_common_ones():
    base = {"eta": 0.5, "fit_intercept": True, "class_weight": {1: 3.0}}
    one, other = make_trials(
        "fsol", [{"l1": 2.0}, {"eta": 4, "class_weight": None, "fit_intercept": False}], base, SIGNS
    )
    assert (one.parameters, one.costs[0][:2], one.fit_intercept) == ({"eta": 0.5, "l1": 2.0}, (1.0, 3.0), True)
    assert (other.parameters, other.costs[0][:2], other.fit_intercept) == ({"eta": 4}, (1.0, 1.0), False)


COUNTED = LaneCounts(np.array([[[80], [20]], [[77], [23]], [[72], [15]]]), np.array([[30.0], [40.0], [20.0]]))


def test_scores_are_greater_for_the_better():
    tradeoff = Tradeoff(0.3, 0.7, 0.9, 0.1)
    found = {name: float(scoring_of(name, tradeoff).scores(COUNTED)[0]) for name in NAMES}
    assert found == pytest.approx(
        {
            "error": -0.13,
            "balanced_accuracy": (0.75 + 0.9) / 2,
            "weighted_sum": 0.3 * 0.75 + 0.7 * 0.9,
            "cost": -(0.9 * 5 + 0.1 * 8) / 100,
            "accuracy": -0.13,  # compared as the error; the offset is added for people to see
            "f1": 30 / 43,
            "precision": 15 / 23,
            "recall": 0.75,
            "jaccard": 15 / 28,
            "matthews_corrcoef": (15 * 72 - 8 * 5) / math.sqrt(23 * 20 * 80 * 77),
            "log_loss": -0.4,
            "neg_log_loss": -0.4,
        }
    )
    assert scoring_of(lambda report: report.sensitivity).scores(COUNTED)[0] == 0.75
    assert scoring_of("error").natural(-0.13) == 0.13
    assert scoring_of("accuracy").natural(-0.13) == 0.87
    assert scoring_of("neg_log_loss").natural(-0.4) == -0.4
    assert math.isnan(scoring_of("error").scores(LaneCounts.nothing(1))[0])
    for wrong, more in (("area", ""), (None, ", or a function of a Report")):
        with pytest.raises(InvalidParameterError, match=rf"scoring must be 'error', .*{more}, got"):
            scoring_of(wrong)


@pytest.mark.parametrize("name", [name for name in WITH_ERRORS if "log_loss" not in name])
def test_standard_errors_are_those_of_drawing_the_rows_again(name):
    scoring, generator = scoring_of(name, Tradeoff(0.3, 0.7, 0.9, 0.1)), np.random.default_rng(0)
    kinds = generator.multinomial(2000, [0.15, 0.05, 0.72, 0.08], size=4000)  # found, missed, right, false
    found, missed, right, false = kinds.T
    counts = np.array([[right + false, found + missed], [right + missed, found + false], [right, found]])
    many = LaneCounts(counts, np.zeros((3, 4000)))
    spread = np.std(scoring.scores(many))
    assert scoring.standard_errors(many)[0] == pytest.approx(spread, rel=0.2)


def test_the_standard_error_of_a_mean_loss_is_that_of_drawing_the_rows_again():
    generator, draws = np.random.default_rng(0), 400
    scores = generator.normal(size=(500, draws))
    y = np.where(generator.random(500) < 0.3, 1, -1).astype(np.int8)
    tallies = LaneTallies(draws, losses=True)
    tallies.update(scores, y, np.zeros((500, draws), np.int8))
    for name in ("log_loss", "neg_log_loss"):
        scoring = scoring_of(name)
        found = scoring.scores(tallies.held_out)
        assert found[0] == pytest.approx(-np.mean(np.logaddexp(0, -y * scores[:, 0])))
        assert scoring.standard_errors(tallies.held_out).mean() == pytest.approx(np.std(found), rel=0.1)
    assert np.isnan(scoring_of(lambda report: report.auc).standard_errors(tallies.held_out)).all()
    assert np.isnan(scoring_of("matthews_corrcoef").standard_errors(tallies.held_out)).all()


@given(st.lists(st.integers(0, 9), max_size=8), st.integers(1, 7))
def test_batches_end_where_they_are_asked_to(sizes, every):
    rows, start, found = made(sum(sizes) + 1, 2).until(sum(sizes)), 0, []
    roles = np.arange(len(rows), dtype=np.int8)[:, np.newaxis]

    def pieces():
        first = 0
        for size in sizes:
            yield rows.until(first + size).after(first), roles[first : first + size]
            first += size

    for batch, role in cut(pieces(), lambda seen: every - seen % every):
        assert start // every == (start + max(len(batch), 1) - 1) // every
        assert len(batch) == len(role)
        found += role[:, 0].tolist()
        start += len(batch)
    assert found == list(range(len(rows)))


LANES = make_trials("fsol", [{"l1": 0.0}, {"l1": 0.01}, {"l1": 500.0}, {"l1": 1000.0}], {}, SIGNS)


@pytest.mark.parametrize("folds", [0, 3])
@pytest.mark.parametrize("name", ["error", "balanced_accuracy", "log_loss"])
def test_hopeless_candidates_are_dropped_and_the_winner_is_kept(folds, name):
    source, terms, scoring = Matrix(made()), StudyConfig("fsol", folds=folds), scoring_of(name)
    whole = search(source, terms, LANES, scoring)
    found = search(source, terms, LANES, scoring, eliminate=True, models=True)
    assert whole.best == found.best < 2
    assert whole.dropped.tolist() == [0] * 4
    assert found.dropped.tolist() == [0, 0, 1024, 1024]
    assert np.array_equal(found.mean[:2], whole.mean[:2])
    assert found.rank[2:].min() == 3
    assert found.models[found.best].t == 4096


def test_elimination_does_not_depend_on_how_the_stream_is_cut(monkeypatch):
    one = search(Matrix(made()), StudyConfig("fsol", folds=3), LANES, scoring_of("error"), eliminate=True)
    monkeypatch.setattr("thinstream.tuning.passes.PIECE", 333)
    other = search(Matrix(made()), StudyConfig("fsol", folds=3), LANES, scoring_of("error"), eliminate=True)
    for a, b in zip(one, other, strict=True):
        np.testing.assert_array_equal(a, b)


def test_equals_and_single_ones_stay(monkeypatch):
    same = make_trials("fsol", [{}] * 3, {}, SIGNS)
    assert not search(Matrix(made()), StudyConfig("fsol"), same, scoring_of("error"), eliminate=True).dropped.any()
    assert not search(Matrix(made()), StudyConfig("fsol"), same[:1], scoring_of("error"), eliminate=True).dropped.any()


class Counts:
    """A study whose candidates err as a table says, a stretch at a time."""

    def __init__(self, errors, per=100):
        self.errors, self.per, self.kept, self.rows = np.asarray(errors), per, None, 0
        self.tallies = self
        self.learned = LaneCounts.nothing(self.errors.shape[1])
        self.lanes = self

    def keep(self, lanes):
        self.kept, self.errors, self.learned = lanes, self.errors[:, lanes], self.learned.take(lanes)


def visited(errors):
    """What is dropped if in the stretches after row FIRST / 2 candidates make these mistakes."""
    study = Counts(errors)
    lanes = [lane._replace(candidate=k) for k, lane in enumerate(LANES[:1] * study.errors.shape[1])]
    dropping, present = Elimination(lanes, scoring_of("error"), held_out=False), list(range(len(lanes)))
    study.rows = Elimination.halts(0)
    present = dropping.visit(study, present)
    for stretch in range(len(errors)):
        study.rows += Elimination.halts(study.rows)
        counts = study.learned.counts.copy()
        counts[EXAMPLES, 0] += study.per
        counts[RIGHT, 0] += study.per - study.errors[stretch]
        study.learned = LaneCounts(counts, study.learned.totals)
        present = dropping.visit(study, present)
    return dropping.dropped


@settings(max_examples=30)
@given(st.integers(0, 10**6))
def test_as_good_ones_are_not_dropped(seed):
    generator = np.random.default_rng(seed)
    assert visited(generator.binomial(100, 0.2, size=(48, 4))) == {}


def test_worse_ones_are_dropped_unless_they_are_catching_up():
    generator = np.random.default_rng(1)
    rates = np.full((48, 3), 0.1)
    rates[:, 1] = 0.3
    rates[:16, 2], rates[16:32, 2], rates[32:, 2] = 0.5, 0.2, 0.14
    assert visited(generator.binomial(100, rates)) == {1: 2 * elimination.FIRST}


def test_the_earlier_dropped_the_lower_the_rank_and_equals_share_it():
    mean = np.array([0.5, math.nan, 0.9, 0.7, 0.7, 0.1])
    assert _ranks(mean, np.array([0, 0, 1024, 0, 0, 2048])).tolist() == [3, 4, 6, 1, 1, 5]


def test_a_score_that_is_undefined_for_all_is_an_error():
    rows = made(50)
    ones = rows.labelled(np.ones(50, np.int8))
    with pytest.raises(InvalidInputError, match="balanced_accuracy of every candidate is undefined"):
        search(Matrix(ones), StudyConfig("fsol", folds=2), LANES, scoring_of("balanced_accuracy"))
