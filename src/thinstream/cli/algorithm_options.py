"""Options of an algorithm, made from its declaration: the command line knows none of them by itself."""

import inspect
import re
from collections.abc import Collection, Iterable, Iterator
from typing import Annotated, Any

from thinstream.cli.declared import option

_WORDS = {"none": None, "true": True, "false": False}


def named_algorithms(arguments: list[str], default: Any) -> list[str]:
    """The values of ``--algorithm`` (``-a``) on a command line, or the algorithm of the model it goes on from.

    >>> named_algorithms(["tune", "day.svm", "-a", "fsol,arow", "-a", "ssol"], None)
    ['fsol', 'arow', 'ssol']
    """
    found = split_names(_values_of("--algorithm", "-a", arguments))
    if found:
        return found
    from thinstream.cli.options import DEFAULT_LEARNER, DEFAULT_SEARCH, default_learner

    if default is None:
        return list(DEFAULT_SEARCH)
    start = _value_of("--from", arguments)
    if start is None:
        return [default_learner(_value_of("--engine", arguments)) if default == DEFAULT_LEARNER else default]
    from thinstream.models.container import algorithm_in

    return [algorithm_in(start) or default]


def split_names(texts: Iterable[str]) -> list[str]:
    """Names that stand alone or between commas, each once."""
    return list(dict.fromkeys(name.strip() for text in texts for name in text.split(",") if name.strip()))


def _value_of(long: str, arguments: list[str]) -> str | None:
    return next(_values_of(long, None, arguments), None)


def _values_of(long: str, short: str | None, arguments: list[str]) -> Iterator[str]:
    """The values of an option, wherever it stands."""
    for i, argument in enumerate(arguments):
        if argument in (long, short) and i + 1 < len(arguments):
            yield arguments[i + 1]
        elif argument.startswith(f"{long}="):
            yield argument.partition("=")[2]
        elif short is not None and argument.startswith(short) and len(argument) > 2:
            yield argument.removeprefix(short)


def algorithm_options(names: Iterable[str], *, without: Collection[str] = ()) -> list[inspect.Parameter]:
    """An option per parameter of the algorithms, with meaning, range and default, those of the first that has it."""
    from thinstream.learners import find

    found: dict[str, inspect.Parameter] = {}
    for name in names:
        algorithm = find(name)
        meanings = _meanings(inspect.getdoc(algorithm.rule) or "")
        panel = f"{algorithm.name} ({algorithm.paper})"
        for parameter in algorithm.parameters:
            if parameter.name not in without and parameter.name not in found:
                found[parameter.name] = _option(parameter, meanings.get(parameter.name, ""), panel)
    return list(found.values())


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


def parse_parameters(names: Iterable[str], given: dict[str, str | None]) -> dict[str, Any]:
    """The public values of the options that were given; what an algorithm does not allow is a wrong command line."""
    from thinstream.errors import InvalidParameterError
    from thinstream.learners import find

    found = {}
    for algorithm in map(find, names):
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
