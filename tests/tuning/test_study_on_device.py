"""Studies on a device: the same counts and the same best as on the CPU, folds, weights, losses and passes included."""

import numpy as np
import pytest

from tests.lanes.cuda.cases import require_device
from tests.lanes.test_lanes import WIDTH, stream
from thinstream.tuning.measures import scoring_of
from thinstream.tuning.passes import Matrix
from thinstream.tuning.search import search
from thinstream.tuning.study import Study, StudyConfig, Trial

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


def of_classes(batch, rng, classes):
    return batch if classes == 2 else batch.labelled(rng.integers(classes, size=len(batch)).astype(np.int32), None)


@pytest.mark.parametrize(
    ("classes", "dtype"), [(2, "float32"), pytest.param(2, "float64", marks=pytest.mark.slow), (3, "float32")]
)
def test_ranks_and_classes_are_those_of_the_cpu(classes, dtype):
    """Bins of scores and counts by class, learned and held out, pass after pass; models know their mistakes."""
    found = []
    for device in ("cpu", "cuda"):
        config = StudyConfig("fsol", folds=2, device=device, losses=True, classes=classes, ranks=0, dtype=dtype)
        study, rng = Study(config, trials()), np.random.default_rng(6)
        batches = [of_classes(stream(rng, rows, dtype=np.dtype(dtype)), rng, classes) for rows in (8, 11, 6)]
        study.take(batches[0])
        study.ranks.turn()
        study.take(batches[1])
        study.keep([0, 2, 5, 8, 4])
        study.take(batches[2])
        before = [study.ranks.counted(k) for k in range(5)]
        study.again()
        study.take(batches[0])
        counts = study.tallies.learned.counts, study.tallies.held_out.counts, study.tallies.held_out.totals
        models = [study.model(k) for k in range(5)]
        ranked = before + [study.ranks.counted(k) for k in range(5)]
        found.append((counts, ranked, models))
    for a, b in zip(found[0][0], found[1][0], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)
    for a, b in zip(found[0][1], found[1][1], strict=True):
        np.testing.assert_array_equal(a, b)
    assert np.sum(found[0][1]) > 0
    for a, b in zip(found[0][2], found[1][2], strict=True):
        assert a.n_mistakes == b.n_mistakes
        weights = [[own.weights().tobytes() for own in model.models] for model in (a, b)]
        assert weights[0] == weights[1]


@pytest.mark.parametrize(
    ("name", "classes"),
    [
        ("average_precision", 3),
        pytest.param("error", 2, marks=pytest.mark.slow),
        pytest.param("auc", 2, marks=pytest.mark.slow),
        pytest.param("f1", 3, marks=pytest.mark.slow),
    ],
)
def test_a_search_finds_the_same(name, classes):
    rng, found = np.random.default_rng(2), []
    batch = of_classes(stream(rng, 40 if classes == 2 else 24), rng, classes)
    candidates = [Trial({"eta": eta}) for eta in (0.1, 1.0, 3.0)]
    for device in ("cpu", "cuda"):
        config = StudyConfig("fsol", folds=2, n_features=WIDTH, device=device, classes=classes)
        found.append(search(Matrix(batch), config, candidates, scoring_of(name), models=True))
    assert (found[0].device, found[1].device) == ("cpu", "cuda")
    assert found[0].best == found[1].best
    np.testing.assert_array_equal(found[0].splits, found[1].splits)
    models = [each.models[each.best] for each in found]
    weights = [[own.weights().tobytes() for own in model.models] for model in models]
    assert weights[0] == weights[1]
