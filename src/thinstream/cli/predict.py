"""``thinstream predict``: labels or scores of new examples."""

from pathlib import Path
from typing import Annotated

import typer

from thinstream.cli.groups import Output, Reading, grouped


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command()(grouped(predict))


def predict(
    data: Annotated[list[str], typer.Argument(help="Files, globs, or - for standard input.", show_default=False)],
    reading: Reading,
    output: Output,
    model: Annotated[Path, typer.Option("--model", "-m", help="The model file.", show_default=False)],
    out: Annotated[
        str, typer.Option("--out", "-o", help="Where the predictions go; compressed as its ending says.")
    ] = "-",
    scores: Annotated[
        bool,
        typer.Option(
            "--scores", help="Write scores instead of labels: positive means the positive class; of more, one for each."
        ),
    ] = False,
) -> None:
    """Write one prediction a line for each example: its label, or its score.

    Features are read as in training: hashing, text columns and normalisation come from the model file. With --json each
    line is an object with label and score. Scores of more than two classes are in their order, with tabs between them.
    """
    from thinstream.cli.predicting import write_predictions

    write_predictions(data, reading, model, out, scores=scores, as_json=output.json, quiet=output.quiet)
