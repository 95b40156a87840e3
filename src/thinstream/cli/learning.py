"""What ``thinstream train`` does: opens, learns, saves."""

import gc
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from thinstream.cli.groups import Output, Reading
from thinstream.cli.opening import classes_of, opened, require_apart, require_place
from thinstream.cli.predicting import as_learned, remembered
from thinstream.cli.show import JsonLines, Table, patience, say, summary
from thinstream.engine.loop import Costs
from thinstream.errors import InvalidInputError, InvalidParameterError, WeightsOnlyError
from thinstream.learners import Frozen, make_learner
from thinstream.models.file import read, write
from thinstream.models.model import Model
from thinstream.streams.sources import STDIN, resolve
from thinstream.training import Checkpoints, Interrupted, Run, Unwatched


@dataclass(frozen=True)
class Job:
    """A command line of ``train``."""

    data: list[str]
    reading: Reading
    algorithm: str | None  # None: that of the model to go on from
    parameters: dict[str, Any]
    model: Path | None
    grade: Literal["full", "weights"]
    start: Path | None
    class_weight: str | None
    intercept: bool
    features: int | None  # None: the model grows
    dtype: str | None
    passes: int
    cache: bool
    checkpoint: Path | None
    checkpoint_every: int | None
    checkpoint_seconds: float | None
    resume: bool


def learn(job: Job, output: Output) -> int:
    """Does the job; returns the exit code."""
    if str(job.model) == STDIN or str(job.checkpoint) == STDIN:
        raise InvalidParameterError("a model goes to a file, not to standard output: --model NAME")
    files = resolve(job.data)
    for path in (job.model, job.checkpoint):
        require_place(path)
        require_apart(path, *files)
    if job.passes > 1 and not all(Path(file).is_file() for file in files):
        raise InvalidParameterError("a pipe can be read once only: --passes needs files")
    if job.checkpoint is None and (job.resume or job.checkpoint_every or job.checkpoint_seconds is not None):
        raise InvalidParameterError("checkpoints need a place: give --model or --checkpoint")
    model = _fresh(job) if job.start is None else _continued(job)
    reading = job.reading if job.start is None else as_learned(job.data, job.reading, model, job.start)
    stream = opened(job.data, reading, model.learner.memory.state.dtype.name, cache=job.cache)
    if job.start is None:
        model = Model(model.learner, model.classes, stream.space)
    elif model.space != stream.space:
        raise InvalidInputError(
            f"{job.start}: its features were read as {model.space or 'column numbers'}, the data's are "
            f"{stream.space or 'column numbers'}; a model goes on with features of the same kind only"
        )
    checkpoints = None
    if job.checkpoint is not None:
        checkpoints = Checkpoints(job.checkpoint, job.checkpoint_every, job.checkpoint_seconds)
    watch = Unwatched() if output.quiet else JsonLines() if output.json else Table(stream, job.passes)
    run = Run(stream, model, passes=job.passes, checkpoints=checkpoints, watch=watch)
    if job.resume and run.resume() and not output.quiet:
        position = run.state.position
        of = f" of pass {run.state.passes + 1}" if job.passes > 1 else ""
        say(f"resumed from {job.checkpoint} after {position.row + position.skip:,} rows{of}")
    with patience("compiling this algorithm for its first use on this machine, a few seconds …", quiet=output.quiet):
        run.prepare()
    gc.enable()
    try:
        trained = run.run()
    except Interrupted as signal:
        where = "" if job.checkpoint is None else f"; {job.checkpoint} holds all of it: go on with --resume"
        say(f"thinstream: stopped by {signal}{where}")
        return 128 + signal.number
    finally:
        if isinstance(watch, Table):
            watch.close()
    report = run.state.progress.report()
    if not report.rows:
        raise InvalidInputError(f"{', '.join(job.data)}: there is no example in it")
    if job.model is not None:
        extra = {"progressive": report.as_dict(), "reading": remembered(reading)}
        kept = Model(trained.learner, trained.classes, trained.space, run.names(), extra)
        write(job.model, kept, job.grade)
    if checkpoints is not None:
        checkpoints.remove()
    if not output.quiet:
        _close(job, output, run, report)
    return 0


def _fresh(job: Job) -> Model:
    """A model that has seen nothing."""
    learner = make_learner(
        job.algorithm or "",
        n_features=job.features or 0,
        costs=costs_of(job.class_weight),
        dtype=job.dtype or "float32",
        grow=job.features is None,
        fit_intercept=job.intercept,
        **job.parameters,
    )
    return Model(learner, classes_of(job.reading))


def _continued(job: Job) -> Model:
    """The model to go on from; nothing on the command line may contradict it."""
    assert job.start is not None
    model = read(job.start)
    learner = model.learner
    if isinstance(learner, Frozen):
        raise WeightsOnlyError(f"{job.start} holds weights only: it predicts, but cannot go on learning")
    if job.reading.classes is not None and classes_of(job.reading) != model.classes:
        raise InvalidParameterError(
            f"{job.start} has the classes {model.classes.negative!r}, {model.classes.positive!r}; it cannot go on with "
            f"{job.reading.classes}"
        )
    if job.algorithm is not None and job.algorithm.lower() != learner.algorithm.name.lower():
        raise InvalidParameterError(
            f"{job.start} is a model of {learner.algorithm.name}; it cannot go on as {job.algorithm}"
        )
    had: dict[str, Any] = {
        **learner.parameters,
        "class weights": _shown(learner.costs),
        "dtype": learner.memory.state.dtype.name,
        "intercept": bool(learner.offset),
    }
    given: dict[str, Any] = {
        **job.parameters,
        "class weights": None if job.class_weight is None else _shown(costs_of(job.class_weight)),
        "dtype": job.dtype,
        "intercept": job.intercept or None,
    }
    for name, value in given.items():
        if value is not None and had[name] != value:
            raise InvalidParameterError(f"{job.start} learned with {name} {had[name]}; it cannot go on with {value}")
    learner.grow = True
    return model


def _shown(costs: Costs) -> str:
    return "balanced" if costs.balanced else f"{costs.negative:g},{costs.positive:g}"


def costs_of(text: str | None) -> Costs:
    """``balanced``, or the costs of the negative and the positive class."""
    if text is None:
        return Costs()
    if text == "balanced":
        return Costs(balanced=True)
    try:
        negative, positive = (float(part) for part in text.split(","))
    except ValueError:
        negative = positive = -1.0
    if not (0.0 < negative < float("inf") and 0.0 < positive < float("inf")):
        raise InvalidParameterError(f"--class-weight must be balanced or two numbers > 0 as in 1,20, got {text!r}")
    return Costs(negative, positive)


def _close(job: Job, output: Output, run: Run, report: Any) -> None:
    """The last words: all metrics, what was passed over, what looks odd, where the model is."""
    learner, skipped = run.state.model.learner, run.skipped
    if output.json:
        last = {"model": str(job.model) if job.model else None, "skipped": skipped, "updates": learner.n_updates}
        found = {"non_zeros": learner.nnz, "features": learner.n_features, **report.as_dict()}
        sys.stdout.write(json.dumps({**last, **found}) + "\n")
    else:
        if job.passes > 1:
            print("\nall passes together: from the second on, rows had been learned before")
        print(f"\n{summary(report)}")
        print(f"{'non-zeros':<18} {learner.nnz:,} of {learner.n_features:,} weights")
        if job.model is not None:
            print(f"{'model':<18} {job.model} ({job.model.stat().st_size:,} bytes, {job.grade})")
    if skipped:
        say(f"thinstream: {skipped:,} bad records were passed over, the first: {_first_reason(run)}")
    unmet = getattr(getattr(run.stream, "form", None), "unmet", [])
    if unmet:
        say(f"thinstream: no record has {', '.join(map(repr, unmet))}, named in --text or --ignore")
    if run.looks_sorted():
        say(
            "thinstream: labels come in long runs, as in rows sorted by class: the numbers above are too good, and the "
            "model leans to the last class; thinstream shuffle first"
        )
    if run.stream.names is not None and run.stream.names.full:
        say(f"thinstream: {len(run.stream.names):,} names are kept, as --names says; features met later have none")
    if report.positives in (0, report.rows):
        kind = "positive" if report.positives else "negative"
        say(f"thinstream: all {report.rows:,} labels are {kind}; if others are meant, say which: --classes NEG,POS")


def _first_reason(run: Run) -> str:
    reasons = run.stream.skipped.reasons if run.stream.skipped else []
    return reasons[0] if reasons else "before the checkpoint"
