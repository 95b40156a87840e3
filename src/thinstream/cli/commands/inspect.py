"""``thinstream inspect``: what is in a model file."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from thinstream.models.exports import LinearModel
    from thinstream.models.model import Model

#: What facts are called for people, where that is not their name.
CALLED = {"grade": "state", "top_by": "shown by"}
GRADES = {"full state": "full: it can go on learning", "weights only": "weights only: it predicts and cannot learn on"}
ORDERS = {
    "importance": "importance, |weight| times the root of how large and frequent the feature was, as thin has it",
    "weight": "|weight|, as the model does not know how often features occurred",
}


def inspect(
    model: Annotated[Path, typer.Argument(help="The model file.", show_default=False)],
    top: Annotated[int, typer.Option("--top", "-n", min=0, help="Weights shown, the most important first.")] = 20,
    plot: Annotated[
        Path | None, typer.Option(help="Draw the weights to this file (.png or .svg).", show_default=False)
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Report in JSON.")] = False,
) -> None:
    """Show a model: how it was trained, its sparsity, its most important weights, those that thin would keep."""
    from thinstream.cli.known_names import known_names
    from thinstream.cli.render import show_json
    from thinstream.cli.terminal import printable
    from thinstream.models.exports import LinearModel
    from thinstream.models.file import read

    found = read(model)
    linear = LinearModel.of(found)
    if plot is not None:
        from thinstream.models.picture import draw

        draw(linear, plot)
    order, by = _order(found, linear)
    facts = _facts(found, linear) | {"top_by": by}
    features = _features(linear, order[:top], {**known_names(found), **linear.names})
    if as_json:
        from thinstream.blend.serving import blends_of
        from thinstream.cli.lanes import lanes_of

        exact: dict[str, Any] = {"lanes": lanes_of(found)} if blends_of(found.learner) else {}
        exact |= {"parameters": dict(found.learner.parameters), "classes": list(found.classes)}
        show_json({**facts, **exact, "feature_space": found.feature_space, "top": features})
        return
    for name, value in (facts | _for_people(found, facts)).items():
        print(printable(f"{CALLED.get(name, name).replace('_', ' '):<20} {value}"))
    if features:
        head = "feature" if found.names or found.feature_space.get("hashing") else "feature (column, the first is 0)"
        names = {name: name for name in features[0]} | {"feature": head, "name": None}
        wide = max([len(str(feature.get("class", ""))) for feature in (names, *features)])
        print(f"\n{_line(names, wide)}")
    for feature in features:
        print(printable(_line(feature, wide)))
    if features and found.feature_space.get("hashing") and not any(feature["name"] for feature in features):
        print("\nnames of hashed features were not kept: train with --names N, or with --max-features N")
    if plot is not None:
        print(f"\nthe picture is in {plot}")


def _facts(model: "Model", linear: "LinearModel") -> dict[str, Any]:
    """What is to be said of it, by name; what has no value is left out."""
    from thinstream.blend.serving import blends_of
    from thinstream.cli.lanes import largest_shares

    learner, models, labels = model.learner, list(model.learner.models), list(map(str, model.classes))
    costs, positives = [one.costs for one in models], [one.n_positives for one in models]
    updates, intercepts = [one.n_updates for one in models], linear.intercepts.tolist()
    if linear.is_binary:
        classes, shown = f"{labels[0]} (negative), {labels[1]} (positive)", costs[0][:2]
        counts = {"positives": positives[0], "updates": updates[0]}
    else:
        classes, shown = f"{', '.join(labels)} (one-vs-rest)", [each.positive for each in costs]
        counts = {"examples_of_each": positives, "updates": updates}
    facts = {
        "algorithm": linear.algorithm,
        "parameters": ", ".join(f"{name}={value}" for name, value in linear.parameters.items() if name != "portfolio"),
        "classes": classes,
        "grade": "weights only" if learner.weights_only else "full state",
        "precision": learner.dtype.name,
        "lanes": largest_shares(model) if blends_of(learner) else None,
        "threshold": model.threshold or None,
        "class_costs": "balanced" if costs[0].balanced else ", ".join(f"{cost:g}" for cost in shown),
        "examples": learner.t,
        **counts,
        "progressive_error": (model.report or {}).get("error"),
        "features": linear.n_features,
        "budget": _budget(model),
        "feature_space": model.feature_space,
        **{name: kind for name, kind in model.preparation.kinds.items() if kind is not None},
        "vectors": ", ".join(vector.words for vector in linear.vectors) if linear.beside else None,
        "non_zeros": linear.nnz,
        **_sparsity(model, linear),
        "intercept": intercepts[0] if linear.is_binary else intercepts,
    }
    return {name: value for name, value in facts.items() if value is not None}


def _budget(model: "Model") -> dict[str, int] | None:
    """Of a model that keeps some features: how many there are, at most, and at which sight one is admitted."""
    from thinstream.budget.learner import BudgetLearner

    learner = model.learner
    if not isinstance(learner, BudgetLearner):
        return None
    table = learner.table
    return {"kept": len(table.used), "max_features": table.max_features, "admit": table.admit}


def _for_people(model: "Model", facts: dict[str, Any]) -> dict[str, str]:
    """Those of the facts that JSON has in full, in percent, rounded or in words."""
    from thinstream.cli.render import threshold_in_words
    from thinstream.evaluate.showing import percent
    from thinstream.models.feature_words import in_words

    shares = ("progressive_error", "sparsity", "hash_space_sparsity")
    found = {name: f"{percent(facts[name])} %" for name in shares if name in facts}
    found |= {"threshold": threshold_in_words(model)} if "threshold" in facts else {}
    if budget := facts.get("budget"):
        kept, most, sight = budget["kept"], budget["max_features"], budget["admit"]
        found["budget"] = f"{kept:,} of {most:,} features are kept, each from its sight number {sight} on"
    intercepts = facts["intercept"] if isinstance(facts["intercept"], list) else [facts["intercept"]]
    space = in_words(model.feature_space) if model.feature_space else "column numbers, from 0"
    found |= {"grade": GRADES[facts["grade"]], "top_by": ORDERS[facts["top_by"]]}
    return {**found, "feature_space": space, "intercept": ", ".join(f"{value:.6g}" for value in intercepts)}


def _sparsity(model: "Model", linear: "LinearModel") -> dict[str, Any]:
    """Shares of weights that are 0: of hashed features of those met, and of all numbers there are to hash into."""
    nnz, met = linear.nnz, model.n_weights_met
    of_all = 1.0 - nnz / linear.n_weights if linear.n_weights else None
    if "hashing" not in model.feature_space:
        return {"sparsity": of_all}
    return {"weights_met": met, "sparsity": 1.0 - nnz / met if met else None, "hash_space_sparsity": of_all}


def _order(model: "Model", linear: "LinearModel") -> tuple["NDArray[np.intp]", str]:
    """Places of the weights of all vectors, the most important first, and what they are ordered by."""
    import numpy as np

    from thinstream.thinning import importance_at

    vector, numbers = linear.together()
    found, is_known = importance_at(model.learner, vector.indices, vector.rows, numbers)
    return np.argsort(-found, kind="stable"), "importance" if is_known else "weight"


def _features(linear: "LinearModel", order: "NDArray[np.intp]", names: dict[int, str]) -> list[dict[str, Any]]:
    """The features of the weights in these places; of more than two classes with the class they speak for."""
    vector, numbers = linear.together()
    cells = zip(*(array[order].tolist() for array in (*vector[:3], numbers)), strict=True)
    return [
        {
            "feature": j,
            "name": names.get(j),
            **({} if linear.is_binary else {"class": linear.classes[k]}),
            **({"of": linear.vectors[which].words} if linear.beside else {}),
            "weight": weight,
        }
        for j, k, weight, which in cells
    ]


def _line(feature: dict[str, Any], wide: int) -> str:
    """A line of the table, or its head, with so much room for classes."""
    weight = feature["weight"]
    label = f" {feature['class']!s:<{max(wide, 20)}}" if "class" in feature else ""
    shown = f"{weight:>14}" if isinstance(weight, str) else f"{weight:>14.6g}"
    of = f"  {feature['of']}" if "of" in feature else ""
    name = feature["feature"] if feature["name"] is None else feature["name"]
    return f"{name!s:<40}{label} {shown}{of}"
