"""Command lines read without typer, where they are plain: known options, each once, followed by a value that fits.

Whatever is not (help, mistakes, short options in one word …) is left to typer, which has the words for it. So a command
line means the same to both, and this reader has no messages.
"""

import os
from collections.abc import Sequence
from inspect import Parameter
from pathlib import Path
from types import NoneType
from typing import Any, NamedTuple, get_args, get_origin

from thinstream.cli.declared import Declared, declared_in


class NotPlain(Exception):
    """The command line is for typer to read."""


class _Option(NamedTuple):
    parameter: str
    declared: Declared
    kind: Any  # of one value
    is_list: bool
    switch: bool | None = None  # the value of a flag, which takes none


def read_plainly(parameters: Sequence[Parameter], words: list[str]) -> dict[str, Any]:
    """The values that stand on a command line, by parameter; raises `NotPlain` where typer is needed to tell."""
    options: dict[str, _Option] = {}
    arguments: list[_Option] = []
    for parameter in parameters:
        found = _described(parameter)
        if found.declared.is_argument:
            arguments.append(found)
        else:
            options |= _by_name(found)
    given: dict[str, Any] = {}
    alone, waiting = [], list(reversed(words))
    while waiting:
        word = waiting.pop()
        name, has_value, value = word.partition("=") if word.startswith("--") else (word, "", "")
        if not word.startswith("-") or word == "-":
            alone.append(word)
            continue
        option = options.get(name)
        if option is None or (option.switch is not None and has_value):
            raise NotPlain
        if option.switch is not None:
            _put(given, option, option.switch)
            continue
        if not has_value:
            value = waiting.pop() if waiting else ""
            if value.startswith("-") and value != "-":  # a forgotten value, or a negative number
                raise NotPlain
        _put(given, option, _value(option, value))
    _put_arguments(given, arguments, alone)
    if any(each.default is Parameter.empty and each.name not in given for each in parameters):
        raise NotPlain
    return given


def _described(parameter: Parameter) -> _Option:
    kind, declared = declared_in(parameter.annotation)
    if not isinstance(declared, Declared):
        raise NotPlain
    kinds = [each for each in get_args(kind) if each is not NoneType] if get_origin(kind) is not list else [kind]
    (kind,) = kinds or [kind]
    is_list = get_origin(kind) is list
    return _Option(parameter.name, declared, get_args(kind)[0] if is_list else kind, is_list)


def _by_name(option: _Option) -> dict[str, _Option]:
    """The names of an option on the command line; a flag may have others that say no."""
    own = f"--{option.parameter.replace('_', '-')}"
    if option.kind is not bool:
        return dict.fromkeys(option.declared.names or (own,), option)
    found: dict[str, _Option] = {}
    for name in option.declared.names or (f"{own}/--no-{own[2:]}",):
        yes, _, no = name.partition("/")
        found |= {yes: option._replace(switch=True)} | ({no: option._replace(switch=False)} if no else {})
    return found


def _value(option: _Option, text: str) -> Any:
    if not text or option.kind not in (str, int, float, Path):
        raise NotPlain
    if option.kind is Path and os.path.exists(text) and not os.access(text, os.R_OK):
        raise NotPlain
    try:
        value = option.kind(text)
    except ValueError:
        raise NotPlain from None
    low, high = option.declared.min, option.declared.max
    if (low is not None and not value >= low) or (high is not None and not value <= high):
        raise NotPlain
    return value


def _put(given: dict[str, Any], option: _Option, value: Any) -> None:
    if option.is_list:
        given.setdefault(option.parameter, []).append(value)
    elif option.parameter in given:
        raise NotPlain
    else:
        given[option.parameter] = value


def _put_arguments(given: dict[str, Any], arguments: list[_Option], words: list[str]) -> None:
    """Arguments in their order; one that takes many may be the last."""
    for each in arguments:
        if each.is_list and each is not arguments[-1]:
            raise NotPlain
        taken, words = (words, []) if each.is_list else (words[:1], words[1:])
        for word in taken:
            _put(given, each, _value(each, word))
    if words:
        raise NotPlain
