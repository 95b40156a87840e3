"""``thinstream inspect``: what is in a model file."""

from pathlib import Path
from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command()(inspect)


def inspect(
    model: Annotated[Path, typer.Argument(help="The model file.", show_default=False)],
    top: Annotated[int, typer.Option("--top", "-n", min=0, help="Features shown, those of largest |weight|.")] = 20,
    plot: Annotated[
        Path | None, typer.Option(help="Draw the weights to this file (.png or .svg).", show_default=False)
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Report in JSON.")] = False,
) -> None:
    """Show a model: how it was trained, its sparsity, its largest weights."""
    import json

    from thinstream.cli.inspecting import described, drawn, largest, line
    from thinstream.models.exports.taking import taken_of
    from thinstream.models.file import read

    found = read(model)
    portrait = taken_of(found)
    if plot is not None:
        drawn(portrait, plot)
    facts, features = described(found, portrait), largest(portrait, top)
    if as_json:
        exact = {"parameters": dict(found.learner.parameters), "classes": list(found.classes)}
        typer.echo(json.dumps({**facts, **exact, "feature_space": found.feature_space, "top": features}))
        return
    for name, value in facts.items():
        typer.echo(f"{name.replace('_', ' '):<20} {value}")
    if features:
        head = "feature" if found.names or found.feature_space.get("hashing") else "feature (column, the first is 0)"
        names = {name: name for name in features[0]} | {"feature": head, "name": None}
        typer.echo(f"\n{line(names)}")
    for feature in features:
        typer.echo(line(feature))
    if plot is not None:
        typer.echo(f"\nthe picture is in {plot}")
