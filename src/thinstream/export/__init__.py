"""Export: write trained models for other programs, in one of the formats of `thinstream.export.formats`.

A format is a module of that package, named after the format. It has ``EXTENSIONS`` and a function
``write(model, file, name)``. A function ``inputs_of(model)`` may describe the inputs of the file to its users.
"""

import os
import pkgutil
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from thinstream.errors import UnknownNameError, listed
from thinstream.export import formats
from thinstream.export.linear import LinearModel
from thinstream.files import replacing

__all__ = ["FORMATS", "Format", "LinearModel", "export"]


class Format(Protocol):
    """An export format."""

    @property
    def EXTENSIONS(self) -> tuple[str, ...]:
        """The extensions of files in this format."""

    def write(self, model: LinearModel, file: BinaryIO, name: str) -> None:
        """Write a model of any number of classes; the name is that of the file without its extension."""


def _formats() -> dict[str, Any]:
    """Import every module of the folder of formats, by name."""
    names = [module.name for module in pkgutil.iter_modules(formats.__path__)]
    return {name: import_module(f"{formats.__name__}.{name}") for name in names}


#: Every format by its name.
FORMATS: dict[str, Format] = _formats()


def export(model: LinearModel, path: str | os.PathLike[str], format: str | None = None) -> str:  # noqa: A002
    """Write a model in a format, by default that of the file's extension.

    Return a sentence about the inputs of the file if they are not the rows of the training files, else "".

    The file is replaced atomically, and stays unchanged if there is an error. The same model always gives the same
    bytes.

    >>> from thinstream.data.labels import Classes
    >>> from thinstream.models.model import Model
    >>> model = Model.fresh("fsol", Classes("ham", "spam"), n_features=9)
    >>> export(LinearModel.of(model), "model.doc")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    thinstream.errors.UnknownNameError: model.doc: the extension must be '.h', ... unless format is given, got '.doc'
    """
    path = Path(path)
    chosen = _format_of(path, format)
    with replacing(path) as new, open(new, "wb") as file:
        chosen.write(model, file, path.stem)
    inputs_of: Callable[[LinearModel], str] = getattr(chosen, "inputs_of", lambda model: "")
    return inputs_of(model)


def _format_of(path: Path, name: str | None) -> Format:
    if name is not None:
        if name not in FORMATS:
            raise UnknownNameError(f"format must be {listed(FORMATS)}, got {name!r}")
        return FORMATS[name]
    for export_format in FORMATS.values():
        if path.suffix.lower() in export_format.EXTENSIONS:
            return export_format
    extensions = [extension for export_format in FORMATS.values() for extension in export_format.EXTENSIONS]
    raise UnknownNameError(
        f"{path}: the extension must be {listed(extensions)} unless format is given, got {path.suffix!r}"
    )
