"""``thinstream train``: learn from files or a pipe."""

from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any

import typer

from thinstream.cli.groups import Output, Reading, Spread, grouped
from thinstream.cli.parameters import DEFAULT, named_algorithm, options, values

MODEL, CHECKPOINTS = "Model", "Checkpoints"


def register(app: typer.Typer, arguments: list[str]) -> None:
    """Adds the command, with the options of the algorithm that stands in the arguments."""
    own = options(named_algorithm(arguments)) if arguments[:1] == ["train"] else []
    app.command(epilog="Options of another algorithm: thinstream train -a NAME --help")(grouped(train, own))


def train(
    context: typer.Context,
    data: Annotated[list[str], typer.Argument(help="Files, globs, or - for standard input.", show_default=False)],
    reading: Reading,
    spread: Spread,
    output: Output,
    own: dict[str, str | None],
    algorithm: Annotated[
        str, typer.Option("--algorithm", "-a", help="Its name, see `thinstream algorithms`.", rich_help_panel=MODEL)
    ] = DEFAULT,
    model: Annotated[
        Path | None,
        typer.Option(
            "--model",
            "-m",
            help="Where the model goes (default: nowhere, only metrics).",
            rich_help_panel=MODEL,
            show_default=False,
        ),
    ] = None,
    weights_only: Annotated[
        bool,
        typer.Option(
            "--weights-only",
            help="Save non-zero weights only: tiny, predicts, cannot go on learning.",
            rich_help_panel=MODEL,
        ),
    ] = False,
    start: Annotated[
        Path | None,
        typer.Option(
            "--from",
            help="Go on from this model, with its algorithm and parameters.",
            rich_help_panel=MODEL,
            show_default=False,
        ),
    ] = None,
    class_weight: Annotated[
        str | None,
        typer.Option(
            help="Costs of the classes: balanced, or one for each in the order of --classes, as in 1,20.",
            rich_help_panel=MODEL,
            show_default=False,
        ),
    ] = None,
    intercept: Annotated[
        bool, typer.Option("--intercept", help="Learn a constant feature along.", rich_help_panel=MODEL)
    ] = False,
    features: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="How many features there are: more is an error. By default the model grows with the data.",
            rich_help_panel=MODEL,
            show_default=False,
        ),
    ] = None,
    dtype: Annotated[
        str | None, typer.Option(help="float32 (default) or float64.", rich_help_panel=MODEL, show_default=False)
    ] = None,
    passes: Annotated[int, typer.Option(min=1, help="Passes over the data.", rich_help_panel=MODEL)] = 1,
    cache: Annotated[
        bool,
        typer.Option(
            "--cache",
            help="Keep a binary copy beside the data (FILE.cache) and read that from now on.",
            rich_help_panel="Reading",
        ),
    ] = False,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            help="Where checkpoints go (default: MODEL.checkpoint): a file; of --mode features a folder.",
            rich_help_panel=CHECKPOINTS,
            show_default=False,
        ),
    ] = None,
    checkpoint_every: Annotated[
        int | None,
        typer.Option(min=1, help="Examples between checkpoints.", rich_help_panel=CHECKPOINTS, show_default=False),
    ] = None,
    checkpoint_seconds: Annotated[
        float | None,
        typer.Option(min=0.0, help="Seconds between checkpoints.", rich_help_panel=CHECKPOINTS, show_default=False),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from the checkpoint, if there is one.", rich_help_panel=CHECKPOINTS)
    ] = False,
) -> None:
    """Learn from a stream in one pass, showing how well each example was predicted before it was learned.

    The table's lines double: examples so far, error since the start and since the line before, sensitivity,
    specificity, their weighted sum and cost (paper P3), log-loss, AUC, non-zero weights. Of more than two classes:
    error, mean recall, mean F1, non-zero weights.
    """
    from thinstream.cli.learning import Job, learn
    from thinstream.errors import InvalidParameterError

    if spread.engine is None:
        for option in fields(Spread):
            if option.name != "engine" and _given(context, option.name):
                raise InvalidParameterError(f"--{option.name.replace('_', '-')} is for runs with --engine")
    job = Job(
        data=data,
        reading=reading,
        algorithm=algorithm if start is None or _given(context, "algorithm") else None,
        parameters=values(algorithm, own),
        model=model,
        grade="weights" if weights_only else "full",
        start=start,
        class_weight=class_weight,
        intercept=intercept,
        features=features,
        dtype=dtype,
        passes=passes,
        cache=cache,
        checkpoint=checkpoint or (Path(f"{model}.checkpoint") if model else None),
        checkpoint_every=checkpoint_every,
        checkpoint_seconds=checkpoint_seconds,
        resume=resume,
        spread=spread,
    )
    raise typer.Exit(learn(job, output))


def _given(context: typer.Context, name: str) -> bool:
    """Whether an option stands on the command line, rather than being at its default."""
    source: Any = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"
