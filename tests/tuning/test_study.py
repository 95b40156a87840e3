"""A study: roles of rows, counts per lane, passes within a memory limit."""

import math
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from thinstream.batch import Batch
from thinstream.data.in_memory import from_memory
from thinstream.errors import InvalidInputError
from thinstream.lanes.lanes import Lanes
from thinstream.lanes.learner import Learner
from thinstream.training.metrics import Progress
from thinstream.training.observer import Observer
from thinstream.tuning.counts import ABSENT, HELD_OUT, LEARNED
from thinstream.tuning.passes import study_stream
from thinstream.tuning.study import Study, StudyConfig, Trial

WIDTH = 30
LANES = [
    Trial({"eta": eta}, split=fold, candidate=c) for c, eta in enumerate((0.1, 0.5, 2.0)) for fold in (-1, 0, 1, 2)
]


@pytest.fixture(scope="module")
def rows():
    generator = np.random.default_rng(7)
    X = sp.random_array((600, WIDTH), density=0.2, format="csr", rng=generator)
    y = np.where(X @ generator.normal(size=WIDTH) + 0.2 * generator.normal(size=600) > 0, 1, -1).astype(np.int8)
    weights = generator.integers(0, 3, 600).astype(np.float64)
    return Batch.of(X.indptr, X.indices, X.data.astype(np.float32), WIDTH, y, weights)


@pytest.fixture
def stream(rows):
    X = sp.csr_array((rows.values, rows.indices, rows.indptr), shape=(len(rows), WIDTH))
    return from_memory(X, rows.y, rows.weights, rows_per_batch=100)


#: What lanes do not count: their scores are not kept in bins.
UNCOUNTED = dict.fromkeys(("auc", "auc_bound", "average_precision", "average_precision_bound"), 0.0)


def alone(batch, mask, parameters):
    """The reports of one model that learns where the mask says: on what it learned, and on the rest."""
    learned = batch.weights * mask
    scores = Learner("fsol", n_features=WIDTH, **parameters).learn(replace(batch, weights=learned))
    reports = []
    for counted in (learned, batch.weights * ~mask):
        progress = Progress()
        progress.update(scores, batch.y, counted)
        reports.append(replace(progress.report(), **UNCOUNTED))
    return reports


def reports(learned, held_out, lane):
    return [replace(counted.report(lane), **UNCOUNTED) for counted in (learned, held_out)]


def same(one, other):
    a, b = ([math.nan if v is None else v for each in found for v in each.as_dict().values()] for found in (one, other))
    return a == pytest.approx(b, rel=1e-12, nan_ok=True)


def test_a_row_is_held_out_from_the_fold_of_its_number_and_each_lane_is_a_run_of_its_own(rows):
    study = Study(StudyConfig("fsol", folds=3, losses=True), LANES)
    for cut in (rows.until(251), rows.after(251)):
        study.take(cut)
    for k, lane in enumerate(LANES):
        mask = np.arange(len(rows)) % 3 != lane.split
        assert same(alone(rows, mask, lane.parameters), reports(study.tallies.learned, study.tallies.held_out, k))


def test_roles_say_for_each_split_what_is_learned_scored_or_left_out(rows):
    roles = np.full((len(rows), 2), ABSENT, np.int8)
    roles[:200, 0], roles[200:300, 0] = LEARNED, HELD_OUT
    roles[100:, 1] = LEARNED
    study = Study(StudyConfig("fsol"), [Trial({}, split=0), Trial({}, split=1), Trial({})])
    study.take(rows, roles)
    present = rows.weights > 0
    assert study.tallies.learned.rows.tolist() == [present[:200].sum(), present[100:].sum(), present.sum()]
    assert study.tallies.held_out.rows.tolist() == [present[200:300].sum(), 0, 0]


def test_scoring_again_counts_what_is_held_out_with_the_final_weights(rows):
    study = Study(StudyConfig("fsol", folds=3), LANES)
    study.take(rows)
    study.tallies.forget()
    study.rows = 0
    study.score(rows)
    assert not study.tallies.learned.counts.any()
    for k, lane in enumerate(LANES):
        held = (np.arange(len(rows)) % 3 == lane.split) & (rows.weights > 0)
        wrong = np.sign(study.lanes[k].scores(rows)) != rows.y
        assert study.tallies.held_out.report(k).error == pytest.approx(
            wrong[held].mean() if held.any() else np.nan, nan_ok=True
        )


def test_the_bits_do_not_depend_on_how_the_stream_is_cut(rows, monkeypatch):
    whole, cut = (
        Study(StudyConfig("fsol", folds=3, losses=True), LANES),
        Study(StudyConfig("fsol", folds=3, losses=True), LANES),
    )
    whole.take(rows)
    monkeypatch.setattr("thinstream.tuning.study.CELLS", 50)
    cut.take(rows)
    assert np.array_equal(whole.tallies.held_out.totals, cut.tallies.held_out.totals)
    assert np.array_equal(whole.tallies.learned.counts, cut.tallies.learned.counts)


def test_rows_without_labels_or_with_numbers_of_classes_are_refused(rows):
    with pytest.raises(InvalidInputError, match="need labels"):
        Study(StudyConfig("fsol"), LANES).take(replace(rows, y=None))
    with pytest.raises(InvalidInputError, match="the study has two classes"):
        Study(StudyConfig("fsol"), LANES).take(replace(rows, y=np.zeros(len(rows), np.int32)))


class Notes(Observer):
    def __init__(self):
        self.splits, self.moves = [], []

    def split(self, passes, needed, limit):
        self.splits.append((passes, needed, limit))

    def moved(self, step):
        self.moves.append((step.rows, step.passes, step.of))


def limit_for(lanes, width=WIDTH):
    return Lanes.estimate_nbytes("fsol", [lane.parameters for lane in lanes], width)


@pytest.mark.parametrize("known", [0, WIDTH])
def test_beyond_the_limit_lanes_go_in_several_passes_with_the_same_result(stream, known):
    many = LANES * 8
    many = [lane._replace(candidate=k // 4) for k, lane in enumerate(many)]
    terms = StudyConfig("fsol", folds=3, n_features=known)
    one = study_stream(stream, terms, many)
    notes = Notes()
    limit = limit_for(many) // 3
    models = {}

    def finish(study, numbers):
        models.update({number: study.lanes[k].weights() for k, number in enumerate(numbers)})
        return numbers

    several = study_stream(stream, terms._replace(memory=limit), many, finish=finish, watch=notes)
    assert several.passes >= 3
    assert notes.splits[-1][0] == several.passes
    assert notes.splits[-1][2] == limit
    assert notes.moves[-1] == (600, several.passes - 1, several.passes)
    assert np.array_equal(one.held_out.counts, several.held_out.counts)
    assert np.array_equal(one.learned.counts, several.learned.counts)
    assert sorted(models) == list(range(len(many)))


def test_what_can_be_read_once_only_is_refused_beyond_the_limit(stream):
    class Pipe:
        size = None

        def __getattr__(self, name):
            return getattr(stream, name)

    many = [lane._replace(candidate=k) for k, lane in enumerate(LANES * 8)]
    with pytest.raises(InvalidInputError, match="read files"):
        study_stream(Pipe(), StudyConfig("fsol", folds=3, memory=limit_for(many) // 3), many)


def test_one_candidate_too_large_is_refused_with_advice(stream):
    with pytest.raises(InvalidInputError, match=r"lanes of fsol on .* features need"):
        study_stream(stream, StudyConfig("fsol", folds=3, n_features=WIDTH, memory=100), LANES)


def test_a_visit_may_drop_lanes_whose_counts_stay_as_they_were(stream):
    def during(study, numbers):
        if study.rows == 300:
            study.keep([0, 2])
            return [numbers[0], numbers[2]]
        return numbers

    found = study_stream(stream, StudyConfig("fsol", folds=3), LANES, during=during)
    whole = study_stream(stream, StudyConfig("fsol", folds=3), LANES)
    assert np.array_equal(found.learned.counts[..., [0, 2]], whole.learned.counts[..., [0, 2]])
    assert (found.learned.rows[[1, 3]] < whole.learned.rows[[1, 3]]).all()
    assert found.rows == 600
