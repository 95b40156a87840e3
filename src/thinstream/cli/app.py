"""The command ``thinstream``: one line per error, an exit code that tells, no traces.

Exit codes: 0 done, 1 bad input or another failure, 2 a wrong command line, 130 and 143 stopped by SIGINT and SIGTERM,
141 the reader of the output has left.
"""

import gc
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from inspect import getdoc
from types import FrameType
from typing import Annotated, Any, cast

import typer

from thinstream.cli import (
    algorithms,
    convert,
    costs,
    datasets,
    demo,
    diagnose,
    evaluate,
    export,
    inspect,
    merge,
    path,
    predict,
    reorder,
    reproduce,
    train,
    tune,
)
from thinstream.cli.quick import hide_linear_algebra

#: What click raises on a wrong command line; typer has a click of its own or not, depending on its version.
_ClickError: Any = typer.BadParameter.__mro__[2]
#: Commands that begin at once.
QUICK = ("train", "tune", "path", "costs", "predict", "evaluate")
HELP = "Sparse, cost-sensitive, second-order online learning from streams."


def make_app(arguments: list[str]) -> typer.Typer:
    """The command line; which options commands that learn have depends on the algorithm in the arguments."""
    app = typer.Typer(
        name="thinstream",
        help=HELP,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode="rich",
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    for module in (train, tune, path, costs):
        module.register(app, arguments)
    for module in (
        predict,
        evaluate,
        diagnose,
        convert,
        inspect,
        export,
        merge,
        reorder,
        algorithms,
        datasets,
        demo,
        reproduce,
    ):
        module.register(app)
    for command in app.registered_commands:
        command.help = _paragraphs(cast(Any, command.callback))
    app.callback()(_common)
    return app


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
    if sys.argv[1:2] and sys.argv[1] in QUICK and not {"-h", "--help"} & set(sys.argv):
        hide_linear_algebra()
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
        return _wrong_command_line(error)
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


def _wrong_command_line(error: Any) -> int:
    """One line, or the help where nothing was asked for."""
    command = error.ctx.command_path if getattr(error, "ctx", None) else "thinstream"
    text = " ".join(error.format_message().split())
    if not text or type(error).__name__ == "NoArgsIsHelpError":  # has shown it
        return int(error.exit_code)
    return _failed(f"{text.rstrip('.')} (see {command} --help)", error.exit_code)


def _failed(message: str, code: int = 1) -> int:
    with suppress(OSError):  # nobody may be there to read it
        sys.stderr.write(f"thinstream: {message}\n")
    return code


if __name__ == "__main__":
    main()
