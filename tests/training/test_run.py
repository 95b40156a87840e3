"""Runs: metrics, lines at doublings, checkpoints, and going on after a stop with the same bits."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import thinstream as ts
from tests.models.test_models import reforged
from thinstream.data import sources
from thinstream.data.labels import Classes
from thinstream.data.opening import open_stream
from thinstream.errors import InvalidInputError, ModelFileError
from thinstream.lanes.learner import Learner
from thinstream.models.file import write
from thinstream.models.model import Model
from thinstream.training.checkpoint import Checkpoints
from thinstream.training.observer import Observer
from thinstream.training.run import Run

ROWS = 300


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def data(folder):
    rng = np.random.default_rng(0)
    lines = []
    for _ in range(ROWS):
        features = sorted(rng.choice(40, size=rng.integers(0, 8), replace=False) + 1)
        text = " ".join(f"{j}:{rng.normal():.4f}" for j in features)
        lines.append(f"{rng.choice([-1, 1])} {text}\n")
    first, second = folder / "a.svm", folder / "b.svm"
    first.write_text("# the first part\n" + "".join(lines[: ROWS // 2]))
    second.write_text("".join(lines[ROWS // 2 :]).rstrip("\n"))
    return [str(first), str(second)]


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    monkeypatch.setattr(sources, "PIECE", 700)


def model(algorithm="adarda", **parameters):
    return Model(Learner(algorithm, n_features=0, grow=True, l1=0.01, **parameters), Classes(-1, 1))


def saved(run, path):
    report = run.state.progress.report().as_dict()
    write(path, Model(run.state.model.learner, run.state.model.classes, extra={"progressive": report}))
    return path.read_bytes()


class Crash(Exception):
    pass


class Counting:
    """A stream that counts the rows it hands out, and breaks off after some."""

    def __init__(self, stream, crash_after=None):
        self._stream, self._crash_after, self.rows = stream, crash_after, 0

    def __getattr__(self, name):
        return getattr(self._stream, name)

    def batches(self, start):
        for batch in self._stream.batches(start):
            self.rows += len(batch)
            if self._crash_after is not None and self.rows > self._crash_after:
                raise Crash
            yield batch


def uninterrupted(data, folder, passes=1):
    run = Run(open_stream(data), model(), passes=passes)
    run.run()
    return saved(run, folder / "whole.ts")


@settings(deadline=None, max_examples=25)
@given(crash=st.integers(0, ROWS), every=st.integers(15, 90), piece=st.integers(20, 2000), passes=st.integers(1, 2))
def test_resumed_runs_end_with_the_same_bytes(data, folder, crash, every, piece, passes):
    whole = uninterrupted(data, folder, passes)
    path = folder / "run.checkpoint"
    path.unlink(missing_ok=True)
    patch = pytest.MonkeyPatch()
    patch.setattr(sources, "PIECE", piece)
    try:
        run = Run(Counting(open_stream(data), crash), model(), passes=passes, checkpoints=Checkpoints(path, every))
        taken = 0
        try:
            run.run()
        except Crash:
            taken = run.state.progress.rows
            again = Counting(open_stream(data))
            run = Run(again, model(), passes=passes, checkpoints=Checkpoints(path, every))
            if run.resume():
                learned = run.state.progress.rows
                assert taken - learned < every
            run.run()
        assert saved(run, folder / "resumed.ts") == whole
    finally:
        patch.undo()


def test_checkpoints_stand_at_every_nth_example(data, folder):
    path = folder / "nth.checkpoint"
    seen = []

    class Remembering(Checkpoints):
        def write(self, state, source):
            seen.append(state.progress.rows)
            super().write(state, source)

    Run(open_stream(data), model(), checkpoints=Remembering(path, every=70)).run()
    assert seen == [70, 140, 210, 280]


def test_lines_come_at_doublings_and_the_end(data):
    lines = []

    class Keeping(Observer):
        def line(self, line):
            lines.append(line)

    run = Run(open_stream(data), model(), watch=Keeping())
    run.run()
    assert [line.total.rows for line in lines] == [64, 128, 256, 300]
    assert [line.since.rows for line in lines] == [64, 64, 128, 44]
    assert lines[-1].nnz == run.state.model.learner.nnz > 0


def test_metrics_are_those_of_the_scores_before_each_update(data):
    run = Run(open_stream(data), model())
    run.run()
    learner = run.state.model.learner
    report = run.state.progress.report()
    assert report.rows == learner.t == ROWS
    assert report.error * ROWS == pytest.approx(learner.n_mistakes)
    assert report.positives == learner.outputs.one.n_positives


def test_a_checkpoint_of_another_source_or_model_is_refused(data, folder):
    path = folder / "other.checkpoint"
    Run(open_stream(data), model(), checkpoints=Checkpoints(path, 100)).run()
    with pytest.raises(InvalidInputError, match=r"cannot be resumed, because the source differs in files"):
        Run(open_stream(data[:1]), model(), checkpoints=Checkpoints(path)).resume()
    with pytest.raises(InvalidInputError, match=r"the model differs in eta: it was 1.0 and is now 0.5"):
        Run(open_stream(data), model(eta=0.5), checkpoints=Checkpoints(path)).resume()
    with pytest.raises(InvalidInputError, match=r"the source differs in passes: it was 1 and is now 2"):
        Run(open_stream(data), model(), passes=2, checkpoints=Checkpoints(path)).resume()
    write(path, model())
    with pytest.raises(ModelFileError, match="not a checkpoint"):
        Run(open_stream(data), model(), checkpoints=Checkpoints(path)).resume()


def test_a_checkpoint_of_an_unknown_version_is_refused(data, tmp_path):
    path = tmp_path / "run.checkpoint"
    Run(open_stream(data), model(), checkpoints=Checkpoints(path, 100)).run()
    reforged(path, format=2, library="9.0")
    message = r"run\.checkpoint: has format version 2, but .* supports only version 1\. Use the .* \(9\.0\), or train"
    with pytest.raises(ModelFileError, match=message):
        Run(open_stream(data), model(), checkpoints=Checkpoints(path)).resume()


def test_rows_without_labels_cannot_be_learned(folder):
    path = folder / "unlabelled.vw"
    path.write_text("|f a b\n|f c\n")
    with pytest.raises(InvalidInputError, match="need labels, but row 0 has none"):
        Run(open_stream(path), replace(model(), feature_space=open_stream(path).feature_space)).run()
    with pytest.raises(InvalidInputError, match="Read the rows with the same options"):
        Run(open_stream(path), model())


def test_estimators_and_streams(data, folder):
    """Streams tell their classes; models go on from streams and predict them."""
    stream = open_stream(data, classes=(-1, 1))
    whole = ts.AdaRDA(l1=0.01).fit_stream(stream)
    halves = ts.AdaRDA(l1=0.01).partial_fit_stream(open_stream(data[:1])).partial_fit_stream(open_stream(data[1:]))
    assert np.array_equal(whole.coef_, halves.coef_)
    whole.save(folder / "whole.est")
    loaded = ts.load(folder / "whole.est")
    predictions = np.concatenate(list(loaded.predict_stream(stream)))
    assert predictions.shape == (ROWS,)
    assert set(predictions.tolist()) <= {-1, 1}
    path = folder / "named.jsonl"
    path.write_text('{"label": "ham", "a": 1}\n{"label": "spam", "a": -1}\n' * 5)
    named = ts.FSOL().fit_stream(open_stream(path, classes=("ham", "spam")))
    assert named.classes_.tolist() == ["ham", "spam"]
    assert np.concatenate(list(named.predict_stream(open_stream(path, classes=("ham", "spam"))))).tolist()[-1] == "spam"
    (folder / "empty.svm").write_text("")
    with pytest.raises(InvalidInputError, match="the stream has no rows"):
        ts.FSOL().fit_stream(open_stream(folder / "empty.svm"))
