"""A model learns its journal: with the bits of one run over the same rows, however often it is stopped."""

import sys
import threading

import numpy as np
import pytest

from tests.serve.rows import random_rows
from thinstream.batch import Batch
from thinstream.cli.app import run
from thinstream.data.labels import Classes, GrowingClasses
from thinstream.data.opening import open_stream
from thinstream.errors import InvalidParameterError
from thinstream.models.file import read, write
from thinstream.models.model import Model
from thinstream.serve import Limits, Settings
from thinstream.serve.learner import ModelWorker
from thinstream.serve.learning_run import LearningThread
from thinstream.serve.request_rows import RowReader
from thinstream.serve.served_models import register
from thinstream.serve.shared_memory import Publisher, Shared, publish
from thinstream.serve.wire import LearnerRequest, pack
from thinstream.training.checkpoint import Checkpoints
from thinstream.training.job import learn_stream

SETTINGS = Settings(checkpoint_seconds=0.05, archive=True)


def made(paths, name="m", algorithm="arow", **options):
    model = Model.fresh(algorithm, Classes(-1, 1), grow=True, fit_intercept=True, **options)
    paths.folder(name).mkdir()
    write(paths.model(name), model)
    return model


def answer_to(worker, **asked):
    done, result = threading.Event(), []
    worker.ask(LearnerRequest(0, model=worker.name, **asked), lambda answer: (result.append(answer), done.set()))
    assert done.wait(60)
    return result[0]


def ask(worker, **asked):
    status, answer = answer_to(worker, **asked)
    assert status == 200, answer
    return answer


def teach(worker, reader, rows, labels, request=None):
    return ask(worker, what="learn", data=pack(reader.rows(rows), labels), request=request)


def until_learned(worker):
    for _ in range(3000):
        if worker.status()["version"] == worker._open._committer.journal.newest:  # published, too
            return
        threading.Event().wait(0.01)
    raise AssertionError(worker.status())


def state_of(model, tmp_path):
    """The bytes of a model, without where it comes from."""
    path = tmp_path / "state.ts"
    without_weights = Model(model.learner, model.classes)
    without_weights.learner.grow = True
    write(path, without_weights)
    return path.read_bytes()


@pytest.mark.parametrize(
    "prepared",
    [{}, {"normalize": "l2"}, pytest.param({"algorithm": "auto"}, marks=pytest.mark.slow)],
    ids=["plain", "normalized", "auto"],
)
def test_stopped_often_it_has_the_bits_of_one_run(paths, tmp_path, prepared):
    """Checkpoints, cuts and restarts in between; the archive, trained on, gives the same model."""
    model = made(paths, **prepared)
    rows, labels = random_rows(300)
    reader, done = RowReader(model, Limits()), 0
    for many in (1, 90, 3, 106, 100):
        worker = ModelWorker("m", paths, SETTINGS)
        for start in range(done, done + many, 7):
            stop = min(start + 7, done + many)
            teach(worker, reader, rows[start:stop], labels[start:stop], request=f"r{start}")
            teach(worker, reader, rows[start:stop], labels[start:stop], request=f"r{start}")
        done += many
        until_learned(worker)
        worker.close()
    served = read(paths.folder("m") / "checkpoint.ts")
    whole = reader.rows(rows).labelled(np.array(labels, np.int8))
    alone = model.copy()
    alone.learner.learn(whole)
    assert state_of(served, tmp_path) == state_of(alone, tmp_path)
    archived = model.copy()
    for path in sorted((paths.folder("m") / "archive").iterdir()):
        archived = learn_stream(archived, open_stream(path))
    assert state_of(archived, tmp_path) == state_of(alone, tmp_path)
    assert archived.learner.t == 300


@pytest.mark.parametrize("space", [{}, {"hashing": {"bits": 10, "signed": False}}], ids=["numbers", "names"])
def test_the_archive_is_trained_on_by_the_documented_command(paths, tmp_path, space):
    """`thinstream train NUMBER.cache --from MODEL` gives the served model, for numbered features as well."""
    model = made(paths, feature_space=space)
    worker, reader = ModelWorker("m", paths, SETTINGS), RowReader(model, Limits())
    rows, labels = random_rows(20)
    teach(worker, reader, rows, labels)
    until_learned(worker)
    worker.close()
    (cache,) = (paths.folder("m") / "archive").iterdir()
    out = tmp_path / "trained.ts"
    assert run(["train", str(cache), "--from", str(paths.model("m")), "-m", str(out), "-q"]) == 0
    assert state_of(read(out), tmp_path) == state_of(read(paths.folder("m") / "checkpoint.ts"), tmp_path)


def test_a_row_that_cannot_be_learned_is_left_out(paths, tmp_path):
    """It is told, and the model is the one without it."""
    model = made(paths, algorithm="fsol")
    reader = RowReader(model, Limits())
    rows, labels = random_rows(20)
    worker = ModelWorker("m", paths, Settings(checkpoint_seconds=1000))
    teach(worker, reader, rows[:10], labels[:10])
    teach(worker, reader, [rows[10], {"1": 3e38}, rows[11]], [labels[10], 1, labels[11]])
    teach(worker, reader, rows[12:], labels[12:])
    until_learned(worker)
    assert worker.status()["refused"] == 1
    assert worker.status()["rows"] == 20
    worker.close()
    alone = model.copy()
    alone.learner.learn(reader.rows(rows).labelled(np.array(labels, np.int8)))
    assert state_of(read(paths.folder("m") / "checkpoint.ts"), tmp_path) == state_of(alone, tmp_path)
    again = ModelWorker("m", paths, SETTINGS)
    until_learned(again)
    assert again.status()["failure"] is None
    again.close()


def test_metrics_count_what_was_predicted(paths):
    """The score of a row that got its label late is the one it was given when it was predicted."""
    model = made(paths)
    worker, reader = ModelWorker("m", paths, SETTINGS), RowReader(model, Limits())
    row = reader.rows([{"1": 1.0}])
    ask(worker, what="keep", ids=["a"], data=pack(row, [None], np.array([-2.0], np.float32)))
    for _ in range(3):
        teach(worker, reader, [{"1": 1.0}], [1])
    assert ask(worker, what="label", ids=["a", "b"], labels=[1, 1])["unknown"] == ["b"]
    until_learned(worker)
    report = worker.status()["progressive"]
    assert report["rows"] == 4
    assert report["error"] == 0.5  # the first of all, and the one that was called negative when it came
    assert report["hinge"] >= 3 / 4
    assert worker.status()["labels"]["unknown"] == 1
    worker.close()


def test_no_room_for_a_checkpoint(paths, monkeypatch):
    """Learning goes on, the journal stays, and the next checkpoint comes in time."""
    made(paths)
    reader = RowReader(read(paths.model("m")), Limits())
    worker = ModelWorker("m", paths, SETTINGS)
    monkeypatch.setattr(Checkpoints, "write", _full)
    rows, labels = random_rows(30)
    for k in range(30):
        teach(worker, reader, rows[k], labels[k : k + 1])
    until_learned(worker)
    for _ in range(6000):
        if worker.status()["trouble"]:
            break
        threading.Event().wait(0.01)
    assert "No space left" in worker.status()["trouble"]
    assert read(paths.folder("m") / "checkpoint.ts").learner.t == 0
    monkeypatch.undo()
    teach(worker, reader, rows[0], labels[:1])
    until_learned(worker)
    worker.close()
    assert read(paths.folder("m") / "checkpoint.ts").learner.t == 31


def _full(*_):
    raise OSError(28, "No space left on device")


def test_no_room_for_new_weights(paths, monkeypatch):
    """The old ones stay, and new ones come when there is room."""
    made(paths)
    reader = RowReader(read(paths.model("m")), Limits())
    worker = ModelWorker("m", paths, SETTINGS)
    rows, labels = random_rows(2)
    with monkeypatch.context() as patched:
        patched.setattr("thinstream.serve.shared_memory.write_version", lambda *arguments: _full(None, None))
        teach(worker, reader, rows, labels)
        while worker.status()["trouble"] is None:
            pass
        assert worker.status()["trouble"] == "cannot publish weights: No space left on device"
        assert worker.status()["version"] == 0
    until_learned(worker)
    assert worker.status()["trouble"] is None
    worker.close()


def until(is_true):
    for _ in range(3000):
        if is_true():
            return
        threading.Event().wait(0.01)
    raise AssertionError("it took too long")


def test_a_model_that_fails_is_tried_again_and_others_learn(paths, monkeypatch, caplog):
    """An error that is not ours stops one model: it predicts, refuses to learn, and recovers by itself."""
    made(paths), made(paths, "other")
    reader = RowReader(read(paths.model("m")), Limits())
    worker, other = ModelWorker("m", paths, SETTINGS), ModelWorker("other", paths, SETTINGS)
    rows, labels = random_rows(3)
    monkeypatch.setattr("thinstream.serve.learning_run.FIRST_PAUSE", 0.3)
    with monkeypatch.context() as patched:
        failing = worker._open._learning.publisher
        real = Publisher.__call__
        patched.setattr(Publisher, "__call__", lambda own, *a, **k: 1 / 0 if own is failing else real(own, *a, **k))
        teach(worker, reader, rows, labels)
        until(lambda: worker.failure)
        assert worker.status()["failure"] == "ZeroDivisionError"
        assert not worker.status()["learning"]
        status, answer = answer_to(worker, what="learn", data=pack(reader.rows(rows), labels))
        assert status == 503
        assert answer["error"] == "the model 'm' has stopped learning: ZeroDivisionError"
        teach(other, reader, rows, labels)
        until_learned(other)
    until(lambda: worker.failure is None)
    until_learned(worker)
    assert worker.status()["rows"] == 3
    worker.close(), other.close()
    assert "ZeroDivisionError" in caplog.text


def test_rows_that_cannot_be_learned_are_skipped_in_place(paths, tmp_path, monkeypatch):
    """Many of them cost one replay, not one each, and versions never go backwards."""
    model = made(paths, algorithm="fsol")
    reader = RowReader(model, Limits())
    rows, labels = random_rows(60)
    began, versions = [], []
    begin, publish = LearningThread._begin, Publisher.__call__
    monkeypatch.setattr(LearningThread, "_begin", lambda own, *a, **k: (began.append(1), begin(own, *a, **k))[1])
    monkeypatch.setattr(
        Publisher, "__call__", lambda own, *a, version: (versions.append(version), publish(own, *a, version=version))[1]
    )
    worker = ModelWorker("m", paths, Settings(checkpoint_seconds=1000))
    for k in range(30):
        teach(worker, reader, rows[k : k + 1], labels[k : k + 1])
    until_learned(worker)
    bad = [{"1": 3e38}]
    teach(worker, reader, bad * 50, [1] * 50)
    for k in range(30, 60):
        teach(worker, reader, [*bad, rows[k], *bad], [1, labels[k], 1])
    until_learned(worker)
    assert worker.status()["refused"] == 110
    assert len(began) == 2
    assert versions == sorted(versions)
    worker.close()
    alone = model.copy()
    alone.learner.learn(reader.rows(rows).labelled(np.array(labels, np.int8)))
    assert state_of(read(paths.folder("m") / "checkpoint.ts"), tmp_path) == state_of(alone, tmp_path)


@pytest.mark.parametrize("kind", ["two", "three", "auto"])
def test_memory_that_runs_out_costs_one_row(paths, tmp_path, monkeypatch, kind):
    """Any error puts its row into quarantine, whatever rows came with it; all others are learned."""
    classes = Classes("a", "b", "c") if kind == "three" else Classes(-1, 1)
    model = Model.fresh("auto" if kind == "auto" else "arow", classes, grow=True, fit_intercept=True)
    paths.folder("m").mkdir()
    write(paths.model("m"), model)
    learn, width = Model.learn, 1000

    def short_of_memory(own, batch, *arguments, **options):
        if batch.n_features >= width:
            raise MemoryError
        return learn(own, batch, *arguments, **options)

    monkeypatch.setattr(Model, "learn", short_of_memory)
    rows, labels = random_rows(40)
    labels = [classes[k % len(classes)] for k in range(40)]
    reader, worker = RowReader(model, Limits()), ModelWorker("m", paths, Settings(checkpoint_seconds=1000))
    teach(worker, reader, rows[:10], labels[:10])
    teach(worker, reader, [*rows[10:20], {str(width): 1.0}, *rows[20:30]], [*labels[10:20], labels[0], *labels[20:30]])
    teach(worker, reader, rows[30:], labels[30:])
    until_learned(worker)
    assert worker.failure is None
    result = worker.quarantine()
    assert result["count"] == 1
    assert [(row["entry"], row["row"], row["reason"]) for row in result["rows"]] == [(2, 10, "MemoryError")]
    worker.close()
    alone = model.copy()
    coded = classes.coded(labels)
    alone.learner.learn(reader.rows(rows).labelled(coded))
    assert state_of(read(paths.folder("m") / "checkpoint.ts"), tmp_path) == state_of(alone, tmp_path)


def test_no_memory_for_a_copy(paths, tmp_path, monkeypatch):
    """Rows are learned one by one, and learning starts again without the one that fails."""
    model = made(paths, algorithm="fsol")
    reader = RowReader(model, Limits())
    rows, labels = random_rows(20)
    worker = ModelWorker("m", paths, Settings(checkpoint_seconds=1000))
    copy, calls = Model.copy, []

    def no_copy(own):
        if sys._getframe(1).f_code.co_name == "_take_carefully":
            calls.append(1)
            raise MemoryError
        return copy(own)

    monkeypatch.setattr(Model, "copy", no_copy)
    teach(worker, reader, [*rows[:10], {"1": 3e38}, *rows[10:]], [*labels[:10], 1, *labels[10:]])
    until_learned(worker)
    assert calls
    assert worker.status()["refused"] == 1
    worker.close()
    alone = copy(model)
    alone.learner.learn(reader.rows(rows).labelled(np.array(labels, np.int8)))
    assert state_of(read(paths.folder("m") / "checkpoint.ts"), tmp_path) == state_of(alone, tmp_path)


def test_a_row_cannot_be_replaced_while_it_waits(paths):
    """The same row again changes nothing; another one under its id is a conflict."""
    model = made(paths)
    worker, reader = ModelWorker("m", paths, SETTINGS), RowReader(model, Limits())

    def keep(ids, rows):
        data = pack(reader.rows(rows), [None] * len(rows), np.zeros(len(rows), np.float32))
        return answer_to(worker, what="keep", ids=ids, data=data)

    assert keep(["a"], [{"1": 1.0}]) == (200, {"kept": 1})
    assert keep(["b", "a"], [{"2": 1.0}, {"1": 1.0}]) == (200, {"kept": 2})
    status, answer = keep(["c", "a"], [{"2": 1.0}, {"1": 2.0}])
    assert status == 409
    assert answer["error"].startswith("id 'a': another row with this id waits for its label")
    assert keep(["d", "d"], [{"2": 1.0}, {"1": 2.0}])[0] == 409
    assert worker.status()["waiting"] == 2
    assert ask(worker, what="label", ids=["a", "b", "c"], labels=[1, -1, 1])["unknown"] == ["c"]
    until_learned(worker)
    assert worker.status()["rows"] == 2
    worker.close()


def test_an_idempotency_key_is_of_one_request(paths):
    """The same request gets its answer again; another one under its key is refused."""
    model = made(paths)
    worker, reader = ModelWorker("m", paths, SETTINGS), RowReader(model, Limits())
    data = pack(reader.rows([{"1": 1.0}]), [1])
    first = ask(worker, what="learn", data=data, request="k", fingerprint="one")
    assert ask(worker, what="learn", data=data, request="k", fingerprint="one") == first | {"again": True}
    for asked in ({"what": "learn", "data": data}, {"what": "label", "ids": ["a"], "labels": [1]}):
        status, answer = answer_to(worker, request="k", fingerprint="two", **asked)
        assert status == 422
        assert "was used before for another request" in answer["error"]
    until_learned(worker)
    assert worker.status()["rows"] == 1
    worker.close()


def test_requests_in_parallel_keep_to_the_limit_of_classes(paths):
    """Each alone would be allowed; together they make too many classes."""
    model = Model.fresh("arow", GrowingClasses("a"), grow=True)
    paths.folder("m").mkdir()
    write(paths.model("m"), model)
    reader, settings = RowReader(model, Limits()), Settings(classes=50)
    statuses = []
    for part in (range(5), range(5, 10)):
        worker = ModelWorker("m", paths, settings)
        for k in part:
            labels = [f"c{20 * k + j}" for j in range(20)]
            asked = LearnerRequest(0, what="learn", data=pack(reader.rows([{"1": 1.0}] * 20), labels))
            worker.ask(asked, lambda answer: statuses.append(answer[0]))
        until(lambda: len(statuses) == part.stop)  # noqa: B023
        until_learned(worker)
        worker.close()
    assert sorted(statuses) == [200] * 2 + [422] * 8
    assert len(read(paths.folder("m") / "checkpoint.ts").classes) == 41


def test_readers_see_one_version_or_the_next(tmp_path):
    """Weights of version k are all k: whoever looks finds them equal, while others are being written."""
    path, stop = tmp_path / "weights", threading.Event()
    model = Model.fresh("perceptron", Classes(-1, 1), n_features=50_000)
    publish(path, model, version=0)

    def write_on():
        version = 0
        while not stop.is_set():
            version += 1
            model.learner.outputs.one.memory.state[:] = version
            publish(path, model, version=version)

    writer = threading.Thread(target=write_on)
    writer.start()
    shared, seen = Shared(path, model), set()
    for look in range(200_000):
        if look >= 2000 and len(seen) > 3:
            break
        result, about = shared()
        state = result.learner.outputs.one.memory.state
        assert state.min() == state.max() == about["version"]
        seen.add(about["version"])
    stop.set()
    writer.join()
    assert len(seen) > 3


SCALES = [pytest.param({"scale": item, "normalize": "l2"}, marks=pytest.mark.slow) for item in ("max", "rms", "idf")]


@pytest.mark.parametrize("prepared", [{}, {"normalize": "l2"}, *SCALES])
def test_shared_weights_score_alike(tmp_path, prepared):
    """Bit for bit as the model that learns, also after it got wider."""
    model = Model.fresh("arow", Classes(-1, 1), grow=True, fit_intercept=True, **prepared)
    reader, shared = RowReader(model, Limits()), None
    for seed, width in ((1, 10), (2, 40)):
        rows, labels = random_rows(50, seed, width)
        batch = reader.rows(rows)
        model.learner.learn(batch.labelled(np.array(labels, np.int8)))
        publish(tmp_path / "w", model, version=seed)
        shared = shared or Shared(tmp_path / "w", model)
        result, about = shared()
        assert about == {"version": seed, "t": model.learner.t}
        np.testing.assert_array_equal(result.learner.scores(batch), model.learner.scores(batch))
        assert not np.shares_memory(result.learner.scores(batch), model.learner.scores(batch))


def test_models_come_into_the_folder(paths, tmp_path):
    """By the names of their files, or others; what is there goes on, another file under its name is refused."""
    model = Model.fresh("arow", Classes("ham", "spam"), n_features=3)
    one, two = tmp_path / "one.ts", tmp_path / "two.ts"
    write(one, model)
    model.learner.learn(Batch.of(np.arange(2), np.array([1]), np.ones(1), 3, y=np.array([1], np.int8)))
    write(two, model)
    assert register(paths, [one, f"other={two}"], ["fresh:fsol:a,b"]) == ["one", "other", "fresh"]
    assert register(paths, [one]) == ["one"]
    assert register(paths, []) == ["fresh", "one", "other"]
    with pytest.raises(ValueError, match="is not the file that 'one' in"):
        register(paths, [f"one={two}"])
    with pytest.raises(InvalidParameterError, match="two models have the name 'one'"):
        register(paths, [one, one])
    with pytest.raises(InvalidParameterError, match="a new model must be NAME:ALGORITHM"):
        register(paths, [], ["fresh"])
    with pytest.raises(InvalidParameterError, match="a model name must have 1 to 64 letters"):
        register(paths, [f"../up={two}"])
    with pytest.raises(InvalidParameterError, match="FGM needs all rows at once"):
        register(paths, [], ["bad:fgm"])
