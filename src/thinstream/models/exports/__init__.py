"""A trained model for other programs to read: text, JSON, ONNX, a C header."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, NamedTuple

from thinstream.atomic import replacing
from thinstream.errors import UnknownNameError, listed
from thinstream.models.exports import cheader, cheader_classes, jsonfile, onnxfile, text
from thinstream.models.exports.gallery import Gallery
from thinstream.models.exports.portrait import Portrait

__all__ = ["FORMATS", "Format", "Gallery", "Portrait", "export"]


class Format(NamedTuple):
    """A way to write a portrait into a binary file; the third argument is the file's name without its extension."""

    extensions: tuple[str, ...]
    write: Callable[[Portrait, BinaryIO, str], None]
    write_classes: Callable[[Gallery, BinaryIO, str], None]  # the same for more than two classes


#: Every format by its name.
FORMATS: dict[str, Format] = {
    "text": Format((".txt", ".tsv"), text.write, text.write_classes),
    "json": Format((".json",), jsonfile.write, jsonfile.write_classes),
    "onnx": Format((".onnx",), onnxfile.write, onnxfile.write_classes),
    "c": Format((".h",), cheader.write, cheader_classes.write_classes),
}


def export(portrait: Portrait | Gallery, path: str | os.PathLike[str], format: str | None = None) -> None:  # noqa: A002
    """Writes a portrait, or those of more than two classes, in the format of the file's extension unless one is named.

    The file is replaced as a whole or, on an error, left as it was. The same portrait gives the same bytes.

    >>> from thinstream.learners import Classes, Learner
    >>> portrait = Portrait.of(Learner("fsol", n_features=9), Classes("ham", "spam"))
    >>> export(portrait, "model.doc")
    Traceback (most recent call last):
    thinstream.errors.UnknownNameError: model.doc: the extension must be '.txt', '.tsv', '.json', '.onnx' or '.h' unless
    format is given, got '.doc'
    """
    path = Path(path)
    chosen = _format_of(path, format)
    with replacing(path) as new, open(new, "wb") as file:
        if isinstance(portrait, Gallery):
            chosen.write_classes(portrait, file, path.stem)
        else:
            chosen.write(portrait, file, path.stem)


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
