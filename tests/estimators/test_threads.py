"""Estimators that several threads use at once: one learns, others read."""

import copy
import os
import sys
import threading
import time

import numpy as np
import pytest
import scipy.sparse as sp

import thinstream as ts
from thinstream.files import SharedLock

ROWS, WIDTH, BATCH, READERS = 750, 120, 25, 3
RNG = np.random.default_rng(0)
X = sp.random(ROWS, WIDTH, 0.1, "csr", random_state=0, dtype=np.float32)
TWO = (X @ RNG.normal(size=WIDTH) > 0).astype(int)
FOUR = RNG.integers(0, 4, ROWS)
COMING = np.minimum(np.arange(ROWS) // 60, 10) * (RNG.random(ROWS) < 0.5)  # a new class every 60 rows

#: Estimators, their parameters, and their labels; with grow=True each batch is wider than the one before.
KINDS = {algorithm.name: (algorithm.name, {}, TWO) for algorithm in ts.algorithms("online")}
KINDS |= {name: (name, {"batch_size": 40}, TWO) for name in ("BCW", "SBCW")}
for each in ("AROW", "FTRLProximal", "Auto"):
    KINDS |= {
        f"{each} four classes": (each, {"grow": True}, FOUR),
        f"{each} classes to come": (each, {"grow_classes": True, "grow": True}, COMING),
        f"{each} budget": (each, {"max_features": 30, "grow": True}, TWO),
        f"{each} wider and wider": (each, {"grow": True}, TWO),
        f"{each} max": (each, {"scale": "max", "grow": True}, TWO),
        f"{each} rms": (each, {"scale": "rms", "normalize": "l2", "grow": True}, TWO),
        f"{each} idf": (each, {"scale": "idf", "normalize": "l2", "grow": True}, FOUR),
    }
    if each != "Auto":
        KINDS[f"{each} calibrated"] = (each, {"calibrate": True, "grow": True}, TWO)


@pytest.fixture(autouse=True)
def many_switches():
    """Threads alternate as often as possible."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def batches(parameters, y):
    for start in range(0, ROWS, BATCH):
        width = WIDTH * (start + BATCH) // ROWS if parameters.get("grow") else WIDTH
        yield X[start : start + BATCH, :width], y[start : start + BATCH]


def begun(kind):
    """The estimator after its first batch, and the other batches."""
    name, parameters, y = KINDS[kind]
    model, (first, *others) = getattr(ts, name)(**parameters), batches(parameters, y)
    return model.partial_fit(*first, classes=None if parameters.get("grow_classes") else np.unique(y)), others


def read(model):
    """Whether what a thread reads at one time fits together."""
    rows = X[:20] if getattr(model, "grow", False) else X[:20, : model.n_features_in_]
    scores, labels, coef = model.decision_function(rows), model.predict(rows), model.coef_
    assert all(np.isfinite(each).all() for each in (scores, coef, model.intercept_))
    assert len(scores) == len(labels) == 20
    assert model.t_ <= ROWS
    assert 0.0 <= model.density_ <= 1.0
    if hasattr(model, "predict_proba"):
        np.testing.assert_allclose(model.predict_proba(rows).sum(axis=1), 1.0)


def run_readers(model, errors, stop):
    while not stop.is_set():
        try:
            read(model)
        except Exception as error:
            errors.append(error)
            return


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # a model that leaves Auto
@pytest.mark.parametrize("kind", KINDS)
def test_threads_read_while_one_learns(kind, tmp_path):
    """Readers never fail, change nothing, and see the final weights when learning has ended."""
    (model, others), errors, stop = begun(kind), [], threading.Event()
    threads = [threading.Thread(target=run_readers, args=(model, errors, stop)) for _ in range(READERS)]
    for thread in threads:
        thread.start()
    try:
        for rows, labels in others:
            model.partial_fit(rows, labels)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert errors == []
    alone, _ = begun(kind)
    for rows, labels in others:
        alone.partial_fit(rows, labels)
    model.save(tmp_path / "model")
    alone.save(tmp_path / "alone")
    assert (tmp_path / "model").read_bytes() == (tmp_path / "alone").read_bytes()
    for other in (alone, ts.load(tmp_path / "model")):
        for name in ("coef_", "intercept_", "classes_"):
            assert np.array_equal(getattr(other, name), getattr(model, name))
        assert other.decision_function(X).tobytes() == model.decision_function(X).tobytes()


SOME = [f"{name} {kind}" for name in ("AROW", "Auto") for kind in ("wider and wider", "four classes", "rms", "budget")]


@pytest.mark.parametrize("kind", SOME)
def test_threads_predict_what_one_predicts(kind):
    model, _ = begun(kind)
    expected, found = copy.deepcopy(model).decision_function(X).tobytes(), []
    threads = [threading.Thread(target=lambda: found.append(model.decision_function(X).tobytes())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * 8


def test_predictions_do_not_wait_for_a_fit_from_scratch(tmp_path, monkeypatch):
    """Until it is done they are those of the model before."""
    (tmp_path / "rows.svm").write_text("1 1:1\n-1 2:1\n" * 5)
    stream, started, go_on = ts.open_stream(tmp_path / "rows.svm"), threading.Event(), threading.Event()
    original = type(stream).batches

    def slow(*arguments, **options):
        for batch in original(*arguments, **options):
            started.set()
            assert go_on.wait(60)
            yield batch

    monkeypatch.setattr(type(stream), "batches", slow)
    model = ts.AROW().fit(np.eye(4), [0, 1, 0, 1])
    before = model.decision_function(np.eye(4))
    thread = threading.Thread(target=model.fit_stream, args=(stream,))
    thread.start()
    assert started.wait(60)
    assert np.array_equal(model.decision_function(np.eye(4)), before)
    assert model.classes_.tolist() == [0, 1]
    go_on.set()
    thread.join()
    assert model.classes_.tolist() == [-1, 1]


def test_a_failed_fit_leaves_the_model_before():
    model = ts.AROW().fit(np.eye(4), [0, 1, 0, 1])
    before = dict(vars(model))
    with pytest.raises(ValueError, match="y"):
        model.fit(np.eye(3), [0, 1])
    assert vars(model) == before


def test_a_process_that_forks_while_threads_read_can_learn():
    if not hasattr(os, "fork"):
        pytest.skip("Windows does not fork")
    model, _ = begun("AROW")
    from thinstream.estimators.base import _locks_of

    with _locks_of(model).model.reading():
        thread = threading.Thread(target=_fork_and_learn, args=(model, codes := []))
        thread.start()
        thread.join()
    assert codes == [0]


def _fork_and_learn(model, codes):
    child = os.fork()
    if child == 0:
        model.partial_fit(X[:1], TWO[:1])
        os._exit(0)
    until = time.monotonic() + 30
    while time.monotonic() < until:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            codes.append(os.waitstatus_to_exitcode(status))
            return
        time.sleep(0.01)
    os.kill(child, 9)
    os.waitpid(child, 0)


def test_a_shared_lock_has_many_readers_or_one_writer():
    lock, held, errors = SharedLock(), {"readers": 0, "writers": 0}, []
    together = threading.Barrier(2)

    def use(kind, times):
        for _ in range(times):
            with lock.reading() if kind == "readers" else lock.writing():
                held[kind] += 1
                time.sleep(1e-4)
                if held["writers"] > 1 or (held["writers"] and held["readers"]):
                    errors.append(dict(held))
                held[kind] -= 1

    threads = [threading.Thread(target=use, args=(kind, 50)) for kind in ("readers", "writers") for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []

    def meet():
        with lock.reading():
            together.wait(30)  # both are inside

    threads = [threading.Thread(target=meet) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not together.broken


@pytest.mark.parametrize("endless", ["reading", "writing"])
def test_neither_readers_nor_writers_of_a_shared_lock_starve(endless):
    lock, stop, turns = SharedLock(), threading.Event(), []

    def forever():
        while not stop.is_set():
            with getattr(lock, endless)():
                time.sleep(1e-4)

    def sometimes():
        for _ in range(20):
            with lock.writing() if endless == "reading" else lock.reading():
                turns.append(1)

    busy = [threading.Thread(target=forever) for _ in range(2)]
    other = threading.Thread(target=sometimes)
    for thread in (*busy, other):
        thread.start()
    other.join(30)
    stop.set()
    for thread in (*busy, other):
        thread.join()
    assert len(turns) == 20
    assert not other.is_alive()


def test_a_thread_may_hold_a_shared_lock_twice():
    lock = SharedLock()
    with lock.writing(), lock.writing(), lock.reading():
        pass
    with lock.reading():
        waiting = threading.Thread(target=lambda: lock.writing().__enter__())
        waiting.start()
        while not lock._waiting_writers:
            time.sleep(1e-3)
        with lock.reading():  # does not wait for the writer, which waits for this thread
            pass
    waiting.join(30)
    assert not waiting.is_alive()
