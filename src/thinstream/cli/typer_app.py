"""The command line as typer reads it: help, completion, and what is wrong with a line that is not plain."""

import os
from collections.abc import Callable
from inspect import Parameter, Signature, getdoc, signature
from typing import Annotated, Any

import typer

from thinstream.cli.app import command_names, expand_command, find_command
from thinstream.cli.completing import COMPLETING, words_to_complete
from thinstream.cli.declared import Declared, Given, declared_in
from thinstream.cli.options import PARAMETERS, Expanded
from thinstream.errors import ThinstreamError

#: What click raises on a wrong command line; typer has a click of its own or not, depending on its version.
_ClickError: Any = typer.BadParameter.__mro__[2]
HELP = "Sparse, cost-sensitive, second-order online learning from streams."


def run_by_typer(arguments: list[str]) -> Any:
    """Runs a command line; what the command returns."""
    asked = words_to_complete() if COMPLETING in os.environ else arguments
    return make_app(asked)(arguments, prog_name="thinstream", standalone_mode=False)


def make_app(arguments: list[str]) -> typer.Typer:
    """The command line: the command that the arguments name, or all of them where they name none."""
    app = typer.Typer(
        name="thinstream",
        help=HELP,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode="rich",
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    names = [] if arguments[:1] == ["--version"] else command_names()
    asked = [name for name in arguments[:1] if name in names]
    for name in asked or names:
        command, epilog = find_command(name), None
        run: Callable[..., Any] = _listed
        if asked or COMPLETING in os.environ:
            run = as_typer_command(_expanded(name, arguments))
            if PARAMETERS in signature(command).parameters:
                epilog = f"Options of another algorithm: thinstream {name} -a NAME --help"
        app.command(name, help=_paragraphs(command), epilog=epilog)(run)
    app.callback()(_common)
    return app


def _expanded(name: str, arguments: list[str]) -> Expanded:
    """The command; while a shell completes its line, the algorithm on it may be half a name."""
    try:
        return expand_command(name, arguments)
    except (ThinstreamError, OSError):
        if COMPLETING not in os.environ:
            raise
        return expand_command(name, [])


def as_typer_command(command: Expanded) -> Callable[..., Any]:
    """The command as typer takes it: a function with a signature."""

    def run(context: typer.Context, **values: Any) -> Any:
        sources: dict[str, Any] = {name: context.get_parameter_source(name) for name in values}
        return command(values, Given(name for name, source in sources.items() if source.name == "COMMANDLINE"))

    parameters = [Parameter("context", Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)]
    for each in command.parameters:
        kind, declared = declared_in(each.annotation)
        if isinstance(declared, Declared):
            each = each.replace(annotation=Annotated[kind, declared.for_typer()])
        parameters.append(each.replace(kind=Parameter.KEYWORD_ONLY))
    run.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    run.__doc__, run.__name__ = command.command.__doc__, command.command.__name__
    return run


def explain(error: Exception, arguments: list[str]) -> tuple[str, int] | None:
    """What to say of an error of typer's (nothing, where it has shown the help), and the exit code; None of others."""
    if isinstance(error, typer.Abort):
        return "", 130
    if not isinstance(error, _ClickError):
        return None
    wrong: Any = error
    command = wrong.ctx.command_path if getattr(wrong, "ctx", None) else "thinstream"
    text = " ".join(wrong.format_message().split())
    if not text or type(error).__name__ == "NoArgsIsHelpError":  # has shown it
        return "", int(wrong.exit_code)
    if type(error).__name__ == "NoSuchOption" and "algorithm" in signature(find_command(arguments[0])).parameters:
        from thinstream.cli.algorithm_options import explain_option, named_algorithms

        default = signature(find_command(arguments[0])).parameters["algorithm"].default
        text = explain_option(wrong.option_name, named_algorithms(arguments, default)[0]) or text
    return f"{text.rstrip('.')} (see {command} --help)", int(wrong.exit_code)


def _listed() -> None:
    """Stands for a command that is listed only."""


def _paragraphs(command: Callable[..., Any]) -> str:
    """The docstring with each paragraph on one line, to be broken where the terminal ends."""
    text = getdoc(command) or ""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in text.split("\n\n"))


def _version(asked: bool) -> None:
    if asked:
        from thinstream import __version__

        typer.echo(f"thinstream {__version__}")
        raise typer.Exit


def _common(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    pass
