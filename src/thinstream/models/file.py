"""Model files: one safetensors file each, the same bytes for the same model.

The header's metadata has one entry, ``thinstream``: a JSON text with sorted keys that says all but the arrays, and a
SHA-256 over itself and them. Nothing in a file is run, and no size in it is believed before the checksum is.

`read` refuses a file whose format version is not `FORMAT`, and one whose algorithm or parameters this library does not
have.
"""

import json
import math
import os
import stat
from pathlib import Path
from typing import Any, Literal

import numpy as np

from thinstream import __version__
from thinstream.atomic import replacing
from thinstream.blend.serving import served
from thinstream.compact import CompactLearner, narrow_learner
from thinstream.errors import (
    InvalidInputError,
    InvalidParameterError,
    ModelFileError,
    NumericalError,
    WeightsOnlyError,
    listed,
)
from thinstream.learners import Classes
from thinstream.learners.growing_classes import GrowingClasses
from thinstream.models import packing
from thinstream.models.container import KEY, Arrays, canonical, digest, get, label, plain, put, storable
from thinstream.models.model import NORMALIZED, Model, Names, has_names, names_of_kept
from thinstream.models.packing_scales import lengthened, shortened
from thinstream.preparing import Preparation, plain_learner, prepared

#: The format version of model files and checkpoints.
FORMAT = 1
GRADES = ("full", "weights")
Grade = Literal["full", "weights"]

#: Where a model's own arrays stand, so that they cannot be taken for the learner's.
_OWN = "arrays/"
_READING, _REPORT = "reading", "progressive"


def grade_of(model: Model, weights_only: bool | None) -> Grade:
    """What a file has: no more than weights if that is asked for, or all there is."""
    return "weights" if (model.learner.weights_only if weights_only is None else weights_only) else "full"


def write(path: str | os.PathLike[str], model: Model, grade: Grade = "full") -> None:
    """Writes the model, replacing the file in one step.

    "full" can go on learning, with the same bits as if it had never been stopped. "weights" only predicts: no more than
    the non-zero weights are stored, and the model's own arrays are left out.

    Examples
    --------
    >>> import tempfile
    >>> from thinstream.learners import Learner
    >>> model = Model(Learner("fsol", n_features=3), Classes("ham", "spam"))
    >>> path = Path(tempfile.mkdtemp()) / "spam.model"
    >>> write(path, model)
    >>> read(path).classes
    Classes('ham', 'spam')

    """
    if grade not in GRADES:
        raise InvalidParameterError(f"grade must be {listed(GRADES)}, got {grade!r}")
    learner = model.learner if grade == "full" else served(model.learner)
    if grade == "full" and learner.weights_only:
        raise WeightsOnlyError(
            f"{os.fspath(path)}: this {learner.algorithm.name} has its weights only and cannot be saved in full; "
            "save it with its weights only (weights_only=True, or grade='weights')"
        )
    arrays = packing.pack(learner, grade)
    for name, array in arrays.items():
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise NumericalError(
                f"{os.fspath(path)}: this {learner.algorithm.name} is not saved, its array {name!r} has numbers that "
                "are not finite"
            )
    described = packing.describe(learner, grade)
    if grade == "weights":
        arrays = shortened(arrays, described.get("preparation", {}))
    if grade == "full":
        arrays |= {_named(name): array for name, array in model.arrays.items()}
    arrays |= {} if has_names(learner) else _names_out(model.names)
    arrays = {name: storable(array, name) for name, array in arrays.items()}
    head = described | {
        "format": FORMAT,
        "library": __version__,
        "grade": grade,
        "classes": [label(each) for each in model.classes],
        "space": plain(model.feature_space, "space"),
        "extra": plain(_extra_out(model), "extra"),
    }
    if model.classes.grow:
        head["class_weight"] = _class_weight_out(model.class_weight)
    head |= plain({"threshold": model.threshold}, "model") if model.threshold else {}
    text = canonical(head | {"sha256": digest(canonical(head), arrays)})
    with replacing(path) as temporary, open(temporary, "wb") as file:
        put(file, text, arrays)


def read(path: str | os.PathLike[str]) -> Model:
    """The model of a file; ModelFileError says what is wrong with one that cannot be read."""
    path = Path(path)
    try:
        _require_file(path)
        text, arrays = get(path)
        head = _head(text, arrays)
        return _model(head, lengthened(arrays, head))
    except ModelFileError as error:
        raise ModelFileError(f"{path}: {error}") from None
    except OSError as error:
        raise ModelFileError(f"{path}: cannot be read: {error.strerror or error}") from error
    except MemoryError as error:
        raise ModelFileError(f"{path}: is too large for this machine's memory") from error
    # the checksum matches: the algorithm or parameters of another library, or a forgery
    except (ValueError, TypeError, LookupError, AttributeError, OverflowError) as error:
        raise ModelFileError(f"{path}: is not a model this library can load: {error}") from error


def looks_like_a_model(path: Path) -> bool:
    """Whether a file begins as those of models do, damaged or not."""
    try:
        with path.open("rb") as file:
            return f'"{KEY}"'.encode() in file.read(4096)
    except OSError:  # nobody may read it: then it is not ours to judge
        return True


def _require_file(path: Path) -> None:
    try:
        found = path.stat()
    except FileNotFoundError:
        raise ModelFileError("there is no such file") from None
    if stat.S_ISDIR(found.st_mode):
        raise ModelFileError("is a folder, not a model file")
    if not stat.S_ISREG(found.st_mode):
        raise ModelFileError("is a device or a pipe, not a model file")
    if found.st_size == 0:
        raise ModelFileError("is empty")


def _head(text: str, arrays: Arrays) -> dict[str, Any]:
    """The description, once it is sure that not a bit of the file has changed."""
    try:
        head: dict[str, Any] = json.loads(text)
        sound = isinstance(head, dict) and canonical(head) == text
    except (ValueError, RecursionError):
        sound = False
    if not sound:
        raise ModelFileError("is damaged: its description is not as it was written")
    version = head.get("format")
    if type(version) is int and version != FORMAT:
        writer = head.get("library")
        raise ModelFileError(
            f"has format version {version}, but thinstream {__version__} supports only version {FORMAT}. Use the "
            f"thinstream version that wrote the file ({writer!s:.40}), or train the model again without this file"
        )
    if head.pop("sha256", None) != digest(canonical(head), arrays) or type(version) is not int:
        raise ModelFileError("is damaged: its checksum does not fit")
    return head


def _model(head: dict[str, Any], arrays: Arrays) -> Model:
    if head["grade"] not in GRADES:
        raise ModelFileError(f"its grade is {head['grade']!r}, not {listed(GRADES)}")
    for name, array in arrays.items():
        if not name.startswith(_OWN) and array.dtype.kind == "f" and not np.isfinite(array).all():
            raise ModelFileError(f"its array {name!r} has numbers that are not finite")
    learner, labels = packing.unpack(head, arrays), [label(each) for each in head["classes"]]
    space = dict(head["space"])
    if NORMALIZED in space and learner.algorithm.kind == "online":
        # The stream normalized the rows in training. The loaded model does it, since its rows can come from elsewhere.
        normalizing = Preparation(normalize=space.pop(NORMALIZED))
        if isinstance(learner, CompactLearner):
            learner.inner = prepared(learner.inner, normalizing)
        else:
            learner = prepared(learner, normalizing)
    if len(set(labels)) < len(labels):
        raise ModelFileError(f"its classes are not different, {labels!r}")
    classes = Classes(*labels) if "spares" not in head else _growing_classes(labels, head.get("class_weight"), learner)
    own = {name.removeprefix(_OWN): array for name, array in arrays.items() if name.startswith(_OWN)}
    extra = dict(head["extra"])
    reading, report = extra.pop(_READING, {}), extra.pop(_REPORT, None)
    threshold = head.get("threshold", 0.0)
    if type(threshold) is not float or not math.isfinite(threshold):
        raise ModelFileError(f"its threshold is {threshold!r}, not a finite number")
    names = names_of_kept(learner) or _names_in(arrays)
    return Model(learner, classes, space, names, extra, own, reading, report, threshold)


def _class_weight_out(given: Any) -> Any:
    """Pairs in place of a dict, whose keys may be numbers."""
    return [[label(each), float(weight)] for each, weight in given.items()] if isinstance(given, dict) else given


def _growing_classes(labels: list[Any], class_weight: Any, learner: Any) -> GrowingClasses:
    pairs = isinstance(class_weight, list)
    known = GrowingClasses(*labels, class_weight={label(k): v for k, v in class_weight} if pairs else class_weight)
    learner = plain_learner(narrow_learner(learner))
    if known.spare_costs(learner.algorithm.name) != learner.spare_costs or known.costs != learner.costs:
        raise ModelFileError("its class weights are not those it has learned with")
    return known


def _extra_out(model: Model) -> dict[str, Any]:
    """What stands beside the learner: a file has one entry for all of it."""
    found = {_READING: model.reading or None, _REPORT: model.report}
    return model.extra | {name: value for name, value in found.items() if value is not None}


def _named(name: str) -> str:
    try:
        name.encode()
    except (AttributeError, UnicodeEncodeError):
        raise InvalidInputError(f"arrays: names must be strings that UTF-8 can hold, got {name!r}") from None
    return _OWN + name


def _names_out(names: Names | None) -> Arrays:
    if names is None:
        return {}
    names.checked()
    raw = [text.encode("utf-8", "surrogatepass") for text in names.texts]
    return {
        "names.indices": names.indices.astype(np.int64),
        "names.ends": np.cumsum([len(each) for each in raw], dtype=np.int64),
        "names.text": np.frombuffer(b"".join(raw), dtype=np.uint8),
    }


def _names_in(arrays: Arrays) -> Names | None:
    if "names.indices" not in arrays:
        return None
    ends, raw = arrays["names.ends"].tolist(), arrays["names.text"].tobytes()
    texts = [raw[a:b].decode("utf-8", "surrogatepass") for a, b in zip([0, *ends], ends, strict=False)]
    return Names(arrays["names.indices"], texts).checked()
