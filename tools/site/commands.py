"""The command-line reference: every command with its options, from what the commands themselves declare."""

import re
from inspect import Parameter, getdoc, signature
from pathlib import Path
from types import NoneType
from typing import Any, NamedTuple, get_args, get_origin

from typer.models import ArgumentInfo

import thinstream as ts
from thinstream.cli.algorithm_options import algorithm_options
from thinstream.cli.app import command_names, expand_command, find_command
from thinstream.cli.declared import Declared, declared_in
from thinstream.cli.options import PARAMETERS
from thinstream.cli.typer_app import HELP
from thinstream.learners.registry import find

#: How values of a type are called.
_WORDS = {int: "INTEGER", float: "NUMBER", str: "TEXT", Path: "PATH"}
_MARKS = re.compile(r"([\\*`|]|(?<=\w)_(?=\W|$))")


class Taken(NamedTuple):
    """An option or argument of a command."""

    names: str  # with the word for its value
    help: str
    panel: str
    is_argument: bool


def pages() -> dict[str, str]:
    """A page for each command, one for the options of algorithms, and one that lists them."""
    found = {f"commands/{name}.rst": _page(name) for name in command_names()}
    return {"commands/index.rst": _index(), "commands/parameters.rst": _parameters(), **found}


def taken_by(name: str) -> list[Taken]:
    """What a command takes, options of algorithms left out.

    >>> [each.names for each in taken_by("thin")][:2]
    ['MODEL', '--model PATH, -m PATH']
    """
    parameters = [each for each in expand_command(name, []).parameters if not each.name.startswith("own_")]
    return sorted((_taken(each) for each in parameters), key=lambda each: not each.is_argument)


def _taken(parameter: Parameter) -> Taken:
    kind, declared = declared_in(parameter.annotation)
    if isinstance(declared, Declared):
        names, panel, is_argument = declared.names, declared.panel, declared.is_argument
    else:
        names, panel = declared.param_decls or (), declared.rich_help_panel
        is_argument = isinstance(declared, ArgumentInfo)
    default, needed = parameter.default, parameter.default is Parameter.empty
    text = declared.help or ""
    if is_argument:
        word = declared.metavar or parameter.name.upper()
        word = f"{word} …" if get_origin(kind) is list else word
        return Taken(word if needed else f"[{word}]", text, "", True)
    word = _word(kind, declared.metavar)
    names = [name for each in names or (f"--{parameter.name.replace('_', '-')}",) for name in each.split("/")]
    shown = ", ".join(f"{name}{word}" for name in sorted(names, key=lambda name: not name.startswith("--")))
    text += " Required." if needed else f" Default: {default}." if declared.show_default is True and default else ""
    return Taken(shown, text, panel or "Options", False)


def _word(kind: Any, metavar: str | None) -> str:
    """How the value of an option is called, after a space; nothing for a flag, which has none."""
    while get_args(kind):  # of lists and optional values
        kind = next(each for each in get_args(kind) if each is not NoneType)
    return "" if kind is bool else f" {metavar or _WORDS.get(kind, 'VALUE')}"


def _index() -> str:
    about = {name: _plain((getdoc(find_command(name)) or "").partition("\n\n")[0]) for name in command_names()}
    rows = [f"   * - :doc:`thinstream {name} <{name}>`\n     - {text}" for name, text in about.items()]
    names = "\n".join(f"   {name}" for name in about)
    return "\n".join(
        [
            "Commands\n========\n",
            f"{HELP} ``thinstream COMMAND --help`` says in a terminal what stands here; "
            ":doc:`/command-line` walks through them, with data made on the spot.\n",
            ".. list-table::\n   :class: names\n   :widths: 30 70\n",
            *rows,
            "\nExit codes: 0 done, 1 bad input or another failure, 2 a wrong command line, 130 and 143 stopped by "
            "SIGINT and SIGTERM, 141 the reader of the output has left.\n",
            f".. toctree::\n   :hidden:\n\n   /command-line\n{names}\n   parameters\n",
        ]
    )


def _page(name: str) -> str:
    title, taken = f"thinstream {name}", taken_by(name)
    arguments = [each for each in taken if each.is_argument]
    lines = [f"{title}\n{'=' * len(title)}\n"]
    lines += [f"{_plain(part)}\n" for part in (getdoc(find_command(name)) or "").split("\n\n")]
    words = " ".join([title, *(each.names for each in arguments), "[options]"])
    lines += [f".. code-block:: text\n\n   {words}\n", f".. program:: {title}\n"]
    lines += [f"``{each.names.strip('[]')}``\n   {_plain(each.help)}\n" for each in arguments]
    options = [each for each in taken if not each.is_argument]
    for panel in sorted({each.panel for each in options}, key=[each.panel for each in options].index):
        lines.append(f"{panel}\n{'-' * len(panel)}\n")
        lines += [_described(each.names, each.help) for each in options if each.panel == panel]
    if PARAMETERS in signature(find_command(name)).parameters:
        lines.append(
            "Of the algorithm\n----------------\n\nOptions of what ``--algorithm`` names: :doc:`parameters`.\n"
        )
    return "\n".join(lines)


def _described(names: str, text: str) -> str:
    return f".. option:: {names}\n\n   {_plain(text)}\n"


def _parameters() -> str:
    """The options of every algorithm."""
    title = "Options of the algorithms"
    lines = [
        f"{title}\n{'=' * len(title)}\n",
        "What ``train``, ``tune``, ``path`` and ``costs`` take beside their own options, by ``--algorithm``. They are "
        "the parameters of the estimators, with hyphens for underscores; ``thinstream train -a NAME --help`` shows "
        "the same.\n",
    ]
    for algorithm in (find("Auto"), *ts.algorithms()):
        name = algorithm.name.lower()
        lines += [f"{algorithm.name}\n{'-' * len(algorithm.name)}\n", f".. program:: thinstream train -a {name}\n"]
        lines.append(f"{_plain(algorithm.summary)} ({algorithm.paper}; :py:class:`thinstream.{algorithm.name}`)\n")
        for parameter in algorithm_options([name]):
            declared = declared_in(parameter.annotation)[1]
            lines.append(_described(f"{declared.names[0]} {declared.metavar}", declared.help))
    return "\n".join(lines)


def _plain(text: str) -> str:
    r"""Text in which nothing is a mark, but what stands between backticks is code.

    >>> _plain("|w|·q of coef_\n and `a|b`")
    '\\|w\\|·q of coef\\_ and ``a|b``'
    """
    parts = re.split(r"`+([^`]+)`+", " ".join(text.split()))
    return "".join(f"``{part}``" if i % 2 else _MARKS.sub(r"\\\1", part) for i, part in enumerate(parts))
