"""The command-line reference: every command with its options, from the parsers of the commands."""

import argparse
import re

import thinstream as ts
from thinstream.algorithms.registry import find
from thinstream.cli.options import algorithm_options, declared_in
from thinstream.cli.parser import HELP, Parser, command_names, command_parser, description_of, find_function

_MARKS = re.compile(r"([\\*`|]|(?<=\w)_(?=\W|$))")


def pages() -> dict[str, str]:
    """A page for each command, one for the options of algorithms, and one that lists them."""
    found = {f"commands/{name}.rst": _page(name) for name in command_names()}
    return {"commands/index.rst": _index(), "commands/parameters.rst": _parameters(), **found}


def panels(parser: Parser) -> dict[str, list[argparse.Action]]:
    """The arguments and options of a command by their title in the help, without those of algorithms.

    >>> [action.dest for action in panels(command_parser("thin")[0])["Arguments"]]
    ['model']
    """
    groups = {str(group.title): group._group_actions for group in parser._action_groups}
    listed = {title: [action for action in actions if _is_own(action)] for title, actions in groups.items()}
    return {title: actions for title, actions in listed.items() if actions}


def _is_own(action: argparse.Action) -> bool:
    return not action.dest.startswith("own_") and action.dest != "help"


def _names(action: argparse.Action) -> str:
    word = "" if action.nargs == 0 else f" {action.metavar}"
    return ", ".join(f"{name}{word}" for name in action.option_strings)


def _index() -> str:
    about = {name: _plain(description_of(find_function(name)).partition("\n\n")[0]) for name in command_names()}
    rows = [f"   * - :doc:`thinstream {name} <{name}>`\n     - {text}" for name, text in about.items()]
    names = "\n".join(f"   {name}" for name in about)
    return "\n".join(
        [
            "Commands\n========\n",
            f"{HELP} ``thinstream COMMAND --help`` prints the same text. :doc:`/command-line` is a tour of the "
            "commands with small examples.\n",
            ".. list-table::\n   :class: names\n   :widths: 30 70\n",
            *rows,
            "\nExit codes: 0 done, 1 invalid input or another failure, 2 invalid command line, 130 and 143 stopped by "
            "SIGINT and SIGTERM, 141 the reader of the output has closed its pipe.\n",
            f".. toctree::\n   :hidden:\n\n   /command-line\n{names}\n   parameters\n",
        ]
    )


def _page(name: str) -> str:
    parser, command = command_parser(name)
    title, groups = f"thinstream {name}", panels(parser)
    lines = [f"{title}\n{'=' * len(title)}\n"]
    lines += [f"{_plain(part)}\n" for part in description_of(command.function).split("\n\n")]
    lines += [f".. code-block:: text\n\n   {parser.usage}\n", f".. program:: {title}\n"]
    lines += [f"``{action.metavar}``\n   {_help(action)}\n" for action in groups.pop("Arguments", [])]
    for panel, actions in groups.items():
        lines.append(f"{panel}\n{'-' * len(panel)}\n")
        lines += [f".. option:: {_names(action)}\n\n   {_help(action)}\n" for action in actions]
    if command.learns:
        lines.append(
            "Of the algorithm\n----------------\n\nOptions of what ``--algorithm`` names: :doc:`parameters`.\n"
        )
    return "\n".join(lines)


def _help(action: argparse.Action) -> str:
    return _plain((action.help or "").replace("%%", "%"))


def _described(names: str, text: str) -> str:
    return f".. option:: {names}\n\n   {_plain(text)}\n"


def _parameters() -> str:
    """The options of every algorithm."""
    title = "Options of the algorithms"
    lines = [
        f"{title}\n{'=' * len(title)}\n",
        "``train``, ``tune``, ``path`` and ``costs`` also have the options of the algorithm that ``--algorithm`` "
        "names. They are the parameters of its estimator, with hyphens instead of underscores. ``thinstream train -a "
        "NAME --help`` prints the same text.\n",
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
