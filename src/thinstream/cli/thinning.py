"""Refitted thin models on the command line: the rows, the table, the chart and the files."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from thinstream.cli.options import Output, Reading
from thinstream.errors import InvalidInputError, InvalidParameterError

if TYPE_CHECKING:
    from thinstream.cli.commands.train import Training
    from thinstream.models.model import Model
    from thinstream.training.job import Job
    from thinstream.training.refit import Choice, Rows


def parse_sizes(text: str | None) -> list[int]:
    """Return the feature counts given by ``--nnz``.

    >>> parse_sizes("30,100"), parse_sizes(None)
    ([30, 100], [])
    """
    try:
        sizes = sorted({int(part) for part in (text or "").split(",") if part.strip()})
    except ValueError:
        sizes = [0]
    if (text is not None and not sizes) or any(size < 1 for size in sizes):
        raise InvalidParameterError(f"--nnz must be numbers of features ≥ 1 such as 30,100, got {text!r}")
    return sizes


def model_files(out: Path | None, sizes: Sequence[int]) -> list[Path]:
    """Return the model files. With several sizes, the name of each file has its size.

    >>> model_files(Path("small.ts"), [30, 100])
    [PosixPath('small-30.ts'), PosixPath('small-100.ts')]
    """
    if out is None:
        return []
    return [out] if len(sizes) == 1 else [out.with_name(f"{out.stem}-{n}{out.suffix}") for n in sizes]


def require_readable_again(paths: Sequence[str], option: str) -> None:
    """Raise if rows can be read only once."""
    from thinstream.data.brokers import is_address
    from thinstream.data.sources import resolve

    is_broker = is_address(list(paths))
    once = list(paths) if is_broker else [file for file in resolve(list(paths)) if not Path(file).is_file()]
    if once:
        source = "messages of a broker" if is_broker else "a pipe"
        raise InvalidParameterError(
            f"{option} reads its rows several times, and {source} can be read only once, got {', '.join(once)}. Write "
            "the rows to a file first (thinstream convert), or thin a model without rows: thinstream thin MODEL --nnz N"
        )


def rows_like(model: "Model", files: Sequence[str], reading: Reading, name: str) -> "Rows":
    """Return a function that reads the rows from the start, with the reading options of the model."""
    from thinstream.data.labels import Classes
    from thinstream.data.opening import open_like

    spec = model.reading_spec._replace(classes=Classes(*model.classes), grow_classes=False)
    stream = open_like(spec, list(files), replace(reading, classes=None, grow_classes=False), name)
    model.require_features(stream.feature_space, "the data", name)
    return stream.batches


def check_training(data: Sequence[str], training: "Training", sizes: Sequence[int], *, plain: bool) -> None:
    """Raise if options cannot be used with ``train --nnz``."""
    from thinstream.cli.io import require_model_file, require_not_input, require_writable

    require_readable_again(data, "--nnz")
    if not plain:
        raise InvalidParameterError("--nnz needs files, and cannot be used with --engine or --labels")
    if training.model is None:
        raise InvalidParameterError("--nnz needs --model, the file of the thin model")
    for file in model_files(training.model, sizes):
        require_writable(file)
        require_not_input(file, *data)
        require_model_file(file)


class AfterTraining:
    """Thins the model of ``thinstream train --nnz``, with a checkpoint between the phases."""

    def __init__(
        self, job: "Job", training: "Training", data: list[str], reading: Reading, sizes: list[int], output: Output
    ) -> None:
        self.job, self.training, self.data, self.reading = job, training, data, reading
        self.sizes, self.output = sizes, output
        self.checkpoint, self.source = training.outputs.checkpoint_file, self._source()

    def resume(self) -> bool:
        """Thin the model of the checkpoint, if the run was stopped after training; else return False."""
        from thinstream.cli.render import say
        from thinstream.training.refit import read_checkpoint

        if not self.training.resume or self.checkpoint is None:
            return False
        state = read_checkpoint(self.checkpoint, self.source)
        if state is None:
            return False
        if not self.output.quiet:
            say(f"resumed from {self.checkpoint} after training")
        self.run(*state)
        return True

    def keep(self, run: Any) -> "Model":
        """Save the trained model in the checkpoint and return it."""
        from thinstream.training.refit import write_checkpoint

        model: Model = run.result()
        model.learner.outputs.to_cpu()
        model = replace(model, extra={})
        if self.checkpoint is not None:
            write_checkpoint(self.checkpoint, model, self.source)
        return model

    def run(self, model: "Model", choices: "list[Choice] | None" = None) -> None:
        """Choose how to select features, refit, and write the files."""
        from thinstream.training.checkpoint import Checkpoints
        from thinstream.training.refit import choose_ways, refit_chosen, write_checkpoint

        notify = progress(self.output)
        name = str(self.training.model)
        grows = model.classes.grow  # the stream numbers new classes by itself
        rows = rows_like(model, self.data, self.reading, name) if grows else self.job.source.open(model).batches
        if choices is None:
            choices = choose_ways(model, rows, self.sizes, notify=notify)
            if self.checkpoint is not None:
                write_checkpoint(self.checkpoint, model, self.source, choices)
        refitted = refit_chosen(model, rows, choices, notify=notify)
        small, choices = [model for model, _ in refitted], [choice for _, choice in refitted]
        files = write_models(self.training.model, small, choices)
        if self.checkpoint is not None:
            Checkpoints(self.checkpoint).remove()
        show(small, choices, files, self.output)

    def _source(self) -> dict[str, Any]:
        """Return what a checkpoint must agree with: the files, the options of the model, and the sizes."""
        from thinstream.models.container import plain
        from thinstream.training.checkpoint import described
        from thinstream.training.job import ModelSpec

        model = self.job.model.create() if isinstance(self.job.model, ModelSpec) else self.job.model
        source = {**self.job.source.open(model).fingerprint(), "passes": self.job.passes, "nnz": self.sizes}
        source |= {f"model's {name}": value for name, value in described(model).items()}
        source.pop("on_error", None)  # after an error, the user may resume with --on-error skip
        fingerprint: dict[str, Any] = plain(source, "source")
        return fingerprint


def progress(output: Output) -> Callable[[str], None]:
    """Return a function that prints the start of each pass, unless the output is quiet or JSON."""
    from thinstream.cli.render import say

    return (lambda message: None) if output.quiet or output.json else lambda message: say(f"thin models: {message}")


def write_models(out: Path | None, small: Sequence["Model"], choices: Sequence["Choice"]) -> list[Path]:
    from thinstream.models.file import write

    files = model_files(out, [choice.n for choice in choices])
    for file, model in zip(files, small, strict=False):
        write(file, model, "weights")
    return files


def show(
    small: Sequence["Model"],
    choices: Sequence["Choice"],
    files: Sequence[Path],
    output: Output,
    chosen: int | None = None,
) -> None:
    """Print the metrics of each size on held-out rows, with an asterisk at the chosen size."""
    from thinstream.cli.render import say, show_json, write_table
    from thinstream.training.formatting import percent

    if output.json:
        for k, (model, choice) in enumerate(zip(small, choices, strict=True)):
            show_json(_as_json(model, choice, files[k] if k < len(files) else None))
    elif not output.quiet:
        head = ["features", "log-loss", "± se", "error %", "avg.prec %", "how"]
        full, rows = choices[0].full, []
        for score in [*(choice.best for choice in choices), full]:
            numbers = [f"{score.log_loss:.4f}", f"{score.standard_error:.4f}", percent(score.error)]
            rows.append([f"{score.n:,}", *numbers, percent(score.average_precision), str(score.way)])
        write_table(head, rows, chosen)
        print("log-loss, error and average precision are measured on rows that did not select the features")
        for file in files:
            print(f"{file}: {file.stat().st_size:,} bytes")
    for choice in () if output.quiet else choices:
        for remark in remarks(choice):
            say(f"thinstream: {remark}")


def remarks(choice: "Choice") -> list[str]:
    """Return warnings about a thin model, and the effect of its new threshold."""
    from thinstream.training.formatting import percent

    remarks = []
    if choice.is_constant:
        remarks.append(
            f"the model with {choice.n:,} features is not better than a constant prediction: its log-loss on held-out "
            f"rows is {choice.best.log_loss:.4f}, and predicting the class frequencies gives {choice.baseline:.4f}"
        )
    if choice.before is not None and choice.after is not None:
        before, after = choice.before, choice.after
        parts = [
            f"{name} {percent(getattr(before, attribute))}% -> {percent(getattr(after, attribute))}%"
            for name, attribute in (("recall", "recall"), ("false alarms", "false_alarms"), ("precision", "precision"))
        ]
        remarks.append(
            f"the threshold was adjusted for {choice.n:,} features. On progressive scores: {', '.join(parts)}"
        )
    return remarks


def _as_json(model: "Model", choice: "Choice", file: Path | None) -> dict[str, Any]:
    best = choice.best
    fields: dict[str, Any] = {"features": best.n, "non_zeros": model.learner.nnz, "way": str(best.way)}
    fields |= {"log_loss": best.log_loss, "log_loss_se": best.standard_error, "error": best.error}
    fields |= {"average_precision": best.average_precision, "constant_log_loss": choice.baseline}
    fields |= {"threshold": model.threshold} if model.threshold else {}
    if choice.before is not None and choice.after is not None:
        fields["threshold_before"], fields["threshold_after"] = choice.before._asdict(), choice.after._asdict()
    return fields | {"model": file and str(file), "bytes": file and file.stat().st_size}


def l1_path(file: Path | None) -> "list[tuple[float, float]]":
    """Return sizes and errors of the l1 models in a table of ``thinstream path --csv``."""
    import csv

    if file is None:
        return []
    with file.open(newline="", encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines))
    try:
        return [(float(row["nnz"]), float(row["held_out_error"] or row["error"])) for row in rows]
    except (KeyError, ValueError) as error:
        raise InvalidInputError(
            f"{file}: --l1-path needs a table from `thinstream path --csv` with the columns nnz and held_out_error, "
            f"got {error}"
        ) from None


def draw(choices: Sequence["Choice"], picture: Path | None, l1: "list[tuple[float, float]]") -> None:
    if picture is None:
        return
    from thinstream.tuning.figures import draw_sizes

    full = choices[0].full
    draw_sizes([(choice.n, choice.best.error) for choice in choices], (full.n, full.error), l1, picture)
