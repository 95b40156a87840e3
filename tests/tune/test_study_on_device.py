"""Studies on a device: the same counts and the same best as on the CPU, folds, weights, losses and passes included."""

import numpy as np
import pytest

from tests.lanes.cuda.cases import require_device
from tests.lanes.test_lanes import WIDTH, stream
from thinstream.tune.scoring import scoring_of
from thinstream.tune.search import search
from thinstream.tune.sources import Matrix
from thinstream.tune.study import Study, StudyConfig, Trial

pytestmark = [pytest.mark.interpreted, pytest.mark.gpu]


@pytest.fixture(autouse=True)
def _device():
    require_device()


def trials():
    each = [({"eta": 0.5}, "fsol"), ({"r": 2.0}, "arow"), ({"eta": 2.0, "l1": 0.1}, "fsol")]
    return [
        Trial(own, split=split, candidate=k, algorithm=name, fit_intercept=k == 1)
        for k, (own, name) in enumerate(each)
        for split in (0, 1, -1)
    ]


@pytest.mark.parametrize("losses", [False, True])
def test_counts_are_those_of_the_cpu(losses):
    found = []
    for device in ("cpu", "cuda"):
        config = StudyConfig("fsol", folds=2, device=device, losses=losses, normalize="l2")
        study, rng = Study(config, trials()), np.random.default_rng(5)
        for rows in (7, 12):
            batch = stream(rng, rows)
            weights = rng.choice([0.0, 1.0, 2.0], rows)
            study.take(batch.labelled(batch.y, weights))
        study.keep([0, 2, 5, 8, 4])
        study.again()
        study.take(stream(rng, 9))
        counts = study.tallies.learned, study.tallies.held_out
        found.append((counts, [study.model(k).weights() for k in range(5)]))
    for a, b in zip(found[0][0], found[1][0], strict=True):
        np.testing.assert_array_equal(a.counts, b.counts)
        np.testing.assert_allclose(a.totals, b.totals, rtol=1e-12)
    for a, b in zip(found[0][1], found[1][1], strict=True):
        assert a.tobytes() == b.tobytes()


@pytest.mark.parametrize("name", ["error", "auc"])
def test_a_search_finds_the_same(name):
    batch, found = stream(np.random.default_rng(2), 40), []
    candidates = [Trial({"eta": eta}) for eta in (0.1, 1.0, 3.0)]
    for device in ("cpu", "cuda"):
        config = StudyConfig("fsol", folds=2, n_features=WIDTH, device=device)
        found.append(search(Matrix(batch), config, candidates, scoring_of(name), models=True))
    assert (found[0].device, found[1].device) == ("cpu", "cuda")
    assert found[0].best == found[1].best
    np.testing.assert_array_equal(found[0].splits, found[1].splits)
    model = found[1].models[found[1].best]
    assert model.weights().tobytes() == found[0].models[found[0].best].weights().tobytes()
