"""Streams and classes from the options of a command line."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from thinstream.cli.groups import Reading
from thinstream.errors import FileWriteError, InvalidParameterError
from thinstream.learners import Classes
from thinstream.streams.opening import open_files
from thinstream.streams.sources import STDIN


def opened(
    data: list[str], reading: Reading, dtype: str, *, cache: bool = False, labels: bool = True, strict: bool = True
) -> Any:
    """The stream the options describe."""
    return open_files(data, replace(reading, dtype=dtype, labels=labels, strict=strict), cache=cache)


def classes_of(reading: Reading) -> Classes:
    """The labels of ``--classes``; without it −1 and 1."""
    return Classes(*(reading.classes or (-1, 1)))


def require_place(path: str | Path | None) -> None:
    """Raises at once where a file could not be written in the end; None and - are fine."""
    if path is None or str(path) == STDIN or Path(path).is_fifo() or Path(path).is_char_device():
        return
    folder = Path(os.path.realpath(path)).parent
    if Path(path).is_dir():
        why = "it is a folder; give the name of a file"
    elif not folder.is_dir():
        why = f"there is no folder {folder}"
    elif not os.access(folder, os.W_OK):
        why = f"the folder {folder} is not writable"
    else:
        return
    raise FileWriteError(f"{path}: cannot be written: {why}")


def require_apart(out: str | Path | None, *inputs: str | Path) -> None:
    """Raises where an output would take the place of an input."""
    if out is None or str(out) == STDIN:
        return
    for path in inputs:
        if str(path) != STDIN and os.path.realpath(path) == os.path.realpath(out):
            raise InvalidParameterError(f"{out} is an input: writing to it would destroy it; give another name")
