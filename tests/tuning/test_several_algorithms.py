"""Algorithms side by side in one search: each candidate as in a search of its own."""

import numpy as np
import pytest

from tests.tuning.test_search import SIGNS, made
from thinstream.errors import InvalidInputError
from thinstream.tuning.measures import scoring_of
from thinstream.tuning.passes import Matrix
from thinstream.tuning.search import USUAL, grid, make_trials, search
from thinstream.tuning.study import StudyConfig

FSOL = make_trials("fsol", [{"eta": 0.1}, {"eta": 1.0}], {}, SIGNS)
AROW = make_trials("arow", [{"r": 0.1}, {"r": 10.0}], {"fit_intercept": True}, SIGNS)


@pytest.mark.parametrize("folds", [0, 3])
def test_scores_and_models_are_those_of_searches_of_their_own(folds):
    rows, config = Matrix(made(700)), StudyConfig("fsol", folds=folds)
    mixed = [FSOL[0], AROW[0], FSOL[1], AROW[1]]
    found = search(rows, config, mixed, scoring_of("error"), models=True)
    for trials, places in ((FSOL, [0, 2]), (AROW, [1, 3])):
        own = search(rows, config, trials, scoring_of("error"), models=True)
        assert np.array_equal(found.mean[places], own.mean)
        assert np.array_equal(found.splits[places], own.splits)
        if found.best in places:
            assert np.array_equal(found.models[found.best].weights(), own.models[own.best].weights())
    assert found.models[found.best].algorithm.name == mixed[found.best].algorithm


def test_beyond_the_memory_they_go_in_several_passes_with_the_same_result():
    rows = made(700)
    many = make_trials("fsol", [{"eta": 2.0**-k} for k in range(20)], {}, SIGNS)
    many += make_trials("arow", [{"r": 2.0**-k} for k in range(20)], {}, SIGNS)
    whole = search(Matrix(rows), StudyConfig("fsol", folds=2), many, scoring_of("error"))
    small = search(Matrix(rows), StudyConfig("fsol", folds=2, memory=8000), many, scoring_of("error"))
    assert small.passes > 1 == whole.passes
    assert np.array_equal(whole.splits, small.splits)
    with pytest.raises(InvalidInputError, match=r"lanes of FSOL on .* features need"):
        search(Matrix(rows), StudyConfig("fsol", n_features=20, memory=10), [FSOL[0], AROW[0]], scoring_of("error"))


def test_what_is_tried_without_a_name_can_be_made():
    trials = [trial for name, space in USUAL.items() for trial in make_trials(name, grid(space), {}, SIGNS)]
    assert len(trials) == 32
    assert {trial.algorithm for trial in trials} == {"AROW", "SCW", "AdaRDA"}
