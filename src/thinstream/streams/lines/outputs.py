"""Files that appear under their names only when all of them are complete."""

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, cast

from thinstream.atomic import draft, explained
from thinstream.errors import InvalidParameterError
from thinstream.streams.compression import Name, ending, open_write


@contextmanager
def open_outputs(names: Sequence[Name], inputs: Sequence[Name] = ()) -> Iterator[list[BinaryIO]]:
    """Opens files to write, compressed as their names say; what was there before stays until the end.

    They are written beside their final names and renamed when the block ends well, removed when it does not. Standard
    output ("-"), pipes and devices are written directly. New files are open to nobody to whom an input is closed.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with open_outputs([f"{folder}/a.txt"]) as (a,):
    ...         _ = a.write(b"new")
    ...         print(os.path.exists(f"{folder}/a.txt"))
    ...     print(Path(folder, "a.txt").read_text())
    False
    new

    """
    # where the names lead, through links
    targets = [Path(name) if os.fspath(name) == "-" else Path(os.path.realpath(name)) for name in names]
    twice = [os.fspath(name) for name, target in zip(names, targets, strict=True) if targets.count(target) > 1]
    if twice:
        raise InvalidParameterError(f"outputs must be different files, got {twice[0]!r} twice")
    like = [name for name in inputs if os.path.isfile(name)]
    with ExitStack() as drafts, ExitStack() as opened:  # all are closed before the first gets its name
        files: list[BinaryIO] = []
        for name, target in zip(names, targets, strict=True):
            direct = str(target) == "-" or (target.exists() and not target.is_file())
            place = target if direct else drafts.enter_context(draft(name, like))
            file = open_write(place, ending(target))
            files.append(file if direct else cast(BinaryIO, _Named(file, name)))
            opened.callback(_close, files[-1])
        yield files
        for file in files:
            file.close()


class _Named:
    """A file whose errors say its final name: it is written under another."""

    def __init__(self, file: BinaryIO, name: Name) -> None:
        self._file, self._name = file, name

    def write(self, data: Any) -> int:
        """Writes all of it."""
        with explained(self._name):
            return self._file.write(data)

    def close(self) -> None:
        """Writes what waits."""
        with explained(self._name):
            self._file.close()


def _close(file: BinaryIO) -> None:
    """After an error: there is a first one to tell of."""
    with suppress(OSError):
        file.close()
