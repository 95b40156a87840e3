"""What ``inspect`` tells of a model."""

from pathlib import Path
from typing import Any

from thinstream.errors import InvalidParameterError
from thinstream.learners import Learner
from thinstream.models.exports.gallery import Gallery
from thinstream.models.exports.portrait import Portrait
from thinstream.models.model import Model


def described(model: Model, portrait: Portrait | Gallery) -> dict[str, Any]:
    """What is to be said of it, by name; what has no value is left out."""
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


def _of_two(learner: Learner, classes: Any) -> dict[str, Any]:
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


def largest(portrait: Portrait | Gallery, top: int) -> list[dict[str, Any]]:
    """The features of largest |weight|; of more than two classes with the class they speak for."""
    order, names = portrait.largest_first()[:top], portrait.names
    if isinstance(portrait, Portrait):
        places = zip(portrait.indices[order].tolist(), portrait.weights[order].tolist(), strict=True)
        return [{"feature": j, "name": names.get(j), "weight": w} for j, w in places]
    columns, numbers, weights = (array[order].tolist() for array in portrait.flat())
    classes = portrait.classes
    found = zip(columns, numbers, weights, strict=True)
    return [{"feature": j, "name": names.get(j), "class": classes[k], "weight": w} for j, k, w in found]


def line(feature: dict[str, Any]) -> str:
    """A line of the table, or its head."""
    weight = feature["weight"]
    label = f" {feature['class']!s:<20}" if "class" in feature else ""
    shown = f"{weight:>14}" if isinstance(weight, str) else f"{weight:>14.6g}"
    name = feature["feature"] if feature["name"] is None else feature["name"]
    return f"{name!s:<40}{label} {shown}"


def drawn(portrait: Portrait | Gallery, path: Path) -> None:
    """The picture, which models of two classes have."""
    from thinstream.models.picture import draw

    if isinstance(portrait, Gallery):
        raise InvalidParameterError(f"--plot draws models of two classes, this one has {len(portrait.portraits)}")
    draw(portrait, path)
