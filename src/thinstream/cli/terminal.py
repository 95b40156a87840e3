"""Standard output and error as they may be: closed, full, left by their reader, of another encoding, or a terminal."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

#: What a text of several lines may have beside printable characters.
LINES = "\n\t"


def printable(text: str, keep: str = "") -> str:
    r"""The text with everything escaped that could steer a terminal: names come from data and files.

    >>> print(printable("a\x1b[31mb\n"))
    a\x1b[31mb\n
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else c.encode("unicode_escape").decode() for c in text)


def open_standard_streams() -> None:
    """Lets closed streams lead nowhere, so that no file gets their number; escapes what an encoding does not have."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        stream: Any = getattr(sys, name)
        if stream is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), "w" if number else "r"))
        elif number:
            stream.reconfigure(errors="backslashreplace")


class GuardedOutput:
    """Standard output while a command runs: nothing in it steers the terminal.

    After `keep_going` it may be lost, to a reader that leaves or a full disk, and the command goes on.
    """

    def __init__(self, stream: Any) -> None:
        self._stream, self.is_needed = stream, True
        self.lost: OSError | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Writes what is printable of it as it is."""
        self._try(self._stream.write, printable(text, keep=LINES))
        return len(text)

    def flush(self) -> None:
        """Hands on what was written."""
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
    """Guards standard output for the length of the block; raises in the end if it was lost."""
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
    """From now on the command makes something that is worth more than what it says: output must not cost a model."""
    if isinstance(sys.stdout, GuardedOutput):
        sys.stdout.is_needed = False
