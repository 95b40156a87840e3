"""``thinstream train``: learn from files or a pipe."""

import os
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from thinstream.cli.declared import Given, option
from thinstream.cli.late_labels import LateLabels
from thinstream.cli.options import (
    DEFAULT_LEARNER,
    MODEL,
    Algorithm,
    ClassWeight,
    Data,
    Device,
    Distributed,
    Intercept,
    Metrics,
    Normalize,
    Output,
    Reading,
    Scale,
    Tfidf,
    classes_of,
    default_learner,
    parse_class_weight,
    parse_metrics,
    take_tfidf,
)
from thinstream.cli.sources import Source, as_before, require_learned, say_stopped, shown_names
from thinstream.errors import InvalidInputError, InvalidParameterError

if TYPE_CHECKING:
    from thinstream.evaluate.threshold import Goal
    from thinstream.learners.protocol import AnyLearner
    from thinstream.models.model import Model
    from thinstream.training.drift import DriftWatch

CHECKPOINTS, WATCHING, DECIDING = "Checkpoints", "Watching", "Deciding (two classes)"


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
    scale: Scale = None
    normalize: Normalize = None
    tfidf: Tfidf = False
    features: Annotated[
        int | None,
        option(
            "How many features there are: more is an error. By default the model grows with the data.", MODEL, min=1
        ),
    ] = None
    max_features: Annotated[
        int | None,
        option(
            "Keep no more features than this: where there is no room for a new one, the least important of those kept "
            "give way. The names of those kept are kept exactly, so that no two share a weight, unless --bits asks for "
            "2^31 numbers or fewer.",
            MODEL,
            min=1,
        ),
    ] = None
    admit: Annotated[
        int | None,
        option("With --max-features: keep a feature from this sight of it on (default 2).", MODEL, min=1, max=255),
    ] = None
    dtype: Annotated[str | None, option("float32 (default) or float64.", MODEL)] = None
    seed: Annotated[int, option("Of algorithms that draw at random (default 0).", MODEL, min=0)] = 0
    passes: Annotated[int, option("Passes over the data (default 1).", MODEL, min=1)] = 1
    threshold: Annotated[
        float | None,
        option(
            "Call a row positive above this: a probability of Auto and with --loss logistic, else a score (default: "
            "score 0).",
            DECIDING,
            "--threshold",
            "--positive-above",
        ),
    ] = None
    recall: Annotated[
        float | None,
        option(
            "Choose the threshold so that this share of the positives is found, on the scores that rows had before "
            "they were learned.",
            DECIDING,
            min=0.0,
            max=1.0,
        ),
    ] = None
    false_alarms: Annotated[
        float | None,
        option(
            "Choose the threshold so that no more than this share of the negatives is called positive.",
            DECIDING,
            min=0.0,
            max=1.0,
        ),
    ] = None
    device: Device = "auto"
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
    live: Annotated[
        bool,
        option("Show the run as it goes on a page of this machine, the address of which is told.", WATCHING, "--live"),
    ] = False
    live_port: Annotated[
        int, option("With --live: its port (default: any that is free).", WATCHING, min=0, max=65535)
    ] = 0
    report: Annotated[
        Path | None, option("Keep that page of the run as one file (.html), which needs nothing else.", WATCHING)
    ] = None
    checkpoint: Annotated[
        Path | None,
        option("Where checkpoints go (default: MODEL.checkpoint): a file; of --mode features a folder.", CHECKPOINTS),
    ] = None
    checkpoint_every: Annotated[int | None, option("Examples between checkpoints.", CHECKPOINTS, min=1)] = None
    checkpoint_seconds: Annotated[float | None, option("Seconds between checkpoints.", CHECKPOINTS, min=0.0)] = None
    resume: Annotated[bool, option("Go on from the checkpoint, if there is one.", CHECKPOINTS, "--resume")] = False

    def __post_init__(self) -> None:
        take_tfidf(self)

    @property
    def monitors(self) -> list[str]:
        """Names of the monitors asked for."""
        return [name.strip() for name in (self.monitor or "").split(",") if name.strip()]

    @property
    def deciding(self) -> tuple[float | None, ...]:
        """What is said of the threshold, one of them at most."""
        return self.threshold, self.recall, self.false_alarms

    @property
    def goal(self) -> "Goal | None":
        """What the threshold is to reach; None where it is given, or none is asked for."""
        names = ("threshold", "recall", "false_alarms")
        asked = [f"--{name.replace('_', '-')}" for name in names if getattr(self, name) is not None]
        if len(asked) > 1:
            raise InvalidParameterError(f"a model has one threshold, got {' and '.join(asked)}")
        if not asked or self.threshold is not None:
            return None
        from thinstream.evaluate.threshold import Goal

        return Goal.of(self.recall, self.false_alarms)

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
    late: LateLabels,
    source: Source,
    parameters: dict[str, Any],
    metrics: Metrics = None,
    algorithm: Algorithm = DEFAULT_LEARNER,
) -> int:
    """Learn from a stream in one pass, showing how well each example was predicted before it was learned.

    The table's lines double, from 64 examples on: error since the start and since the line before, that of the best
    constant answer (base), precision, recall and F1 of the positive class, log-loss, AUC, average precision (AP),
    non-zero weights. Of more than two classes precision, recall, F1 and AP are means of the classes.
    """
    from thinstream.blend.placing import come_home
    from thinstream.blend.serving import blends_of
    from thinstream.cli.following import follow, shown_live
    from thinstream.cli.io import collect_garbage, look_first, open_data, read_as_learned, with_many_numbers
    from thinstream.cli.progress import JsonLines, Table, Unmeasured
    from thinstream.cli.render import say
    from thinstream.cli.terminal import keep_going
    from thinstream.cli.training_checks import check_options, place_model
    from thinstream.cli.training_end import show_end
    from thinstream.evaluate.showing import usual
    from thinstream.models.file import write
    from thinstream.models.model import score_of
    from thinstream.streams.options import how_read
    from thinstream.training import Checkpoints, Interrupted, NullObserver, Observer, Run
    from thinstream.training.live import SECONDS, LiveRun

    if "algorithm" not in given and training.start is None:
        algorithm = default_learner(distributed.engine)
    if distributed.engine is None:
        for each in fields(Distributed):
            if each.name != "engine" and each.name in given:
                raise InvalidParameterError(f"--{each.name.replace('_', '-')} is for runs with --engine")
    late.check(given, data)
    live, names = source.check(given, data), shown_names(data)
    if live:
        reading = source.as_asked(data, reading)
    named = algorithm if training.start is None or "algorithm" in given else None
    check_options(data, reading, distributed, training, named, parameters)
    if training.grow_classes:
        reading = replace(reading, grow_classes=True)
    if training.max_features is not None and training.start is None:
        reading = with_many_numbers(data, reading)
    if live and training.resume and training.checkpoint_file is not None and training.checkpoint_file.exists():
        reading = as_before(reading, training.checkpoint_file)
    if training.start is None:
        look = source.look_first if live else late.look_first if late.used else look_first
        reading = look(data, reading, quiet=output.quiet)
        model = _new_model(reading, training, algorithm, parameters)
        if model.learner.algorithm.kind == "batch":  # whose rows are all there at once: the stream prepares them
            reading = replace(reading, normalize=training.normalize)
    else:
        model = _model_to_continue(training, training.start, reading, named, parameters)
        reading = read_as_learned(data, reading, model, training.start)
    if distributed.engine is None:
        slow = training.device == "auto" and (live or late.used)  # rows come in small pieces, for which no GPU pays
        place_model(model.learner, "cpu" if slow else training.device)
    for blend in blends_of(model.learner):
        blend.threads = reading.threads or os.cpu_count() or 1
    asked = parse_metrics(metrics, model.classes)
    if training.threshold is not None:
        model = model.with_threshold(score_of(training.threshold, model))
    if late.used:
        stream: Any = late.join(data, reading, model)
    elif live:
        stream = source.open(data, reading, model.learner, training.model)
    else:
        stream = open_data(data, reading, model.learner.dtype.name, cache=training.cache)
    if training.start is None:
        model = replace(model, feature_space=stream.feature_space)
    model.require_features(stream.feature_space, names, str(training.start))
    place, checkpoints = training.checkpoint_file, None
    wanted = training.checkpoint or training.checkpoint_every or training.checkpoint_seconds is not None
    if place is not None and not late.used and (model.learner.reads == "once" or wanted or training.resume):
        seconds = training.checkpoint_seconds
        if live and seconds is None and training.checkpoint_every is None:
            seconds = SECONDS
        checkpoints = Checkpoints(place, training.checkpoint_every, seconds)
    shown = stream if distributed.engine is None else Unmeasured()
    watch: Observer = NullObserver() if output.quiet else JsonLines(shown)
    if not (output.quiet or output.json):
        watch = Table(shown, training.passes, metrics=asked or usual(model.classes.are_two), asked=bool(asked))
    followed = follow(training, watch, model.learner, [names])
    watch = followed or watch
    if training.model is not None:
        keep_going()
    run: Any = None
    if distributed.engine is None:
        drift = _drift_watch(training, model.learner)
        more: dict[str, Any] = {"passes": training.passes, "checkpoints": checkpoints, "goal": training.goal}
        run = (LiveRun if live else late.kind_of_run if late.used else Run)(
            stream, model, watch=watch, drift=drift, **more
        )
    else:
        from thinstream.cli.distributed_run import DistributedRun

        run = DistributedRun(data, reading, distributed, training, model, watch, quiet=output.quiet)
    if training.resume and run.resume():
        if not output.quiet:
            position = run.state.position
            of = f" of pass {run.state.passes + 1}" if training.passes > 1 else ""
            say(f"resumed from {place} after {position.row + position.skip:,} rows{of}")
    elif live and not training.resume and place is not None and place.exists():
        say(f"thinstream: {place} is there: this is a new run, from the begin; --resume would go on from its place")
    elif training.resume and training.model is not None and training.model.exists():
        say(f"thinstream: there is no checkpoint {place}: this is a new run, whose model will replace {training.model}")
    run.prepare()
    collect_garbage()
    try:
        with shown_live(training, followed, run, [names]):
            trained = run.run()
    except Interrupted as signal:
        where = "" if place is None or not run.kept else f"; {place} {run.kept}: go on with --resume"
        say(f"thinstream: stopped by {signal}{where}")
        return 128 + signal.number
    finally:
        if followed is None:  # else it is closed before the page is
            watch.close()
    come_home(trained.learner)
    report = run.state.progress.report()
    if live:
        require_learned(run, names, source, training.model)
        say_stopped(run, place)
    if not (report.rows or trained.learner.t):
        raise InvalidInputError(f"{names}: there is no example in it")
    if training.model is not None:
        found = report.as_dict() if report.rows else None
        kept = replace(trained, names=run.names(), reading=how_read(stream, model.reading), report=found, extra={})
        write(training.model, kept, "weights" if training.weights_only else "full")
    if checkpoints is not None:
        run.clear()
    if training.plot is not None:
        from thinstream.training.picture import draw_run

        title, blends = f"{trained.learner.algorithm.name} on {names}", blends_of(trained.learner)
        draw_run(run.drift, title, training.plot, blends[0].history() if len(blends) == 1 else None)
    if not output.quiet:
        show_end(training, output, run, report, asked)
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


def _new_model(reading: Reading, training: Training, algorithm: str, parameters: dict[str, Any]) -> "Model":
    """A model that has seen nothing."""
    import numpy as np

    from thinstream.budget import ADMIT
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
        fit_intercept=find(algorithm).kind != "batch" if training.intercept is None else training.intercept,
        parameters=parameters,
        scale=training.scale,
        normalize=None if find(algorithm).kind == "batch" else training.normalize,
        max_features=training.max_features,
        admit=training.admit or ADMIT,
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
        "scale": model.preparation.scale,
        "normalize": model.preparation.normalize or model.feature_space.get("normalize"),
        **model.budget,
    }
    weights = parse_class_weight(training.class_weight, model.classes)
    given: dict[str, Any] = {
        **parameters,
        "class weights": weights if weights in (None, "balanced") else ",".join(f"{w:g}" for w in weights.values()),
        "dtype": training.dtype,
        "intercept": training.intercept,
        "scale": training.scale,
        "normalize": training.normalize,
        "max_features": training.max_features,
        "admit": training.admit,
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
