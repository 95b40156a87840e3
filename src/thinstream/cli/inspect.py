"""``thinstream inspect``: what is in a model file."""

from pathlib import Path
from typing import Annotated, Any

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

    from thinstream.models.exports.portrait import Portrait
    from thinstream.models.file import read

    found = read(model)
    names = {} if found.names is None else dict(zip(found.names.indices.tolist(), found.names.texts, strict=True))
    portrait = Portrait.of(found.learner, found.classes, names, found.space)
    if plot is not None:
        from thinstream.models.picture import draw

        draw(portrait, plot)
    facts = _facts(found, portrait)
    order = portrait.largest_first()[:top]
    largest = [(int(portrait.indices[k]), float(portrait.weights[k])) for k in order]
    if as_json:
        features = [{"feature": j, "name": names.get(j), "weight": w} for j, w in largest]
        exact = {"parameters": dict(portrait.parameters), "classes": [portrait.negative, portrait.positive]}
        typer.echo(json.dumps({**facts, **exact, "feature_space": found.space, "top": features}))
        return
    for name, value in facts.items():
        typer.echo(f"{name.replace('_', ' '):<20} {value}")
    if largest:
        head = "feature" if names or found.space.get("hashing") else "feature (column, the first is 0)"
        typer.echo(f"\n{head:<40} {'weight':>14}")
    for j, w in largest:
        typer.echo(f"{names.get(j, str(j)):<40} {w:>14.6g}")
    if plot is not None:
        typer.echo(f"\nthe picture is in {plot}")


def _facts(model: Any, portrait: Any) -> dict[str, Any]:
    from thinstream.learners import Frozen

    learner = model.learner
    nnz, width = len(portrait.indices), portrait.n_features
    progressive = model.extra.get("progressive") or {}
    facts = {
        "algorithm": portrait.algorithm,
        "parameters": ", ".join(f"{name}={value}" for name, value in portrait.parameters.items()),
        "classes": f"{portrait.negative} (negative), {portrait.positive} (positive)",
        "grade": "weights only" if isinstance(learner, Frozen) else "full state",
        "precision": learner.memory.state.dtype.name,
        "class_costs": "balanced"
        if learner.costs.balanced
        else f"{learner.costs.negative:g}, {learner.costs.positive:g}",
        "examples": learner.t,
        "positives": learner.n_positives,
        "updates": learner.n_updates,
        "progressive_error": progressive.get("error"),
        "features": width,
        "feature_space": model.space or "column numbers, from 0",
        "non_zeros": nnz,
        "sparsity": 1.0 - nnz / width if width else None,
        "intercept": portrait.intercept,
    }
    return {name: value for name, value in facts.items() if value is not None}
