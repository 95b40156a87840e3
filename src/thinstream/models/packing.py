"""The model file format, version 1: the fields of a pipeline as a description and named arrays, and back.

- The encoder, if it is a feature budget: ``budget/…``, the features it keeps, and the state that decides
  which features it admits and evicts.
- The preparation: ``scales/…``, with several kinds of rows ``scales/k/…``: the sums behind the scales, by feature.
- A learner in full: ``state`` and ``clocks`` by coordinate (the intercept is coordinate 0), ``counts``, ``totals``, and
  ``own``, the rule's own array (of a full covariance the upper triangle, column by column).
- A learner with its weights only: ``weights`` by feature, ``intercept``, ``counts`` and ``loss``.
- A batch method: ``batch/…``, the arrays it names itself, and ``given/…``, parameters that are arrays.
- The views of Auto: ``squares/k``, Σx_j² of the rows of the k-th vector of weights, by feature, and ``scales/k/…``, the
  scales of the k-th view.
- Members of Auto for few features, and views with products: the same names after ``few/``. ``few/indices`` has the
  features that occurred, ``few/order`` the order in which they occurred.
- The members of Auto: ``models/k/…``, a learner in full for each that was not dropped, and ``out``, which of them have
  stopped. The description has all initial ``members``.
- Its head: ``head/…``, ``weak``, ``counts``, and ``record/…``, the history of each member.

Arrays by feature or coordinate may leave some out. Then ``indices`` has the numbers of the others in ascending order.
They are feature numbers even if the model has slots, so its file is identical to that of a model without slots.

With several outputs, the arrays of each learner follow its number (`7/state`), the description has the costs of each,
and `mistakes` counts misclassified rows. Models with classes that appear later have numbers even with one or two
classes. In full, the learners of their spares follow, in the order of ``spares``.
"""

import math
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thinstream.algorithms.registry import find, rule_of
from thinstream.batch import KeptNames
from thinstream.batch import plain as plain_array
from thinstream.engine.covariance import Matrix
from thinstream.engine.forgetting import declared
from thinstream.engine.loop import Costs
from thinstream.engine.memory import (
    extra_size,
    field_names,
    is_full,
    is_plain,
    kept_width,
    record_views,
    require_room,
    touched_coordinates,
)
from thinstream.engine.protocol import dtype_of, require_array
from thinstream.errors import ModelFileError
from thinstream.lanes.learner import Frozen, Learner
from thinstream.models.blend import Blend, Record, members_of
from thinstream.models.container import Arrays, plain
from thinstream.models.head import ALIKE, Counting
from thinstream.models.members import Grid
from thinstream.models.model import make_learner
from thinstream.models.outputs import Outputs
from thinstream.models.pipeline import MANY, Pipeline, budgeted, state_limit
from thinstream.models.preparation import Preparation, described_by
from thinstream.models.products import Products, n_products
from thinstream.models.slots import ADMITTED, COUNTED, BudgetTable, SlotTable, sketch_shape

#: Set in the description of a slice of a model. Its learners are as wide as the slice, never compact.
SLICED = "sliced"

# A model with one output as arrays, and back: in full, or with its weights only.


def _under(prefix: str, arrays: Arrays) -> Arrays:
    """Return the arrays with a prefix before their names."""
    return {prefix + name: array for name, array in arrays.items()}


def _within(prefix: str, arrays: Arrays) -> Arrays:
    """Return the arrays whose names begin with a prefix, without the prefix."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def full(learner: Learner, sparse: bool = False) -> Arrays:
    """Return the memory, as wide as the model. ``sparse`` omits untouched coordinates even if that is not smaller."""
    memory = learner.memory
    width = kept_width(learner.rule, memory, learner.n_features + learner.offset)
    state, clocks = record_views(learner.algorithm, memory, width)
    arrays = {"counts": memory.counts, "totals": memory.totals, "own": memory.extra}
    where = narrow(touched_coordinates(learner.algorithm, learner.rule, memory, width), width)
    if sparse or where.nbytes + len(where) * (state[:1].nbytes + clocks[:1].nbytes) < state.nbytes + clocks.nbytes:
        arrays["indices"], state, clocks = where, state[where], clocks[where]
    return arrays | {"state": state, "clocks": clocks}


def weights(learner: Learner) -> Arrays:
    """Return the arrays for predicting, and the counters."""
    where, values = learner.sparse_weights()
    return {
        "indices": narrow(where, learner.n_features),
        "weights": values,
        "intercept": np.array([learner.intercept] * learner.offset, dtype=values.dtype),
        "counts": learner.memory.counts,
        "loss": learner.memory.totals[:1],
    }


def learner_of(head: dict[str, Any], arrays: Arrays) -> Learner:
    """Return the learner of a full model. Its parameters are checked as usual."""
    common = common_options(head)
    where = _stored_coordinates(common, head["parameters"], arrays)  # before the model allocates memory
    learner: Learner = make_learner(**common, **head["parameters"])
    memory = learner.memory
    width = kept_width(learner.rule, memory, learner.n_features + learner.offset)
    for name, view in zip(("state", "clocks"), record_views(learner.algorithm, memory, width), strict=True):
        view[where] = arrays[name]
    memory.counts[:] = checked_counts(arrays)
    memory.totals[:] = require_array(arrays, "totals", memory.totals.shape, memory.totals.dtype)
    memory.extra[:] = arrays["own"]
    if hasattr(learner.rule, "sound") and not learner.rule.sound(memory):
        raise ModelFileError(f"the state of {learner.algorithm.name} is inconsistent")
    return learner


def _stored_coordinates(common: dict[str, Any], parameters: dict[str, Any], arrays: Arrays) -> Any:
    """Return the coordinates of state and clocks, if they and the rule's own array have the right sizes."""
    rule = rule_of(find(common["algorithm"]), parameters)
    algorithm, dtype = declared(type(rule)), dtype_of(common["dtype"], common["algorithm"])
    width = common["n_features"] + common["fit_intercept"]
    require_room(algorithm, rule, width, dtype)
    if is_full(rule):
        require_array(arrays, "own", (Matrix.size(width),), dtype)
    else:
        own = extra_size(rule)
        require_array(arrays, "own", (own,), np.dtype(np.float64))
        width = max(width, own)
    where = checked_indices(arrays, width) if "indices" in arrays else slice(None)
    rows = len(where) if isinstance(where, np.ndarray) else width
    for name, fields, expected in zip(
        ("state", "clocks"), field_names(algorithm.coordinate), (dtype, np.float64), strict=True
    ):
        require_array(arrays, name, (rows, len(fields)), expected)
    return where


def frozen_of(head: dict[str, Any], arrays: Arrays) -> Frozen:
    """Return the model of a file of weights."""
    common = common_options(head)
    where, dtype = checked_indices(arrays, common["n_features"]), np.dtype(common["dtype"])
    intercept = require_array(arrays, "intercept", (int(common["fit_intercept"]),), dtype)
    return Frozen(
        **common,
        parameters=head["parameters"],
        where=where,
        values=require_array(arrays, "weights", where.shape, dtype),
        intercept=float(intercept[0]) if len(intercept) else 0.0,
        counts=checked_counts(arrays),
        loss=float(require_array(arrays, "loss", (1,), np.dtype(np.float64))[0]),
    )


def common_options(head: dict[str, Any]) -> dict[str, Any]:
    """Return the checked options of a learner, in addition to its parameters."""
    types = {
        "algorithm": str,
        "parameters": dict,
        "costs": dict,
        "dtype": str,
        "n_features": int,
        "fit_intercept": bool,
        "grow": bool,
    }
    for name, expected in types.items():
        if type(head.get(name)) is not expected:
            raise ModelFileError(f"its {name} must be of type {expected.__name__}, got {head.get(name)!r}")
    costs = Costs(**head["costs"])
    if head["n_features"] < 0 or not (0 < costs.negative < np.inf and 0 < costs.positive < np.inf):
        raise ModelFileError(
            f"its number of features must be ≥ 0 and its class costs > 0, got {head['n_features']} and {tuple(costs)}"
        )
    options = {name: head[name] for name in types if name not in ("parameters", "costs")}
    return options | {"costs": Costs(float(costs[0]), float(costs[1]), bool(costs[2]))}


def narrow(where: NDArray[np.int64], width: int) -> NDArray[Any]:
    """Return numbers of coordinates in their stored type."""
    return where.astype(np.int32 if width < 2**31 else np.int64)


def checked_counts(arrays: Arrays) -> NDArray[np.int64]:
    """Return the checked counters of a file."""
    counts = require_array(arrays, "counts", (5,), np.dtype(np.int64))
    if counts.min() < 0:
        raise ModelFileError(f"its counters must be ≥ 0, got {counts.tolist()}")
    return counts


def checked_indices(arrays: Arrays, width: int) -> NDArray[np.int64]:
    """Return the checked numbers of coordinates of a file."""
    indices = arrays.get("indices")
    if indices is None or indices.ndim != 1 or indices.dtype.kind != "i":
        raise ModelFileError("its array 'indices' is missing or not a vector of integers")
    where = indices.astype(np.int64)
    if len(where) and (where[0] < 0 or where[-1] >= width or np.any(np.diff(where) <= 0)):
        raise ModelFileError(f"its array 'indices' must be sorted and unique, from 0 to {width - 1}")
    return where


# Compressed scales of thin models: a root mean square (or maximum) in 32 bits for each feature, deflated.
#
# The length of a row includes all its features, so a thin model for rows of unit length needs the scales of features
# without a weight. As ``indices``, ``squares`` and ``counts``, each of them needs 20 bytes, while the weights need a
# few kilobytes in all. A thin model keeps √(q_j/n_j) in 32 bits, and n_j for features with a weight, because importance
# uses it. ``short`` has the gaps between feature numbers, then roots, then counts, each byte by byte. This compresses
# well if values are counts. A saved model is identical to the one in memory.
#
# Compressed scales may need at most `SMALL` bytes, or `RATIO` times their compressed size if that is more. Scales that
# compress even better are stored uncompressed, so a small file cannot demand gigabytes.

#: Bytes that the compressed scales of a file may always need (those of 6.7 million features), and how many times their
#: compressed size otherwise.
SMALL, RATIO = 1 << 27, 50
_SHORT, _INDICES, _SQUARES, _COUNTS, _MAX = "short", "indices", "squares", "counts", "max"
_COLUMNS = np.int64, np.float32, np.float64  # gaps, roots, counts
_LENGTHS = "lengths"  # the mean length of the rows with each feature that has a weight
_SIZES = tuple(np.dtype(dtype).itemsize for dtype in _COLUMNS)


def with_short_scales(arrays: Arrays, described: dict[str, Any], kept: NDArray[np.bool_]) -> Arrays:
    """The arrays of a model of weights, with scales that `shortened` can shorten.

    ``described`` is the preparation of rows, and ``kept`` the features with a weight, a row for each kind of rows.
    """
    result = dict(arrays)
    for prefix in _prefixes(described):
        if f"{prefix}{_LENGTHS}" in arrays:
            left = np.logical_or.reduce(kept)[arrays[f"{prefix}{_LENGTHS}.{_INDICES}"]]
            for name in (_LENGTHS, f"{_LENGTHS}.{_INDICES}"):
                result[prefix + name] = arrays[prefix + name][left]
    for k, prefix, name in _of_unit_rows(arrays, described):
        if name == _MAX:
            result[prefix + name] = _in_32_bits(arrays[prefix + name])
        else:
            q, n = arrays[prefix + name], arrays[prefix + _COUNTS]
            counts = np.where(kept[k][arrays[prefix + _INDICES]], n, 1.0)
            result[prefix + name], result[prefix + _COUNTS] = _in_32_bits(np.sqrt(q / n)) ** 2 * counts, counts
    return result


def _in_32_bits(roots: NDArray[np.float64]) -> NDArray[np.float64]:
    """Round to 32 bits, except for numbers that do not fit."""
    with np.errstate(over="ignore"):
        short = roots.astype(np.float32).astype(np.float64)
    return np.where(np.isfinite(short) & (short > 0.0), short, roots)


def shortened(arrays: Arrays, described: dict[str, Any]) -> Arrays:
    """Return the arrays with the scales of unit rows compressed if no bit is lost and `lengthened` accepts it."""
    result = dict(arrays)
    for _, prefix, name in _of_unit_rows(arrays, described):
        where = arrays[prefix + _INDICES]
        one = arrays[prefix + name]
        counts = arrays[prefix + _COUNTS] if name == _SQUARES else np.ones(len(one))
        with np.errstate(over="ignore", under="ignore"):
            roots = (np.sqrt(one / counts) if name == _SQUARES else one).astype(np.float32)
        if len(where) and np.array_equal(_values(name, roots, counts), one):
            gaps = np.diff(where.astype(np.int64), prepend=-1)
            columns = (column.astype(dtype) for column, dtype in zip((gaps, roots, counts), _COLUMNS, strict=True))
            planes = [column.view(np.uint8).reshape(len(where), -1).T.tobytes() for column in columns]
            short = zlib.compress(b"".join(planes), 9)
            if sum(map(len, planes)) > _most_bytes(len(short), described):
                continue
            for compressed in (_INDICES, name, *([_COUNTS] if name == _SQUARES else [])):
                del result[prefix + compressed]
            result[f"{prefix}{name}.{_SHORT}"] = np.frombuffer(short, np.uint8)
    return result


def lengthened(arrays: Arrays, head: dict[str, Any]) -> Arrays:
    """Return the arrays of a file with its compressed scales decompressed, as `shortened` received them.

    ``head`` is the description of the model. No more is decompressed than its features can need.
    """
    result = dict(arrays)
    keys = [key for key in arrays if key.startswith("scales/") and key.endswith(f".{_SHORT}")]
    if not keys:
        return result
    described = head.get("preparation")
    if not isinstance(described, dict):
        raise ModelFileError(f"it has scales, but no valid preparation of rows: {described!r}")
    width, prefixes = head["n_features"] // _n_kinds(described), set(_prefixes(described))
    for key in keys:
        prefix, _, name = key.removesuffix(f".{_SHORT}").rpartition("/")
        if f"{prefix}/" not in prefixes or name not in (_SQUARES, _MAX):
            raise ModelFileError(f"its array {key!r} does not belong to its preparation of rows")
        short = result.pop(key)
        planes = _decompressed(key, short, min(sum(_SIZES) * width, _most_bytes(short.nbytes, described)))
        size, rest = divmod(len(planes), sum(_SIZES))
        if rest:
            raise ModelFileError(
                f"its array {key!r} must have {sum(_SIZES)} bytes per feature, got {len(planes)} bytes"
            )
        gaps, roots, counts = _columns(planes, size)
        where = np.cumsum(gaps) - 1
        result[f"{prefix}/{_INDICES}"] = narrow(where, int(where[-1]) + 1 if size else 0)
        result[f"{prefix}/{name}"] = _values(name, roots, counts)
        if name == _SQUARES:
            result[f"{prefix}/{_COUNTS}"] = counts
    return result


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


def _columns(planes: bytes, n_rows: int) -> Iterator[NDArray[Any]]:
    start = 0
    for dtype, size in zip(_COLUMNS, _SIZES, strict=True):
        column = np.frombuffer(planes, np.uint8, n_rows * size, start).reshape(size, n_rows).T
        yield np.ascontiguousarray(column).view(dtype).ravel()
        start += n_rows * size


def _values(name: str, roots: NDArray[np.float32], counts: NDArray[np.float64]) -> NDArray[np.float64]:
    own = roots.astype(np.float64)
    return own**2 * counts if name == _SQUARES else own


def _of_unit_rows(arrays: Arrays, described: dict[str, Any]) -> Iterator[tuple[int, str, str]]:
    """Yield number, prefix and name of the scales of each kind of rows at unit length."""
    for k, (described_kind, prefix) in enumerate(
        zip(described.get("several", [described]), _prefixes(described), strict=True)
    ):
        name = {"max": _MAX, "rms": _SQUARES}.get(described_kind.get("scale") or "")
        if described_kind.get("normalize") is not None and name is not None and f"{prefix}{name}" in arrays:
            yield k, prefix, name


# Loading learners with slots for the features that occurred.
#
# A file does not store whether a model has slots. It has the arrays of the full-width learner, by feature number,
# without features that never occurred.

#: Names of arrays with a row for each feature of the indices next to them.
_ROWS = ("state", "clocks", "weights", "max", "squares", "counts", "documents")
_NAMES, _ARRAYS = "names.", "arrays/"


def numbers_to_keep(head: dict[str, Any], arrays: Arrays) -> NDArray[np.int64] | None:
    """Return the features in a file, sorted, if its learner is to have slots, or None."""
    n_features, offset = head.get("n_features"), int(bool(head.get("fit_intercept")))
    limit = state_limit("hashing" in head.get("space", {}))
    if type(n_features) is not int or not _is_sparse(arrays) or n_features * _bytes_per_feature(arrays) <= limit:
        return None
    if not _can_be_compact(head, arrays):
        return None
    width = n_features // vectors_of(head)
    per_array, distinct = [], _Distinct()
    for name, of_coordinates in _indices(arrays):
        less = offset if of_coordinates else 0
        if distinct.add(arrays[name], less) is None:
            features = checked_indices({"indices": arrays[name]}, n_features + less) - less
            per_array.append(features[features >= 0] % width)
    if width <= _TABLE:  # much faster than sorting
        marks = np.zeros(width, np.bool_)
        for features in per_array:
            marks[features] = True
        numbers = np.flatnonzero(marks)
    else:
        numbers = np.unique(np.concatenate([np.empty(0, np.int64), *per_array]))
    return numbers if len(numbers) < MANY * width else None


#: Features up to which a table by feature number is used.
_TABLE = 1 << 26


class _Distinct:
    """Distinct arrays, each with an offset. The models of a blend mostly have the same features."""

    def __init__(self) -> None:
        self._arrays: list[tuple[NDArray[Any], int]] = []

    def add(self, array: NDArray[Any], offset: int) -> int | None:
        """Return the number of an equal array, or None for a new one, which gets the next number."""
        for k in range(len(self._arrays) - 1, -1, -1):
            one, less = self._arrays[k]
            if less == offset and (one is array or (one.dtype == array.dtype and np.array_equal(one, array))):
                return k
        self._arrays.append((array, offset))
        return None


def vectors_of(head: dict[str, Any]) -> int:
    """Return the number of weight vectors that each model has, one after another."""
    several = (head.get("preparation") or {}).get("several", [])
    return max(len(several), 1)


def in_slots(head: dict[str, Any], arrays: Arrays, numbers: NDArray[np.int64]) -> Arrays:
    """Return the arrays of a model with slots for these features, from 1 on."""
    width = max(head["n_features"] // vectors_of(head), 1)
    slot_of = None
    if width <= _TABLE:  # much faster than searching
        slot_of = np.full(width, -1, np.int32)
        slot_of[numbers] = np.arange(len(numbers), dtype=np.int32)

    def slots(features: NDArray[np.int64], name: str) -> NDArray[np.int64]:
        if slot_of is not None:
            positions = slot_of[features].astype(np.int64)
            has_slot = positions >= 0
        else:
            positions = np.searchsorted(numbers, features)
            has_slot = np.append(numbers, -1)[positions] == features
        if not has_slot.all():
            raise ModelFileError(f"its array {name!r} has features that are not in the list of features kept")
        return 1 + positions

    return _renumbered(head, arrays, (width, len(numbers) + 1), slots)


def in_numbers(head: dict[str, Any], arrays: Arrays, numbers: NDArray[np.int64]) -> Arrays:
    """Return the arrays of a model with slots for these features, by feature number."""
    width = head["n_features"] // vectors_of(head)
    return _renumbered(head, arrays, (len(numbers) + 1, width), lambda slots, name: numbers[slots - 1])


def _renumbered(head: dict[str, Any], arrays: Arrays, widths: tuple[int, int], change: Callable[..., Any]) -> Arrays:
    """Renumber the features of arrays. ``widths`` are those of a weight vector, before and after."""
    result, offset, (before, after) = dict(arrays), int(head["fit_intercept"]), widths
    distinct, done = _Distinct(), list[NDArray[Any]]()
    for name, of_coordinates in _indices(arrays):
        less = offset if of_coordinates else 0
        same = distinct.add(arrays[name], less)
        if same is not None:
            result[name] = done[same]
            continue
        features = arrays[name].astype(np.int64) - less
        vector, feature = np.divmod(features[features >= 0], max(before, 1))
        where = np.zeros(len(features), np.int64)
        where[features >= 0] = vector * after + change(feature, name) + less
        result[name] = narrow(where, vectors_of(head) * after + less)
        done.append(result[name])
    return result


def _indices(arrays: Arrays) -> Iterator[tuple[str, bool]]:
    """Yield the arrays of feature numbers, and whether the intercept counts in them."""
    for name in arrays:
        if name.endswith("indices") and not name.startswith((_NAMES, _ARRAYS)) and not _is_of_few(name):
            yield name, f"{name.removesuffix('indices')}state" in arrays


def _is_of_few(name: str) -> bool:
    """Return whether it is an array of a member for few features, which has its own numbering."""
    return "few" in name.split("/")[:-2]


def _is_sparse(arrays: Arrays) -> bool:
    """Return whether all arrays omit features that never occurred."""
    for name in arrays:
        if _is_of_few(name):
            continue
        before, _, last = name.rpartition("/")
        indices = f"{before}/indices" if before else "indices"
        if last == "state" and indices not in arrays:
            return False
        if before.rpartition("/")[2] == "squares" and not last.endswith("indices") and f"{name}.indices" not in arrays:
            return False
    return any(True for _ in _indices(arrays))


def _bytes_per_feature(arrays: Arrays) -> int:
    total = 0
    for name, _ in _indices(arrays):
        before = name.removesuffix("indices")
        names = [before.removesuffix(".")] if before.endswith(".") else [before + row for row in _ROWS]
        rows = [arrays[row] for row in names if row in arrays and len(arrays[row]) == len(arrays[name])]
        total += sum(array.itemsize * (array.shape[1] if array.ndim > 1 else 1) for array in rows)
    return total


def _can_be_compact(head: dict[str, Any], arrays: Arrays) -> bool:
    """Return `Pipeline.can_be_compact` of a model that does not exist yet."""
    if head["grade"] == "weights":
        return True
    if "members" not in head:
        return is_plain(rule_of(find(head["algorithm"]), head["parameters"]))
    parameters = head["parameters"]
    if parameters.get("max_nnz") is not None or parameters.get("max_density") is not None:
        return False
    present = {int(k) for name, array in arrays.items() if name.endswith("record/places") for k in array.ravel()}
    members = [member for k, member in enumerate(head["members"]) if k in present and "max_features" not in member]
    return all(is_plain(rule_of(find(member["learner"]), member["parameters"])) for member in members)


# A feature budget in a file.
#
# ``budget/numbers`` has the features that are kept, sorted. A full model also has ``budget/born`` (the order in which
# they were admitted), ``budget/sketch`` (the counts of all other features) and ``budget/counters`` (how many features
# were admitted, and how many were counted since counts were halved). The description has ``max_features`` and
# ``admit``.
#
# ``budget/text`` has the names of all features as bytes, one after another, ``budget/ends`` the end of each, and
# ``budget/heads`` the number of bytes of its namespace (−1: no name). Models without names do not have these arrays.

_BUDGET = "budget/"
_LONG = np.dtype(np.int64)


def _pack_budget(model: Pipeline, numbers: NDArray[np.int64], grade: str) -> Arrays:
    """Return the features that are kept, ``numbers``, and the state that decides which are admitted and evicted."""
    table = model.encoder
    assert table is not None
    arrays: Arrays = {f"{_BUDGET}numbers": narrow(numbers, model.n_features)}
    names = table.names_of(numbers)
    if len(names.there):
        text, ends, heads = names.packed()
        arrays |= {f"{_BUDGET}text": text, f"{_BUDGET}ends": ends, f"{_BUDGET}heads": heads}
    if grade == "full" and isinstance(table, BudgetTable):
        used = table.used
        order = np.argsort(table.numbers[used - 1])
        arrays[f"{_BUDGET}born"] = table.born[used[order]]
        arrays[f"{_BUDGET}sketch"] = table.sketch
        arrays[f"{_BUDGET}counters"] = table.counters[[ADMITTED, COUNTED]]
    return arrays


def kept_numbers(head: dict[str, Any], arrays: Arrays) -> NDArray[np.int64]:
    """Return the features that the learner of a file keeps."""
    return checked_indices({"indices": arrays[f"{_BUDGET}numbers"]}, head["n_features"] // vectors_of(head))


def _unpack_budget(head: dict[str, Any], arrays: Arrays) -> SlotTable | BudgetTable:
    """Return the table of a model with a budget."""
    numbers = kept_numbers(head, arrays)
    names = _names_in(arrays, len(numbers))
    if head["grade"] == "weights":
        return SlotTable.of(numbers, names, drops_unknown=True)
    most, admit = head["budget"]["max_features"], head["budget"]["admit"]
    BudgetTable(1, admit)  # checks it before all memory is allocated
    if type(most) is not int or not len(numbers) <= most < 2**30:
        raise ModelFileError(f"it has {len(numbers)} features, but its max_features is {most!r}")
    sketch = require_array(arrays, f"{_BUDGET}sketch", sketch_shape(most), np.dtype(np.uint8))
    born = require_array(arrays, f"{_BUDGET}born", numbers.shape, _LONG)
    ever, counted = require_array(arrays, f"{_BUDGET}counters", (2,), _LONG).tolist()
    if born.min(initial=0) < 0 or born.max(initial=-1) >= ever or not 0 <= counted < sketch.shape[1]:
        raise ModelFileError("the description of its feature budget is inconsistent")
    return BudgetTable.of(most, admit, numbers, born, sketch, np.array([0, ever, counted]), names)


def _names_in(arrays: Arrays, count: int) -> KeptNames | None:
    """Return the names in a file, if there are any."""
    if f"{_BUDGET}heads" not in arrays:
        return None
    heads, ends = (require_array(arrays, f"{_BUDGET}{part}", (count,), _LONG) for part in ("heads", "ends"))
    text = arrays[f"{_BUDGET}text"]
    sizes = np.diff(ends, prepend=0)
    sound = text.dtype == np.uint8 and text.shape == (int(ends[-1]) if count else 0,)
    if not sound or sizes.min(initial=0) < 0 or heads.min(initial=0) < -1 or np.any(heads > sizes):
        raise ModelFileError("the names of its features are inconsistent")
    return KeptNames.of(plain_array(text), ends, heads)


# Auto as arrays, and back.

_HEAD = ("w", "P", "sums", "gone", "counts", "loss")
_FLAGS = np.dtype(np.uint8)


def full_blend(blend: Blend, sparse: bool = False) -> Arrays:
    """Return the full state of one output, without the views."""
    arrays: Arrays = {"counts": blend.counts, "weak": blend.weak.astype(_FLAGS)}
    models = ((group.few is not None or group.of_products, model) for group in blend.groups for model in group)
    for k, (of_few, model) in enumerate(models):
        arrays |= (
            _under(f"few/{k}/", _all_coordinates(model)) if of_few else _under(f"models/{k}/", full(model, sparse))
        )
    arrays["out"] = np.concatenate([group.out() for group in blend.groups]).astype(_FLAGS)
    for name in _HEAD:
        array = getattr(blend.head, name)
        arrays[f"head/{name}"] = array.astype(_FLAGS) if array.dtype == np.bool_ else array
    if blend.counting != ALIKE:
        arrays["head/counting"] = np.array(blend.counting)
    return arrays | _under("record/", blend.record.arrays())


def _pack_views(blends: list[Blend], sparse: bool) -> Arrays:
    """Return Σx_j² and the scales of the views, which all outputs share."""
    arrays, grid, n_features = Arrays(), Grid.of(blends), blends[0].n_features
    if grid.few is not None:
        order = np.argsort(grid.few.numbers)
        arrays |= {"few/indices": narrow(grid.few.numbers[order], n_features), "few/order": order}
    for k, part in enumerate(grid.parts):
        if part.products:
            arrays[f"few/squares/{k}"] = part.squares[: part.width(n_features)]
            continue
        squares = part.squares[:n_features]
        where = np.flatnonzero(squares)
        if sparse or 2 * len(where) < n_features:
            arrays[f"squares/{k}.indices"], squares = narrow(where, n_features), squares[where]
        arrays[f"squares/{k}"] = squares
    for k, (prefix, preparation, width) in enumerate(_scales_of(grid, n_features)):
        arrays |= _under(f"{prefix}/{k}/", scales_out(preparation, width))
    return arrays


def _scales_of(grid: Grid, n_features: int) -> Iterator[tuple[str, Preparation, int]]:
    """Yield, for each view, the prefix of its scales in a file, its preparation and its number of features."""
    for part in grid.parts:
        for view in part.views:
            yield "few/scales" if part.products else "scales", view.preparation, part.width(n_features)


def _all_coordinates(learner: Learner) -> Arrays:
    """Return the same as `full`, including untouched coordinates."""
    memory = learner.memory
    width = kept_width(learner.rule, memory, learner.n_features + learner.offset)
    state, clocks = record_views(learner.algorithm, memory, width)
    return {"counts": memory.counts, "totals": memory.totals, "own": memory.extra, "state": state, "clocks": clocks}


def _restore_few(blend: Blend, arrays: Arrays) -> None:
    """Restore the numbering of the features of members for few features."""
    if blend.few is None:
        return
    indices = checked_indices({"indices": arrays.get("few/indices")}, blend.n_features)  # type: ignore[dict-item]
    order = require_array(arrays, "few/order", indices.shape, np.dtype(np.int64))
    if len(indices) > blend.few.most or not np.array_equal(np.sort(order), np.arange(len(indices))):
        raise ModelFileError("few/order must be a permutation of 0 … n − 1 for the n features of few/indices")
    numbers = np.empty(len(indices), np.int64)
    numbers[order] = indices
    blend.grid.number_features(numbers)


def _unpack_views(blends: list[Blend], arrays: Arrays) -> None:
    """Let blends share the views of a file."""
    grid, n_features = Grid.of(blends), blends[0].n_features
    for k, part in enumerate(grid.parts):
        name = f"few/squares/{k}" if part.products else f"squares/{k}"
        part.squares = _dense(arrays, name, part.width(n_features))
    for k, (prefix, preparation, width) in enumerate(_scales_of(grid, n_features)):
        scales_in(preparation, _within(f"{prefix}/{k}/", arrays), width)


def blend_of(head: dict[str, Any], arrays: Arrays) -> Blend:
    """Return the blend of a full model."""
    common, members = common_options(head), members_of(head["members"])
    record = Record(members)
    for name, array in record.arrays().items():
        shape = arrays[f"record/{name}"].shape if name.startswith(("noted", "places")) else array.shape
        setattr(record, name, require_array(arrays, f"record/{name}", shape, array.dtype).copy())
    _check(record)
    present = [members[k] for k in record.places]
    require_array(arrays, "head/P", (len(present), len(present)), np.dtype(np.float64))  # before memory is allocated
    options = {name: value for name, value in common.items() if name != "algorithm"}
    parameters = {name: value for name, value in head["parameters"].items() if name != "portfolio"}
    blend = Blend(present, **options, **parameters)
    blend.parameters["portfolio"] = head["parameters"].get("portfolio")
    blend.record, blend.counts = record, checked_counts(arrays).copy()
    _restore_few(blend, arrays)
    _restore_models(blend, common, arrays)
    for name in _HEAD:
        own = getattr(blend.head, name)
        setattr(blend.head, name, _flags_or_numbers(arrays, f"head/{name}", own))
    blend.counting = blend.head.counting = _counting(arrays)
    blend.weak = _flags_or_numbers(arrays, "weak", blend.weak)
    return blend


def _counting(arrays: Arrays) -> Counting:
    """Return how much rows count in the head. By default, all rows count equally."""
    if "head/counting" not in arrays:
        return ALIKE
    later, flat, prior = require_array(arrays, "head/counting", (3,), np.dtype(np.float64)).tolist()
    if not (0.0 < later < math.inf and 0.0 < flat <= 0.25 and 0.0 < prior < math.inf):
        raise ModelFileError(
            f"head/counting must be three positive numbers, the second at most 0.25, got {later}, {flat}, {prior}"
        )
    return Counting(later, flat, prior)


def _restore_models(blend: Blend, common: dict[str, Any], arrays: Arrays) -> None:
    out = _flags_or_numbers(arrays, "out", np.zeros(len(blend.head), np.bool_))
    of_model: list[Arrays] = [{} for _ in blend.members]
    for name, array in arrays.items():
        parts = name.split("/", 2)
        if parts[0] in ("models", "few") and len(parts) == 3 and parts[1].isdecimal() and int(parts[1]) < len(of_model):
            of_model[int(parts[1])][parts[2]] = array
    costs = dict(zip(("negative", "positive", "balanced"), common["costs"], strict=True))
    k = 0
    for group in blend.groups:
        memories = []
        for lane in range(len(group)):
            member = blend.members[k]
            described = {**common, "costs": costs, "algorithm": member.algorithm, "parameters": member.parameters}
            if member.products:
                described["n_features"] = group.n_features
            elif group.max_features is not None:
                group.make_room(_room_of(of_model[k], common["fit_intercept"], group.max_features))
                described["n_features"] = group.n_features
            memories.append(learner_of(described, of_model[k]).memory)
            if out[k]:
                group.fail(lane)
            k += 1
        group.put(memories)


def _room_of(arrays: Arrays, offset: bool, most: int) -> int:
    """Return the number of features that a member for few features has room for."""
    own = arrays.get("own")
    room = 0 if own is None else Matrix(own).d - offset
    if not 0 < room <= most:
        raise ModelFileError(f"a member for at most {most} features has room for {room}")
    return room


def _check(record: Record) -> None:
    """Raise if a record is inconsistent."""
    positions, many, noted = record.places, len(record.members), len(record.noted)
    sound = (
        positions.ndim == 1
        and len(positions)
        and np.all(np.diff(positions) > 0)
        and positions[0] >= 0
        and positions[-1] < many
    )
    shapes = record.noted.shape == (noted, 2) and record.noted_mistakes.shape == (noted, many)
    if not (sound and shapes and record.noted_shares.shape == (noted, many)):
        raise ModelFileError("the history of its members is inconsistent")


def _flags_or_numbers(arrays: Arrays, name: str, like: NDArray[Any]) -> NDArray[Any]:
    """Return an array of a file with the shape and dtype of another array."""
    stored = _FLAGS if like.dtype == np.bool_ else like.dtype
    return require_array(arrays, name, like.shape, stored).astype(like.dtype)


def _dense(arrays: Arrays, name: str, width: int) -> NDArray[np.float64]:
    dense, dtype = np.zeros(width), np.dtype(np.float64)
    if f"{name}.indices" in arrays:
        where = checked_indices({"indices": arrays[f"{name}.indices"]}, width)
        dense[where] = require_array(arrays, name, where.shape, dtype)
    else:
        dense[:] = require_array(arrays, name, (width,), dtype)
    if len(dense) and dense.min() < 0.0:
        raise ModelFileError(f"its array {name!r} must have sums of squares ≥ 0")
    return dense


def scales_out(preparation: Preparation, n_features: int, needed: NDArray[np.bool_] | None = None) -> Arrays:
    """Return the scales of features that were learned, or only of those that are also needed."""
    if preparation.scales is None:
        return {}
    learned = preparation.scales.learned(n_features)
    where = np.flatnonzero(learned if needed is None else learned & needed)
    return preparation.scales.columns(where) | {"indices": narrow(where, n_features)}


def scales_in(preparation: Preparation, own: Arrays, n_features: int) -> None:
    """Restore what `scales_out` returned."""
    preparation.widen(n_features)
    if preparation.scales is None:
        return
    where = checked_indices(own, n_features)
    shapes = dict.fromkeys(preparation.scales.names, where.shape) | dict.fromkeys(preparation.scales.shared, (1,))
    columns = {n: require_array(own, n, shape, np.dtype(np.float64)) for n, shape in shapes.items()}
    if not all((array >= 0.0).all() for array in columns.values()):
        raise ModelFileError("its scales must all be ≥ 0")
    preparation.scales.put(where, columns)


_BATCH, _ARRAY_PARAMETERS, _SCALES = "batch/", "given/", "scales/"


# A pipeline in a file: a description and named arrays, field by field.


def slice_of(head: dict[str, Any], arrays: Arrays, rank: int, size: int) -> tuple[dict[str, Any], Arrays]:
    """Return the description and arrays of every ``size``-th feature of a full model, from number ``rank`` on.

    Slice 0 has the intercept. The model has no preparation of rows and no encoder.
    """
    offset, result = int(head["fit_intercept"]), dict(arrays)
    own = offset if rank == 0 else 0
    for name, array in arrays.items():
        prefix, _, last = name.rpartition("/")
        if prefix == "arrays" or last not in ("indices", "state", "clocks"):
            continue
        indices = arrays.get(name.removesuffix(last) + "indices")
        if indices is None:
            result[name] = np.concatenate([array[:own], array[rank + offset :: size]])
            continue
        feature = indices.astype(np.int64) - offset
        mine = np.where(feature < 0, rank == 0, feature % size == rank)
        result[name] = np.maximum(feature[mine] // size + own, 0) if last == "indices" else np.array(array[mine])
    width = len(range(rank, head["n_features"], size))
    return {**head, "n_features": width, "fit_intercept": bool(own), SLICED: True}, result


def describe(model: Pipeline, grade: str = "full") -> dict[str, Any]:
    """Return the description of a model: everything except its arrays."""
    outputs, preparation = model.outputs, model.preparation
    costs = [_costs(Costs(*cost)) for cost in outputs.costs]
    parameters = model.parameters
    if model.algorithm.kind == "batch":
        parameters = {name: value for name, value in parameters.items() if not np.ndim(value)}
    description = {
        "algorithm": model.algorithm.name,
        "parameters": plain(parameters, "parameters"),
        "costs": costs[0] if outputs.is_binary else costs,
        "dtype": model.dtype.name,
        "n_features": int(model.n_columns) * preparation.vectors,
        "fit_intercept": bool(model.offset),
        "grow": bool(model.grow),
    }
    if outputs.spare_costs is not None:
        description["spares"] = [_costs(cost) for cost in outputs.spare_costs]
    if preparation:
        description["preparation"] = preparation.described
    if model.products is not None:
        description["products"] = model.products.numbers.tolist()
    if model.drops_unknown:
        table, full = model.encoder, grade == "full"
        description["budget"] = {name: getattr(table, name, None) for name in ("max_features", "admit")} if full else {}
    if model.blends:
        description["members"] = [member.described for member in model.blends[0].record.members]
    return description


def _costs(costs: Costs) -> dict[str, Any]:
    return {
        "negative": float(costs.negative),
        "positive": float(costs.positive),
        "balanced": bool(costs.balanced),
    }


def pack(model: Pipeline, grade: str) -> Arrays:
    """Return the arrays of a model, in full or only for predicting. Models with slots are stored by feature number."""
    if model.encoder is None:
        return _pack_outputs(model.outputs, grade) | _pack_scales(model, grade)
    ordered = model.in_order()
    slots = ordered.decoded()
    arrays = _pack_outputs(slots.outputs, grade, sparse=True) | _pack_scales(slots, grade)
    kept = _pack_budget(model, ordered.numbers, grade) if model.drops_unknown else {}
    return in_numbers(describe(model), arrays, ordered.numbers) | kept


def _pack_outputs(outputs: Outputs, grade: str, sparse: bool = False) -> Arrays:
    if outputs.algorithm.kind == "batch":
        return _pack_batch(outputs.one, grade)

    def one(learner: Any) -> Arrays:
        if grade == "weights":
            return weights(learner)
        return full_blend(learner, sparse) if outputs.blends else full(learner, sparse)

    arrays = _pack_views(outputs.all, sparse) if outputs.blends else {}
    if outputs.is_binary:
        return arrays | one(outputs.one)
    for k, learner in enumerate(outputs.all if grade == "full" else outputs):
        arrays |= _under(f"{k}/", one(learner))
    return arrays | {"mistakes": np.array([outputs.n_mistakes])}


def unpack(head: dict[str, Any], arrays: Arrays) -> Pipeline:
    """Return the model of a file, with slots if few of its features occurred. Parameters are checked as usual."""
    has_budget = "budget" in head
    if SLICED in head:
        return _unpack(head, arrays)
    return _unpacked(head, arrays, has_budget).with_products(_products_of(head))


def _unpacked(head: dict[str, Any], arrays: Arrays, has_budget: bool) -> Pipeline:
    """Return the model without products of features."""
    numbers = kept_numbers(head, arrays) if has_budget else numbers_to_keep(head, arrays)
    if numbers is None:
        return _unpack(head, arrays)
    slots = {**head, "n_features": vectors_of(head) * (len(numbers) + 1)}
    model = _unpack(slots, in_slots(head, arrays, numbers))
    table = _unpack_budget(head, arrays) if has_budget else SlotTable.of(numbers)
    if isinstance(table, BudgetTable):
        return budgeted(model, table, head["n_features"], head["grow"])
    return model.encoded(table, head["n_features"] // vectors_of(head), head["grow"])


def _products_of(head: dict[str, Any]) -> Products | None:
    """Return the products of features of a model that only predicts."""
    if "products" not in head:
        return None
    numbers, width = head["products"], head["n_features"] // vectors_of(head)
    sound = type(numbers) is list and all(type(number) is int for number in numbers) and head["grade"] == "weights"
    base = width - n_products(len(numbers)) if sound else -1
    if base < 0 or len(set(numbers)) < len(numbers) or not all(0 <= number < base for number in numbers):
        raise ModelFileError(f"its products must be of different features, got {numbers!r} for {width} columns")
    return Products(np.array(numbers, np.int64), base)


def _unpack(head: dict[str, Any], arrays: Arrays) -> Pipeline:
    """Return a model without encoder."""
    outputs = _unpack_outputs(head, arrays)
    if "preparation" not in head:
        return Pipeline(outputs)
    return Pipeline(outputs, _unpack_scales(head["preparation"], arrays, outputs.n_features))


def _unpack_outputs(head: dict[str, Any], arrays: Arrays) -> Outputs:
    costs, algorithm = head.get("costs"), head.get("algorithm")
    if type(algorithm) is str and find(algorithm).kind == "batch":
        return Outputs([_unpack_batch(head, arrays)])
    blended = head["grade"] == "full" and "members" in head
    one: Any = blend_of if blended else learner_of if head["grade"] == "full" else frozen_of
    if type(costs) is not list:
        learners = [one(head, arrays)]
        _unpack_views(learners, arrays) if blended else None
        return Outputs(learners)
    classes = len(costs)
    if classes != len(head["classes"]) or classes < (1 if "spares" in head else 3):
        raise ModelFileError(f"it has costs for {classes} classes, but {len(head['classes'])} classes")
    spare_costs = head.get("spares", [])
    costs = [*costs, *(spare_costs if head["grade"] == "full" else [])]
    if not blended:
        _require_room({**head, "costs": costs[0]}, len(costs))
    own: list[Arrays] = [{} for _ in costs]
    for name, array in arrays.items():
        number, slash, rest = name.partition("/")
        if slash and number.isdecimal() and int(number) < len(own):
            own[int(number)][rest] = array
    shared = {name: arrays[name] for name in ("few/indices", "few/order") if name in arrays}
    learners = [one({**head, "costs": cost}, part | shared) for cost, part in zip(costs, own, strict=True)]
    _unpack_views(learners, arrays) if blended else None
    mistakes = int(require_array(arrays, "mistakes", (1,), np.dtype(np.int64))[0])
    if mistakes < 0:
        raise ModelFileError(f"its mistakes must be ≥ 0, got {mistakes}")
    if "spares" not in head:
        return Outputs(learners, n_mistakes=mistakes)
    checked_costs = [common_options({**head, "costs": cost})["costs"] for cost in spare_costs]
    if not checked_costs:
        raise ModelFileError("it has no spare model for new classes")
    return Outputs(learners[:classes], spares=learners[classes:], n_mistakes=mistakes, spare_costs=checked_costs)


def _require_room(head: dict[str, Any], models: int) -> None:
    first, rule = common_options(head), rule_of(find(head["algorithm"]), head["parameters"])
    if head["grade"] == "weights":
        rule = rule_of(find("perceptron"), {})  # Frozen models have its memory
    width, dtype = first["n_features"] + first["fit_intercept"], dtype_of(first["dtype"], head["algorithm"])
    require_room(declared(type(rule)), rule, width, dtype, models)


def _pack_scales(model: Pipeline, grade: str) -> Arrays:
    """Return the scales of features that were learned.

    Weights without normalization only need those of non-zero weights.
    """
    preparation, needed, arrays = model.preparation, None, Arrays()
    if grade == "weights" and preparation.scales is not None and preparation.normalize is None:
        needed = np.logical_or.reduce(np.atleast_2d(model.outputs.weights() != 0))
    kinds = preparation.each
    kept = None
    if grade == "weights" and any(one.lengths is not None for one in kinds):
        kept = np.logical_or.reduce(model.outputs.weights().reshape(-1, model.n_slots) != 0)
    for prefix, one in zip(_prefixes(preparation.described), kinds, strict=True):
        own = scales_out(one, model.n_slots, needed)
        if kept is not None and one.lengths is not None:
            own = own | _lengths_out(one.lengths, kept)
        arrays |= _under(prefix, own)
    return arrays


def _lengths_out(lengths: NDArray[np.float32], has_weight: NDArray[np.bool_]) -> Arrays:
    """Return the lengths of rows for features with a weight, if they are known."""
    where = np.flatnonzero(has_weight[: len(lengths)] & (lengths > 0.0))
    return {_LENGTHS: lengths[where], f"{_LENGTHS}.{_INDICES}": narrow(where, len(has_weight))}


def _lengths_in(preparation: Preparation, own: Arrays, n_features: int) -> None:
    """Restore what `_lengths_out` returned."""
    if _LENGTHS in own:
        where = checked_indices({_INDICES: own[f"{_LENGTHS}.{_INDICES}"]}, n_features)
        values = require_array(own, _LENGTHS, where.shape, np.dtype(np.float32))
        if not (values > 0.0).all():
            raise ModelFileError("its lengths of rows must all be > 0")
        preparation.lengths = np.zeros(n_features, np.float32)
        preparation.lengths[where] = values


def _unpack_scales(kinds: Any, arrays: Arrays, n_features: int) -> Preparation:
    preparation = described_by(kinds, n_features)
    if not preparation:
        raise ModelFileError(f"its preparation of rows is empty: {kinds!r}")
    for k, one in enumerate(preparation.each):
        prefix = f"{_SCALES}{k}/" if preparation.vectors > 1 else _SCALES
        scales_in(one, _within(prefix, arrays), n_features // preparation.vectors)
        _lengths_in(one, _within(prefix, arrays), n_features // preparation.vectors)
    return preparation


def _pack_batch(learner: Any, grade: str) -> Arrays:
    arrays = learner.arrays(weights_only=grade == "weights")
    array_parameters = {
        _ARRAY_PARAMETERS + name: np.asarray(value) for name, value in learner.parameters.items() if np.ndim(value)
    }
    return _under(_BATCH, arrays) | array_parameters


def _unpack_batch(head: dict[str, Any], arrays: Arrays) -> Any:
    array_parameters, own = _within(_ARRAY_PARAMETERS, arrays), _within(_BATCH, arrays)
    common = common_options(head)
    dtype = dtype_of(common["dtype"], common["algorithm"])
    require_array(
        own, "w", (common["n_features"] + common["fit_intercept"],), dtype
    )  # before the model allocates memory
    learner: Any = make_learner(**common, parameters=head["parameters"] | array_parameters)
    learner.restore(own) if head["grade"] == "full" else learner.restore_weights(own)
    return learner
