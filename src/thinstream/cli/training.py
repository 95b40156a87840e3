"""``thinstream train``: the checks of its options, its summary, and its live page."""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from thinstream.algorithms.registry import find
from thinstream.cli import sources
from thinstream.cli.io import require_model_file, require_not_input, require_outputs, require_writable
from thinstream.cli.options import MODES, Distributed, Output, Reading, Specified
from thinstream.cli.render import (
    SHARE,
    describe_threshold,
    few_weights,
    lanes_of,
    largest_shares,
    say,
    say_skipped,
    show_json,
    warn_of_error,
    warn_of_labels,
)
from thinstream.cli.terminal import printable
from thinstream.data.brokers import is_address
from thinstream.data.opening import require_files
from thinstream.data.sources import resolve
from thinstream.errors import DeviceWarning, InvalidParameterError, listed
from thinstream.lanes.devices import chosen_device
from thinstream.models.file import weights_nbytes
from thinstream.plotting import check_picture
from thinstream.training.formatting import describe, percent

if TYPE_CHECKING:
    from thinstream.cli.commands.train import Training
    from thinstream.serve.dashboard.live import RunSampler
    from thinstream.training.observer import Observer


def check_options(
    specified: Specified,
    data: list[str],
    reading: Reading,
    distributed: Distributed,
    training: "Training",
    algorithm: str | None,
    parameters: dict[str, Any],
) -> None:
    """Raise now if options cannot be used together, or if an output could not be written at the end."""
    live, outputs = is_address(data), training.outputs
    checkpoint, files = outputs.checkpoint_file, [] if live else resolve(data)
    if training.cache:
        require_files(files)
    if live:
        require_writable(training.model)
        require_writable(training.plot)
    else:
        require_outputs(data, training.model, training.plot)
    require_not_input(checkpoint, *files)
    require_model_file(training.model, checkpoint)
    _check_watching(training)
    if training.grow_classes and any(option is not None for option in training.deciding):
        raise InvalidParameterError("a threshold needs two classes, and cannot be used with --grow-classes")
    if training.calibrate:
        _check_calibrated(algorithm, distributed, training)
    if training.admit is not None and training.max_features is None and training.start is None:
        raise InvalidParameterError("--admit needs --max-features")
    chosen_device(training.device, 0, 1)  # raises
    if distributed.mode not in MODES:
        raise InvalidParameterError(f"--mode must be {listed(MODES)}, got {distributed.mode!r}")
    by_features = distributed.mode == "features"
    for name in (field.name for field in fields(distributed)):
        option = f"--{name.replace('_', '-')}"
        if name in specified and by_features and name not in ("mode", "mini_batch"):
            raise InvalidParameterError(
                f"{option} cannot be used with --mode features. Start it with mpiexec: "
                "mpiexec -n 4 thinstream train FILE --mode features"
            )
        if name in specified and name == "mini_batch" and not by_features:
            raise InvalidParameterError("--mini-batch needs --mode features")
        if name in specified and distributed.engine is None and not by_features:
            raise InvalidParameterError(f"{option} needs --engine")
    require_writable(checkpoint)
    if distributed.engine is not None or by_features:
        _check_distributed(reading, distributed, training)
    if by_features and algorithm is not None:
        from thinstream.distributed.mpi import require_separable

        require_separable(algorithm, parameters)
    if training.passes > 1 and not all(Path(file).is_file() for file in files):
        raise InvalidParameterError("--passes needs files, because a pipe can be read only once")
    if checkpoint is None and (training.resume or training.checkpoint_every or training.checkpoint_seconds is not None):
        raise InvalidParameterError("checkpoints need a file. Pass --model or --checkpoint")


def _check_calibrated(algorithm: str | None, distributed: Distributed, training: "Training") -> None:
    """Raise if --calibrate cannot be used."""
    if training.start is not None:
        raise InvalidParameterError("--calibrate needs a new model, and cannot be used with --from")
    if distributed.engine is not None or distributed.mode == "features":
        raise InvalidParameterError("--calibrate needs a single process, and cannot be used with --engine or --mode")
    assert algorithm is not None
    name, category = find(algorithm).name, find(algorithm).kind
    if category != "online":
        why = "is already calibrated" if category == "blend" else "is a batch method and has no progressive scores"
        raise InvalidParameterError(f"--calibrate needs an online algorithm: {name} {why}")


def _check_distributed(reading: Reading, distributed: Distributed, training: "Training") -> None:
    """Raise if options cannot be used with several processes."""
    from thinstream.distributed.engines.launcher import ENGINES
    from thinstream.distributed.job import ADDRESS

    by_features = distributed.mode == "features"
    if not by_features and distributed.engine not in ENGINES:
        raise InvalidParameterError(f"--engine must be {listed(ENGINES)}, got {distributed.engine!r}")
    for names, is_used in {
        "--device cuda": training.device == "cuda",
        "--max-features": training.max_features is not None,
        "--grow-classes": training.grow_classes,
        "--recall, --false-alarms and --precision": training.goal is not None and not by_features,
        "--monitor and --plot": training.monitors or training.plot,
        "--live and --report": training.live or training.report,
        "--cache": training.cache,
        "--names": reading.names and not by_features,
        "--scale and --normalize": by_features and (training.scale or training.normalize),
    }.items():
        if is_used:
            raise InvalidParameterError(
                f"{names} cannot be used with {'--mode features' if by_features else '--engine'}"
            )
    if distributed.address is not None and distributed.engine not in ADDRESS:
        raise InvalidParameterError(f"--address needs --engine {listed(ADDRESS)}, got {distributed.engine!r}")


@contextmanager
def print_device_warnings() -> Iterator[None]:
    """Print why models stay on the CPU although a GPU is requested."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", DeviceWarning)
        yield
    for warning in caught:
        say(f"thinstream: {warning.message}")


def _check_watching(training: "Training") -> None:
    if training.monitors:
        from thinstream.training.monitors import MONITORS

        for name in training.monitors:
            if name not in MONITORS:
                raise InvalidParameterError(f"--monitor must be {listed(MONITORS)}, got {name!r}")
    if training.plot is not None:
        check_picture(training.plot)


#: The size of a model file from which the summary mentions --weights-only.
LARGE = 20_000_000


def show_end(training: "Training", output: Output, run: Any, report: Any, asked: list[str]) -> None:
    """Print all metrics, the output files, and warnings."""
    model, learner, skipped = run.state.model, run.state.model.learner, run.skipped
    late = hasattr(run.stream, "waiting")
    if output.json:
        fields = {"model": training.model and str(training.model), "skipped": skipped, "updates": learner.n_updates}
        fields |= {"threshold": model.threshold} if model.threshold else {}
        counted = report.as_dict() if report.rows else {"rows": learner.t}
        joined = {"late_labels": sources.counts_of(run.stream)} if late else {}
        fields |= {"lanes": lanes_of(model)} if model.blends else {}
        size = {"non_zeros": learner.nnz, "features": learner.n_features}
        size |= {} if model.n_weights_met is None else {"weights_met": model.n_weights_met}
        show_json({**fields, **size, **counted, **joined})
    else:
        if training.passes > 1:
            print("\nmetrics of all passes; from the second pass on, rows were already learned")
        if report.rows:  # batch methods have no progressive scores
            print(f"\n{describe(report, [printable(str(label)) for label in model.classes], asked)}")
        if model.threshold:
            print(f"{'threshold':<18} {describe_threshold(model)}{_threshold_effect(run)}")
        if late:
            print(sources.describe(run.stream))
        if model.blends:
            print(f"{'lanes':<18} {largest_shares(model)}")
        print(f"{'non-zeros':<18} {_describe_weights(model)}")
        if (budget := model.budget_table) is not None:
            used, limit, occurrence = len(budget.used), budget.max_features, budget.admit
            print(f"{'features kept':<18} {used:,} of {limit:,}, each admitted at occurrence {occurrence}")
            if collisions := budget.n_collisions:
                print(f"{'left out':<18} {collisions:,} values whose hashed number belongs to another feature")
        elif (state := model.compact_state) is not None:
            features, nbytes, dense_nbytes = state
            size_of_state = f"{nbytes / 1e6:,.0f} MB for {features:,} features that occurred"
            print(f"{'state':<18} {size_of_state} ({dense_nbytes / 1e6:,.0f} MB for the full hash space)")
        if training.model is not None:
            content = "weights" if training.weights_only else "full"
            print(f"{'model':<18} {training.model} ({training.model.stat().st_size:,} bytes, {content})")
            if not training.weights_only and training.model.stat().st_size > LARGE:
                smaller = max(weights_nbytes(model) / 1e6, 0.1)
                print(f"{'smaller':<18} {smaller:,.1f} MB with --weights-only, which cannot continue to learn")
            few = few_weights(model) if model.blends and not training.weights_only else None
            if few is not None and few < learner.nnz:
                print(f"{'thinner':<18} thinstream thin {training.model} --nnz {few} -m NAME ({SHARE})")
        if training.plot is not None:
            print(f"{'chart':<18} {training.plot}")
    for line in model.pop_news():
        say(f"thinstream: {line}")
    if getattr(run, "no_threshold", None) is not None:
        say(f"thinstream: {run.no_threshold}")
    for remark in sources.remarks(run.stream) if late else ():
        say(remark)
    if skipped:
        say_skipped(skipped, _first_reason(run))
    unmet = getattr(getattr(run.stream, "form", None), "unmet", [])
    if unmet:
        say(f"thinstream: no record has {', '.join(map(repr, unmet))}, which --text or --ignore names")
    for remark in [] if training.resume else getattr(run.stream, "remarks", []):
        say(f"thinstream: {remark}")
    if run.stream.names is not None and run.stream.names.rows is None and run.stream.names.full:
        say(f"thinstream: {len(run.stream.names):,} names are stored (--names); features that came later have none")
    if training.goal is None:
        warn_of_error(report, model)
    if report.rows and not warn_of_labels(report.rows, report.positives, run.looks_sorted()) and 0 in report.examples:
        labels = [label for label, count in zip(run.state.model.classes, report.examples, strict=True) if not count]
        say(f"thinstream: no example has the label {', '.join(map(repr, labels))}, which --classes names")


def _describe_weights(model: Any) -> str:
    """Return the number of non-zeros and weights. With hashing, count only weights of features that occurred."""
    learner, occurred = model.learner, model.n_weights_met
    if occurred is None:
        return f"{learner.nnz:,} of {learner.n_weights:,} weights"
    bits = model.feature_space["hashing"]["bits"]
    return f"{learner.nnz:,} of {occurred:,} weights of features that occurred (hash space 2^{bits} = {1 << bits:,})"


def _threshold_effect(run: Any) -> str:
    """Return the effect of a threshold on the rows that it was chosen on."""
    rates = getattr(run, "chosen", None)
    if rates is None:
        return ""
    shares = f"recall {percent(rates.recall)}%, false alarms {percent(rates.false_alarms)}%"
    return f": {shares}, precision {percent(rates.precision)}% on the last {rates.rows:,} rows"


def _first_reason(run: Any) -> str:
    reasons = run.stream.skipped.reasons if run.stream.skipped else []
    return reasons[0] if reasons else "before the checkpoint, or in a worker"


# The live page and the report of a run (``--live`` and ``--report``).


def follow(training: "Training", watch: "Observer", data: Sequence[str]) -> "RunSampler | None":
    """Return the observer that collects data for the page, if there is one."""
    if training.live_port and not training.live:
        raise InvalidParameterError("--live-port needs --live")
    if not (training.live or training.report):
        return None
    if training.report is not None and not training.report.resolve().parent.is_dir():
        raise InvalidParameterError(f"--report {training.report}: the folder {training.report.parent} does not exist")
    from thinstream.serve.dashboard.live import RunSampler

    return RunSampler(watch, training.model.stem if training.model else ", ".join(data))


@contextmanager
def shown_live(training: "Training", followed: "RunSampler | None", run: Any, data: Sequence[str]) -> Iterator[None]:
    """Serve the page during the block, and write the report after it, also after an error."""
    if followed is None:
        yield
        return
    from thinstream.serve.dashboard.live import LivePage

    page = LivePage(followed, training.live_port) if training.live else None
    if page is not None:
        say(f"live dashboard at {page.address}")
    try:
        yield
    finally:
        followed.close()
        if page is not None:
            page.close()
        if training.report is not None:
            name = run.state.model.learner.algorithm.name
            followed.write_report(training.report, f"{name} on {', '.join(data)}")
