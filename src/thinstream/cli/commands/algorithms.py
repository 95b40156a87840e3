"""``thinstream algorithms``: what can learn, and with which options."""

import inspect
from typing import Annotated

import typer


def algorithms(
    name: Annotated[str | None, typer.Argument(help="Show this one in full.", show_default=False)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Report in JSON.")] = False,
) -> None:
    """List the algorithms, or show one: equations, parameters with their ranges, paper.

    Those marked as batch need all rows at once, or several passes over them; the others learn row by row.
    """
    from thinstream.cli.render import show_json
    from thinstream.learners.registry import algorithms as known
    from thinstream.learners.registry import find

    chosen = known() if name is None else (find(name),)
    if as_json:
        for algorithm in chosen:
            parameters = {
                p.name: {"default": p.default, "allowed": p.constraint.allowed()} for p in algorithm.parameters
            }
            entry = {"name": algorithm.name, "kind": algorithm.kind, "paper": algorithm.paper, "order": algorithm.order}
            show_json({**entry, "summary": algorithm.summary, "parameters": parameters})
    elif name is None:
        for algorithm in chosen:
            kind = "batch" if algorithm.kind == "batch" else ""
            print(f"{algorithm.name:<24}{algorithm.paper:<24}{algorithm.order:<8}{kind:<7}{algorithm.summary}")
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
