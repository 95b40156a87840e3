"""The command-line parser, built with argparse from the signatures of commands."""

import argparse
import pkgutil
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import is_dataclass
from functools import partial
from importlib import import_module
from inspect import Parameter, getdoc, signature
from pathlib import Path
from types import NoneType
from typing import Any, NoReturn, get_args, get_origin, get_type_hints

from thinstream._version import __version__
from thinstream.cli import commands
from thinstream.cli.options import Declared, Specified, declared_in, fill_group, group_parameters, learner_names
from thinstream.cli.terminal import guarded_output
from thinstream.errors import InvalidParameterError, UnknownNameError, listed

HELP = "Sparse, cost-sensitive, second-order online learning from streams."
#: The parameter of a command that receives the options of the algorithm.
PARAMETERS = "parameters"
#: Placeholders for values in the help, by type.
_METAVARS = {int: "INTEGER", float: "NUMBER", str: "TEXT", Path: "PATH"}


def command_names() -> list[str]:
    """Return the names of all commands: modules in the folder ``commands``, and commands that share a module."""
    modules = {module.name for module in pkgutil.iter_modules(commands.__path__)}
    return sorted(modules - set(commands.MODULES.values()) | set(commands.MODULES))


def find_function(name: str) -> Callable[..., Any]:
    """Return the function of a command."""
    module = import_module(f"{commands.__name__}.{commands.MODULES.get(name, name)}")
    if not hasattr(module, name):
        raise UnknownNameError(f"{module.__file__}: the file of a command must define a function {name}()")
    function: Callable[..., Any] = getattr(module, name)
    return function


def description_of(function: Callable[..., Any]) -> str:
    """Return the docstring of a command, with each paragraph on one line."""
    text = getdoc(function) or ""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in text.split("\n\n"))


class Command:
    """A command: its options, declared by the signature of its function, and how it is run.

    A parameter that is a dataclass declares a group of options, one per field. Values of the options of algorithms
    reach the function as a dictionary, its parameter ``parameters``.

    Parameters
    ----------
    function : callable
    words : sequence of str or None
        The words after the command's name. They determine the algorithms whose options exist. None: all algorithms.

    """

    def __init__(self, function: Callable[..., Any], words: Sequence[str] | None = ()) -> None:
        self.function, self._hints = function, get_type_hints(function, include_extras=True)
        declared = signature(function).parameters
        self.algorithms: list[str] = []
        of_algorithms: list[Parameter] = []
        if PARAMETERS in declared:
            from thinstream.cli.options import algorithm_options, named_algorithms

            default = declared["algorithm"].default
            self.algorithms = learner_names() if words is None else named_algorithms(words, default)
            of_algorithms = algorithm_options(self.algorithms, without=declared)
        self._groups: dict[str, Any] = {name: hint for name, hint in self._hints.items() if is_dataclass(hint)}
        self._group_of: dict[str, str] = {}
        self.parameters: list[Parameter] = []
        for name, parameter in declared.items():
            members: list[Parameter] = []
            if name == PARAMETERS:
                members = of_algorithms
            elif name in self._groups:
                members = group_parameters(self._groups[name])
            elif self._hints[name] is not Specified:
                self.parameters.append(parameter.replace(annotation=self._hints[name]))
            self.parameters += members
            self._group_of |= {member.name: name for member in members}

    @property
    def learns(self) -> bool:
        """Whether the command has the options of algorithms."""
        return PARAMETERS in self._hints

    def __call__(self, values: dict[str, Any]) -> Any:
        """Run the command with the values that the command line specifies; other parameters have their defaults."""
        packed: dict[str, dict[str, Any]] = {name: {} for name in (*self._groups, PARAMETERS)}
        plain: dict[str, Any] = {name: Specified(values) for name, hint in self._hints.items() if hint is Specified}
        for parameter in self.parameters:
            name = parameter.name
            target = packed[self._group_of[name]] if name in self._group_of else plain
            target[name] = values.get(name, parameter.default)
        if self.learns:
            from thinstream.cli.options import parse_parameters

            plain[PARAMETERS] = parse_parameters(self.algorithms, packed[PARAMETERS])
        plain |= {name: fill_group(group, packed[name]) for name, group in self._groups.items()}
        with guarded_output(), _report_compiling(plain.get("output")):
            return self.function(**plain)


def _report_compiling(output: Any) -> AbstractContextManager[None]:
    """Report compilation in commands that may compile: commands that read rows and have output options."""
    if output is None:
        return nullcontext()
    from thinstream.cli.render import report_compiling

    return report_compiling(output.quiet)


class Parser(argparse.ArgumentParser):
    """A parser with the error messages and the help of thinstream; its result has only options that are specified."""

    def __init__(self, **options: Any) -> None:
        # an algorithm's option takes a name from an option of the command, such as --threshold
        options = {"add_help": False, "allow_abbrev": False, "exit_on_error": False, **options}
        options["conflict_handler"] = "resolve"
        super().__init__(argument_default=argparse.SUPPRESS, **options)
        self._panels: dict[str, Any] = {panel: self.add_argument_group(panel) for panel in ("Arguments", "Options")}
        self._command: Command | None = None
        self.add_to("Options", "--help", "-h", action=_Help, nargs=0, help="Show this help and exit.")

    def add_to(self, panel: str, *names: str, **options: Any) -> argparse.Action:
        """Add an option or argument to the group with this title."""
        if panel not in self._panels:
            self._panels[panel] = self.add_argument_group(panel)
        action: argparse.Action = self._panels[panel].add_argument(*names, **options)
        return action

    def add_command(self, name: str, command: Command, *, completing: bool = False) -> None:
        """Add the description, the arguments and the options of a command.

        ``completing``: also the values to complete in a shell.
        """
        self._command, self.description = command, description_of(command.function)
        if command.learns:
            self.epilog = f"Options of another algorithm: thinstream {name} -a NAME --help"
        needed, arguments = [], []
        for parameter in sorted(command.parameters, key=lambda p: not declared_in(p.annotation)[1].is_argument):
            action = self._add(parameter, completing)
            is_required, word = parameter.default is Parameter.empty, str(action.metavar)
            if not action.option_strings:
                word = f"{word} ..." if action.nargs == "*" else word
                arguments.append(word if is_required else f"[{word}]")
            elif is_required:
                needed.append(f"{action.option_strings[0]} {word}")
        self.usage = " ".join([self.prog, *needed, "[options]", *arguments])

    def _add(self, parameter: Parameter, completing: bool) -> argparse.Action:
        value_type, is_list, declared = _described(parameter)
        options: dict[str, Any] = {"help": help_of(parameter).replace("%", "%%")}
        if value_type is not bool:
            metavar = (
                declared.metavar
                or "|".join(declared.values if isinstance(declared.values, tuple) else ())
                or _METAVARS[value_type]
            )
            options |= {"metavar": metavar, "type": _converter(value_type, declared)}
        if declared.is_argument:
            options |= {"metavar": declared.metavar or parameter.name.upper(), "nargs": "*" if is_list else "?"}
            options |= {} if is_list else {"default": None}
            action = self.add_to("Arguments", parameter.name, **options)
        else:
            names = declared.names or (f"--{parameter.name.replace('_', '-')}",)
            options |= {"dest": parameter.name} | ({"action": "append"} if is_list else {})
            if value_type is bool:
                options["action"] = argparse.BooleanOptionalAction if "/" in names[0] else "store_true"
                names = tuple(name.partition("/")[0] for name in names)
            action = self.add_to(declared.panel or "Options", *names, **options)
        if completing:
            _add_completion(action, value_type, declared)
        return action

    def parse(self, words: Sequence[str]) -> dict[str, Any]:
        """Return the values that a command line specifies, by the name of their parameter."""
        options, arguments = self._separated(words)
        try:
            mark = ["--"] if any(word.startswith("-") for word in arguments) else []
            values, rest = self.parse_known_args([*options, *mark, *arguments])
        except argparse.ArgumentError as error:
            name = max((error.argument_name or "").split("/"), key=len)
            text = error.message.replace("ignored explicit argument", "is a flag without a value, got")
            self.error(f"{name} {text}")
        if rest:
            self.error(f"too many arguments: {', '.join(map(repr, rest))}")
        specified = {name: value for name, value in vars(values).items() if value is not None}
        for parameter in self._command.parameters if self._command else ():
            if parameter.default is Parameter.empty and parameter.name not in specified:
                declared = declared_in(parameter.annotation)[1]
                name = parameter.name.upper() if declared.is_argument else " / ".join(declared.names)
                self.error(f"{name} is missing: {declared.help[:1].lower()}{declared.help[1:].rstrip('.')}")
        return specified

    def _separated(self, words: Sequence[str]) -> tuple[list[str], list[str]]:
        """Separate options with their values from arguments, which may stand between them."""
        options: list[str] = []
        arguments: list[str] = []
        remaining = list(reversed(words))
        while remaining:
            word = remaining.pop()
            if word == "--":
                return options, [*arguments, *reversed(remaining)]
            if not word.startswith("-") or word == "-":
                arguments.append(word)
                continue
            options.append(word)
            if self._lacks_value(word):
                if not remaining or remaining[-1] in self._option_string_actions:
                    self.error(f"{word} needs a value")
                options[-1] += f"={remaining.pop()}" if word.startswith("--") else remaining.pop()
        return options, arguments

    def _lacks_value(self, word: str) -> bool:
        """Return whether the value of an option is the next word."""
        name, has_value, _ = word.partition("=")
        if word.startswith("--"):
            return not has_value and self._action(name).nargs is None
        for k in range(1, len(word)):  # flags in one word, such as -qm
            if self._action(f"-{word[k]}").nargs is None:
                return k == len(word) - 1
        return False

    def _action(self, name: str) -> argparse.Action:
        if name not in self._option_string_actions:
            self.error(self._unknown(name))
        return self._option_string_actions[name]

    def _unknown(self, name: str) -> str:
        """Return the error message for an option that the command does not have."""
        if self._command is not None and self._command.learns:
            from thinstream.cli.options import explain_option

            if text := explain_option(name, self._command.algorithms[0]):
                return text
        from difflib import get_close_matches

        words = [option.removeprefix("--") for option in self._option_string_actions if option.startswith("--")]
        close = get_close_matches(name.removeprefix("--"), words, 1)
        return f"unknown option {name}{f'; did you mean --{close[0]}?' if close else ''}"

    def error(self, message: str) -> NoReturn:
        raise InvalidParameterError(f"{message} (see {self.prog} --help)")

    def format_help(self) -> str:
        """Return the help; rich is imported only here."""
        from rich_argparse.contrib import ParagraphRichHelpFormatter

        class Formatter(ParagraphRichHelpFormatter):
            text_markup = help_markup = False
            group_name_formatter = str

            def add_usage(self, usage: Any, actions: Any, groups: Any, prefix: str | None = None) -> None:
                super().add_usage(usage, actions, groups, "Usage: ")

        self.formatter_class = partial(Formatter, max_help_position=32)
        return super().format_help()


class _Help(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *rest: Any) -> None:
        print(parser.format_help(), end="", flush=True)
        parser.exit()


class _Completion(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, namespace: Any, shell: Any, *rest: Any) -> None:
        import shtab

        if shell not in shtab.SUPPORTED_SHELLS:
            raise argparse.ArgumentError(self, f"must be {listed(shtab.SUPPORTED_SHELLS)}, got {shell!r}")
        print(shtab.complete(main_parser(completing=True), shell=shell), flush=True)
        parser.exit()


def main_parser(*, completing: bool = False) -> Parser:
    """Return the parser of a line without a command, which lists the commands. ``completing`` adds their options."""
    parser = Parser(prog="thinstream", description=HELP, usage="thinstream COMMAND [options]")
    version = f"thinstream {__version__}"
    parser.add_to("Options", "--version", action="version", version=version, help="Show the version and exit.")
    text = "Print the completion script of a shell (bash, zsh, tcsh, fish or powershell) and exit."
    parser.add_to("Options", "--print-completion", action=_Completion, metavar="SHELL", help=text)
    lines = parser.add_subparsers(title="Commands", metavar="COMMAND", required=False)
    for name in command_names():
        function = find_function(name)
        summary = description_of(function).partition("\n\n")[0].replace("%", "%%")
        added = lines.add_parser(name, help=summary)
        if completing:
            added.add_command(name, Command(function, None), completing=True)
    return parser


def command_parser(name: str, words: Sequence[str] | None = ()) -> tuple[Parser, Command]:
    """Return a command and its parser. The ``words`` after the name choose the algorithms whose options exist.

    >>> parser, command = command_parser("merge")
    >>> parser.usage
    'thinstream merge --model PATH [options] MODELS ...'
    """
    command, parser = Command(find_function(name), words), Parser(prog=f"thinstream {name}")
    parser.add_command(name, command)
    return parser, command


def help_of(parameter: Parameter) -> str:
    declared = declared_in(parameter.annotation)[1]
    if parameter.default is Parameter.empty:
        return declared.help if declared.is_argument else f"{declared.help} Required."
    if isinstance(parameter.default, bool) or parameter.default in (None, "", ()) or "default" in declared.help.lower():
        return declared.help
    return f"{declared.help} Default: {parameter.default}."


def _described(parameter: Parameter) -> tuple[Any, bool, Declared]:
    """Return the type of one value, whether several values are allowed, and the declaration."""
    hint, declared = declared_in(parameter.annotation)
    if get_origin(hint) is not list:  # a type, or a type or None
        hint = next((member for member in get_args(hint) if member is not NoneType), hint)
    return (get_args(hint)[0], True, declared) if get_origin(hint) is list else (hint, False, declared)


def _converter(value_type: Any, declared: Declared) -> Callable[[str], Any]:
    """Return the function that converts the text of a value."""
    low, high = declared.min, declared.max
    names = {int: "a whole number", float: "a number"}
    if value_type not in names:
        return value_type  # type: ignore[no-any-return]
    limits = " to ".join(f"{limit:g}" for limit in (low, high) if limit is not None)
    allowed = names[value_type] + (f" from {limits}" if high is not None else f" ≥ {limits}" if limits else "")

    def convert(text: str) -> Any:
        try:
            value = value_type(text)
        except ValueError:
            value = None
        if value is None or (low is not None and not value >= low) or (high is not None and not value <= high):
            raise argparse.ArgumentTypeError(f"must be {allowed}, got {text!r}")
        return value

    return convert


def _add_completion(action: argparse.Action, value_type: Any, declared: Declared) -> None:
    """Let the shell complete the value of an option: the allowed values, or files."""
    import shtab

    if declared.values is not None:
        values = declared.values if isinstance(declared.values, tuple) else declared.values()
        action.choices = [str(value) for value in values]
    elif value_type is Path or action.dest in ("data", "out"):
        action.complete = shtab.FILE  # type: ignore[attr-defined]
