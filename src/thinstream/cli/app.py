"""The command ``thinstream``: one line per error, an exit code that tells, no traces.

Exit codes: 0 done, 1 bad input or another failure, 2 a wrong command line, 130 and 143 stopped by SIGINT and SIGTERM,
141 the reader of the output has left.
"""

import gc
import os
import pkgutil
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from inspect import getdoc, signature
from types import FrameType
from typing import Annotated, Any

import typer

from thinstream.cli import commands
from thinstream.cli.terminal import LINES, open_standard_streams, printable

#: What click raises on a wrong command line; typer has a click of its own or not, depending on its version.
_ClickError: Any = typer.BadParameter.__mro__[2]
#: Set while a shell completes a command line.
COMPLETING = "_THINSTREAM_COMPLETE"
HELP = "Sparse, cost-sensitive, second-order online learning from streams."


def command_names() -> list[str]:
    """The modules in the folder ``commands``: each has a function of the same name, which is the command."""
    return sorted(module.name for module in pkgutil.iter_modules(commands.__path__))


def find_command(name: str) -> Callable[..., Any]:
    """The function of a file of ``commands``."""
    from thinstream.errors import UnknownNameError

    module = import_module(f"{commands.__name__}.{name}")
    if not hasattr(module, name):
        raise UnknownNameError(
            f"{module.__file__}: a command's file needs a function of its name, there is no {name}()"
        )
    found: Callable[..., Any] = getattr(module, name)
    return found


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
        command = find_command(name)
        run, epilog = _make_command(command, name, arguments) if asked or COMPLETING in os.environ else (_listed, None)
        app.command(name, help=_paragraphs(command), epilog=epilog)(run)
    app.callback()(_common)
    return app


def _make_command(
    command: Callable[..., Any], name: str, arguments: list[str]
) -> tuple[Callable[..., Any], str | None]:
    """A command as typer takes it, with the options of the algorithm that stands in the arguments if it learns."""
    from thinstream.cli.options import PARAMETERS, expand_options

    parameters = signature(command).parameters
    if PARAMETERS not in parameters:
        return expand_options(command), None
    from thinstream.cli.algorithm_options import algorithm_options, named_algorithm

    own = algorithm_options(named_algorithm(arguments, parameters["algorithm"].default), without=parameters)
    return expand_options(command, own), f"Options of another algorithm: thinstream {name} -a NAME --help"


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


def main() -> None:
    """Runs the command line of this process."""
    gc.disable()  # imports make many objects and no garbage
    open_standard_streams()
    code = run(sys.argv[1:])
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:  # its reader has left: what is still in the buffer goes nowhere, without a word
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    if "thinstream.distributed" in sys.modules:  # in order: processes and folders of an engine must not stay behind
        sys.exit(code)
    os._exit(code)  # at once: taking compiled code down in order takes a fifth of a second


def run(arguments: list[str]) -> int:
    """Runs a command line; returns the exit code, having said on standard error why it is not 0."""
    from thinstream.errors import InvalidParameterError, ThinstreamError, UnknownNameError

    try:
        with _ended_by_sigterm():
            code = make_app(arguments)(arguments, prog_name="thinstream", standalone_mode=False)
            sys.stdout.flush()  # now, while a reader that has left can still be told from other trouble
        return int(code or 0)
    except typer.Abort:
        return 130
    except _ClickError as error:
        return _wrong_command_line(error, arguments)
    except SystemExit as end:
        if not isinstance(end.__context__, BrokenPipeError):  # click's own way out of a broken pipe
            raise
        return 141
    except BrokenPipeError:  # the reader of our output has left, as `head` does
        return 141
    except (InvalidParameterError, UnknownNameError) as error:
        return _failed(str(error), 2)
    except ThinstreamError as error:
        return _failed(str(error))
    except OSError as error:
        return _failed(f"{error.filename}: {error.strerror}" if error.filename else error.strerror or str(error))
    except MemoryError as error:
        return _failed(f"not enough memory{f': {error}' if str(error) else ''}")
    except KeyboardInterrupt:
        return 130


@contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """SIGTERM as an exception, so that half-written files are taken away; in the main thread."""

    def end(number: int, frame: FrameType | None) -> None:
        sys.exit(128 + number)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _wrong_command_line(error: Any, arguments: list[str]) -> int:
    """One line, or the help where nothing was asked for."""
    command = error.ctx.command_path if getattr(error, "ctx", None) else "thinstream"
    text = " ".join(error.format_message().split())
    if not text or type(error).__name__ == "NoArgsIsHelpError":  # has shown it
        return int(error.exit_code)
    if type(error).__name__ == "NoSuchOption" and "algorithm" in signature(find_command(arguments[0])).parameters:
        from thinstream.cli.algorithm_options import explain_option, named_algorithm

        default = signature(find_command(arguments[0])).parameters["algorithm"].default
        text = explain_option(error.option_name, named_algorithm(arguments, default)) or text
    return _failed(f"{text.rstrip('.')} (see {command} --help)", error.exit_code)


def _failed(message: str, code: int = 1) -> int:
    with suppress(OSError):  # nobody may be there to read it
        sys.stderr.write(f"thinstream: {printable(message, keep=LINES)}\n")
    return code


if __name__ == "__main__":
    main()
