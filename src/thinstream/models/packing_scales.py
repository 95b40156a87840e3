"""Scales of thin models in short: a root mean square (or maximum) in 32 bits for each feature, deflated.

The length of a row is that of all its features, so a thin model for rows of unit length needs the scales of features
that have no weight. As ``indices``, ``squares`` and ``counts`` they take 20 bytes each, where the weights that are left
take some kilobytes. A thin model keeps √(q_j/n_j) in 32 bits, and n_j where there is a weight (importance may ask for
it); ``short`` has gaps between feature numbers, roots and counts, byte by byte of each, which deflates to next to
nothing where values are counts. Nothing is lost between memory and file.

Compressed scales may need at most `SMALL` bytes, or `RATIO` times their compressed size if that is more. Scales that
compress even better are stored uncompressed, so a small file cannot demand gigabytes.
"""

import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thinstream.errors import ModelFileError
from thinstream.models.container import Arrays
from thinstream.models.packing_one import narrow

#: Bytes that the compressed scales of a file may always need (those of 6.7 million features), and how many times their
#: compressed size otherwise.
SMALL, RATIO = 1 << 27, 50
_SHORT, _INDICES, _SQUARES, _COUNTS, _MAX = "short", "indices", "squares", "counts", "max"
_COLUMNS = np.int64, np.float32, np.float64  # gaps, roots, counts
_SIZES = tuple(np.dtype(kind).itemsize for kind in _COLUMNS)


def with_short_scales(arrays: Arrays, described: dict[str, Any], kept: NDArray[np.bool_]) -> Arrays:
    """The arrays of a model of weights, with scales that `shortened` can shorten.

    ``described`` is how rows are prepared, ``kept`` which features have a weight, a row for each kind of rows.
    """
    found = dict(arrays)
    for k, prefix, name in _of_unit_rows(arrays, described):
        if name == _MAX:
            found[prefix + name] = _in_32_bits(arrays[prefix + name])
        else:
            q, n = arrays[prefix + name], arrays[prefix + _COUNTS]
            counts = np.where(kept[k][arrays[prefix + _INDICES]], n, 1.0)
            found[prefix + name], found[prefix + _COUNTS] = _in_32_bits(np.sqrt(q / n)) ** 2 * counts, counts
    return found


def _in_32_bits(roots: NDArray[np.float64]) -> NDArray[np.float64]:
    """To the nearest of 32 bits; what these cannot hold stays."""
    with np.errstate(over="ignore"):
        short = roots.astype(np.float32).astype(np.float64)
    return np.where(np.isfinite(short) & (short > 0.0), short, roots)


def shortened(arrays: Arrays, described: dict[str, Any]) -> Arrays:
    """Return the arrays with the scales of unit rows compressed if no bit is lost and `lengthened` accepts it."""
    found = dict(arrays)
    for _, prefix, name in _of_unit_rows(arrays, described):
        where = arrays[prefix + _INDICES]
        one = arrays[prefix + name]
        counts = arrays[prefix + _COUNTS] if name == _SQUARES else np.ones(len(one))
        with np.errstate(over="ignore", under="ignore"):
            roots = (np.sqrt(one / counts) if name == _SQUARES else one).astype(np.float32)
        if len(where) and np.array_equal(_values(name, roots, counts), one):
            gaps = np.diff(where.astype(np.int64), prepend=-1)
            columns = (column.astype(kind) for column, kind in zip((gaps, roots, counts), _COLUMNS, strict=True))
            planes = [column.view(np.uint8).reshape(len(where), -1).T.tobytes() for column in columns]
            short = zlib.compress(b"".join(planes), 9)
            if sum(map(len, planes)) > _most_bytes(len(short), described):
                continue
            for each in (_INDICES, name, *([_COUNTS] if name == _SQUARES else [])):
                del found[prefix + each]
            found[f"{prefix}{name}.{_SHORT}"] = np.frombuffer(short, np.uint8)
    return found


def lengthened(arrays: Arrays, head: dict[str, Any]) -> Arrays:
    """Return the arrays of a file with its compressed scales decompressed, as `shortened` received them.

    ``head`` is the description of the model. No more is decompressed than its features can need.
    """
    found = dict(arrays)
    keys = [key for key in arrays if key.startswith("scales/") and key.endswith(f".{_SHORT}")]
    if not keys:
        return found
    described = head.get("preparation")
    if not isinstance(described, dict):
        raise ModelFileError(f"it has scales, but its preparation of rows is {described!r}")
    width, prefixes = head["n_features"] // _n_kinds(described), set(_prefixes(described))
    for key in keys:
        prefix, _, name = key.removesuffix(f".{_SHORT}").rpartition("/")
        if f"{prefix}/" not in prefixes or name not in (_SQUARES, _MAX):
            raise ModelFileError(f"its array {key!r} does not belong to its preparation of rows")
        short = found.pop(key)
        planes = _decompressed(key, short, min(sum(_SIZES) * width, _most_bytes(short.nbytes, described)))
        many, rest = divmod(len(planes), sum(_SIZES))
        if rest:
            raise ModelFileError(
                f"its array {key!r} must have {sum(_SIZES)} bytes per feature, got {len(planes)} bytes"
            )
        gaps, roots, counts = _columns(planes, many)
        where = np.cumsum(gaps) - 1
        found[f"{prefix}/{_INDICES}"] = narrow(where, int(where[-1]) + 1 if many else 0)
        found[f"{prefix}/{name}"] = _values(name, roots, counts)
        if name == _SQUARES:
            found[f"{prefix}/{_COUNTS}"] = counts
    return found


def _most_bytes(compressed: int, described: dict[str, Any]) -> int:
    """Return how many bytes the scales of one kind of rows may have that are ``compressed`` bytes in a file."""
    return max(SMALL // _n_kinds(described), RATIO * compressed)


def _n_kinds(described: dict[str, Any]) -> int:
    return max(len(described.get("several", [])), 1)


def _prefixes(described: dict[str, Any]) -> list[str]:
    """Return the start of the names of the scales of each kind of rows."""
    kinds = _n_kinds(described)
    return [f"scales/{k}/" for k in range(kinds)] if kinds > 1 else ["scales/"]


def _decompressed(key: str, array: NDArray[Any], limit: int) -> bytes:
    """Decompress an array; raise if it is damaged or has more than ``limit`` bytes."""
    stream = zlib.decompressobj()
    try:
        planes = stream.decompress(array.tobytes(), max(limit, 0) + 1)
    except zlib.error as error:
        raise ModelFileError(f"its array {key!r} cannot be read: {error}") from None
    if len(planes) > limit:
        raise ModelFileError(f"its array {key!r} has more than {limit} bytes when decompressed, more than it can need")
    if not stream.eof:
        raise ModelFileError(f"its array {key!r} cannot be read: it is incomplete")
    return planes


def _columns(planes: bytes, many: int) -> Iterator[NDArray[Any]]:
    at = 0
    for kind, size in zip(_COLUMNS, _SIZES, strict=True):
        column = np.frombuffer(planes, np.uint8, many * size, at).reshape(size, many).T
        yield np.ascontiguousarray(column).view(kind).ravel()
        at += many * size


def _values(name: str, roots: NDArray[np.float32], counts: NDArray[np.float64]) -> NDArray[np.float64]:
    own = roots.astype(np.float64)
    return own**2 * counts if name == _SQUARES else own


def _of_unit_rows(arrays: Arrays, described: dict[str, Any]) -> Iterator[tuple[int, str, str]]:
    """Of each kind of rows that has such scales: its number, what stands before their names, and their name."""
    for k, (kind, prefix) in enumerate(zip(described.get("several", [described]), _prefixes(described), strict=True)):
        name = {"max": _MAX, "rms": _SQUARES}.get(kind.get("scale") or "")
        if kind.get("normalize") is not None and name is not None and f"{prefix}{name}" in arrays:
            yield k, prefix, name
