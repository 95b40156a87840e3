"""``thinstream algorithms``: list the algorithms, their options and what each is for."""

import inspect
from collections.abc import Sequence
from typing import Annotated, Any

from thinstream.cli.options import argument, learner_names, option


def algorithms(
    name: Annotated[str | None, argument("Show the details of this algorithm.", values=learner_names)] = None,
    as_json: Annotated[bool, option("Report in JSON.", None, "--json")] = False,
) -> None:
    """List the algorithms by purpose, or show one algorithm: its equations, parameters and paper."""
    from thinstream.algorithms.registry import algorithms as registered
    from thinstream.algorithms.registry import find
    from thinstream.cli.render import show_json

    chosen = (find("Auto"), *registered()) if name is None else (find(name),)
    if as_json:
        for algorithm in chosen:
            parameters = {
                p.name: {"default": p.default, "allowed": p.constraint.allowed()} for p in algorithm.parameters
            }
            entry = {"name": algorithm.name, "kind": algorithm.kind, "paper": algorithm.paper, "order": algorithm.order}
            show_json({**entry, "summary": algorithm.summary, "parameters": parameters})
    elif name is None:
        _show_by_purpose(chosen)
    else:
        (algorithm,) = chosen
        batch = ", batch method" if algorithm.kind == "batch" else ""
        print(f"{algorithm.name} ({algorithm.paper}, {algorithm.order} order{batch})\n")
        print(
            (inspect.getdoc(algorithm.rule) or "").replace("::\n\n", "").partition("Examples\n---")[0].rstrip() + "\n"
        )
        for parameter in algorithm.parameters:
            flag = f"--{parameter.name.replace('_', '-')}"
            print(f"{flag:<16} {parameter.constraint.allowed()}; default {parameter.default}")


def _show_by_purpose(algorithms: Sequence[Any]) -> None:
    by_name = {algorithm.name: algorithm for algorithm in algorithms}
    listed = {name for group in PURPOSES.values() for name in group}
    others = {name: algorithm.summary for name, algorithm in by_name.items() if name not in listed}
    for title, group in {**PURPOSES, "Others": others}.items():
        present = {name: advice for name, advice in group.items() if name in by_name}
        if present:
            print(f"{title}:")
        for name, advice in present.items():
            print(f"  {name:<24}{by_name[name].paper:<24}{advice}")


#: Advice on algorithms, by purpose.
PURPOSES: dict[str, dict[str, str]] = {
    "Start here": {
        "Auto": "the default: trains several models side by side, nothing to tune",
        "AdaRDA": "works well untuned, sparse with --l1",
        "AROW": "works well untuned on dense and noisy rows; no l1",
        "FTRLProximal": "clicks and other rare events, huge vocabularies; sparse with --l1",
        "NAG": "columns of any scale",
        "Coin": "no learning rate to choose",
    },
    "Sparse models": {
        "SSOL": "few weights at a low error, if eta, r and l1 are tuned (thinstream path)",
        "FSOL": "like SSOL without variances: less memory, faster",
        "AdaFOBOS": "like AdaRDA, with forward-backward splitting instead of dual averaging",
        "RDA": "one learning rate for all features; rho > 0 is sparser",
        "FOBOS": "gradient steps with l1, fast and simple",
        "STG": "truncates small weights at regular intervals",
        "StableSparsePerceptron": "keeps the density of the model at a value you choose",
        "SOFS": "keeps the B features with the most confident weights",
        "SMIDAS": "few relevant features among very many; a row takes time proportional to all weights",
    },
    "Confidence in each weight": {
        "SCW": "like AROW with a limit on each step; tune C",
        "CW": "data without label noise, because it trusts every label",
        "NAROW": "AROW with smaller steps as it becomes confident",
        "SOP": "learns from mistakes only, with the correlations of features",
    },
    "Simple and small": {
        "PA": "one weight per feature, no learning rate; C for noise",
        "Perceptron": "a baseline for the others",
        "CSOGD": "plain gradient steps; cost-sensitive with class weights",
    },
    "Imbalanced classes and unequal costs": {
        "ARCSOGD": "rare positives; tune with thinstream costs",
        "CPA": "a margin that depends on the cost of the predicted class",
        "PAUM": "a margin for each class",
    },
    "All rows at once, or several passes": {
        "SCD": "logistic regression with l1, to the optimum",
        "SparDCA": "a support vector machine with l1",
        "FGM": "selects groups of features one by one",
        "GraDes": "exactly s features, in little memory",
        "BCW": "confidence for a batch of rows, few features",
        "SBCW": "like BCW for many features, of which it selects a few",
    },
}
