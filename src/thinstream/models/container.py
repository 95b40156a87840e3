"""Named arrays and one text in a safetensors file, with a checksum over all of them.

The format is written here, byte by byte (a length, a JSON header, the arrays), so that equal content gives equal files;
the safetensors package, which trusts no size it has not checked, reads it.
"""

import hashlib
import json
import math
import numbers
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from thinstream.errors import InvalidInputError, ModelFileError

Arrays = dict[str, NDArray[Any]]

KEY = "thinstream"
#: Readers of the format refuse headers of more than 100 million bytes.
LARGEST_HEADER = 100_000_000
#: numpy's names of types → those of the format.
_SIZES = {"int": (8, 16, 32, 64), "uint": (8, 16, 32, 64), "float": (16, 32, 64)}
KINDS = {f"{kind}{n}": f"{kind[0].upper()}{n}" for kind, sizes in _SIZES.items() for n in sizes} | {"bool": "BOOL"}


def canonical(value: Any) -> str:
    """The one JSON text of a value."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def plain(value: Any, where: str) -> Any:
    """The value in JSON's own types: numpy's scalars become Python's, tuples lists; anything else raises.

    >>> plain({"rows": np.int64(3), "pair": (1, 2.5)}, "extra")
    {'rows': 3, 'pair': [1, 2.5]}
    """
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | str):
        return str(value) if isinstance(value, str) else value
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        number = float(value)
        if math.isfinite(number):
            return number
    elif isinstance(value, list | tuple):
        return [plain(each, f"{where}[{i}]") for i, each in enumerate(value)]
    elif isinstance(value, dict):
        for key in value:
            if not isinstance(key, str):
                raise InvalidInputError(f"{where}: keys must be strings to be stored, got {key!r}")
        return {str(key): plain(each, f"{where}[{key!r}]") for key, each in value.items()}
    raise InvalidInputError(
        f"{where}: only strings, finite numbers, booleans, None, lists and dicts of them can be stored, got {value!r}"
    )


def label(value: Any) -> Any:
    """A class label as it is stored: a string, a finite number or a boolean, its type kept."""
    found = plain(value, "classes") if not isinstance(value, list | tuple | dict) else None
    if found is None:
        raise InvalidInputError(f"classes: labels must be strings, numbers or booleans to be stored, got {value!r}")
    return found


def digest(text: str, arrays: Arrays) -> str:
    """SHA-256 over the text and each array's name, type, shape and bytes."""
    found = hashlib.sha256(canonical(text).encode())
    for name in sorted(arrays):
        array = arrays[name]
        found.update(canonical([name, KINDS[array.dtype.name], list(array.shape)]).encode())
        found.update(_bytes(array))
    return found.hexdigest()


def put(file: IO[bytes], text: str, arrays: Arrays) -> None:
    """Writes a safetensors file: the widest types first, which keeps all aligned."""
    header: dict[str, Any] = {"__metadata__": {KEY: text}}
    order = sorted(arrays, key=lambda name: (-arrays[name].itemsize, name))
    end = 0
    for name in order:
        array = arrays[name]
        start, end = end, end + array.nbytes
        header[name] = {"dtype": KINDS[array.dtype.name], "shape": list(array.shape), "data_offsets": [start, end]}
    raw = json.dumps(header, separators=(",", ":")).encode()
    raw += b" " * (-len(raw) % 8)
    if len(raw) > LARGEST_HEADER:
        raise InvalidInputError(
            f"the description of a model (space, extra) must be below {LARGEST_HEADER} bytes, got {len(raw)}"
        )
    file.write(len(raw).to_bytes(8, "little"))
    file.write(raw)
    for name in order:
        file.write(_bytes(arrays[name]))


def get(path: Path) -> tuple[str, Arrays]:
    """The text and the arrays of a file, unless it is damaged or another tool's."""
    from safetensors import SafetensorError, safe_open

    with path.open("rb") as head:
        if int.from_bytes(head.read(8), "little") > LARGEST_HEADER or head.read(1) != b"{":
            raise ModelFileError("is not a model file")
    try:
        with safe_open(str(path), framework="np") as file:
            text = (file.metadata() or {}).get(KEY)
            if text is None:
                raise ModelFileError("is not a model file: a safetensors file, but not one of thinstream")
            return text, {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (no mapping)
    except (SafetensorError, TypeError, AttributeError):  # the latter: types numpy has not
        raise ModelFileError("is not a model file, or a damaged one") from None


def algorithm_in(path: str | Path) -> str | None:
    """The algorithm that the head of a model file names, without a look at the rest; None of what is no model."""
    try:
        with Path(path).open("rb") as file:
            size = int.from_bytes(file.read(8), "little")
            head = json.loads(file.read(size)) if size <= LARGEST_HEADER else {}
        found = json.loads(head["__metadata__"][KEY])["algorithm"]
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return None
    return found if isinstance(found, str) else None


def storable(array: Any, name: str) -> NDArray[Any]:
    """The array as it is stored: contiguous, little-endian, of a type the format has."""
    found = np.asarray(array)
    if found.dtype.name not in KINDS:
        raise InvalidInputError(f"array {name!r} must be of booleans, integers or floats, got {found.dtype}")
    return np.ascontiguousarray(found, found.dtype.newbyteorder("<")).reshape(found.shape)


def _bytes(array: NDArray[Any]) -> memoryview:
    raw: Any = array.reshape(-1).view(np.uint8)
    return memoryview(raw)
