"""``thinstream inspect``: show a model file, or the inferred schema of a data file."""

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from thinstream.cli.options import argument, option

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from thinstream.export import LinearModel
    from thinstream.models.model import Model

#: Titles of facts, if they differ from their names.
TITLES = {"grade": "state", "top_by": "sorted by"}
GRADES = {"full state": "full: can continue to learn", "weights only": "weights only: cannot continue to learn"}
ORDERS = {
    "importance": "importance: |weight| times the root of the sum of squared values, as in thinstream thin",
    "weight": "|weight|, because the model does not store how often features occurred",
}


def inspect(
    model: Annotated[Path, argument("A model file, or a data file, to show its inferred columns.")],
    top: Annotated[
        int, option("The number of weights to show, the most important first.", None, "--top", "-n", min=0)
    ] = 20,
    plot: Annotated[Path | None, option("Draw a chart of the weights to this file (.png or .svg).")] = None,
    label: Annotated[str, option("The label column (or key) of a data file.")] = "label",
    as_json: Annotated[bool, option("Report in JSON.", None, "--json")] = False,
) -> None:
    """Show a model: how it was trained, its sparsity, and its most important features.

    The weight of a feature is the mean effect of one unit on the scores of the rows that have the feature. Products of
    features that the model has learned have names such as age × income.

    For a data file (with an extension such as .csv), show the format, the classes and the role of each column, as
    'thinstream train' infers them.
    """
    from thinstream.cli.render import show_json
    from thinstream.cli.terminal import printable
    from thinstream.data.formats import has_format
    from thinstream.export import LinearModel
    from thinstream.models.explain import known_names
    from thinstream.models.file import read

    if has_format(str(model)):
        _show_schema(model, label, as_json=as_json)
        return
    fitted = read(model)
    linear = LinearModel.of(fitted)
    if plot is not None:
        from thinstream.export.picture import draw

        draw(linear, plot)
    order, by = _order(fitted, linear)
    facts = _facts(fitted, linear) | {"top_by": by}
    names_by_number = {**known_names(fitted), **linear.names}
    if linear.products is not None:
        names_by_number |= linear.products.names(linear.effects.indices[order], names_by_number)
    features = _features(linear, order[:top], names_by_number)
    if as_json:
        from thinstream.cli.render import lanes_of

        exact: dict[str, Any] = {"lanes": lanes_of(fitted)} if fitted.blends else {}
        exact |= {"parameters": dict(fitted.learner.parameters), "classes": list(fitted.classes)}
        show_json({**facts, **exact, "feature_space": fitted.feature_space, "top": features})
        return
    for name, value in (facts | _for_people(fitted, facts)).items():
        print(printable(f"{TITLES.get(name, name).replace('_', ' '):<20} {value}"))
    if features:
        has_names = fitted.names or fitted.feature_space.get("hashing")
        title = "feature" if has_names else "feature (column number, from 0)"
        head = {name: name for name in features[0]} | {"feature": title, "name": None}
        class_width = max(len(str(feature.get("class", ""))) for feature in (head, *features))
        name_width = max(len(printable(_name(feature))) for feature in (head, *features))
        print(f"\n{_line(head, class_width, name_width)}")
    for feature in features:
        print(printable(_line(feature, class_width, name_width)))
    if features and fitted.feature_space.get("hashing") and not any(feature["name"] for feature in features):
        print("\nThe model has no names of hashed features. Train with --names N or --max-features N to store them")
    if plot is not None:
        print(f"\nwrote a chart to {plot}")


def _show_schema(path: Path, label: str, *, as_json: bool) -> None:
    """Print what is inferred about a file of rows."""
    from thinstream.cli.render import show_json
    from thinstream.cli.terminal import printable
    from thinstream.data.column_inference import schema_lines
    from thinstream.data.formats import format_of
    from thinstream.data.opening import infer_options
    from thinstream.data.options import Options

    inferred = infer_options(path, Options(label=label))
    if not inferred.schema:  # usually because there is no label column
        inferred = infer_options(path, Options(label=label, labels=False))
    name, classes, schema = format_of(str(path)), inferred.options.classes, inferred.schema
    if as_json:
        show_json({"format": name, "classes": classes, "columns": [column._asdict() for column in schema]})
        return
    print(f"{'format':<20} {name}")
    if classes is not None:
        print(printable(f"{'classes':<20} {', '.join(map(str, classes))}"))
    if schema:
        print()
    for line in schema_lines(schema) if schema else ():
        print(printable(line))


def _facts(model: "Model", linear: "LinearModel") -> dict[str, Any]:
    """Return the facts to show, by name, without those that have no value."""
    from thinstream.cli.render import largest_shares

    learner, models, labels = model.learner, list(model.learner.models), list(map(str, model.classes))
    costs, positives = [output.costs for output in models], [output.n_positives for output in models]
    updates, intercepts = [output.n_updates for output in models], linear.intercepts.tolist()
    if linear.is_binary:
        classes, shown = f"{labels[0]} (negative), {labels[1]} (positive)", costs[0][:2]
        counts = {"positives": positives[0], "updates": updates[0]}
    else:
        classes, shown = f"{', '.join(labels)} (one-vs-rest)", [cost.positive for cost in costs]
        counts = {"examples_of_each": positives, "updates": updates}
    facts = {
        "algorithm": linear.algorithm,
        "parameters": ", ".join(f"{name}={value}" for name, value in linear.parameters.items() if name != "portfolio"),
        "classes": classes,
        "grade": "weights only" if learner.weights_only else "full state",
        "precision": learner.dtype.name,
        "lanes": largest_shares(model) if model.blends else None,
        "threshold": model.threshold or None,
        "class_costs": "balanced" if costs[0].balanced else ", ".join(f"{cost:g}" for cost in shown),
        "examples": learner.t,
        **counts,
        "progressive_error": (model.report or {}).get("error"),
        "features": linear.n_inputs,
        "budget": _budget(model),
        "feature_space": model.feature_space,
        **{name: choice for name, choice in model.preparation.kinds.items() if choice is not None},
        "vectors": ", ".join(_counted(vector.words for vector in linear.vectors)) if linear.others else None,
        "non_zeros": linear.nnz,
        **_sparsity(model, linear),
        "intercept": intercepts[0] if linear.is_binary else intercepts,
    }
    return {name: value for name, value in facts.items() if value is not None}


def _counted(names: Iterable[str]) -> Iterator[str]:
    """Yield the distinct names, with the number of times that each occurs if it is more than one."""
    return (name if count == 1 else f"{name} ({count})" for name, count in Counter(names).items())


def _budget(model: "Model") -> dict[str, int] | None:
    """Return the number of kept features, their limit, and the occurrence that admits a feature."""
    table = model.budget_table
    if table is None:
        return None
    return {"kept": len(table.used), "max_features": table.max_features, "admit": table.admit}


def _for_people(model: "Model", facts: dict[str, Any]) -> dict[str, str]:
    """Return facts as text: shares in percent, rounded numbers and descriptions."""
    from thinstream.cli.render import describe_threshold
    from thinstream.models.model import describe_space
    from thinstream.training.formatting import percent

    shares = ("progressive_error", "sparsity", "hash_space_sparsity")
    texts = {name: f"{percent(facts[name])}%" for name in shares if name in facts}
    texts |= {"threshold": describe_threshold(model)} if "threshold" in facts else {}
    if budget := facts.get("budget"):
        kept, limit, occurrence = budget["kept"], budget["max_features"], budget["admit"]
        texts["budget"] = f"{kept:,} of {limit:,} features, each admitted at occurrence {occurrence}"
    intercepts = facts["intercept"] if isinstance(facts["intercept"], list) else [facts["intercept"]]
    space = describe_space(model.feature_space) if model.feature_space else "column numbers, from 0"
    if "hashing" in model.feature_space:  # the number of hashed numbers says nothing about the features
        met = model.learner.n_features_met
        texts["features"] = (
            "unknown" if met is None else f"{met:,}{'' if model.learner.weights_only else ' that occurred'}"
        )
    texts |= {"grade": GRADES[facts["grade"]], "top_by": ORDERS[facts["top_by"]]}
    return {**texts, "feature_space": space, "intercept": ", ".join(f"{value:.6g}" for value in intercepts)}


def _sparsity(model: "Model", linear: "LinearModel") -> dict[str, Any]:
    """Return the share of zero weights. With hashing, also for the weights of features that occurred."""
    nnz, met = linear.nnz, model.n_weights_met
    of_all = 1.0 - nnz / linear.n_weights if linear.n_weights else None
    if "hashing" not in model.feature_space:
        return {"sparsity": of_all}
    return {"weights_met": met, "sparsity": 1.0 - nnz / met if met else None, "hash_space_sparsity": of_all}


def _order(model: "Model", linear: "LinearModel") -> tuple["NDArray[np.intp]", str]:
    """Return the positions of the weights, the most important first, and the measure of importance."""
    import numpy as np

    from thinstream.models.importance import effect_importance

    vector = linear.effects
    importance, is_known = effect_importance(model.learner, vector.indices, vector.rows, vector.weights)
    return np.argsort(-importance, kind="stable"), "importance" if is_known else "weight"


def _features(linear: "LinearModel", order: "NDArray[np.intp]", names: dict[int, str]) -> list[dict[str, Any]]:
    """Return the features of the weights at these positions. With more than two classes, each has its class."""
    cells = zip(*(array[order].tolist() for array in linear.effects[:3]), strict=True)
    return [
        {
            "feature": j,
            "name": names.get(j),
            **({} if linear.is_binary else {"class": linear.classes[k]}),
            "weight": weight,
        }
        for j, k, weight in cells
    ]


def _name(feature: dict[str, Any]) -> str:
    return str(feature["feature"] if feature["name"] is None else feature["name"])


def _line(feature: dict[str, Any], class_width: int, name_width: int) -> str:
    """Return a line of the table, or its header."""
    from thinstream.cli.terminal import printable

    weight = feature["weight"]
    label = f" {feature['class']!s:<{max(class_width, 20)}}" if "class" in feature else ""
    shown = f"{weight:>14}" if isinstance(weight, str) else f"{weight:>14.6g}"
    return f"{printable(_name(feature)):<{max(name_width + 1, 40)}}{label} {shown}"
