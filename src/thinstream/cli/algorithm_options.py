"""Options of an algorithm, made from its declaration: the command line knows none of them by itself."""

import inspect
import re
from collections.abc import Collection
from typing import Annotated, Any

import typer


def named_algorithm(arguments: list[str], default: str) -> str:
    """The value of ``--algorithm`` (``-a``) on a command line, or the default.

    >>> named_algorithm(["train", "day.svm", "-a", "fsol"], "adarda")
    'fsol'
    """
    for i, argument in enumerate(arguments):
        if argument in ("--algorithm", "-a") and i + 1 < len(arguments):
            return arguments[i + 1]
        if argument.startswith("--algorithm="):
            return argument.partition("=")[2]
    return default


def online(name: str) -> Any:
    """The algorithm of that name, which a stream can teach row by row; of a batch method it says what to do instead.

    >>> online("fsol").name
    'FSOL'
    """
    from thinstream.errors import InvalidParameterError
    from thinstream.learners import find

    found = find(name)
    if found.kind == "online":
        return found
    raise InvalidParameterError(f"{found.name} is a batch method, and the command line learns row by row; {how(found)}")


def how(batch: Any) -> str:
    """How a batch method learns from files."""
    return f"in Python: ts.{batch.name}().fit_stream(ts.open_stream('FILE')).save('MODEL')"


def algorithm_options(name: str, *, without: Collection[str] = ()) -> list[inspect.Parameter]:
    """An option per parameter of the algorithm, with its meaning, range and default."""
    algorithm = online(name)
    meanings = _meanings(inspect.getdoc(algorithm.rule) or "")
    panel = f"{algorithm.name} ({algorithm.paper})"
    return [
        _option(parameter, meanings.get(parameter.name, ""), panel)
        for parameter in algorithm.parameters
        if parameter.name not in without
    ]


def _option(parameter: Any, meaning: str, panel: str) -> inspect.Parameter:
    default = "none" if parameter.default is None else parameter.default
    allowed = parameter.constraint.allowed().replace("None", "none")
    option = typer.Option(
        f"--{parameter.name.replace('_', '-')}",
        help=f"{meaning} ({allowed}; default {default})".strip(),
        metavar="VALUE",
        rich_help_panel=panel,
        show_default=False,
    )
    kind = Annotated[str | None, option]
    return inspect.Parameter(f"own_{parameter.name}", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind)


def parse_parameters(name: str, given: dict[str, str | None]) -> dict[str, Any]:
    """The public values of the options that were given; what is not allowed is a wrong command line."""
    from thinstream.errors import InvalidParameterError

    algorithm = online(name)
    found = {}
    for parameter in algorithm.parameters:
        text = given.get(f"own_{parameter.name}")
        if text is None:
            continue
        value = parse_value(text)
        try:
            parameter.encode(value, algorithm.name)
        except InvalidParameterError as error:
            raise typer.BadParameter(str(error)) from None
        found[parameter.name] = value
    return found


def parse_value(text: str) -> Any:
    """A number, None, or the text itself."""
    if text.lower() == "none":
        return None
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _meanings(docstring: str) -> dict[str, str]:
    """What the docstring of a rule says of each parameter."""
    section = docstring.partition("Parameters\n----------\n")[2].partition("\nExamples\n")[0]
    found = re.findall(r"^(\w+) : [^\n]*\n((?:    [^\n]*\n?)*)", section, flags=re.MULTILINE)
    return {name: " ".join(text.split()) for name, text in found}
