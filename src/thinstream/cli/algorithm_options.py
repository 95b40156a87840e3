"""Options of an algorithm, made from its declaration: the command line knows none of them by itself."""

import inspect
import re
from collections.abc import Collection
from typing import Annotated, Any

from thinstream.cli.declared import option

_WORDS = {"none": None, "true": True, "false": False}


def named_algorithm(arguments: list[str], default: str) -> str:
    """The value of ``--algorithm`` (``-a``) on a command line, or the algorithm of the model it goes on from.

    >>> named_algorithm(["train", "day.svm", "-a", "fsol"], "adarda")
    'fsol'
    """
    found = _value_of("--algorithm", "-a", arguments)
    if found is not None:
        return found
    start = _value_of("--from", None, arguments)
    if start is None:
        from thinstream.cli.options import DEFAULT_LEARNER, default_learner

        return default_learner(_value_of("--engine", None, arguments)) if default == DEFAULT_LEARNER else default
    from thinstream.models.container import algorithm_in

    return algorithm_in(start) or default


def _value_of(long: str, short: str | None, arguments: list[str]) -> str | None:
    """The value of an option, wherever it stands."""
    for i, argument in enumerate(arguments):
        if argument in (long, short) and i + 1 < len(arguments):
            return arguments[i + 1]
        if argument.startswith(f"{long}="):
            return argument.partition("=")[2]
        if short is not None and argument.startswith(short) and len(argument) > 2:
            return argument.removeprefix(short)
    return None


def algorithm_options(name: str, *, without: Collection[str] = ()) -> list[inspect.Parameter]:
    """An option per parameter of the algorithm, with its meaning, range and default."""
    from thinstream.learners import find

    algorithm = find(name)
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
    text, name = f"{meaning} ({allowed}; default {default})".strip(), f"--{parameter.name.replace('_', '-')}"
    choices = getattr(parameter.constraint, "choices", None)
    values = None if choices is None else lambda: choices
    kind = Annotated[str | None, option(text, panel, name, metavar="VALUE", values=values)]
    return inspect.Parameter(f"own_{parameter.name}", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind)


def explain_option(option: str, name: str) -> str:
    """What to say of an option that only other algorithms have; nothing of one that none has.

    >>> explain_option("--budget", "arow"), explain_option("--phi", "pa")
    ('', 'PA has no --phi, it has --variant, --C; --phi is an option of CW, SCW')
    """
    from thinstream.learners.registry import algorithms, find

    known = {algorithm.name: algorithm for algorithm in (find(name), *algorithms())}.values()
    options = {each.name: [f"--{p.name.replace('_', '-')}" for p in each.parameters] for each in known}
    others, own = [other for other, has in options.items() if option in has], options[find(name).name]
    if not others:
        return ""
    return f"{find(name).name} has no {option}, it has {', '.join(own)}; {option} is an option of {', '.join(others)}"


def parse_parameters(name: str, given: dict[str, str | None]) -> dict[str, Any]:
    """The public values of the options that were given; what is not allowed is a wrong command line."""
    from thinstream.errors import InvalidParameterError
    from thinstream.learners import find

    algorithm = find(name)
    found = {}
    for parameter in algorithm.parameters:
        text = given.get(f"own_{parameter.name}")
        if text is None:
            continue
        value = parse_value(text)
        try:
            parameter.encode(value, algorithm.name)
        except InvalidParameterError as error:
            from typer import BadParameter

            option = f"--{parameter.name.replace('_', '-')}"
            raise BadParameter(str(error).replace(f": {parameter.name} must", f": {option} must", 1)) from None
        found[parameter.name] = value
    return found


def parse_value(text: str) -> Any:
    """A number, None, True, False, a list of what stands between commas, or the text itself.

    >>> parse_value("0.5"), parse_value("none"), parse_value("false"), parse_value("3,1,2"), parse_value("hinge")
    (0.5, None, False, [3, 1, 2], 'hinge')
    """
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    if "," in text:
        return [parse_value(part) for part in text.split(",") if part]
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
