"""A trained model for other programs to read: text, JSON, ONNX, a C header."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, NamedTuple

from thinstream.atomic import replacing
from thinstream.errors import UnknownNameError, listed
from thinstream.models.exports import cheader, jsonfile, onnxfile, text
from thinstream.models.exports.portrait import Portrait

__all__ = ["FORMATS", "Format", "Portrait", "export"]


class Format(NamedTuple):
    """A way to write a portrait into a binary file; the third argument is the file's name without its extension."""

    extensions: tuple[str, ...]
    write: Callable[[Portrait, BinaryIO, str], None]


#: Every format by its name.
FORMATS: dict[str, Format] = {
    "text": Format((".txt", ".tsv"), text.write),
    "json": Format((".json",), jsonfile.write),
    "onnx": Format((".onnx",), onnxfile.write),
    "c": Format((".h",), cheader.write),
}


def export(portrait: Portrait, path: str | os.PathLike[str], format: str | None = None) -> None:  # noqa: A002
    """Writes a portrait to a file, in the format of its extension unless another is named.

    The file is replaced as a whole or, on an error, left as it was. The same portrait gives the same bytes.

    >>> from thinstream.learners import Classes, Learner
    >>> portrait = Portrait.of(Learner("fsol", n_features=9), Classes("ham", "spam"))
    >>> export(portrait, "model.doc")
    Traceback (most recent call last):
    thinstream.errors.UnknownNameError: model.doc: the extension must be '.txt', '.tsv', '.json', '.onnx' or '.h' unless
    format is given, got '.doc'
    """
    path = Path(path)
    write = _format_of(path, format).write
    with replacing(path) as new, open(new, "wb") as file:
        write(portrait, file, path.stem)


def _format_of(path: Path, name: str | None) -> Format:
    if name is not None:
        if name not in FORMATS:
            raise UnknownNameError(f"format must be {listed(FORMATS)}, got {name!r}")
        return FORMATS[name]
    for found in FORMATS.values():
        if path.suffix.lower() in found.extensions:
            return found
    known = [extension for found in FORMATS.values() for extension in found.extensions]
    raise UnknownNameError(f"{path}: the extension must be {listed(known)} unless format is given, got {path.suffix!r}")
