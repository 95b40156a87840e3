"""Learning by examples: one worker is the serial run, faults and resumed runs change no bit."""

import os
import signal
from dataclasses import dataclass, replace

import numpy as np
import pytest

import thinstream as ts
from thinstream.data.labels import Classes
from thinstream.data.opening import open_stream
from thinstream.distributed import LocalLauncher, train
from thinstream.distributed.engines.local import Shared
from thinstream.distributed.rounds import Idle, Round, _kept, learn_examples, rows_of_round
from thinstream.distributed.sources import Cursor, FileSource, ShardPosition
from thinstream.errors import InvalidInputError, InvalidParameterError, MergeError
from thinstream.lanes.learner import Learner
from thinstream.models.file import write
from thinstream.models.model import Model
from thinstream.training.checkpoint import Checkpoints
from thinstream.training.observer import Observer
from thinstream.training.run import Interrupted, Run


class InProcess:
    """Workers that are not even processes: each round's tasks one after the other; some may lose their memory."""

    worthwhile = 4  # rows, as tests have few

    def __init__(self, workers, forgets=(), remembers=True):
        self.workers, self.remembers, self.forgets, self.round = workers, remembers, set(forgets), 0
        self.shared = 0

    def share(self, value):
        self.shared += 1
        return lambda: value

    def run_tasks(self, tasks):
        answers = []
        for worker, task in enumerate(tasks):
            if (self.round, worker) in self.forgets:
                _kept.pop(worker, None)
            answers.append(task())
        self.round += 1
        return answers

    def close(self):
        pass


@pytest.fixture
def data(tmp_path):
    rng = np.random.default_rng(5)
    w = rng.normal(size=40)
    for part in range(3):
        with open(tmp_path / f"part-{part}.svm", "w") as file:
            for _ in range(120):
                features = np.sort(rng.choice(40, 6, replace=False))
                values = rng.uniform(0.1, 1, 6)
                label = 1 if w[features] @ values > 0 else -1
                file.write(f"{label} " + " ".join(f"{j + 1}:{x:.3f}" for j, x in zip(features, values)) + "\n")
    return str(tmp_path / "part-*.svm")


def fresh(algorithm="fsol", **more):
    return Model(Learner(algorithm, n_features=0, grow=True, **more), Classes(-1, 1))


def state_of(data, workers=3, launcher=None, model=None, **more):
    return learn_examples(launcher or InProcess(workers), FileSource(data), model or fresh(), **more)


def same(one, other):
    arrays = [
        [*state.model.learner.outputs.one.memory[2:4], state.model.learner.weights(), *state.progress.arrays().values()]
        for state in (one, other)
    ]
    return all(a.tobytes() == b.tobytes() for a, b in zip(*arrays))


@pytest.mark.parametrize("passes", [1, 2])
@pytest.mark.parametrize("merge_every", [None, 7])
def test_one_worker_is_the_serial_run(data, tmp_path, passes, merge_every):
    serial = Run(open_stream(data), fresh(), passes=passes)
    serial.run()
    state = state_of(data, 1, passes=passes, merge_every=merge_every)
    write(tmp_path / "a", serial.state.model)
    write(tmp_path / "b", state.model)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert serial.state.progress.report() == state.progress.report()


def test_several_workers_learn_every_row_once(data):
    state = state_of(data)
    assert state.model.learner.t == state.progress.rows == 360
    assert state.progress.report().error < 0.35
    assert same(state, state_of(data)), "the same bits each time"


def test_results_do_not_depend_on_the_memory_of_workers(data):
    state = state_of(data)
    forgetful = InProcess(3, forgets=[(2, 1), (4, 0), (4, 2), (6, 1)])
    assert same(state, state_of(data, launcher=forgetful))
    assert same(state, state_of(data, launcher=InProcess(3, remembers=False)))


def test_workers_are_sent_changes_only(data):
    sizes = []

    class Measuring(InProcess):
        def share(self, value):
            sizes.append(type(value).__name__)
            return super().share(value)

    state_of(data, launcher=Measuring(2))
    assert sizes.count("Pipeline") == 2  # for the one that begins alone, and for all
    assert sizes.count("Delta") > 5


@pytest.mark.parametrize("worthwhile", [4, 1 << 12])
def test_one_worker_begins_alone_then_rounds_grow(data, worthwhile):
    """By what `Launcher.worthwhile` says; of few rows the first learns all it has, and the others go on from that."""
    rounds = []

    class Noting(InProcess):
        def run_tasks(self, tasks):
            answers = super().run_tasks(tasks)
            rounds.append([0 if answer is None else answer.rows for answer in answers])
            return answers

    launcher = Noting(2)
    launcher.worthwhile = worthwhile
    assert state_of(data, launcher=launcher).progress.rows == 360
    shares = [181, 179]  # cut by bytes
    assert rounds[0] == [min(2 * worthwhile, shares[0]), 0]
    taken = sum(rounds[0]) // 2
    for item in rounds[1:-1]:
        assert max(item) == rows_of_round(taken, 2, worthwhile) == max(16, int(0.22 * taken))
        taken += max(item)
    assert np.sum(rounds, axis=0).tolist() == shares


def test_merging_every_so_often_begins_with_all(data):
    launcher, seen = InProcess(2), []
    run_tasks = launcher.run_tasks
    launcher.run_tasks = lambda tasks: seen.append(tasks) or run_tasks(tasks)
    state_of(data, launcher=launcher, merge_every=7)
    assert not any(isinstance(task, Idle) for task in seen[0])
    going_on = state_of(data, launcher=launcher).model
    seen.clear()
    state_of(data, launcher=launcher, model=going_on)
    assert not any(isinstance(task, Idle) for task in seen[0])  # who knows something needs no start


def test_all_workers_have_the_same_model_after_every_merge(data):
    merges = []

    class Comparing(InProcess):
        def run_tasks(self, tasks):

            answers = super().run_tasks(tasks)
            if not any(isinstance(task, Idle) for task in tasks):
                bases = [_kept[worker].base for worker in range(self.workers)]
                merges.append(
                    {
                        (base.outputs.one.memory.state.tobytes(), base.outputs.one.memory.counts.tobytes())
                        for base in bases
                    }
                )
            return answers

    state_of(data, launcher=Comparing(3), model=fresh("ssol", diagonal="exact"))
    assert len(merges) > 4
    assert all(len(bases) == 1 for bases in merges)


class Stops(Observer):
    """Asks the run to stop after some merges."""

    lines = False

    def __init__(self, merges):
        self.left = merges

    def moved(self, step):
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGTERM)


@pytest.mark.parametrize("merges", [1, 4])
def test_a_resumed_run_ends_with_the_same_bits(data, tmp_path, merges):
    whole = state_of(data, passes=2)
    checkpoints = Checkpoints(tmp_path / "checkpoint")
    with pytest.raises(Interrupted):
        state_of(data, passes=2, checkpoints=checkpoints, watch=Stops(merges))
    assert checkpoints.path.exists()
    again = state_of(data, passes=2, checkpoints=checkpoints, resume=True)
    assert same(whole, again)


def test_a_checkpoint_is_of_one_run(data, tmp_path):
    checkpoints = Checkpoints(tmp_path / "checkpoint", every=1)
    state_of(data, checkpoints=checkpoints)
    for other in ({"workers": 2}, {"merge_every": 5}, {"merge": "sum"}, {"passes": 3}, {"model": fresh(eta=0.5)}):
        with pytest.raises(InvalidInputError, match=r"cannot be resumed, because .* was .* and is now "):
            state_of(data, checkpoints=checkpoints, resume=True, **other)
    state_of(data, checkpoints=checkpoints, resume=True)  # one that was over is over


def test_lines_double(data):
    seen = []

    class Lines(Observer):
        def line(self, line):
            seen.append((line.total.rows, line.since.rows))

    state_of(data, watch=Lines())
    totals = [total for total, _ in seen]
    assert totals[-1] == 360
    assert sum(since for _, since in seen) == 360
    assert len({total.bit_length() for total in totals}) >= len(totals) - 1


def test_refusals(data):
    with pytest.raises(MergeError, match="StableSparsePerceptron cannot be merged"):
        state_of(data, model=fresh("stablesparseperceptron"))
    with pytest.raises(InvalidParameterError, match="merge_every must be a whole number > 0"):
        state_of(data, merge_every=0)
    with pytest.raises(InvalidParameterError, match="FSOL: merge must be"):
        state_of(data, merge="median")
    with pytest.raises(InvalidParameterError, match="engine must be 'ray', 'spark' or 'local'"):
        train(data, ts.FSOL(), engine="dask")
    with pytest.raises(InvalidParameterError, match="shuffle must be False"):
        train(data, ts.FSOL(shuffle=True), engine="local")
    with pytest.raises(InvalidParameterError, match="estimator must be an online learner"):
        train(data, object(), engine="local")


def test_a_source_without_rows(tmp_path):
    (tmp_path / "empty.svm").write_text("")
    with pytest.raises(InvalidInputError, match="the source has no example"):
        state_of(tmp_path / "empty.svm")


def test_errors_in_the_data_stop_the_run(data, tmp_path):
    (tmp_path / "part-9.svm").write_text("+1 x:1\n")
    with pytest.raises(InvalidInputError, match=r"part-9.svm, line 1, column 4"):
        state_of(data)
    state = learn_examples(InProcess(2), FileSource(data, on_error="skip"), fresh())
    assert state.skipped == 1
    assert state.model.learner.t == 360


def test_cursors_go_on_anywhere(data):
    def rows(cursor, n):
        return [
            tuple(batch.indices[batch.indptr[i] : batch.indptr[i + 1]])
            for batch in cursor.take(n)
            for i in range(len(batch))
        ]

    whole = Cursor(open_stream(data), ShardPosition(), 2)
    expected = rows(whole, 10**9)
    assert len(expected) == 720
    assert whole.over
    reached, result = ShardPosition(), []
    for n in (1, 100, 19, 250, 0, 5, 400):
        cursor = Cursor(open_stream(data), reached, 2)
        result += rows(cursor, n)
        reached = cursor.reached
    assert result == expected
    assert cursor.over


def test_more_than_two_classes_and_weights(tmp_path):
    path = tmp_path / "three.csv"
    rng = np.random.default_rng(2)
    lines = [
        f"{'abc'[k]},{rng.normal(k):.3f},{rng.normal(-k):.3f},{rng.integers(0, 3)}" for k in rng.integers(0, 3, 90)
    ]
    path.write_text("label,x,y,importance\n" + "\n".join(lines) + "\n")
    options = {"classes": ("a", "b", "c"), "weight": "importance"}
    serial = ts.AROW(fit_intercept=True).fit_stream(open_stream(path, **options))
    one = train(path, ts.AROW(fit_intercept=True), engine=InProcess(1), **options)
    assert one.coef_.tobytes() == serial.coef_.tobytes()
    assert one.n_mistakes_ == serial.n_mistakes_
    assert one.classes_.tolist() == ["a", "b", "c"]
    two = train(path, ts.AROW(fit_intercept=True), engine=InProcess(2), **options)
    assert two.t_ == serial.t_
    assert two.progressive_.rows == serial.t_


@dataclass(frozen=True)
class Kills:
    """A round that kills its process in the middle, once."""

    task: Round
    mark: str

    def __call__(self):
        if not os.path.exists(self.mark):
            with open(self.mark, "w"):
                pass
            os.kill(os.getpid(), signal.SIGKILL)
        return self.task()


class Deadly(LocalLauncher):
    """Kills worker 1 in its third round."""

    mark, count, worthwhile = "", 0, InProcess.worthwhile

    def run_tasks(self, tasks):
        self.count += 1
        if self.count == 3:
            tasks = [tasks[0], Kills(tasks[1], self.mark)]
        return super().run_tasks(tasks)


def test_a_killed_worker_changes_no_bit(data, tmp_path):
    launcher = Deadly(2)
    launcher.mark = str(tmp_path / "mark")
    try:
        state = state_of(data, launcher=launcher)
    finally:
        launcher.close()
    assert os.path.exists(launcher.mark)
    assert same(state, state_of(data, 2))


def test_pipelines(data):
    from sklearn.datasets import make_classification
    from sklearn.model_selection import GridSearchCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    from thinstream.estimators.distributed import DistributedClassifier

    X, y = make_classification(300, 10, random_state=0)
    names = np.array(["ham", "spam"])[y]
    pipe = make_pipeline(StandardScaler(), DistributedClassifier(ts.AROW(), engine=InProcess(1))).fit(X, names)
    serial = make_pipeline(StandardScaler(), ts.AROW()).fit(X, names)
    assert pipe[-1].coef_.tobytes() == serial[-1].coef_.tobytes()
    assert pipe.predict(X).tolist() == serial.predict(X).tolist()
    assert pipe[-1].progressive_.rows == 300
    two = DistributedClassifier(ts.AROW(), engine=InProcess(2))
    assert two.fit(X, names).score(X, names) > 0.75
    assert not hasattr(two, "predict_proba")
    search = GridSearchCV(DistributedClassifier(ts.FSOL(), engine=InProcess(2)), {"estimator__l1": [0.0, 1.0]}, cv=2)
    assert search.fit(X, names).best_score_ > 0.6


def test_tasks_travel():
    import pickle

    task = Round("job", 0, Shared("k"), ShardPosition(), 5, 1, 0, 2, None)
    assert pickle.loads(pickle.dumps(replace(task, rows=6))).rows == 6
    assert Idle()() is None
