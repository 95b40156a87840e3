"""Model files: safetensors files, identical for identical models.

The metadata of the header has one entry, ``thinstream``: a JSON text with sorted keys that describes everything except
the arrays, and the SHA-256 digest of itself and the arrays. No code in a file is run, and no size in it is used before
the checksum is verified.

`read` raises if the format version is not `FORMAT`, or if this version does not have the algorithm or its parameters.
"""

import json
import math
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import numpy as np

from thinstream._version import __version__
from thinstream.data.labels import Classes, GrowingClasses
from thinstream.errors import (
    InvalidInputError,
    InvalidParameterError,
    ModelFileError,
    NumericalError,
    WeightsOnlyError,
    listed,
)
from thinstream.files import replacing
from thinstream.models import packing
from thinstream.models.container import KEY, Arrays, canonical, digest, get, label, plain, put, storable
from thinstream.models.model import NORMALIZED, Model, Names, names_of_kept
from thinstream.models.packing import lengthened, shortened
from thinstream.models.pipeline import Pipeline
from thinstream.models.preparation import Preparation

#: The format version of model files and checkpoints.
FORMAT = 1
GRADES = ("full", "weights")
Grade = Literal["full", "weights"]

#: The prefix of the model's own arrays, so that they cannot be confused with the learner's.
_OWN = "arrays/"
_READING, _REPORT = "reading", "progressive"


def grade_of(model: Model, weights_only: bool | None) -> Grade:
    """Return what a file contains: only the weights if requested, or everything that the model has."""
    return "weights" if (model.learner.weights_only if weights_only is None else weights_only) else "full"


def write(
    path: str | os.PathLike[str], model: Model, grade: Grade = "full", packed: dict[str, Any] | None = None
) -> None:
    """Write the model, and replace the file atomically.

    A "full" model can continue to learn, bit-identical to a model that was never saved. With "weights", it only
    predicts: the file has the non-zero weights, without the model's own arrays. ``packed`` has the arrays of the
    learner if it is not completely in this process (see `container.Blocks`).

    Examples
    --------
    >>> import tempfile
    >>> from thinstream.lanes.learner import Learner
    >>> model = Model(Learner("fsol", n_features=3), Classes("ham", "spam"))
    >>> path = Path(tempfile.mkdtemp()) / "spam.model"
    >>> write(path, model)
    >>> read(path).classes
    Classes('ham', 'spam')

    """
    if grade not in GRADES:
        raise InvalidParameterError(f"grade must be {listed(GRADES)}, got {grade!r}")
    learner = model.learner if grade == "full" else model.learner.served()
    if grade == "full" and learner.weights_only:
        raise WeightsOnlyError(
            f"{os.fspath(path)}: this {learner.algorithm.name} has only its weights and cannot be saved in full. "
            "Save it with weights_only=True (grade='weights')"
        )
    arrays = packing.pack(learner, grade) if packed is None else packed
    for name, array in arrays.items():
        if packed is None and array.dtype.kind == "f" and not np.isfinite(array).all():
            raise NumericalError(
                f"{os.fspath(path)}: this {learner.algorithm.name} cannot be saved, because its array {name!r} has "
                "numbers that are not finite"
            )
    described = packing.describe(learner, grade)
    if grade == "weights":
        arrays = shortened(arrays, described.get("preparation", {}))
    if grade == "full":
        arrays |= {_named(name): array for name, array in model.arrays.items()}
    arrays |= {} if names_of_kept(learner) else _names_out(model.names)
    arrays = {name: storable(array, name) for name, array in arrays.items()}
    head = described | {
        "format": FORMAT,
        "library": __version__,
        "grade": grade,
        "classes": [label(value) for value in model.classes],
        "space": plain(model.feature_space, "space"),
        "extra": plain(_extra_out(model), "extra"),
    }
    if model.classes.grow:
        head["class_weight"] = _class_weight_out(model.class_weight)
    head |= plain({"threshold": model.threshold}, "model") if model.threshold else {}
    text = canonical(head | {"sha256": digest(canonical(head), arrays)})
    with replacing(path) as temporary, open(temporary, "wb") as file:
        put(file, text, arrays)


def weights_nbytes(model: Model) -> int:
    """Return about how many bytes the file of a model has with its weights only."""
    learner = model.learner.served()
    described = packing.describe(learner, "weights")
    arrays = shortened(packing.pack(learner, "weights"), described.get("preparation", {}))
    return sum(array.nbytes for array in (*arrays.values(), *_names_out(model.names).values()))


def read(
    path: str | os.PathLike[str], part: Callable[[dict[str, Any], Arrays], tuple[dict[str, Any], Arrays]] | None = None
) -> Model:
    """Return the model of a file, or raise a ModelFileError.

    ``part`` reduces the description and the arrays to a part of the model, so that not all of it has to fit in memory.
    """
    path = Path(path)
    with _explained(path):
        _require_file(path)
        text, arrays = get(path, mapped=part is not None)
        head = _head(text, arrays)
    if part is not None:
        head, arrays = part(head, arrays)
    with _explained(path):
        return _model(head, lengthened(arrays, head))


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except ModelFileError as error:
        raise ModelFileError(f"{path}: {error}") from None
    except OSError as error:
        raise ModelFileError(f"{path}: cannot be read: {error.strerror or error}") from error
    except MemoryError as error:
        raise ModelFileError(f"{path}: does not fit into memory") from error
    # the checksum matches: the file is from another version, or was forged
    except (ValueError, TypeError, LookupError, AttributeError, OverflowError) as error:
        raise ModelFileError(f"{path}: is not a model that this version can load: {error}") from error


def looks_like_a_model(path: Path) -> bool:
    """Return whether a file begins like a model file, damaged or not."""
    try:
        with path.open("rb") as file:
            return f'"{KEY}"'.encode() in file.read(4096)
    except OSError:  # the file cannot be read, so it could be a model
        return True


def _require_file(path: Path) -> None:
    try:
        status = path.stat()
    except FileNotFoundError:
        raise ModelFileError("does not exist") from None
    if stat.S_ISDIR(status.st_mode):
        raise ModelFileError("is a folder, not a model file")
    if not stat.S_ISREG(status.st_mode):
        raise ModelFileError("is a device or a pipe, not a model file")
    if status.st_size == 0:
        raise ModelFileError("is empty")


def _head(text: str, arrays: Arrays) -> dict[str, Any]:
    """Return the description, after verifying the checksum of the file."""
    try:
        head: dict[str, Any] = json.loads(text)
        sound = isinstance(head, dict) and canonical(head) == text
    except (ValueError, RecursionError):
        sound = False
    if not sound:
        raise ModelFileError("is damaged: its description was changed")
    version = head.get("format")
    if type(version) is int and version != FORMAT:
        writer = head.get("library")
        raise ModelFileError(
            f"has format version {version}, but thinstream {__version__} supports only version {FORMAT}. Use the "
            f"thinstream version that wrote the file ({writer!s:.40}), or train the model again without this file"
        )
    if head.pop("sha256", None) != digest(canonical(head), arrays) or type(version) is not int:
        raise ModelFileError("is damaged: its checksum does not match")
    return head


def _model(head: dict[str, Any], arrays: Arrays) -> Model:
    if head["grade"] not in GRADES:
        raise ModelFileError(f"its grade must be {listed(GRADES)}, got {head['grade']!r}")
    for name, array in arrays.items():
        if not name.startswith(_OWN) and array.dtype.kind == "f" and not np.isfinite(array).all():
            raise ModelFileError(f"its array {name!r} has numbers that are not finite")
    learner, labels = packing.unpack(head, arrays), [label(value) for value in head["classes"]]
    space = dict(head["space"])
    if NORMALIZED in space and learner.algorithm.kind == "online":
        # In training, the stream normalized the rows. The loaded model does it, because its rows can come from
        # elsewhere.
        normalizing = Preparation(normalize=space.pop(NORMALIZED))
        learner = Pipeline(learner.outputs, normalizing, learner.encoder, learner.n_features, learner.grow)
    if len(set(labels)) < len(labels):
        raise ModelFileError(f"its classes must be different, got {labels!r}")
    classes = Classes(*labels) if "spares" not in head else _growing_classes(labels, head.get("class_weight"), learner)
    own = {name.removeprefix(_OWN): array for name, array in arrays.items() if name.startswith(_OWN)}
    extra = dict(head["extra"])
    reading, report = extra.pop(_READING, {}), extra.pop(_REPORT, None)
    threshold = head.get("threshold", 0.0)
    if type(threshold) is not float or not math.isfinite(threshold):
        raise ModelFileError(f"its threshold must be a finite number, got {threshold!r}")
    names = names_of_kept(learner) or _names_in(arrays)
    return Model(learner, classes, space, names, extra, own, reading, report, threshold)


def _class_weight_out(class_weight: Any) -> Any:
    """Return pairs instead of a dict, because JSON keys cannot be numbers."""
    if not isinstance(class_weight, dict):
        return class_weight
    return [[label(value), float(weight)] for value, weight in class_weight.items()]


def _growing_classes(labels: list[Any], class_weight: Any, learner: Pipeline) -> GrowingClasses:
    pairs = isinstance(class_weight, list)
    classes = GrowingClasses(*labels, class_weight={label(k): v for k, v in class_weight} if pairs else class_weight)
    if classes.spare_costs(learner.algorithm.name) != learner.outputs.spare_costs or classes.costs != learner.costs:
        raise ModelFileError("its class weights are not those that it was trained with")
    return classes


def _extra_out(model: Model) -> dict[str, Any]:
    """Return the extra values, reading options and report, which share one entry of the file."""
    values = {_READING: model.reading or None, _REPORT: model.report}
    return model.extra | {name: value for name, value in values.items() if value is not None}


def _named(name: str) -> str:
    try:
        name.encode()
    except (AttributeError, UnicodeEncodeError):
        raise InvalidInputError(f"arrays: names must be strings that can be encoded in UTF-8, got {name!r}") from None
    return _OWN + name


def _names_out(names: Names | None) -> Arrays:
    if names is None:
        return {}
    names.checked()
    raw = [text.encode("utf-8", "surrogatepass") for text in names.texts]
    return {
        "names.indices": names.indices.astype(np.int64),
        "names.ends": np.cumsum([len(text) for text in raw], dtype=np.int64),
        "names.text": np.frombuffer(b"".join(raw), dtype=np.uint8),
    }


def _names_in(arrays: Arrays) -> Names | None:
    if "names.indices" not in arrays:
        return None
    ends, raw = arrays["names.ends"].tolist(), arrays["names.text"].tobytes()
    texts = [raw[a:b].decode("utf-8", "surrogatepass") for a, b in zip([0, *ends], ends, strict=False)]
    return Names(arrays["names.indices"], texts).checked()
