"""Options of an algorithm, made from its declaration: the command line knows none of them by itself."""

import inspect
import re
from typing import Any

import typer
from typer.core import TyperCommand, TyperOption

from thinstream.cli.show import say

DEFAULT = "ssol"
GIVEN = "thinstream.parameters"


def named_algorithm(arguments: list[str]) -> str:
    """The value of ``--algorithm`` (``-a``) on a command line, or the default."""
    for i, argument in enumerate(arguments):
        if argument in ("--algorithm", "-a") and i + 1 < len(arguments):
            return arguments[i + 1]
        if argument.startswith("--algorithm="):
            return argument.partition("=")[2]
    return DEFAULT


class AlgorithmCommand(TyperCommand):
    """A command with the options of the algorithm that stands on its command line."""

    _own: list[Any] = []

    def make_context(self, info_name: Any, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Looks up the algorithm before anything is parsed."""
        from thinstream.errors import UnknownNameError

        try:
            self._own = options(named_algorithm(args))
        except UnknownNameError as error:
            say(f"thinstream: {error}")
            raise SystemExit(2) from None
        return super().make_context(info_name, args, parent, **extra)

    def get_params(self, ctx: Any) -> list[Any]:
        """The command's own options, then the algorithm's."""
        *own, last = super().get_params(ctx)  # the last is --help
        return [*own, *self._own, last]


def options(name: str) -> list[Any]:
    """An option per parameter, with its range, meaning and default."""
    from thinstream.learners import find

    algorithm = find(name)
    meanings = _meanings(inspect.getdoc(algorithm.rule) or "")
    panel = f"{algorithm.name} ({algorithm.paper})"
    return [_option(parameter, meanings.get(parameter.name, ""), panel, algorithm.name) for parameter in algorithm.parameters]


def _option(parameter: Any, meaning: str, panel: str, owner: str) -> Any:
    def store(context: typer.Context, option: Any, value: str | None) -> None:
        if value is not None:
            context.meta.setdefault(GIVEN, {})[parameter.name] = _value(parameter, value, owner)

    default = "none" if parameter.default is None else parameter.default
    allowed = parameter.constraint.allowed().replace("None", "none")
    return TyperOption(
        param_decls=[f"--{parameter.name.replace('_', '-')}", f"_{parameter.name}"],
        help=f"{meaning} [{allowed}; default {default}]".strip().replace("[", r"\["),
        expose_value=False,
        callback=store,
        metavar="VALUE",
        rich_help_panel=panel,
        show_default=False,
    )


def _value(parameter: Any, text: str, owner: str) -> Any:
    """The public value a text stands for; what is not allowed is a wrong command line."""
    from thinstream.errors import InvalidParameterError

    value: Any = text
    if text.lower() == "none":
        value = None
    else:
        for kind in (int, float):
            try:
                value = kind(text)
                break
            except ValueError:
                continue
    try:
        parameter.encode(value, owner)
    except InvalidParameterError as error:
        raise typer.BadParameter(str(error)) from None
    return value


def _meanings(docstring: str) -> dict[str, str]:
    """What the docstring of a rule says of each parameter."""
    section = docstring.partition("Parameters\n----------\n")[2].partition("\nExamples\n")[0]
    found = re.findall(r"^(\w+) : [^\n]*\n((?:    [^\n]*\n?)*)", section, flags=re.MULTILINE)
    return {name: " ".join(text.split()) for name, text in found}
