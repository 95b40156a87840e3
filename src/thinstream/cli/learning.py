"""What ``thinstream train`` does: opens, learns, saves."""

import gc
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from thinstream.cli.groups import Output, Reading, Spread
from thinstream.cli.opening import classes_of, opened, require_apart, require_place
from thinstream.cli.predicting import as_learned
from thinstream.cli.show import JsonLines, Table, Unmeasured, patience, say
from thinstream.engine.loop import Costs
from thinstream.errors import InvalidInputError, InvalidParameterError, WeightsOnlyError
from thinstream.learners import Classes, Learner, class_costs
from thinstream.models.file import read, write
from thinstream.models.model import Model
from thinstream.one_vs_rest import AnyLearner, model_for
from thinstream.streams.options import remembered
from thinstream.streams.sources import STDIN, resolve
from thinstream.training import Checkpoints, Interrupted, NullObserver, Run

#: Labels as a stream of two classes has them: costs are told by sign.
SIGNS = Classes(-1, 1)


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
    spread: Spread


def learn(job: Job, output: Output) -> int:
    """Does the job; returns the exit code."""
    if str(job.model) == STDIN or str(job.checkpoint) == STDIN:
        raise InvalidParameterError("a model goes to a file, not to standard output: --model NAME")
    files = resolve(job.data)
    for path in (job.model, job.checkpoint):
        require_apart(path, *files)
    require_place(job.model)
    if job.spread.engine is None:
        require_place(job.checkpoint)
    else:
        from thinstream.cli.spreading import require_possible

        require_possible(job)
    if job.passes > 1 and not all(Path(file).is_file() for file in files):
        raise InvalidParameterError("a pipe can be read once only: --passes needs files")
    if job.checkpoint is None and (job.resume or job.checkpoint_every or job.checkpoint_seconds is not None):
        raise InvalidParameterError("checkpoints need a place: give --model or --checkpoint")
    model = _fresh(job) if job.start is None else _continued(job)
    reading = job.reading if job.start is None else as_learned(job.data, job.reading, model, job.start)
    stream = opened(job.data, reading, model.learner.dtype.name, cache=job.cache)
    if job.start is None:
        model = Model(model.learner, model.classes, stream.feature_space)
    elif model.feature_space != stream.feature_space:
        raise InvalidInputError(
            f"{job.start}: its features were read as {model.feature_space or 'column numbers'}, the data's are "
            f"{stream.feature_space or 'column numbers'}; a model goes on with features of the same kind only"
        )
    checkpoints = None
    if job.checkpoint is not None:
        checkpoints = Checkpoints(job.checkpoint, job.checkpoint_every, job.checkpoint_seconds)
    shown = stream if job.spread.engine is None else Unmeasured()
    watch = NullObserver() if output.quiet else JsonLines() if output.json else Table(shown, job.passes)
    run: Any = None
    if job.spread.engine is None:
        run = Run(stream, model, passes=job.passes, checkpoints=checkpoints, watch=watch)
    else:
        from thinstream.cli.spreading import SpreadRun

        run = SpreadRun(job, reading, model, watch, quiet=output.quiet)
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
        where = "" if job.checkpoint is None or not run.kept else f"; {job.checkpoint} {run.kept}: go on with --resume"
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
        kept = Model(trained.learner, trained.classes, trained.feature_space, run.names(), extra)
        write(job.model, kept, job.grade)
    if checkpoints is not None:
        run.clear()
    if not output.quiet:
        _close(job, output, run, report)
    return 0


def _fresh(job: Job) -> Model:
    """A model that has seen nothing."""
    classes = classes_of(job.reading)
    learner = model_for(
        job.algorithm or "",
        classes,
        _class_weight(job.class_weight, classes),
        n_features=job.features or 0,
        dtype=job.dtype or "float32",
        grow=job.features is None,
        fit_intercept=job.intercept,
        **job.parameters,
    )
    return Model(learner, classes)


def _continued(job: Job) -> Model:
    """The model to go on from; nothing on the command line may contradict it."""
    assert job.start is not None
    model = read(job.start)
    learner = model.learner
    if learner.weights_only:
        raise WeightsOnlyError(f"{job.start} holds weights only: it predicts, but cannot go on learning")
    if job.reading.classes is not None and classes_of(job.reading) != model.classes:
        raise InvalidParameterError(
            f"{job.start} has the classes {', '.join(map(repr, model.classes))}; it cannot go on with "
            f"{','.join(map(str, job.reading.classes))}"
        )
    if job.algorithm is not None and job.algorithm.lower() != learner.algorithm.name.lower():
        raise InvalidParameterError(
            f"{job.start} is a model of {learner.algorithm.name}; it cannot go on as {job.algorithm}"
        )
    had: dict[str, Any] = {
        **learner.parameters,
        "class weights": _shown(_weights(learner)),
        "dtype": learner.dtype.name,
        "intercept": bool(learner.offset),
    }
    given: dict[str, Any] = {
        **job.parameters,
        "class weights": None if job.class_weight is None else _shown(_given_weights(job.class_weight, model.classes)),
        "dtype": job.dtype,
        "intercept": job.intercept or None,
    }
    for name, value in given.items():
        if value is not None and had[name] != value:
            raise InvalidParameterError(f"{job.start} learned with {name} {had[name]}; it cannot go on with {value}")
    learner.grow = True
    return model


def _weights(learner: AnyLearner) -> Any:
    """The class weights a model has learned with."""
    costs = [model.costs for model in learner.models]
    if costs[0].balanced:
        return "balanced"
    return list(costs[0][:2]) if isinstance(learner, Learner) else [each.positive for each in costs]


def _shown(weights: Any) -> str:
    return weights if isinstance(weights, str) else ",".join(f"{weight:g}" for weight in weights)


def _given_weights(text: str, classes: Classes) -> Any:
    found = _class_weight(text, classes)
    return list(found.values()) if isinstance(found, dict) else found


def costs_of(text: str | None) -> Costs:
    """The costs of two classes, by sign."""
    return class_costs(_class_weight(text, SIGNS), SIGNS, "--class-weight")[0]


def _class_weight(text: str | None, classes: Classes) -> Any:
    """``balanced``, or a cost for each class, in their order."""
    if text is None or text == "balanced":
        return text
    try:
        weights = [float(part) for part in text.split(",")]
    except ValueError:
        weights = []
    if len(weights) != len(classes) or not all(0.0 < weight < float("inf") for weight in weights):
        how = "two numbers > 0 as in 1,20" if len(classes) == 2 else f"{len(classes)} numbers > 0, one for each class"
        raise InvalidParameterError(f"--class-weight must be balanced or {how}, got {text!r}")
    return dict(zip(classes, weights, strict=True))


def _close(job: Job, output: Output, run: Any, report: Any) -> None:
    """The last words: all metrics, what was passed over, what looks odd, where the model is."""
    learner, skipped = run.state.model.learner, run.skipped
    if output.json:
        last = {"model": str(job.model) if job.model else None, "skipped": skipped, "updates": learner.n_updates}
        found = {"non_zeros": learner.nnz, "features": learner.n_features, **report.as_dict()}
        sys.stdout.write(json.dumps({**last, **found}) + "\n")
    else:
        if job.passes > 1:
            print("\nall passes together: from the second on, rows had been learned before")
        print(f"\n{report.describe(run.state.model.classes)}")
        print(f"{'non-zeros':<18} {learner.nnz:,} of {learner.n_weights:,} weights")
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
    elif 0 in report.examples:
        labels = [label for label, count in zip(run.state.model.classes, report.examples, strict=True) if not count]
        say(f"thinstream: no example is of {', '.join(map(repr, labels))}, named in --classes")


def _first_reason(run: Any) -> str:
    reasons = run.stream.skipped.reasons if run.stream.skipped else []
    return reasons[0] if reasons else "before the checkpoint, or in a worker"
