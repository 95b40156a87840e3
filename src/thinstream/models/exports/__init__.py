"""A trained model for other programs to read: text, JSON, ONNX, C, JavaScript, SQL.

A format is a module with ``EXTENSIONS`` and a function ``write(model, file, name)``.
"""

import os
from pathlib import Path
from typing import BinaryIO, Protocol

from thinstream.atomic import replacing
from thinstream.errors import UnknownNameError, listed
from thinstream.models.exports import cheader, jsmodule, jsonfile, onnxfile, sqlfile, text
from thinstream.models.exports.linear import LinearModel

__all__ = ["FORMATS", "Format", "LinearModel", "export"]


class Format(Protocol):
    """A way to write a model of any number of classes."""

    @property
    def EXTENSIONS(self) -> tuple[str, ...]:
        """Of files in this format."""

    def write(self, model: LinearModel, file: BinaryIO, name: str) -> None:
        """Writes it; the name is the file's without its extension."""


#: Every format by its name.
FORMATS: dict[str, Format] = {
    "text": text,
    "json": jsonfile,
    "onnx": onnxfile,
    "c": cheader,
    "js": jsmodule,
    "sql": sqlfile,
}


def export(model: LinearModel, path: str | os.PathLike[str], format: str | None = None) -> None:  # noqa: A002
    """Writes a model in the format of the file's extension unless one is named.

    The file is replaced as a whole or, on an error, left as it was. The same model gives the same bytes.

    >>> from thinstream.learners import Classes
    >>> from thinstream.models.model import Model
    >>> model = Model.fresh("fsol", Classes("ham", "spam"), n_features=9)
    >>> export(LinearModel.of(model), "model.doc")
    Traceback (most recent call last):
    thinstream.errors.UnknownNameError: model.doc: the extension must be '.txt', '.tsv', '.json', '.onnx', '.h', '.js',
    '.mjs' or '.sql' unless format is given, got '.doc'
    """
    path = Path(path)
    chosen = _format_of(path, format)
    with replacing(path) as new, open(new, "wb") as file:
        chosen.write(model, file, path.stem)


def _format_of(path: Path, name: str | None) -> Format:
    if name is not None:
        if name not in FORMATS:
            raise UnknownNameError(f"format must be {listed(FORMATS)}, got {name!r}")
        return FORMATS[name]
    for found in FORMATS.values():
        if path.suffix.lower() in found.EXTENSIONS:
            return found
    known = [extension for found in FORMATS.values() for extension in found.EXTENSIONS]
    raise UnknownNameError(f"{path}: the extension must be {listed(known)} unless format is given, got {path.suffix!r}")
