"""``thinstream algorithms``: what can learn, and with which options."""

import inspect
from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command()(algorithms)


def algorithms(
    name: Annotated[str | None, typer.Argument(help="Show this one in full.", show_default=False)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Report in JSON.")] = False,
) -> None:
    """List the algorithms, or show one: equations, parameters with their ranges, paper."""
    import json

    from thinstream.learners import algorithms as known
    from thinstream.learners import find

    chosen = known() if name is None else (find(name),)
    if as_json:
        for algorithm in chosen:
            parameters = {
                p.name: {"default": p.default, "allowed": p.constraint.allowed()} for p in algorithm.parameters
            }
            entry = {"name": algorithm.name, "paper": algorithm.paper, "order": algorithm.order}
            typer.echo(json.dumps({**entry, "summary": algorithm.summary, "parameters": parameters}))
    elif name is None:
        for algorithm in chosen:
            typer.echo(f"{algorithm.name:<24}{algorithm.paper:<21}{algorithm.order:<8}{algorithm.summary}")
    else:
        (algorithm,) = chosen
        typer.echo(f"{algorithm.name} ({algorithm.paper}, {algorithm.order} order)\n")
        typer.echo(
            (inspect.getdoc(algorithm.rule) or "").replace("::\n\n", "").partition("Examples\n---")[0].rstrip() + "\n"
        )
        for parameter in algorithm.parameters:
            option = f"--{parameter.name.replace('_', '-')}"
            typer.echo(f"{option:<16} {parameter.constraint.allowed()}; default {parameter.default}")
