"""``thinstream train``: train a model."""

import os
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

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
    Specified,
    Tfidf,
    classes_of,
    default_learner,
    option,
    parse_class_weight,
    parse_metrics,
    take_tfidf,
)
from thinstream.cli.sources import LateLabels, Messages, as_before, require_learned, say_stopped, shown_names
from thinstream.errors import InvalidInputError, InvalidParameterError

if TYPE_CHECKING:
    from thinstream.data.labels import Classes
    from thinstream.models.model import Model
    from thinstream.training.job import Job, ModelSpec, OutputFiles, Source
    from thinstream.training.threshold import Goal

#: The first rows, from which feature names are collected if ``--names`` is not specified.
NAMES_ROWS = 1_000_000
CHECKPOINTS, WATCHING, DECIDING = "Checkpoints", "Monitoring", "Threshold (two classes)"


@dataclass(frozen=True)
class Training:
    """Options of the model, the run and its outputs."""

    model: Annotated[
        Path | None, option("Save the model in this file (default: print metrics only).", MODEL, "--model", "-m")
    ] = None
    weights_only: Annotated[
        bool, option("Save only non-zero weights: a small file that cannot continue to learn.", MODEL)
    ] = False
    nnz: Annotated[
        str | None,
        option(
            "After training, refit a thin model with N features, and save it instead. With several numbers, such as "
            "30,100,300, print a table and save a model for each. The files are read several times.",
            MODEL,
            metavar="N",
        ),
    ] = None
    start: Annotated[
        Path | None, option("Continue from this model, with its algorithm and parameters.", MODEL, "--from")
    ] = None
    class_weight: ClassWeight = None
    intercept: Intercept = None
    calibrate: Annotated[
        bool,
        option("Calibrate the scores, so that predict --proba gives probabilities. Auto is always calibrated.", MODEL),
    ] = False
    grow_classes: Annotated[
        bool, option("Add a class when a new label occurs. The model is the same as with --classes.", MODEL)
    ] = False
    scale: Scale = None
    normalize: Normalize = None
    tfidf: Tfidf = False
    features: Annotated[
        int | None,
        option("The number of features. More is an error. By default, the model grows with the data.", MODEL, min=1),
    ] = None
    max_features: Annotated[
        int | None,
        option(
            "Limit the number of features. A new feature replaces the least important ones. The model stores the names "
            "of its features, so that no two of them share a weight, unless --bits is 31 or less.",
            MODEL,
            min=1,
        ),
    ] = None
    admit: Annotated[
        int | None,
        option(
            "With --max-features, admit a feature at its Nth occurrence (default 2).",
            MODEL,
            metavar="N",
            min=1,
            max=255,
        ),
    ] = None
    dtype: Annotated[str | None, option("float32 (default) or float64.", MODEL)] = None
    seed: Annotated[int, option("The random seed, for randomized algorithms (default 0).", MODEL, min=0)] = 0
    passes: Annotated[int, option("The number of passes over the data (default 1).", MODEL, min=1)] = 1
    threshold: Annotated[
        float | None,
        option(
            "Predict positive above this threshold: a probability if the model has probabilities, else a score "
            "(default: score 0).",
            DECIDING,
            "--threshold",
            "--score-above",
        ),
    ] = None
    recall: Annotated[
        float | None,
        option(
            "Choose the threshold for this recall, the share of the positives that are predicted positive, on "
            "progressive scores.",
            DECIDING,
            min=0.0,
            max=1.0,
        ),
    ] = None
    false_alarms: Annotated[
        float | None,
        option(
            "Choose the threshold so that at most this share of the negatives is predicted positive.",
            DECIDING,
            min=0.0,
            max=1.0,
        ),
    ] = None
    precision: Annotated[
        float | None,
        option(
            "Choose the threshold for this precision, the share of rows predicted positive that are positive.",
            DECIDING,
            min=0.0,
            max=1.0,
        ),
    ] = None
    device: Device = "auto"
    cache: Annotated[
        bool, option("Write a binary copy next to the data (FILE.cache), and read it in later runs.", "Reading")
    ] = False
    monitor: Annotated[
        str | None,
        option("Report when the error rises (drift): adwin, ddm, page-hinkley, or several with commas.", WATCHING),
    ] = None
    plot: Annotated[Path | None, option("Draw the error along the stream to this file (.png or .svg).", WATCHING)] = (
        None
    )
    live: Annotated[bool, option("Serve a live dashboard for this run on localhost and print its URL.", WATCHING)] = (
        False
    )
    live_port: Annotated[
        int, option("The port of the live dashboard (default: any free port).", WATCHING, min=0, max=65535)
    ] = 0
    report: Annotated[
        Path | None, option("Save the dashboard of the run in this self-contained .html file.", WATCHING)
    ] = None
    checkpoint: Annotated[Path | None, option("The checkpoint file (default: MODEL.checkpoint).", CHECKPOINTS)] = None
    checkpoint_every: Annotated[int | None, option("Rows between two checkpoints.", CHECKPOINTS, min=1)] = None
    checkpoint_seconds: Annotated[float | None, option("Seconds between two checkpoints.", CHECKPOINTS, min=0.0)] = None
    resume: Annotated[bool, option("Resume from the checkpoint, if it exists.", CHECKPOINTS)] = False

    def __post_init__(self) -> None:
        take_tfidf(self)

    @property
    def monitors(self) -> list[str]:
        return [name.strip() for name in (self.monitor or "").split(",") if name.strip()]

    @property
    def deciding(self) -> tuple[float | None, ...]:
        """The options that set the threshold."""
        return self.threshold, self.recall, self.false_alarms, self.precision

    @property
    def goal(self) -> "Goal | None":
        """The goal of the threshold, if an option specifies one."""
        names = ("threshold", "recall", "false_alarms", "precision")
        specified = [f"--{name.replace('_', '-')}" for name in names if getattr(self, name) is not None]
        if len(specified) > 1:
            raise InvalidParameterError(f"only one option can set the threshold, got {' and '.join(specified)}")
        if not specified or self.threshold is not None:
            return None
        from thinstream.training.threshold import Goal

        return Goal.of(self.recall, self.false_alarms, self.precision)

    @property
    def outputs(self) -> "OutputFiles":
        from thinstream.training.job import OutputFiles

        every = self.checkpoint_every, self.checkpoint_seconds
        return OutputFiles(self.model, self.weights_only, self.checkpoint, *every, self.resume)

    def spec(
        self, algorithm: str | None, parameters: dict[str, Any], classes: "Classes | None", weight: Any
    ) -> "ModelSpec":
        """Return the model to learn, with None for values that the command line does not specify."""
        from thinstream.training.job import ModelSpec

        return ModelSpec(
            algorithm,
            classes,
            weight,
            parameters,
            n_features=self.features,
            dtype=self.dtype,
            fit_intercept=self.intercept,
            scale=self.scale,
            normalize=self.normalize,
            max_features=self.max_features,
            admit=self.admit,
            calibrate=self.calibrate,
            seed=self.seed,
        )


def train(
    specified: Specified,
    data: Data,
    reading: Reading,
    distributed: Distributed,
    output: Output,
    training: Training,
    late: LateLabels,
    source: Messages,
    parameters: dict[str, Any],
    metrics: Metrics = None,
    algorithm: Algorithm = DEFAULT_LEARNER,
) -> int:
    """Train a model in one pass over the data, and print progressive metrics: each row is predicted, then learned.

    The table has a line after 64, 128, 256 … rows: the error since the start and since the line before, the error of
    the best constant prediction (base), precision, recall and F1 of the positive class, log-loss, AUC, average
    precision (AP) and the number of non-zero weights. With more than two classes, precision, recall, F1 and AP are
    means over the classes.
    """
    from thinstream.cli import thinning
    from thinstream.cli.io import collect_garbage, look_first, read_as_learned, with_many_numbers, with_names
    from thinstream.cli.render import JsonLines, Table, say
    from thinstream.cli.terminal import keep_going
    from thinstream.cli.training import check_options, follow, print_device_warnings, show_end, shown_live
    from thinstream.jit import set_program
    from thinstream.models.file import read
    from thinstream.training.formatting import usual
    from thinstream.training.job import FileSource, Job
    from thinstream.training.observer import NullObserver, Observer
    from thinstream.training.run import Interrupted

    by_features = distributed.mode == "features"
    if by_features:
        from thinstream.distributed.mpi import MINI_BATCH, FeatureSource, join, read_slice

        join().silence_others()
        mini_batch = distributed.mini_batch or MINI_BATCH
    if "algorithm" not in specified and training.start is None:
        algorithm = default_learner(distributed.engine, distributed.mode)
    late.check(specified, data)
    live, names, start = source.check(specified, data), shown_names(data), training.start
    named = algorithm if start is None or "algorithm" in specified else None
    sizes = thinning.parse_sizes(training.nnz)
    if sizes:
        thinning.check_training(data, training, sizes, plain=not (live or late.used or distributed.engine))
    check_options(specified, data, reading, distributed, training, named, parameters)
    checkpoint = training.outputs.checkpoint_file
    if live:
        reading = source.as_asked(data, reading)
    if training.grow_classes:
        reading = replace(reading, grow_classes=True)
    if training.max_features is not None and start is None:
        reading = with_many_numbers(data, reading)
    if live and training.resume and checkpoint is not None and checkpoint.exists():
        reading = as_before(reading, checkpoint)
    model: ModelSpec | Model
    if start is None:
        set_program(training.spec(algorithm, parameters, None, None).rehearse)
        look = source.look_first if live else late.look_first if late.used else look_first
        reading = look(data, reading, quiet=output.quiet)
        classes = classes_of(reading)
        weight = parse_class_weight(training.class_weight, reading.classes or (() if classes.grow else classes))
        model = training.spec(algorithm, parameters, classes, weight)
        if model.is_batch:  # a batch method needs all rows at once, so the stream prepares them
            reading = replace(reading, normalize=training.normalize)
    else:
        saved = read_slice(start, join(), mini_batch) if by_features else read(start)
        asked_classes = classes_of(reading) if reading.classes is not None or reading.grow_classes else None
        weight = parse_class_weight(training.class_weight, saved.classes)
        model = training.spec(named, parameters, asked_classes, weight).continued(saved, start)
        classes = model.classes
        reading = read_as_learned(data, reading, model, start)
    outputs = training.outputs
    is_alone = not (late.used or training.cache or distributed.engine or distributed.mode == "features")
    if "names" not in specified and is_alone and training.model:
        from thinstream.models.explain import KEPT_NAMES, NAMES

        reading = with_names(data, reading, NAMES, NAMES_ROWS)
        outputs = replace(outputs, names=KEPT_NAMES)
    asked = parse_metrics(metrics, classes)
    watch: Observer = NullObserver() if output.quiet else JsonLines()
    if not (output.quiet or output.json):
        watch = Table(metrics=asked or usual(classes.are_two), asked=bool(asked))
    followed = follow(training, watch, [names])
    rows: Source = FileSource(data, reading, training.cache)
    if live:
        rows = source.messages(data, reading, training.model)
    elif late.used:
        rows = late.joined(data, reading)
    elif distributed.engine is not None:
        from thinstream.distributed.job import WorkerSource

        sharing = {name: value for name, value in asdict(distributed).items() if name not in ("mode", "mini_batch")}
        rows = WorkerSource(data, reading, **sharing)
    elif by_features:
        rows = FeatureSource(data, reading, mini_batch=mini_batch)
    job = Job(
        rows,
        model,
        outputs,
        followed or watch,
        passes=training.passes,
        monitors=training.monitors if training.monitors or training.plot else None,
        threshold=training.threshold,
        goal=training.goal,
        device=training.device if distributed.engine is None and not by_features else None,
        threads=reading.threads or os.cpu_count() or 1,
        model_name=str(start),
    )
    if training.model is not None:
        keep_going()
    thin = thinning.AfterTraining(job, training, data, reading, sizes, output) if sizes else None
    if thin is not None and thin.resume():
        return 0
    with print_device_warnings():
        run = job.start()
    _report_start(job, run, checkpoint, live, output)
    run.prepare()
    collect_garbage()
    try:
        with shown_live(training, followed, run, [names]):
            trained = run.run()
    except Interrupted as signal:
        how = "" if checkpoint is None or not run.kept else f"; {checkpoint} {run.kept}. Pass --resume to continue"
        say(f"thinstream: stopped by {signal}{how}")
        return 128 + signal.number
    finally:
        if followed is None:  # otherwise shown_live closes it
            watch.close()
    report = run.state.progress.report()
    if live:
        require_learned(run, names, source, training.model)
        say_stopped(run, checkpoint)
    if not (report.rows or trained.learner.t):
        raise InvalidInputError(f"{names}: the data has no rows")
    if thin is None:
        job.finish(run)
    else:
        trained = thin.keep(run)
        training = replace(training, model=None)
    if training.plot is not None:
        from thinstream.training.picture import draw_run

        title, blends = f"{trained.learner.algorithm.name} on {names}", trained.blends
        record = blends[0].history() if len(blends) == 1 else None
        draw_run(run.drift, title, training.plot, record, report.baseline)
    if not output.quiet:
        show_end(training, output, run, report, asked)
    if thin is not None:
        thin.run(trained)
    return 0


def _report_start(job: "Job", run: Any, checkpoint: Path | None, live: bool, output: Output) -> None:
    """Report whether the run resumes, and which files of an earlier run it ignores."""
    from thinstream.cli.render import say

    outputs = job.outputs
    if run.is_resumed:
        position = run.state.position
        rows = position.row + position.skip
        passes = f" of pass {run.state.passes + 1}" if job.passes > 1 else ""
        if not output.quiet:
            say(f"resumed from {checkpoint}{f' after {rows:,} rows{passes}' if rows or run.state.passes else ''}")
    elif live and not outputs.resume and checkpoint is not None and checkpoint.exists():
        say(f"thinstream: {checkpoint} exists, but this is a new run. Pass --resume to continue from the checkpoint")
    elif outputs.resume and outputs.model is not None and outputs.model.exists():
        say(
            f"thinstream: the checkpoint {checkpoint} does not exist. This is a new run, and its model will replace "
            f"{outputs.model}"
        )
