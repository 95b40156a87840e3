"""Standard output and error, which may be closed, full, a closed pipe, in another encoding, or a terminal."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

#: Control characters that a text with several lines may contain.
LINES = "\n\t"


def printable(text: str, keep: str = "") -> str:
    r"""Escape control characters, which could change the terminal, because names come from data and files.

    >>> print(printable("a\x1b[31mb\n"))
    a\x1b[31mb\n
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else c.encode("unicode_escape").decode() for c in text)


def open_standard_streams() -> None:
    """Open closed streams on /dev/null, so that no file gets their number. Escape characters outside the encoding."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        stream: Any = getattr(sys, name)
        if stream is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), "w" if number else "r"))
        elif number:
            stream.reconfigure(errors="backslashreplace")


class GuardedOutput:
    """Standard output while a command runs, with control characters escaped.

    After `keep_going`, the command continues if output fails because of a closed pipe or a full disk.
    """

    def __init__(self, stream: Any) -> None:
        self._stream, self.is_needed = stream, True
        self.lost: OSError | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        self._try(self._stream.write, printable(text, keep=LINES))
        return len(text)

    def flush(self) -> None:
        self._try(self._stream.flush)

    def _try(self, action: Callable[..., Any], *arguments: str) -> None:
        if self.lost is not None:
            return
        try:
            action(*arguments)
        except OSError as error:
            error.filename = "standard output"
            if self.is_needed:
                raise
            self.lost = error


@contextmanager
def guarded_output() -> Iterator[None]:
    """Guard standard output in a block. Raise at its end if output has failed."""
    before, guarded = sys.stdout, GuardedOutput(sys.stdout)
    sys.stdout = guarded
    try:
        yield
        guarded.flush()
    finally:
        sys.stdout = before
    if guarded.lost is not None:
        raise guarded.lost


def keep_going() -> None:
    """Let the command finish if output fails from now on, because it writes a model."""
    if isinstance(sys.stdout, GuardedOutput):
        sys.stdout.is_needed = False
