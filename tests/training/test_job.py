"""A job decides how a model is trained: its source, its model, its files."""

import signal
from dataclasses import replace

import numpy as np
import pytest

import thinstream as ts
from thinstream.data.labels import Classes, GrowingClasses
from thinstream.data.options import Options
from thinstream.errors import InvalidInputError, InvalidParameterError, WeightsOnlyError
from thinstream.models.file import read, write
from thinstream.training.job import FileSource, Job, ModelSpec, OpenSource, OutputFiles
from thinstream.training.observer import Observer
from thinstream.training.run import Interrupted

ROWS = 300


@pytest.fixture
def rows(tmp_path):
    """A file of rows in which feature 1 tells the class."""
    rng = np.random.default_rng(0)
    path = tmp_path / "rows.svm"
    labels = rng.choice([-1, 1], ROWS)
    path.write_text("".join(f"{y} 1:{y} {2 + i % 4}:{rng.normal():.2f}\n" for i, y in enumerate(labels)))
    return str(path)


def source(rows):
    return FileSource([rows], Options(threads=0))


class Stop(Observer):
    """Stops the process's run after some rows, as a signal does."""

    def moved(self, step):
        signal.raise_signal(signal.SIGTERM)


def test_a_job_leaves_a_model_file_and_no_checkpoint(rows, tmp_path):
    outputs = OutputFiles(tmp_path / "m.ts", every=100)
    model = Job(source(rows), ModelSpec("arow"), outputs, passes=2).run()
    assert model.learner.t == 2 * ROWS
    assert model.report["rows"] == 2 * ROWS
    saved = read(tmp_path / "m.ts")
    assert saved.learner.weights().tobytes() == model.learner.weights().tobytes()
    assert saved.report == model.report
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.ts", "rows.svm"]


def test_weights_only(rows, tmp_path):
    Job(source(rows), ModelSpec("arow"), OutputFiles(tmp_path / "m.ts", weights_only=True)).run()
    assert read(tmp_path / "m.ts").learner.weights_only


def test_an_estimator_learns_as_a_job_of_files_does(rows):
    estimator = ts.AROW(fit_intercept=True, dtype="float32").fit_stream(ts.open_stream(rows, dtype="float32"))
    model = Job(source(rows), ModelSpec("arow")).run()
    assert estimator.coef_.tobytes() == model.learner.weights().astype(estimator.coef_.dtype).tobytes()
    assert estimator.t_ == model.learner.t


def test_a_stopped_job_resumes(rows, tmp_path):
    whole, parts = OutputFiles(tmp_path / "whole.ts"), OutputFiles(tmp_path / "parts.ts", every=100)
    Job(source(rows), ModelSpec("ssol"), whole).run()
    job = Job(source(rows), ModelSpec("ssol"), parts, Stop())
    with pytest.raises(Interrupted):
        job.start().run()
    assert parts.checkpoint_file.exists()
    again = replace(job, outputs=replace(parts, resume=True), observer=None)
    run = again.start()
    assert run.is_resumed
    assert run.state.position.row + run.state.position.skip > 0
    run.run()
    again.finish(run)
    assert whole.model.read_bytes() == parts.model.read_bytes()
    assert not parts.checkpoint_file.exists()


def test_nothing_to_resume_is_a_new_run(rows, tmp_path):
    run = Job(source(rows), ModelSpec("arow"), OutputFiles(tmp_path / "m.ts", resume=True)).start()
    assert not run.is_resumed


def test_the_observer_receives_the_run_before_it_begins(rows):
    class Seen(Observer):
        runs = ()

        def started(self, run):
            self.runs = (*self.runs, (run.state.model.learner.t, run.is_resumed))

    seen = Seen()
    Job(source(rows), ModelSpec("arow"), observer=seen).run()
    assert seen.runs == ((0, False),)


def test_a_source_of_other_features_is_refused(rows):
    model = replace(ModelSpec("arow").create(), feature_space={"hashing": {"bits": 18, "signed": False, "seed": 0}})
    with pytest.raises(
        InvalidInputError, match=r"m\.ts: its features were read as names hashed.* those of .*rows\.svm"
    ):
        Job(source(rows), model, model_name="m.ts").start()


def test_methods_that_hold_their_rows_have_no_drift(rows):
    with pytest.raises(InvalidParameterError, match="is a batch method"):
        Job(source(rows), ModelSpec("sbcw", parameters={"n_features": 2}), monitors=["adwin"]).start()


def test_checkpoints_of_methods_that_hold_their_rows(rows, tmp_path):
    model = ModelSpec("scd").create()
    assert source(rows).checkpoints(OutputFiles(tmp_path / "m.ts"), model) is None
    assert source(rows).checkpoints(OutputFiles(tmp_path / "m.ts", every=5), model).every == 5


def test_a_batch_method_draws_from_the_seed():
    first, second = (next(iter(ModelSpec("scd", seed=seed).create().learner.models)).random for seed in (1, 1))
    assert first.randint(1000) == second.randint(1000)


def test_growing_classes_keep_their_weights():
    model = ModelSpec("arow", GrowingClasses(), class_weight={"a": 2.0}).create()
    assert model.classes.grow
    assert model.class_weight == {"a": 2.0}


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (ModelSpec("fsol"), "m.ts is a model of AROW, and cannot continue as fsol"),
        (ModelSpec(dtype="float64"), "m.ts was trained with dtype float32, and cannot continue with float64"),
        (ModelSpec(parameters={"r": 5}), "m.ts was trained with r 1.0, and cannot continue with 5"),
        (ModelSpec(classes=Classes(0, 1)), "m.ts has the classes -1, 1, and cannot continue with 0,1"),
        (ModelSpec(classes=GrowingClasses()), "m.ts was trained without --grow-classes, and cannot continue with it"),
        (
            ModelSpec(class_weight="balanced"),
            "m.ts was trained with class weights 1,1, and cannot continue with balanced",
        ),
        (ModelSpec(fit_intercept=False), "m.ts was trained with intercept True, and cannot continue with False"),
        (ModelSpec(max_features=5), "m.ts was trained with max_features None, and cannot continue with 5"),
    ],
)
def test_a_saved_model_contradicts_a_specification(spec, message):
    with pytest.raises(InvalidParameterError) as raised:
        spec.continued(ModelSpec("arow").create(), "m.ts")
    assert str(raised.value) == message


def test_a_saved_model_continues(rows, tmp_path):
    Job(source(rows), ModelSpec("arow"), OutputFiles(tmp_path / "m.ts")).run()
    model = ModelSpec("AROW", dtype="float32").continued(read(tmp_path / "m.ts"), tmp_path / "m.ts")
    assert Job(source(rows), model).run().learner.t == 2 * ROWS


def test_weights_cannot_continue(tmp_path):
    write(tmp_path / "w.ts", ModelSpec("arow", n_features=2).create(), "weights")
    with pytest.raises(WeightsOnlyError, match="has weights only"):
        ModelSpec().continued(read(tmp_path / "w.ts"), "w.ts")


def test_an_open_stream(rows):
    stream = ts.open_stream(rows, dtype="float32")
    assert Job(OpenSource(stream), ModelSpec("arow")).run().learner.t == ROWS
