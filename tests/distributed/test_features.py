"""Runs by features on ranks that are threads. They are the serial run, with its lines, checkpoints and bad records."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.distributed.gang import Seat, Table, run
from tests.distributed.sources import ROWS, WIDTH, Cut, X, Y, noisy, rows
from tests.distributed.test_slices import close
from thinstream.batch import Batch
from thinstream.data.labels import Classes
from thinstream.data.opening import open_stream
from thinstream.distributed import mpi as by_features
from thinstream.distributed.mpi import FeatureRun, read_slice, sliced, write_slice
from thinstream.engine.loop import Costs
from thinstream.errors import InvalidInputError, InvalidParameterError
from thinstream.lanes.learner import Learner
from thinstream.models.file import read
from thinstream.models.model import Model, make_outputs
from thinstream.training.checkpoint import Checkpoints
from thinstream.training.metrics import Progress
from thinstream.training.observer import Observer
from thinstream.training.run import Interrupted, Run


def model(name="fsol", **options):
    return Model(Learner(name, **{"n_features": WIDTH, "dtype": "float64", **options}), Classes("no", "yes"))


def serial(given, passes=1):
    """The same run in one process: the learner, and its metrics."""
    learner = pickle.loads(pickle.dumps(given.learner))
    progress = Progress(len(given.classes))
    for _ in range(passes):
        for batch in Cut().batches():
            progress.update(learner.learn(batch), batch.y)
    return learner, progress


class Stopped(FeatureRun):
    """A run whose last rank gets a signal after so many rows."""

    stop = None

    def _learn(self, batch, asked):
        super()._learn(batch, asked)
        if self.ranks.rank == self.ranks.size - 1 and self.stop is not None and self.state.progress.rows >= self.stop:
            self._asked.number = 15


def trained(size, path, given, streams=Cut, *, mini_batch=1, every=None, resume=False, stop=None, **options):
    """The runs of all ranks after they have written the model, or after a signal."""

    def work(seat):
        read_part = lambda path: read_slice(path, seat, mini_batch)  # noqa: E731
        checkpoints = Checkpoints(path.with_suffix(".checkpoint"), every, None, read_part, write_slice)
        own = {"watch": Lines()} | options
        one = Stopped(streams(), sliced(given, seat, mini_batch), checkpoints=checkpoints, **own)
        one.stop = stop
        assert not resume or one.resume()
        one.prepare()
        try:
            one.run()
            one.write_model(path, one.result())
            one.clear()
        except Interrupted:
            assert stop is not None
        return one

    return run(size, work)


class Lines(Observer):
    def __init__(self):
        self.lines_, self.steps = [], []

    def line(self, line):
        self.lines_.append(line)

    def moved(self, step):
        self.steps.append(step)


# Mini-batches of a stream ---------------------------------------------------------------------------------------------


@given(
    cuts=st.lists(st.integers(0, ROWS), max_size=12),
    size=st.integers(1, 40),
    taken=st.integers(0, 8),
    positions=st.booleans(),
)
def test_mini_batches_do_not_depend_on_cuts(cuts, size, taken, positions):
    def batches(place=None):
        one = FeatureRun(Cut(tuple(cuts), positions=positions), sliced(model(), Seat(Table(1), 0), size))
        one._asked = one._agreed = type("Nobody", (), {"number": None})()
        if place is not None:
            one.state = one.state._replace(**place)
        for batch in one._batches():
            position = batch.position or one.state.position._replace(skip=one.state.position.skip + len(batch))
            one.state = one.state._replace(position=position, skipped=one._skipped_now())
            yield batch, {"position": position, "skipped": one.state.skipped}
        assert one._skipped_now() == 10

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(by_features, "ROWS", 1)
        result = list(batches())
        assert all(len(batch) == size for batch, _ in result[:-1])
        whole = Batch.concatenate([batch for batch, _ in result])
        np.testing.assert_array_equal(whole.values, rows(X, Y).values)
        np.testing.assert_array_equal(whole.indptr, rows(X, Y).indptr)
        np.testing.assert_array_equal(whole.y, Y)
        taken = min(taken, len(result) - 1)  # resumed at any border of mini-batches, with the same bad records
        rest = [batch for batch, _ in batches(result[taken - 1][1] if taken else None)]
        assert [batch.values.tobytes() for batch in rest] == [batch.values.tobytes() for batch, _ in result[taken:]]


def test_joined_batches_keep_weights_and_width():
    one, other = rows(X[:2, :5], Y[:2]), rows(X[2:5], Y[2:5], np.array([0.5, 0.0, 2.0]))
    both = Batch.concatenate([one, other])
    assert both.n_features == WIDTH
    assert both.weights.tolist() == [1.0, 1.0, 0.5, 0.0, 2.0]
    assert both.largest == max(one.largest, other.largest)
    assert both.y.dtype == np.int8


# Runs -----------------------------------------------------------------------------------------------------------------


@pytest.mark.interpreted
@settings(max_examples=6)
@given(
    size=st.integers(1, 3),
    every=st.none() | st.integers(1, 150),
    passes=st.integers(1, 2),
    cuts=st.lists(st.integers(0, ROWS), max_size=5),
)
def test_a_run_is_the_serial_run(tmp_path_factory, size, every, passes, cuts):
    given_model, path = model("stg", l1=0.05, fit_intercept=True), tmp_path_factory.mktemp("run") / "m.ts"
    first, *_ = trained(size, path, given_model, lambda: Cut(tuple(cuts)), every=every, passes=passes)
    learner, progress = serial(given_model, passes)
    close(read(path).learner, learner)
    assert first.state.progress.report().as_dict() == pytest.approx(progress.report().as_dict(), rel=1e-9)
    assert given_model.learner.t == 0
    assert list(path.parent.iterdir()) == [path]


def test_checkpoints_and_cuts_change_no_bit(tmp_path):
    """Also with mini-batches, and with a stop that is resumed by another number of ranks: the stream decides."""
    result = set()
    for number, (every, cuts) in enumerate([(None, ()), (7, (3, 50)), (33, tuple(range(0, ROWS, 9)))]):
        path = tmp_path / f"{number}.ts"
        trained(2, path, model(l1=0.3), lambda cuts=cuts: Cut(cuts), mini_batch=4, every=every, passes=2)
        result.add(path.read_bytes())
    assert len(result) == 1


@pytest.mark.parametrize("stop", [1, 64, 130])
@pytest.mark.parametrize("sizes", [(2, 2), (1, 1), (3, 2), (1, 4)])
def test_a_run_that_was_stopped_is_resumed(tmp_path, monkeypatch, stop, sizes):
    monkeypatch.setattr(by_features, "ROWS", 10)
    one, other = tmp_path / "one.ts", tmp_path / "other.ts"
    whole, *_ = trained(sizes[1], one, model(l1=0.3), mini_batch=5, passes=2)
    stopped = trained(sizes[0], other, model(l1=0.3), mini_batch=5, passes=2, stop=stop)
    assert len({item.state.progress.rows for item in stopped}) == 1
    assert stopped[0].state.progress.rows < 2 * ROWS
    resumed, *_ = trained(sizes[1], other, model(l1=0.3), mini_batch=5, passes=2, resume=True)
    close(read(other).learner, read(one).learner)
    assert resumed.state.progress.rows == whole.state.progress.rows == 2 * ROWS
    if sizes[0] == sizes[1]:
        assert one.read_bytes() == other.read_bytes()


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"mini_batch": 2}, "the source differs in mini_batch: it was 5 and is now 2"),
        ({"passes": 3}, "the source differs in passes: it was 2 and is now 3"),
        ({"given": model(eta=0.5)}, r"the model differs in eta: it was 1\.0 and is now 0\.5"),
    ],
)
def test_another_run_is_not_resumed(tmp_path, changed, message):
    options = {"given": model(), "mini_batch": 5, "passes": 2}
    trained(2, tmp_path / "m.ts", **options, stop=1)
    with pytest.raises(InvalidInputError, match=message):
        trained(2, tmp_path / "m.ts", **{**options, **changed}, resume=True)


@pytest.mark.interpreted
def test_many_classes(tmp_path):
    _, y = noisy(ROWS, WIDTH, classes=3)
    learner = make_outputs("pa", [Costs()] * 3, n_features=WIDTH, dtype="float64")
    first, *_ = trained(2, tmp_path / "m.ts", Model(learner, Classes(*"abc")), lambda: Cut((13, 60), y=y))
    learner.learn(rows(X, y, kind=np.int32))
    result = read(tmp_path / "m.ts").learner
    assert result.n_mistakes == learner.n_mistakes
    np.testing.assert_allclose(result.weights(), learner.weights(), rtol=1e-9, atol=1e-9)
    assert first.state.progress.report().error == learner.n_mistakes / ROWS


def test_lines_count_the_weights_of_all_ranks(tmp_path):
    first, second = trained(2, tmp_path / "m.ts", model())
    for watch in (first.watch, second.watch):
        assert [line.total.rows for line in watch.lines_] == [64, ROWS]
        assert all(line.n_features == WIDTH for line in watch.lines_)
        assert watch.lines_[0].nnz == np.count_nonzero(X[:64].any(axis=0))
        assert watch.lines_[-1].nnz == read(tmp_path / "m.ts").learner.nnz > 0


# Errors ---------------------------------------------------------------------------------------------------------------


class Odd(Cut):
    """A stream that differs in one value, or ends early."""

    change = "value"

    def batches(self, *start):
        for batch in super().batches(*start):
            values = batch.values.copy()
            values[-1] += 1.0
            yield replace(batch, values=values) if self.change == "value" else batch.until(90)


@pytest.mark.parametrize(("change", "rows"), [("value", ROWS), ("length", 90)])
def test_ranks_that_read_different_data(tmp_path, monkeypatch, change, rows):
    monkeypatch.setattr(Odd, "change", change)
    streams = iter([Cut, Odd])
    message = rf"ranks read different data after row 0: rank 0 read (100|{rows}) rows .* Give all ranks the same files"
    with pytest.raises(InvalidInputError, match=message):
        trained(2, tmp_path / "m.ts", model(), lambda: next(streams)())


def test_more_ranks_than_features(tmp_path):
    with pytest.raises(InvalidParameterError, match="21 ranks for 20 features: start at most one rank per feature"):
        trained(21, tmp_path / "m.ts", model())
    narrow = model(n_features=0, grow=True)
    with pytest.raises(InvalidParameterError, match="21 ranks for 20 features"):
        trained(21, tmp_path / "m.ts", narrow)


# Files ----------------------------------------------------------------------------------------------------------------


def test_files_with_names_and_bad_lines(tmp_path):
    """Names and bad records are those of the serial run."""
    rng = np.random.default_rng(0)
    for part in range(2):
        lines = []
        for _ in range(150):
            pairs = zip(rng.permutation(40)[:5], rng.normal(size=5), strict=True)
            lines.append(f"{rng.choice([-1, 1])} | " + " ".join(f"w{j}:{x:.3f}" for j, x in pairs))
        lines[20::50] = ["this | is:not : a line"] * len(lines[20::50])
        (tmp_path / f"part-{part}.vw").write_text("\n".join(lines) + "\n")

    def streams():
        return open_stream(str(tmp_path / "*.vw"), bits=8, names=30, dtype="float64", on_error="skip")

    stream = streams()
    given_model = replace(model("fsol", n_features=256), feature_space=stream.feature_space)
    alone = Run(stream, pickle.loads(pickle.dumps(given_model)), passes=2)
    alone.run()
    first, *_ = trained(2, tmp_path / "m.ts", given_model, streams, mini_batch=1, every=77, passes=2)
    result, expected = read(tmp_path / "m.ts"), alone.result()
    close(result.learner, expected.learner)
    assert result.learner.t == 2 * (300 - 6)
    assert result.names.texts == expected.names.texts
    assert result.n_weights_met == expected.n_weights_met
    assert first.skipped == alone.skipped == 6
