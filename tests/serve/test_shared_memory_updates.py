"""Versions of a wide model: only what changed is written, and nobody ever sees a mix of two."""

import random
import threading

import numpy as np
import pytest

from thinstream.batch import Batch
from thinstream.data.labels import Classes
from thinstream.models.model import Model
from thinstream.serve import shared_memory as publishing
from thinstream.serve.shared_memory import Publisher, Shared

WIDTH = 5000


def some_rows(rng, n, classes, features=WIDTH):
    """Rows of a few of the features."""
    columns = np.sort(np.array([rng.choice(features, 4, replace=False) for _ in range(n)], np.int32), axis=1)
    y = rng.integers(classes, size=n)
    labels = np.where(y > 0, 1, -1).astype(np.int8) if classes == 2 else y.astype(np.int32)
    return Batch.of(
        np.arange(0, 4 * n + 1, 4), columns.ravel(), rng.normal(size=4 * n).astype(np.float32), features, y=labels
    )


@pytest.fixture
def written(monkeypatch):
    """How many versions were written whole."""
    result, write = [], publishing.write_version
    monkeypatch.setattr(publishing, "write_version", lambda *given: (result.append(1), write(*given)))
    return result


KINDS = [
    ("arow", 2, {}),
    ("fsol", 2, {"l1": 0.01}),  # whose weights shrink whether they occur or not
    ("arow", 3, {}),
    ("arow", 2, {"normalize": "l2"}),
    pytest.param("fobos", 2, {"l1": 0.01}, marks=pytest.mark.slow),
    pytest.param("arow", 2, {"half_life": 50.0}, marks=pytest.mark.slow),
    *(pytest.param("arow", 2, {"scale": item}, marks=pytest.mark.slow) for item in ("max", "rms", "idf")),
]


@pytest.mark.parametrize(("algorithm", "classes", "options"), KINDS)
def test_writing_the_changes_is_enough(algorithm, classes, options, tmp_path, written):
    """Every version predicts bit for bit as the model did, also of features that did not occur meanwhile."""
    rng, model = (
        np.random.default_rng(1),
        Model.fresh(algorithm, Classes(*range(classes)), n_features=WIDTH, fit_intercept=True, **options),
    )
    publisher, shared = Publisher(tmp_path / "w"), Shared(tmp_path / "w", model)
    every = Batch.of(np.arange(WIDTH + 1), np.arange(WIDTH, dtype=np.int32), np.ones(WIDTH, np.float32), WIDTH)
    versions = 12
    for version in range(versions):
        rows = some_rows(rng, 10, classes)
        model.learner.learn(rows)
        publisher.marks.add(rows.indices, WIDTH)
        nnz = publisher(model, version=version)
        shared._looked = 0.0
        result, about = shared()
        assert about == {"version": version, "t": model.learner.t}
        assert result.learner.scores(every).tobytes() == model.learner.scores(every).tobytes()
        assert nnz == model.learner.nnz
        del result
    assert len(written) < versions / 2
    publisher.close()
    assert [*tmp_path.iterdir()] == []


def test_a_replaced_model_is_written_whole(tmp_path, written):
    """One that went back to a checkpoint, or got wider than there is room for."""
    rng, model = np.random.default_rng(1), Model.fresh("arow", Classes(0, 1), n_features=WIDTH, grow=True)
    before = model.copy()
    publisher, shared = Publisher(tmp_path / "w"), Shared(tmp_path / "w", model)

    def check(learned, width):
        rows = some_rows(rng, 10, 2, width)
        learned.learner.learn(rows)
        publisher.marks.add(rows.indices, learned.learner.n_features)
        publisher(learned)
        shared._looked = 0.0
        assert shared().model.learner.scores(rows).tobytes() == learned.learner.scores(rows).tobytes()

    for _ in range(4):
        check(model, WIDTH)
    assert len(written) == 2  # a file for each of two versions
    publisher.forget()
    check(before, WIDTH)
    assert len(written) == 3
    check(before, WIDTH)
    check(before, WIDTH + 20)
    check(before, WIDTH + 30)
    assert len(written) == 4
    check(before, 2 * WIDTH)
    assert len(written) == 5


def test_files_of_a_killed_process_are_removed(tmp_path):
    """Readers keep what they have, and find the next."""
    model = Model.fresh("arow", Classes(0, 1), n_features=10)
    killed = Publisher(tmp_path / "w")
    for version in range(3):
        killed(model, version=version)
    shared = Shared(tmp_path / "w", model)
    assert shared().about["version"] == 2
    publisher = Publisher(tmp_path / "w")
    assert [path.name for path in tmp_path.iterdir()] == ["w"]
    publisher(model, version=3)
    shared._looked = 0.0
    assert shared().about["version"] == 3


@pytest.mark.parametrize("versions", [100, pytest.param(2000, marks=pytest.mark.slow)])
def test_readers_never_see_a_mixture(tmp_path, versions):
    """Version k has k at paths all over: whoever looks finds them equal, as long as it is looked at."""
    width, paths = 200_000, np.arange(0, 200_000, 97)
    model = Model.fresh("perceptron", Classes(-1, 1), n_features=width)
    publisher, stop = Publisher(tmp_path / "w"), threading.Event()
    publisher(model, version=0)
    torn, seen = list[tuple](), [set(), set(), set()]

    def look(number):
        rng, shared, held = random.Random(number), Shared(tmp_path / "w", model), []
        while not stop.is_set():
            shared._looked = 0.0
            held.append(shared())
            for result, about in held:
                weights = result.learner.outputs.one.memory.state[paths]
                if weights.min() != weights.max() or weights[0] != about["version"]:
                    torn.append((weights.min(), weights.max(), about))
            seen[number].add(held[-1].about["version"])
            if rng.random() < 0.7:
                held = held[-rng.randrange(3) :] if rng.random() < 0.5 else []

    readers = [threading.Thread(target=look, args=(k,)) for k in range(3)]
    [reader.start() for reader in readers]
    for version in range(1, versions):
        model.learner.outputs.one.memory.state[paths] = version
        publisher.marks.add(paths, width)
        publisher(model, version=version)
    stop.set()
    [reader.join() for reader in readers]
    assert not torn
    assert all(len(item) > 2 for item in seen)
