"""Files of batch learners: the container, checksum and names of model files, with the learner's own arrays in it."""

import os
from pathlib import Path
from typing import Any, NamedTuple

from thinstream import __version__
from thinstream.atomic import replacing
from thinstream.errors import ModelFileError
from thinstream.models.container import Arrays, canonical, digest, get, put, storable, text_of
from thinstream.models.file import FORMAT, _head, _names_in, _names_out, _require_file
from thinstream.models.model import Names
from thinstream.models.plain import plain

GRADE = "batch"
_OWN = "arrays/"


class BatchModel(NamedTuple):
    """What such a file holds: a description as JSON has it, the learner's arrays, names of features."""

    description: dict[str, Any]
    arrays: Arrays
    names: Names | None = None


def is_batch_file(path: str | os.PathLike[str]) -> bool:
    """Whether this is the file of a batch learner, by its header alone; False also for what is no model at all."""
    try:
        _require_file(Path(path))
        return f'"grade":"{GRADE}"' in text_of(Path(path))
    except Exception:  # whoever reads it next says what is wrong with it
        return False


def write_batch(path: str | os.PathLike[str], model: BatchModel) -> None:
    """Writes the file, replacing one in a single step; the same bytes for the same model."""
    arrays = {_OWN + name: array for name, array in model.arrays.items()} | _names_out(model.names)
    arrays = {name: storable(array, name) for name, array in arrays.items()}
    head = {"format": FORMAT, "library": __version__, "grade": GRADE, "batch": plain(model.description, "batch")}
    text = canonical(head | {"sha256": digest(canonical(head), arrays)})
    with replacing(path) as temporary, open(temporary, "wb") as file:
        put(file, text, arrays)


def read_batch(path: str | os.PathLike[str]) -> BatchModel:
    """What was written; ModelFileError if a bit of it has changed."""
    try:
        text, arrays = get(Path(path))
        head = _head(text, arrays)
        own = {name.removeprefix(_OWN): array for name, array in arrays.items() if name.startswith(_OWN)}
        return BatchModel(dict(head["batch"]), own, _names_in(arrays))
    except ModelFileError as error:
        raise ModelFileError(f"{os.fspath(path)}: {error}") from None
