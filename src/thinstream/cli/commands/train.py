"""``thinstream train``: learn from files or a pipe."""

from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from thinstream.cli.declared import Given, option
from thinstream.cli.options import (
    DEFAULT_ALGORITHM,
    MODEL,
    Algorithm,
    ClassWeight,
    Data,
    Distributed,
    Intercept,
    Output,
    Reading,
    classes_of,
    parse_class_weight,
)
from thinstream.errors import InvalidInputError, InvalidParameterError

if TYPE_CHECKING:
    from thinstream.learners.protocol import AnyLearner
    from thinstream.models.model import Model
    from thinstream.training.drift import DriftWatch

CHECKPOINTS, WATCHING = "Checkpoints", "Watching"


@dataclass(frozen=True)
class Training:
    """What is learned and kept."""

    model: Annotated[
        Path | None, option("Where the model goes (default: nowhere, only metrics).", MODEL, "--model", "-m")
    ] = None
    weights_only: Annotated[
        bool,
        option("Save non-zero weights only: tiny, predicts, cannot go on learning.", MODEL, "--weights-only"),
    ] = False
    start: Annotated[
        Path | None, option("Go on from this model, with its algorithm and parameters.", MODEL, "--from")
    ] = None
    class_weight: ClassWeight = None
    intercept: Intercept = None
    grow_classes: Annotated[
        bool,
        option(
            "Any label is welcome: one not met before is a new class, learned as if known from the start.",
            MODEL,
            "--grow-classes",
        ),
    ] = False
    features: Annotated[
        int | None,
        option(
            "How many features there are: more is an error. By default the model grows with the data.", MODEL, min=1
        ),
    ] = None
    dtype: Annotated[str | None, option("float32 (default) or float64.", MODEL)] = None
    seed: Annotated[int, option("Of algorithms that draw at random (default 0).", MODEL, min=0)] = 0
    passes: Annotated[int, option("Passes over the data (default 1).", MODEL, min=1)] = 1
    cache: Annotated[
        bool,
        option("Keep a binary copy beside the data (FILE.cache) and read that from now on.", "Reading", "--cache"),
    ] = False
    monitor: Annotated[
        str | None,
        option("Say where the error rises: adwin, ddm, page-hinkley, or several with commas.", WATCHING, "--monitor"),
    ] = None
    plot: Annotated[Path | None, option("Draw the error along the stream into this file (.png or .svg).", WATCHING)] = (
        None
    )
    checkpoint: Annotated[
        Path | None,
        option("Where checkpoints go (default: MODEL.checkpoint): a file; of --mode features a folder.", CHECKPOINTS),
    ] = None
    checkpoint_every: Annotated[int | None, option("Examples between checkpoints.", CHECKPOINTS, min=1)] = None
    checkpoint_seconds: Annotated[float | None, option("Seconds between checkpoints.", CHECKPOINTS, min=0.0)] = None
    resume: Annotated[bool, option("Go on from the checkpoint, if there is one.", CHECKPOINTS, "--resume")] = False

    @property
    def monitors(self) -> list[str]:
        """Names of the monitors asked for."""
        return [name.strip() for name in (self.monitor or "").split(",") if name.strip()]

    @property
    def checkpoint_file(self) -> Path | None:
        """Where checkpoints go."""
        return self.checkpoint or (Path(f"{self.model}.checkpoint") if self.model else None)


def train(
    given: Given,
    data: Data,
    reading: Reading,
    distributed: Distributed,
    output: Output,
    training: Training,
    parameters: dict[str, Any],
    algorithm: Algorithm = DEFAULT_ALGORITHM,
) -> int:
    """Learn from a stream in one pass, showing how well each example was predicted before it was learned.

    The table's lines double: examples so far, error since the start and since the line before, sensitivity,
    specificity, their weighted sum and cost (paper P3), log-loss, AUC, non-zero weights. Of more than two classes:
    error, mean recall, mean F1, non-zero weights.
    """
    from thinstream.cli.io import collect_garbage, open_data, read_as_learned
    from thinstream.cli.progress import JsonLines, Table, Unmeasured
    from thinstream.cli.render import say
    from thinstream.cli.terminal import keep_going
    from thinstream.models.file import write
    from thinstream.streams.options import how_read
    from thinstream.training import Checkpoints, Interrupted, NullObserver, Run

    if distributed.engine is None:
        for each in fields(Distributed):
            if each.name != "engine" and each.name in given:
                raise InvalidParameterError(f"--{each.name.replace('_', '-')} is for runs with --engine")
    named = algorithm if training.start is None or "algorithm" in given else None
    _check_options(data, reading, distributed, training, named, parameters)
    if training.grow_classes:
        reading = replace(reading, grow_classes=True)
    if training.start is None:
        model = _new_model(reading, training, algorithm, parameters)
    else:
        model = _model_to_continue(training, training.start, reading, named, parameters)
        reading = read_as_learned(data, reading, model, training.start)
    stream = open_data(data, reading, model.learner.dtype.name, cache=training.cache)
    if training.start is None:
        model = replace(model, feature_space=stream.feature_space)
    model.require_features(stream.feature_space, ", ".join(data), str(training.start))
    place, checkpoints = training.checkpoint_file, None
    asked = training.checkpoint or training.checkpoint_every or training.checkpoint_seconds is not None
    if place is not None and (model.learner.reads == "once" or asked or training.resume):
        checkpoints = Checkpoints(place, training.checkpoint_every, training.checkpoint_seconds)
    shown = stream if distributed.engine is None else Unmeasured()
    watch = NullObserver() if output.quiet else JsonLines() if output.json else Table(shown, training.passes)
    if training.model is not None:
        keep_going()
    run: Any = None
    if distributed.engine is None:
        drift = _drift_watch(training, model.learner)
        run = Run(stream, model, passes=training.passes, checkpoints=checkpoints, watch=watch, drift=drift)
    else:
        from thinstream.cli.distributed_run import DistributedRun

        run = DistributedRun(data, reading, distributed, training, model, watch, quiet=output.quiet)
    if training.resume and run.resume():
        if not output.quiet:
            position = run.state.position
            of = f" of pass {run.state.passes + 1}" if training.passes > 1 else ""
            say(f"resumed from {place} after {position.row + position.skip:,} rows{of}")
    elif training.resume and training.model is not None and training.model.exists():
        say(f"thinstream: there is no checkpoint {place}: this is a new run, whose model will replace {training.model}")
    run.prepare()
    collect_garbage()
    try:
        trained = run.run()
    except Interrupted as signal:
        where = "" if place is None or not run.kept else f"; {place} {run.kept}: go on with --resume"
        say(f"thinstream: stopped by {signal}{where}")
        return 128 + signal.number
    finally:
        watch.close()
    report = run.state.progress.report()
    if not (report.rows or trained.learner.t):
        raise InvalidInputError(f"{', '.join(data)}: there is no example in it")
    if training.model is not None:
        found = report.as_dict() if report.rows else None
        kept = replace(trained, names=run.names(), reading=how_read(stream, model.reading), report=found, extra={})
        write(training.model, kept, "weights" if training.weights_only else "full")
    if checkpoints is not None:
        run.clear()
    if training.plot is not None:
        from thinstream.training.picture import draw_run

        draw_run(run.drift, f"{trained.learner.algorithm.name} on {', '.join(data)}", training.plot)
    if not output.quiet:
        _show_end(training, output, run, report)
    return 0


def _drift_watch(training: Training, learner: "AnyLearner") -> "DriftWatch | None":
    """What follows the error along the stream, where that is asked for."""
    if not (training.monitors or training.plot):
        return None
    from thinstream.training.drift import DriftWatch

    if learner.reads != "once":
        raise InvalidParameterError(
            f"{learner.algorithm.name} holds its rows: it has no error along the stream for --monitor and --plot"
        )
    return DriftWatch(training.monitors)


def _check_options(
    data: list[str],
    reading: Reading,
    distributed: Distributed,
    training: Training,
    algorithm: str | None,
    parameters: dict[str, Any],
) -> None:
    """Raises at once where options do not go together, or something could not be written in the end."""
    from thinstream.cli.io import require_model_file, require_not_input, require_outputs, require_writable
    from thinstream.streams.sources import resolve

    place, files = training.checkpoint_file, resolve(data)
    require_outputs(data, training.model, training.plot)
    require_not_input(place, *files)
    require_model_file(training.model, place)
    _check_watching(training, distributed)
    if distributed.engine is None:
        require_writable(place)
    elif training.grow_classes:
        raise InvalidParameterError("--grow-classes is for runs in one process, without --engine")
    else:
        from thinstream.cli.distributed_run import require_possible

        require_possible(reading, distributed, training, algorithm, parameters)
    if training.passes > 1 and not all(Path(file).is_file() for file in files):
        raise InvalidParameterError("a pipe can be read once only: --passes needs files")
    if place is None and (training.resume or training.checkpoint_every or training.checkpoint_seconds is not None):
        raise InvalidParameterError("checkpoints need a place: give --model or --checkpoint")


def _check_watching(training: Training, distributed: Distributed) -> None:
    if distributed.engine is not None and (training.monitors or training.plot):
        raise InvalidParameterError("--monitor and --plot are for runs in one process, without --engine")
    if training.monitors:
        from thinstream.errors import listed
        from thinstream.monitors import MONITORS

        for name in training.monitors:
            if name not in MONITORS:
                raise InvalidParameterError(f"--monitor must be {listed(MONITORS)}, got {name!r}")
    if training.plot is not None:
        from thinstream.training.picture import check_path

        check_path(training.plot)


def _new_model(reading: Reading, training: Training, algorithm: str, parameters: dict[str, Any]) -> "Model":
    """A model that has seen nothing."""
    import numpy as np

    from thinstream.learners import find
    from thinstream.learners.growing_classes import GrowingClasses
    from thinstream.models.model import Model

    classes = classes_of(reading)
    class_weight = parse_class_weight(training.class_weight, reading.classes or ((-1, 1) if not classes.grow else ()))
    if isinstance(classes, GrowingClasses):
        classes = GrowingClasses(*classes, class_weight=class_weight)
    model = Model.fresh(
        algorithm,
        classes,
        class_weight,
        n_features=training.features or 0,
        dtype=training.dtype or "float32",
        grow=training.features is None,
        fit_intercept=find(algorithm).kind == "online" if training.intercept is None else training.intercept,
        parameters=parameters,
    )
    if model.learner.algorithm.kind == "batch":
        for learner in model.learner.models:
            learner.random = np.random.RandomState(training.seed)
    return model


def _model_to_continue(
    training: Training, start: Path, reading: Reading, algorithm: str | None, parameters: dict[str, Any]
) -> "Model":
    """The model to go on from; nothing on the command line may contradict it."""
    from thinstream.errors import WeightsOnlyError
    from thinstream.models.file import read

    model = read(start)
    learner = model.learner
    if learner.weights_only:
        raise WeightsOnlyError(f"{start} holds weights only: it predicts, but cannot go on learning")
    if training.grow_classes and not model.classes.grow:
        raise InvalidParameterError(f"{start} has learned without --grow-classes; it cannot go on with it")
    if reading.classes is not None and not model.classes.grow and classes_of(reading) != model.classes:
        raise InvalidParameterError(
            f"{start} has the classes {', '.join(map(repr, model.classes))}; it cannot go on with "
            f"{','.join(map(str, reading.classes))}"
        )
    if algorithm is not None and algorithm.lower() != learner.algorithm.name.lower():
        raise InvalidParameterError(f"{start} is a model of {learner.algorithm.name}; it cannot go on as {algorithm}")
    had: dict[str, Any] = {
        **learner.parameters,
        "class weights": _costs_in_words(learner),
        "dtype": learner.dtype.name,
        "intercept": bool(learner.offset),
    }
    weights = parse_class_weight(training.class_weight, model.classes)
    given: dict[str, Any] = {
        **parameters,
        "class weights": weights if weights in (None, "balanced") else ",".join(f"{w:g}" for w in weights.values()),
        "dtype": training.dtype,
        "intercept": training.intercept,
    }
    for name, value in given.items():
        if value is not None and had[name] != value:
            raise InvalidParameterError(f"{start} learned with {name} {had[name]}; it cannot go on with {value}")
    learner.grow = True
    return model


def _costs_in_words(learner: "AnyLearner") -> str:
    """The class weights a model has learned with, as the command line has them."""
    costs = [model.costs for model in learner.models]
    if costs[0].balanced:
        return "balanced"
    weights = costs[0][:2] if len(costs) == 1 else [each.positive for each in costs]
    return ",".join(f"{weight:g}" for weight in weights)


def _show_end(training: Training, output: Output, run: Any, report: Any) -> None:
    """Shows all metrics, what was passed over, what looks odd, where the model is."""
    from thinstream.cli.render import remark_on_labels, say, say_skipped, show_json
    from thinstream.cli.terminal import printable

    learner, skipped = run.state.model.learner, run.skipped
    if output.json:
        found = {"model": training.model and str(training.model), "skipped": skipped, "updates": learner.n_updates}
        counted = report.as_dict() if report.rows else {"rows": learner.t}
        show_json({**found, "non_zeros": learner.nnz, "features": learner.n_features, **counted})
    else:
        if training.passes > 1:
            print("\nall passes together: from the second on, rows had been learned before")
        if report.rows:  # a learner that holds its rows has no scores of them before it learns
            print(f"\n{report.describe([printable(str(label)) for label in run.state.model.classes])}")
        print(f"{'non-zeros':<18} {learner.nnz:,} of {learner.n_weights:,} weights")
        if training.model is not None:
            kept = "weights" if training.weights_only else "full"
            print(f"{'model':<18} {training.model} ({training.model.stat().st_size:,} bytes, {kept})")
    if skipped:
        say_skipped(skipped, _first_reason(run))
    unmet = getattr(getattr(run.stream, "form", None), "unmet", [])
    if unmet:
        say(f"thinstream: no record has {', '.join(map(repr, unmet))}, named in --text or --ignore")
    for remark in [] if training.resume else getattr(run.stream, "remarks", []):
        say(f"thinstream: {remark}")
    if run.stream.names is not None and run.stream.names.full:
        say(f"thinstream: {len(run.stream.names):,} names are kept, as --names says; features met later have none")
    if report.rows and not remark_on_labels(report.rows, report.positives, run.looks_sorted()) and 0 in report.examples:
        labels = [label for label, count in zip(run.state.model.classes, report.examples, strict=True) if not count]
        say(f"thinstream: no example is of {', '.join(map(repr, labels))}, named in --classes")


def _first_reason(run: Any) -> str:
    reasons = run.stream.skipped.reasons if run.stream.skipped else []
    return reasons[0] if reasons else "before the checkpoint, or in a worker"
