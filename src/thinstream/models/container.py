"""Named arrays and one text in a safetensors file, with a checksum over all of them.

This module writes the format byte by byte (a length, a JSON header, the arrays), so that equal content gives equal
files. The safetensors package reads it, because it checks all sizes before it uses them.
"""

import hashlib
import json
import math
import numbers
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from thinstream.errors import InvalidInputError, ModelFileError

Arrays = dict[str, NDArray[Any]]

KEY = "thinstream"
#: Readers of the format refuse headers of more than 100 million bytes.
LARGEST_HEADER = 100_000_000
#: NumPy's names of dtypes → those of the format.
_SIZES = {"int": (8, 16, 32, 64), "uint": (8, 16, 32, 64), "float": (16, 32, 64)}
KINDS = {f"{name}{n}": f"{name[0].upper()}{n}" for name, sizes in _SIZES.items() for n in sizes} | {"bool": "BOOL"}


class Blocks:
    """An array to write that is too large for the memory of this process. It is computed block by block.

    Parameters
    ----------
    dtype : dtype
    shape : tuple of int
    blocks : callable
        Returns an iterator over the blocks, in order along the first axis. It is called once per pass over the array.

    """

    def __init__(self, dtype: Any, shape: tuple[int, ...], blocks: Callable[[], Iterator[NDArray[Any]]]) -> None:
        self.dtype, self.shape, self.blocks = np.dtype(dtype), shape, blocks
        self.itemsize = self.dtype.itemsize
        self.nbytes = math.prod(shape) * self.itemsize


def canonical(value: Any) -> str:
    """Return the canonical JSON text of a value."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def plain(value: Any, where: str) -> Any:
    """Return the value in JSON types: NumPy scalars become Python numbers, and tuples lists. Anything else raises.

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
        return [plain(item, f"{where}[{i}]") for i, item in enumerate(value)]
    elif isinstance(value, dict):
        for key in value:
            if not isinstance(key, str):
                raise InvalidInputError(f"{where}: keys must be strings to be stored, got {key!r}")
        return {str(key): plain(item, f"{where}[{key!r}]") for key, item in value.items()}
    raise InvalidInputError(
        f"{where}: only strings, finite numbers, booleans, None, lists and dicts of them can be stored, got {value!r}"
    )


def label(value: Any) -> Any:
    """Return a class label in its stored form: a string, a finite number or a boolean."""
    stored = plain(value, "classes") if not isinstance(value, list | tuple | dict) else None
    if stored is None:
        raise InvalidInputError(f"classes: labels must be strings, numbers or booleans to be stored, got {value!r}")
    return stored


def digest(text: str, arrays: Arrays) -> str:
    """Return the SHA-256 digest of the text and each array's name, type, shape and bytes."""
    checksum = hashlib.sha256(canonical(text).encode())
    for name in sorted(arrays):
        array = arrays[name]
        checksum.update(canonical([name, KINDS[array.dtype.name], list(array.shape)]).encode())
        for block in _bytes(array):
            checksum.update(block)
    return checksum.hexdigest()


def put(file: IO[bytes], text: str, arrays: Arrays) -> None:
    """Write a safetensors file. The widest types come first, so that all arrays are aligned."""
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
            f"the description of a model (feature space, extra) must have at most {LARGEST_HEADER:,} bytes, got "
            f"{len(raw):,}"
        )
    file.write(len(raw).to_bytes(8, "little"))
    file.write(raw)
    for name in order:
        for block in _bytes(arrays[name]):
            file.write(block)


def get(path: Path, mapped: bool = False) -> tuple[str, Arrays]:
    """Return the text and the arrays of a file, or raise if it is damaged or from another tool.

    With ``mapped``, the arrays are read-only and stay in the file, so they can be larger than memory.
    """
    from safetensors import SafetensorError, safe_open

    with path.open("rb") as head:
        if int.from_bytes(head.read(8), "little") > LARGEST_HEADER or head.read(1) != b"{":
            raise ModelFileError("is not a model file")
    try:
        with safe_open(str(path), framework="np") as file:
            text = (file.metadata() or {}).get(KEY)
            if text is None:
                raise ModelFileError("is a safetensors file, but not a model file of thinstream")
            if mapped:  # safe_open has checked the header
                return text, _mapped(path)
            return text, {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (no mapping)
    except (
        SafetensorError,
        TypeError,
        AttributeError,
    ):  # the last two: dtypes that NumPy lacks
        raise ModelFileError("is not a model file, or is damaged") from None


def _mapped(path: Path) -> Arrays:
    with path.open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(size))
    header.pop("__metadata__")
    dtypes = {stored: np.dtype(name).newbyteorder("<") for name, stored in KINDS.items()}
    data = np.memmap(path, np.uint8, "r", 8 + size)
    return {
        name: data[slice(*entry["data_offsets"])].view(dtypes[entry["dtype"]]).reshape(entry["shape"])
        for name, entry in header.items()
    }


def algorithm_in(path: str | Path) -> str | None:
    """Return the algorithm in the header of a model file, without reading the rest, or None for other files."""
    try:
        with Path(path).open("rb") as file:
            size = int.from_bytes(file.read(8), "little")
            head = json.loads(file.read(size)) if size <= LARGEST_HEADER else {}
        algorithm = json.loads(head["__metadata__"][KEY])["algorithm"]
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return None
    return algorithm if isinstance(algorithm, str) else None


def storable(array: Any, name: str) -> NDArray[Any]:
    """Return the array in its stored form: contiguous, little-endian, with a dtype of the format."""
    if isinstance(array, Blocks):
        return array  # type: ignore[return-value] # only to be written
    values = np.asarray(array)
    if values.dtype.name not in KINDS:
        raise InvalidInputError(f"array {name!r} must have booleans, integers or floats, got {values.dtype}")
    return np.ascontiguousarray(values, values.dtype.newbyteorder("<")).reshape(values.shape)


def _bytes(array: NDArray[Any] | Blocks) -> Iterator[memoryview]:
    for block in array.blocks() if isinstance(array, Blocks) else [array]:
        raw: Any = block.reshape(-1).view(np.uint8)
        yield memoryview(raw)
