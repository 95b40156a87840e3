"""Runs by features, from a stream to a model: mini-batches, segments, lines, files."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.distributed.by_features.test_slices import close
from tests.distributed.gang import Threads
from tests.distributed.sources import ROWS, WIDTH, Cut, Everything, X, Y, noisy, rows
from thinstream.batch import Batch
from thinstream.distributed.by_features.driver import learn_features
from thinstream.distributed.by_features.slice_files import clear, gather
from thinstream.distributed.by_features.worker import whole_mini_batches
from thinstream.distributed.cursor import Cursor, Place
from thinstream.distributed.fitting import learn
from thinstream.distributed.sources import FileSource
from thinstream.errors import InvalidInputError
from thinstream.evaluate.progress import Progress
from thinstream.learners import Classes, Learner
from thinstream.models.model import Model
from thinstream.one_vs_rest import OneVsRest
from thinstream.streams.opening import open_stream
from thinstream.training.run import Observer, Run


def model(name="fsol", **options):
    return Model(Learner(name, **{"n_features": WIDTH, "dtype": "float64", **options}), Classes("no", "yes"), {"a": 1})


def serial(given, passes=1):
    """The same run on one machine: the learner, and its metrics."""
    learner = pickle.loads(pickle.dumps(given.learner))
    progress = Progress(len(given.classes))
    for _ in range(passes):
        for batch in Cut().batches():
            progress.update(learner.learn(batch), batch.y)
    return learner, progress


# Mini-batches of a stream ---------------------------------------------------------------------------------------------


@given(
    cuts=st.lists(st.integers(0, ROWS), max_size=12),
    size=st.integers(1, 40),
    stop=st.integers(0, 8),
    positions=st.booleans(),
)
def test_mini_batches_do_not_depend_on_cuts(cuts, size, stop, positions):
    stream = Cut(tuple(cuts), positions=positions)
    found = list(whole_mini_batches(Cursor(stream, Place(), 1).take(ROWS), size))
    assert all(len(batch) % size == 0 for batch in found[:-1])
    whole = Batch.concatenate(found)
    np.testing.assert_array_equal(whole.values, rows(X, Y).values)
    np.testing.assert_array_equal(whole.indptr, rows(X, Y).indptr)
    np.testing.assert_array_equal(whole.y, Y)
    # on from any border of mini-batches, with the same bad records in all
    taken = min(stop * size, ROWS // size * size)
    before = Cursor(Cut(tuple(cuts), positions=positions), Place(), 2)
    assert sum(map(len, whole_mini_batches(before.take(taken, within_pass=True), size))) == taken
    again = Cursor(Cut(tuple(cuts), positions=positions), before.place, before.place.passes + 1)
    rest = list(whole_mini_batches(again.take(ROWS), size))
    assert sum(map(len, rest)) == (ROWS - taken or ROWS)  # of the next pass, if the first is over
    np.testing.assert_array_equal(Batch.concatenate(rest).y, Y[taken % ROWS :])
    assert again.most_skipped == 10


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
    workers=st.integers(1, 3),
    segment=st.integers(1, 150),
    passes=st.integers(1, 2),
    cuts=st.lists(st.integers(0, ROWS), max_size=5),
    folder=st.booleans(),
)
def test_a_run_is_the_serial_run(tmp_path_factory, workers, segment, passes, cuts, folder):
    given_model = model("stg", l1=0.05, fit_intercept=True)
    where = tmp_path_factory.mktemp("run") / "slices" if folder else None
    state = learn_features(
        Threads(workers), Everything(tuple(cuts)), given_model, passes=passes, checkpoint=where, segment=segment
    )
    learner, progress = serial(given_model, passes)
    close(state.model.learner, learner)
    assert state.progress.report().as_dict() == pytest.approx(progress.report().as_dict(), rel=1e-9)
    assert state.passes == passes
    assert state.model.feature_space == {"a": 1}
    assert given_model.learner.t == 0
    if where:
        assert len(list(where.iterdir())) == workers + 1  # only what counts is left
        close(gather(where).learner, learner)
        clear(where)
        assert not where.exists()


def test_mini_batches_are_of_64_rows_unless_told_otherwise():
    found = [
        learn(Threads(2), Everything(), model(l1=0.3), mode="features", batch=batch).model.learner.weights().tobytes()
        for batch in (None, 64, 1)
    ]
    assert found[0] == found[1] != found[2]


def test_a_source_of_another_feature_space_is_refused():
    other = replace(model(), feature_space={})
    for mode in ("examples", "features"):
        with pytest.raises(InvalidInputError, match="its features were read as column numbers, those of the source"):
            learn(Threads(2), Everything(), other, mode=mode)


def test_segments_and_cuts_change_no_bit(tmp_path):
    """Also with mini-batches: what is learned follows from the stream alone."""
    found = set()
    for number, (segment, cuts) in enumerate([(1000, ()), (7, (3, 50)), (33, tuple(range(0, ROWS, 9)))]):
        state = learn_features(
            Threads(2),
            Everything(cuts),
            model(l1=0.3),
            batch=4,
            passes=2,
            checkpoint=tmp_path / str(number),
            segment=segment,
        )
        memory = state.model.learner.memory
        arrays = state.progress.arrays()
        found.add(
            (*(array.tobytes() for array in memory), *(arrays[name].tobytes() for name in ("counts", "totals", "bins")))
        )
    assert len(found) == 1


def test_a_model_that_has_learned_goes_on():
    begun = model()
    begun.learner.learn(rows(X[:30], Y[:30]))
    state = learn_features(Threads(3), Everything(), begun)
    learner, _ = serial(begun)
    assert learner.t == ROWS + 30
    close(state.model.learner, learner)


@pytest.mark.interpreted
def test_many_classes():
    _, y = noisy(ROWS, WIDTH, classes=3)
    learner = OneVsRest.fresh("pa", [model().learner.costs] * 3, n_features=WIDTH, dtype="float64")
    state = learn_features(Threads(2), Everything(y=y), Model(learner, Classes(*"abc")))
    learner.learn(rows(X, y, kind=np.int32))
    assert state.model.learner.n_mistakes == learner.n_mistakes
    np.testing.assert_allclose(state.model.learner.weights(), learner.weights(), rtol=1e-9, atol=1e-9)
    assert state.progress.report().error == learner.n_mistakes / ROWS


def test_a_model_wider_than_the_driver_stays_in_its_folder(tmp_path):
    narrow = model(n_features=0)
    state = learn_features(Threads(2), Everything(), narrow, n_features=50, checkpoint=tmp_path, assemble=False)
    assert state.model.learner.n_features == 0
    assert state.progress.rows == ROWS
    learner = gather(tmp_path).learner
    assert learner.n_features == 50
    np.testing.assert_allclose(learner.weights()[:WIDTH], serial(model())[0].weights(), rtol=1e-9)


class Lines(Observer):
    def __init__(self):
        self.lines_, self.moves, self.steps = [], [], []

    def line(self, line):
        self.lines_.append(line)

    def moved(self, step):
        self.moves.append(step.position.offset + step.position.skip)
        self.steps.append(step)


def test_lines_are_told(tmp_path):
    watch = Lines()
    state = learn_features(Threads(2), Everything(), model(), checkpoint=tmp_path, segment=30, watch=watch)
    assert [line.total.rows for line in watch.lines_] == [64, ROWS]
    assert sum(line.since.rows for line in watch.lines_) == ROWS
    assert watch.moves == [30, 60, 90, 0]
    assert all(line.n_features == WIDTH for line in watch.lines_)
    assert watch.lines_[0].nnz == np.count_nonzero(X[:64].any(axis=0))
    assert watch.lines_[-1].nnz == state.model.learner.nnz > 0


# Files ----------------------------------------------------------------------------------------------------------------


def test_files_with_names_and_bad_lines(tmp_path):
    """Segments end anywhere in a file; names and bad records are those of the serial run."""
    rng = np.random.default_rng(0)
    for part in range(2):
        lines = []
        for _ in range(150):
            pairs = zip(rng.permutation(40)[:5], rng.normal(size=5), strict=True)
            lines.append(f"{rng.choice([-1, 1])} | " + " ".join(f"w{j}:{x:.3f}" for j, x in pairs))
        lines[20::50] = ["this | is:not : a line"] * len(lines[20::50])
        (tmp_path / f"part-{part}.vw").write_text("\n".join(lines) + "\n")
    options = {"bits": 8, "names": 30, "dtype": "float64", "on_error": "skip"}
    stream = open_stream(str(tmp_path / "*.vw"), **options)
    given_model = replace(model("fsol", n_features=256), feature_space=stream.feature_space)
    alone = Run(stream, pickle.loads(pickle.dumps(given_model)), passes=2)
    alone.run()
    watch = Lines()
    source = FileSource(str(tmp_path / "*.vw"), **options)
    state = learn_features(
        Threads(2), source, given_model, passes=2, checkpoint=tmp_path / "slices", segment=77, watch=watch
    )
    close(state.model.learner, alone.state.model.learner)
    assert state.model.learner.t == 2 * (300 - 6)
    assert sorted(state.names) == sorted(stream.names.arrays())
    for key, array in stream.names.arrays().items():
        np.testing.assert_array_equal(state.names[key], array)
    # 77, 154, 231 rows, then 14, 91, 168, 245 of the second pass: bad lines before each
    assert [each.skipped for each in watch.steps] == [2, 3, 5, 0, 2, 4, 5, 0]
