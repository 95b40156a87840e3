"""The command ``thinstream``: it prints one line per error, without traceback, and returns an exit code.

Exit codes: 0 done, 1 invalid input or another failure, 2 invalid command line, 130 and 143 stopped by SIGINT and
SIGTERM, 141 the reader of the output has closed its pipe.
"""

import gc
import os
import re
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

from thinstream.cli.parser import command_names, command_parser, main_parser
from thinstream.cli.terminal import LINES, open_standard_streams, printable
from thinstream.errors import InvalidParameterError, ThinstreamError, UnknownNameError, near


def _perform(words: list[str]) -> Any:
    """Run a command line; return what the command returns."""
    names = command_names()
    if words[:1] and words[0] in names:
        parser, command = command_parser(words[0], words[1:])
        return command(parser.parse(words[1:]))
    if words and not words[0].startswith("-"):
        hint = near(words[0], names, "; ")
        raise InvalidParameterError(f"unknown command {words[0]!r}{hint} (see thinstream --help)")
    if words:
        main_parser().parse(words)  # exits after --help, --version or --print-completion
    print(main_parser().format_help(), end="")
    return 2


def main() -> None:
    """Run the command line of this process."""
    gc.disable()  # imports create many objects and no garbage: this saves 0.01 s
    open_standard_streams()
    code = run(sys.argv[1:])
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:  # its reader has closed the pipe: discard the rest of the buffer silently
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    if "thinstream.distributed" in sys.modules:  # exit handlers remove processes and folders of an engine
        sys.exit(code)
    os._exit(code)  # a normal exit would cost 0.01 s


def run(arguments: list[str]) -> int:
    """Run a command line; return the exit code, after printing to standard error why it is not 0."""
    code, message = _outcome(arguments)
    message = printable(message, keep=LINES)
    if code and is_by_features(arguments):
        from thinstream.distributed.mpi import join

        with suppress(ThinstreamError):  # without an MPI library, each process prints its error
            if (ranks := join()).size > 1:
                ranks.abort(message, code)
    if message:
        with suppress(OSError):  # standard error may be closed
            sys.stderr.write(f"thinstream: {message}\n")
    return code


def _outcome(arguments: list[str]) -> tuple[int, str]:
    """Run a command line; return the exit code and the error message."""
    try:
        with _ended_by_sigterm():
            code = _perform(arguments)
            sys.stdout.flush()  # now, while a closed pipe can be distinguished from other errors
        return int(code or 0), ""
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0, ""
    except BrokenPipeError:  # the reader has closed the pipe, as `head` does
        return 141, ""
    except (InvalidParameterError, UnknownNameError) as error:
        return 2, str(error)
    except ThinstreamError as error:
        return 1, str(error)
    except OSError as error:
        return 1, f"{error.filename}: {error.strerror}" if error.filename else error.strerror or str(error)
    except MemoryError as error:
        return 1, f"not enough memory{f': {error}' if str(error) else ''}"
    except KeyboardInterrupt:
        return 130, ""


def is_by_features(arguments: list[str]) -> bool:
    """Return whether a command line trains by features, so that this process is a rank of an MPI job."""
    return re.search(r"(^|\0)--mode[=\0]features(\0|$)", "\0".join(arguments)) is not None


@contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """Turn SIGTERM into an exception in the main thread, so that incomplete files are removed."""

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


if __name__ == "__main__":
    main()
