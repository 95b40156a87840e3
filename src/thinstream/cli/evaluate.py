"""``thinstream evaluate``: how good a model is on labelled examples."""

from pathlib import Path
from typing import Annotated

import typer

from thinstream.cli.groups import Output, Reading, grouped


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command()(grouped(evaluate))


def evaluate(
    data: Annotated[list[str], typer.Argument(help="Files, globs, or - for standard input.", show_default=False)],
    reading: Reading,
    output: Output,
    model: Annotated[Path, typer.Option("--model", "-m", help="The model file.", show_default=False)],
    alpha_p: Annotated[
        float,
        typer.Option(help="Weight of sensitivity in the weighted sum; specificity has the rest.", min=0.0, max=1.0),
    ] = 0.5,
    cost_p: Annotated[
        float, typer.Option(help="Cost of a missed positive; a false alarm costs the rest to 1.", min=0.0, max=1.0)
    ] = 0.95,
) -> None:
    """Measure a model on labelled examples, without learning from them."""
    import json

    from thinstream.cli.predicting import evaluated
    from thinstream.evaluate.report import Tradeoff

    found, report = evaluated(
        data, reading, model, Tradeoff(alpha_p, 1.0 - alpha_p, cost_p, 1.0 - cost_p), quiet=output.quiet
    )
    typer.echo(json.dumps(report.as_dict()) if output.json else report.describe(found.classes))
