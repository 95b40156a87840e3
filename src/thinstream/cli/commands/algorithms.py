"""``thinstream algorithms``: what can learn, and with which options."""

import inspect
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from thinstream.cli.completing import learner_names, offer


def algorithms(
    name: Annotated[
        str | None,
        typer.Argument(help="Show this one in full.", show_default=False, autocompletion=offer(learner_names)),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Report in JSON.")] = False,
) -> None:
    """List the algorithms by what they are for, with advice, or show one: equations, parameters, ranges, paper."""
    from thinstream.cli.render import show_json
    from thinstream.learners.registry import algorithms as known
    from thinstream.learners.registry import find

    chosen = (find("Auto"), *known()) if name is None else (find(name),)
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
        kind = ", batch method" if algorithm.kind == "batch" else ""
        print(f"{algorithm.name} ({algorithm.paper}, {algorithm.order} order{kind})\n")
        print(
            (inspect.getdoc(algorithm.rule) or "").replace("::\n\n", "").partition("Examples\n---")[0].rstrip() + "\n"
        )
        for parameter in algorithm.parameters:
            option = f"--{parameter.name.replace('_', '-')}"
            print(f"{option:<16} {parameter.constraint.allowed()}; default {parameter.default}")


def _show_by_purpose(algorithms: Sequence[Any]) -> None:
    """A line for each, under what it is for; what nobody has said anything of comes last."""
    from thinstream.cli.purposes import PURPOSES

    known = {algorithm.name: algorithm for algorithm in algorithms}
    told = {name for group in PURPOSES.values() for name in group}
    rest = {name: algorithm.summary for name, algorithm in known.items() if name not in told}
    for title, group in {**PURPOSES, "Others": rest}.items():
        present = {name: advice for name, advice in group.items() if name in known}
        if present:
            print(f"{title}:")
        for name, advice in present.items():
            print(f"  {name:<24}{known[name].paper:<24}{advice}")
