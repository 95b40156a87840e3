"""Versions, challengers, promotion and rollback: a model is a function of its journal, whatever is stopped when."""

import threading

import numpy as np
import pytest

from tests.serve.rows import random_rows
from tests.serve.test_learning_run import made, state_of, teach, until_learned
from thinstream.data.labels import Classes
from thinstream.errors import InvalidInputError
from thinstream.models.file import read, write
from thinstream.models.model import Model
from thinstream.serve import Limits, Settings
from thinstream.serve.learner import ModelWorker
from thinstream.serve.request_rows import RowReader
from thinstream.serve.shared_memory import Shared, without_weights
from thinstream.serve.versions import NoVersion, VersionPolicy, Versions, compare
from thinstream.serve.wire import Change, LearnerRequest, pack_change

SETTINGS = Settings(checkpoint_seconds=60.0)


def change(worker, what, data=b"", request=None, status=200, **more):
    raw, done, result = pack_change(Change({"what": what, **more}, data)), threading.Event(), []
    asked = LearnerRequest(0, "change", worker.name, request=request, data=raw)
    worker.ask(asked, lambda answer: (result.append(answer), done.set()))
    assert done.wait(60)
    assert result[0][0] == status, result
    return result[0][1]


class Served:
    """A model that is taught, changed and stopped."""

    def __init__(self, paths, model, settings=SETTINGS):
        self.paths, self.settings, self.reader = paths, settings, RowReader(model, Limits())
        self.rows, self.at = random_rows(400), 0
        self.worker = ModelWorker("m", paths, settings)

    def teach(self, many):
        some = slice(self.at, self.at + many)
        self.at += many
        return teach(self.worker, self.reader, self.rows[0][some], self.rows[1][some])["entry"]

    def settle(self):
        until_learned(self.worker)

    def again(self, settings=None):
        """Stopped in order, and started."""
        self.worker.close()
        self.worker = ModelWorker("m", self.paths, settings or self.settings)
        self.settle()

    def now(self):
        return read(self.paths.folder("m") / "checkpoint.ts")

    def versions(self):
        return [item["version"] for item in self.worker.rivals()["versions"]]


@pytest.fixture
def served(paths):
    result = Served(paths, made(paths))
    yield result
    result.worker.close()


def learned(served, *parts, model=None):
    """A model that learned some rows of the stream, and nothing else."""
    model = model or read(served.paths.model("m"))
    model.learner.grow = True
    for a, b in parts:
        batch = served.reader.rows(served.rows[0][a:b])
        y = np.array(served.rows[1][a:b], np.int8)
        model, _ = model.learn(batch.labelled(y, None), model.classes)
    return model


def same(one, other, tmp_path):
    return state_of(one, tmp_path) == state_of(other, tmp_path)


def test_it_goes_back_to_a_version_and_learns_on(served, tmp_path):
    served.teach(100)
    kept = change(served.worker, "keep")
    served.teach(100)
    served.settle()
    answer = change(served.worker, "rollback", version=str(kept["kept"]))
    assert answer == {"entry": 4, "kept": 3, "version": 1}
    served.teach(50)
    served.settle()
    assert served.versions() == [3, 1, 0]
    served.worker.close()
    assert same(served.now(), learned(served, (0, 100), (200, 250)), tmp_path)
    assert same(Versions(served.paths.folder("m")).read(3), learned(served, (0, 200)), tmp_path)
    served.worker = ModelWorker("m", served.paths, SETTINGS)


def test_a_lost_version_is_reported_and_the_model_stays(served, tmp_path):
    """It was there when it was asked for: learning goes on, as a process that fails again and again would not."""
    served.teach(40)
    kept = change(served.worker, "keep")["kept"]
    served.settle()
    Versions(served.paths.folder("m")).path(kept).write_bytes(b"something else")
    change(served.worker, "rollback", version=str(kept))
    served.teach(40)
    served.settle()
    said = "rollback 1 failed: its file is damaged or missing"
    assert served.worker.status()["trouble"] == said
    served.again()
    assert same(served.now(), learned(served, (0, 80)), tmp_path)


def test_version_0_is_the_initial_model(served, tmp_path):
    served.teach(30)
    change(served.worker, "rollback", version="0")
    served.teach(20)
    served.again()
    assert same(served.now(), learned(served, (30, 50)), tmp_path)


def test_a_challenger_learns_and_is_promoted(served, paths, tmp_path):
    """With the bits of a run of its own, and beside it what the champion said of the same rows."""
    served.teach(80)
    change(served.worker, "challenge", name="rival", algorithm="ssol", parameters={"eta": 0.5})
    served.teach(120)
    served.settle()
    served.worker._open._learning.sampler.hurry()
    (told,) = until(lambda: [item for item in served.worker.rivals()["challengers"] if item["progressive"]])
    assert (told["name"], told["algorithm"], told["out"]) == ("rival", "SSOL", None)
    assert told["progressive"]["rows"] == told["champion"]["rows"] == 120
    before = Shared(paths.weights("m"), without_weights(read(paths.model("m"))))()
    assert before.model.learner.algorithm.name == "AROW"
    answer = change(served.worker, "promote", name="rival")
    served.teach(40)
    served.settle()
    after = Shared(paths.weights("m"), without_weights(read(paths.model("m"))))()
    assert after.model.learner.algorithm.name == "SSOL"
    served.again()
    fresh = Model.fresh("ssol", Classes(-1, 1), grow=True, fit_intercept=True, parameters={"eta": 0.5})
    assert same(served.now(), learned(served, (80, 240), model=fresh), tmp_path)
    assert served.now().learner.algorithm.name == "SSOL"
    change(served.worker, "rollback", version=str(answer["kept"]))  # to the champion before
    served.again()
    assert same(served.now(), learned(served, (0, 200)), tmp_path)


def until(result):
    for _ in range(1000):
        if value := result():
            return value
        threading.Event().wait(0.01)
    raise AssertionError(result())


def test_metrics_of_both_are_those_before_each_row_was_learned(served):
    change(served.worker, "challenge", name="rival", algorithm="arow", parameters={})
    served.teach(150)
    served.again()
    (told,) = served.worker.rivals()["challengers"]  # the same algorithm from the same beginning, across a stop
    assert told["progressive"] == told["champion"] == served.worker.status()["progressive"]


@pytest.mark.parametrize("seconds", [0.01, 60.0])
def test_stopped_anywhere_it_has_the_same_bits(paths, tmp_path, seconds):
    """Changes between rows, stops between all of them; with many checkpoints and with few."""
    one = Served(paths, made(paths), SETTINGS._replace(checkpoint_seconds=seconds, archive=True))

    def script(step):
        one.teach(40)
        step()
        change(one.worker, "challenge", name="a", algorithm="ssol")
        step()
        one.teach(40)
        change(one.worker, "challenge", name="b", algorithm="fsol")
        step()
        one.teach(30)
        kept = change(one.worker, "promote", name="a")["kept"]
        step()
        one.teach(30)
        one.settle()
        change(one.worker, "rollback", version=str(kept))
        step()
        one.teach(30)
        change(one.worker, "withdraw", name="b")
        one.teach(10)

    script(one.again)
    one.again()
    one.worker.close()
    expected = learned(one, (0, 110), (140, 180))
    assert same(one.now(), expected, tmp_path)
    assert not [*(paths.folder("m") / "challengers").glob("*")]
    assert not [*tmp_path.rglob("*.tmp")]


def test_a_challenger_from_a_file(served, tmp_path):
    model = Model.fresh("fsol", Classes(-1, 1), grow=True, fit_intercept=True)
    write(tmp_path / "rival.ts", model)
    change(served.worker, "challenge", (tmp_path / "rival.ts").read_bytes(), name="rival")
    served.teach(60)
    change(served.worker, "promote", name="rival")
    served.again()
    assert same(served.now(), learned(served, (0, 60), model=model), tmp_path)


def test_a_repeated_change_happens_once(served):
    served.teach(10)
    first = change(served.worker, "rollback", version="0", request="once")
    served.teach(10)
    assert change(served.worker, "rollback", version="0", request="once") == first | {"again": True}
    served.again()
    assert served.now().learner.t == 10


def test_versions_are_saved_and_the_oldest_deleted(paths):
    served = Served(paths, made(paths), SETTINGS._replace(version_rows=10, versions=3))
    for _ in range(6):
        served.teach(10)
        served.settle()
    until(lambda: served.versions()[0] == 6)
    assert served.versions() == [6, 5, 4, 0]
    served.worker.close()
    files = sorted(path.name for path in (paths.folder("m") / "versions").iterdir())
    assert files == [f"{number:016d}.{kind}" for number in (4, 5, 6) for kind in ("json", "ts")]


def test_a_version_that_is_gone_back_to_stays_until_it_is(tmp_path):
    (tmp_path / "model.ts").write_bytes(b"as given")
    (tmp_path / "checkpoint.ts").write_bytes(b"state")
    versions = Versions(tmp_path, VersionPolicy(most=1))
    versions.keep(tmp_path / "checkpoint.ts", 5, cause="test")
    versions.pin(9, 5)
    versions.keep(tmp_path / "checkpoint.ts", 6, cause="test")
    versions.keep(tmp_path / "checkpoint.ts", 7, cause="test")
    assert [item["version"] for item in versions.listed()] == [7, 5, 0]
    versions.unpin(8)
    versions.keep(tmp_path / "checkpoint.ts", 8, cause="test")
    assert [item["version"] for item in versions.listed()] == [8, 5, 0]
    versions.unpin(9)
    versions.keep(tmp_path / "checkpoint.ts", 10, cause="test")
    assert [item["version"] for item in Versions(tmp_path).listed()] == [10, 0]
    with pytest.raises(NoVersion, match="there is no version '5'; saved versions: 10 or 0"):
        versions.path("5")


@pytest.mark.parametrize(
    ("asked", "status", "said"),
    [
        ({"what": "rollback", "version": "77"}, 404, "there is no version '77'; saved versions: "),
        ({"what": "promote", "name": "nobody"}, 422, "there is no challenger 'nobody'; the model has none"),
        ({"what": "withdraw", "name": "nobody"}, 422, "there is no challenger 'nobody'"),
        ({"what": "challenge", "name": "../x", "algorithm": "arow"}, 422, "a model name must have"),
        ({"what": "challenge", "name": "x", "algorithm": "nothing"}, 422, "unknown algorithm 'nothing'"),
        ({"what": "challenge", "name": "x", "algorithm": "bcw"}, 422, "needs all rows at once"),
        ({"what": "challenge", "name": "x"}, 422, "a challenger must be a model file or the name of an algorithm"),
        ({"what": "challenge", "name": "x", "algorithm": "ssol", "parameters": {"rate": 1}}, 422, "rate"),
        ({"what": "dance"}, 422, "a change must be"),
    ],
)
def test_invalid_changes(served, asked, status, said):
    assert said in change(served.worker, status=status, **asked)["error"]
    assert served.worker.status()["version"] == 0


def test_a_challenger_of_other_classes_is_refused(served, tmp_path):
    write(tmp_path / "rival.ts", Model.fresh("fsol", Classes("ham", "spam"), grow=True))
    said = change(served.worker, "challenge", (tmp_path / "rival.ts").read_bytes(), status=422, name="rival")
    assert "its classes must be Classes(-1, 1), got Classes('ham', 'spam')" in said["error"]
    change(served.worker, "challenge", name="rival", algorithm="fsol")
    assert (
        "there is already a challenger 'rival'"
        in change(served.worker, "challenge", status=422, name="rival", algorithm="fsol")["error"]
    )


@pytest.mark.parametrize(
    "given",
    [
        {"parameters": ["eta"]},
        {"parameters": "eta"},
        {"parameters": {"grow": True}},
        {"parameters": {"r": 1.0}, "algorithm": "auto"},
        {"parameters": {"eta": []}},
        {"scale": ["max"]},
        {"normalize": 2},
    ],
)
def test_a_challenger_with_bad_parameters_is_refused(served, given):
    """In words, whatever they are."""
    said = change(served.worker, "challenge", status=422, **{"name": "rival", "algorithm": "fsol", **given})
    assert said["error"]
    assert served.worker.rivals()["challengers"] == []


def test_a_failing_challenger_stops_and_the_champion_continues(served, tmp_path):
    change(served.worker, "challenge", name="rival", algorithm="fsol", parameters={"eta": 1e38})
    served.teach(100)
    served.settle()
    served.worker._open._learning.sampler.hurry()
    told = until(lambda: [item for item in served.worker.rivals()["challengers"] if item["out"]])[0]
    assert "'rival' has stopped learning" in change(served.worker, "promote", status=422, name="rival")["error"]
    served.again()
    assert served.worker.rivals()["challengers"][0]["out"] == told["out"]
    assert same(served.now(), learned(served, (0, 100)), tmp_path)


def test_comparison_agrees_with_a_loop():
    rng = np.random.default_rng(1)
    one = Model.fresh("perceptron", Classes("a", "b", "c"), n_features=6)
    other = one.copy()
    dense = []
    for model in (one, other):
        weights = np.where(rng.random((3, 6)) < 0.5, rng.normal(size=(3, 6)), 0).astype(np.float32)
        for k, single in enumerate(model.learner.models):
            single.memory.state[:] = weights[k]
        dense.append(weights.ravel())
    result, (a, b) = compare(one, other), dense
    assert result["changed"] == sum(x != y for x, y in zip(a, b))
    assert result["appeared"] == sum(x == 0 != y for x, y in zip(a, b))
    assert result["gone"] == sum(x != 0 == y for x, y in zip(a, b))
    assert result["distance"] == pytest.approx(sum((float(x) - float(y)) ** 2 for x, y in zip(a, b)) ** 0.5)
    k = max(range(18), key=lambda j: abs(a[j] - b[j]))
    assert result["most"][0]["feature"] == f"column {k % 6} → {'abc'[k // 6]}"


def test_differences_of_a_replacement_are_reported(tmp_path):
    from thinstream.serve.versions import as_replacement

    like = Model.fresh("arow", Classes(-1, 1), n_features=2)
    with pytest.raises(InvalidInputError, match="rival: its dtype must be float32, got float64"):
        as_replacement(Model.fresh("arow", Classes(-1, 1), n_features=2, dtype="float64"), like, "rival")
