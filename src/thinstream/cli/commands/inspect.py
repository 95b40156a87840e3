"""``thinstream inspect``: what is in a model file."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from thinstream.learners import Learner
    from thinstream.models.exports.gallery import Gallery
    from thinstream.models.exports.portrait import Portrait
    from thinstream.models.model import Model


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

    from thinstream.models.exports.taking import taken_of
    from thinstream.models.file import read

    found = read(model)
    portrait = taken_of(found)
    if plot is not None:
        _draw(portrait, plot)
    facts, features = _facts(found, portrait), _largest(portrait, top)
    if as_json:
        exact = {"parameters": dict(found.learner.parameters), "classes": list(found.classes)}
        typer.echo(json.dumps({**facts, **exact, "feature_space": found.feature_space, "top": features}))
        return
    for name, value in facts.items():
        typer.echo(f"{name.replace('_', ' '):<20} {value}")
    if features:
        head = "feature" if found.names or found.feature_space.get("hashing") else "feature (column, the first is 0)"
        names = {name: name for name in features[0]} | {"feature": head, "name": None}
        typer.echo(f"\n{_line(names)}")
    for feature in features:
        typer.echo(_line(feature))
    if plot is not None:
        typer.echo(f"\nthe picture is in {plot}")


def _facts(model: "Model", portrait: "Portrait | Gallery") -> dict[str, Any]:
    """What is to be said of it, by name; what has no value is left out."""
    from thinstream.learners import Learner
    from thinstream.models.exports.gallery import Gallery

    learner = model.learner
    first = portrait.first if isinstance(portrait, Gallery) else portrait
    progressive = model.extra.get("progressive") or {}
    nnz = portrait.nnz if isinstance(portrait, Gallery) else len(portrait.indices)
    of_classes = _of_two(learner, model.classes) if isinstance(learner, Learner) else _of_many(learner, model.classes)
    facts = {
        "algorithm": first.algorithm,
        "parameters": ", ".join(f"{name}={value}" for name, value in first.parameters.items()),
        "classes": of_classes.pop("classes"),
        "grade": "weights only" if learner.weights_only else "full state",
        "precision": learner.dtype.name,
        **of_classes,
        "progressive_error": progressive.get("error"),
        "features": first.n_features,
        "feature_space": model.feature_space or "column numbers, from 0",
        "non_zeros": nnz,
        "sparsity": 1.0 - nnz / learner.n_weights if learner.n_weights else None,
        "intercept": portrait.intercepts.tolist() if isinstance(portrait, Gallery) else portrait.intercept,
    }
    return {name: value for name, value in facts.items() if value is not None}


def _of_two(learner: "Learner", classes: Any) -> dict[str, Any]:
    costs = learner.costs
    return {
        "classes": f"{classes.negative} (negative), {classes.positive} (positive)",
        "class_costs": "balanced" if costs.balanced else f"{costs.negative:g}, {costs.positive:g}",
        "examples": learner.t,
        "positives": learner.n_positives,
        "updates": learner.n_updates,
    }


def _of_many(learner: Any, classes: Any) -> dict[str, Any]:
    costs = learner.costs
    return {
        "classes": f"{', '.join(map(str, classes))} (one-vs-rest)",
        "class_costs": "balanced" if costs[0].balanced else ", ".join(f"{each.positive:g}" for each in costs),
        "examples": learner.t,
        "examples_of_each": learner.class_counts.tolist(),
        "updates": learner.n_updates.tolist(),
    }


def _largest(portrait: "Portrait | Gallery", top: int) -> list[dict[str, Any]]:
    """The features of largest |weight|; of more than two classes with the class they speak for."""
    from thinstream.models.exports.portrait import Portrait

    order, names = portrait.largest_first()[:top], portrait.names
    if isinstance(portrait, Portrait):
        places = zip(portrait.indices[order].tolist(), portrait.weights[order].tolist(), strict=True)
        return [{"feature": j, "name": names.get(j), "weight": w} for j, w in places]
    columns, numbers, weights = (array[order].tolist() for array in portrait.flat())
    classes = portrait.classes
    found = zip(columns, numbers, weights, strict=True)
    return [{"feature": j, "name": names.get(j), "class": classes[k], "weight": w} for j, k, w in found]


def _line(feature: dict[str, Any]) -> str:
    """A line of the table, or its head."""
    weight = feature["weight"]
    label = f" {feature['class']!s:<20}" if "class" in feature else ""
    shown = f"{weight:>14}" if isinstance(weight, str) else f"{weight:>14.6g}"
    name = feature["feature"] if feature["name"] is None else feature["name"]
    return f"{name!s:<40}{label} {shown}"


def _draw(portrait: "Portrait | Gallery", path: Path) -> None:
    """Draws the weights, of models of two classes."""
    from thinstream.errors import InvalidParameterError
    from thinstream.models.exports.gallery import Gallery
    from thinstream.models.picture import draw

    if isinstance(portrait, Gallery):
        raise InvalidParameterError(f"--plot draws models of two classes, this one has {len(portrait.portraits)}")
    draw(portrait, path)
