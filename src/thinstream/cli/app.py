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
from inspect import signature
from types import FrameType
from typing import TYPE_CHECKING, Any

from thinstream.cli import commands
from thinstream.cli.completing import COMPLETING
from thinstream.cli.terminal import LINES, open_standard_streams, printable

if TYPE_CHECKING:
    from thinstream.cli.options import Expanded


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


def expand_command(name: str, arguments: list[str]) -> "Expanded":
    """A command with all its options, those of the algorithms that stand in the arguments among them if it learns."""
    from thinstream.cli.options import PARAMETERS, Expanded

    command = find_command(name)
    parameters = signature(command).parameters
    if PARAMETERS not in parameters:
        return Expanded(command)
    from thinstream.cli.algorithm_options import algorithm_options, named_algorithms

    algorithms = named_algorithms(arguments, parameters["algorithm"].default)
    return Expanded(command, algorithm_options(algorithms, without=parameters), algorithms)


def _perform(arguments: list[str]) -> Any:
    """Runs a command line, without typer if it is plain; what the command returns."""
    if arguments[:1] and arguments[0] in command_names() and COMPLETING not in os.environ:
        from thinstream.cli.declared import Given
        from thinstream.cli.plain import NotPlain, read_plainly

        command = expand_command(arguments[0], arguments)
        try:
            values = read_plainly(command.parameters, arguments[1:])
        except NotPlain:
            pass
        else:
            return command(values, Given(values))
    from thinstream.cli.typer_app import run_by_typer

    return run_by_typer(arguments)


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
            code = _perform(arguments)
            sys.stdout.flush()  # now, while a reader that has left can still be told from other trouble
        return int(code or 0)
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
    except Exception as error:
        if "typer" not in sys.modules:
            raise
        from thinstream.cli.typer_app import explain

        found = explain(error, arguments)
        if found is None:
            raise
        return _failed(*found) if found[0] else found[1]


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


def _failed(message: str, code: int = 1) -> int:
    with suppress(OSError):  # nobody may be there to read it
        sys.stderr.write(f"thinstream: {printable(message, keep=LINES)}\n")
    return code


if __name__ == "__main__":
    main()
