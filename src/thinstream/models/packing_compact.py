"""Which learners of files are kept compact, and their arrays with slots for feature numbers.

A file does not tell: it has what the wide learner is, feature by number, without those that nothing is known of.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thinstream.compact import room
from thinstream.errors import ModelFileError
from thinstream.learners import find
from thinstream.learners.registry import rule_of
from thinstream.models.container import Arrays
from thinstream.models.packing_one import checked_indices

#: Names of arrays of rows, one for each feature of the indices beside them.
_ROWS = ("state", "clocks", "weights", "max", "squares", "counts", "documents")
_NAMES, _OWN = "names.", "arrays/"


def numbers_to_keep(head: dict[str, Any], arrays: Arrays) -> NDArray[np.int64] | None:
    """The features that a file has something of, sorted, if its learner is to be compact; None: it is to be wide."""
    all_of_them, offset = head.get("n_features"), int(bool(head.get("fit_intercept")))
    limit = room.HASHED if "hashing" in head.get("space", {}) else room.NUMBERED
    if type(all_of_them) is not int or not _is_sparse(arrays) or all_of_them * _bytes_per_feature(arrays) <= limit:
        return None
    if not _can_be_compact(head, arrays):
        return None
    width = all_of_them // vectors_of(head)
    found = []
    for name, of_coordinates in _indices(arrays):
        less = offset if of_coordinates else 0
        features = checked_indices({"indices": arrays[name]}, all_of_them + less) - less
        found.append(features[features >= 0] % width)
    numbers = np.unique(np.concatenate([np.empty(0, np.int64), *found]))
    return numbers if len(numbers) < room.MANY * width else None


def vectors_of(head: dict[str, Any]) -> int:
    """Vectors of weights, one after another, that each model has."""
    several = (head.get("preparation") or {}).get("several", [])
    return max(len(several), 1)


def in_slots(head: dict[str, Any], arrays: Arrays, numbers: NDArray[np.int64]) -> Arrays:
    """The arrays of a learner as wide as there are numbers, and one."""
    found, offset = dict(arrays), int(head["fit_intercept"])
    width = max(head["n_features"] // vectors_of(head), 1)
    for name, of_coordinates in _indices(arrays):
        less = offset if of_coordinates else 0
        features = arrays[name].astype(np.int64) - less
        vector, feature = np.divmod(np.maximum(features, 0), width)
        if not np.isin(feature[features >= 0], numbers).all():
            raise ModelFileError(f"its array {name!r} has features that it does not keep")
        places = vector * (len(numbers) + 1) + 1 + np.searchsorted(numbers, feature)
        slots = np.where(features < 0, 0, places + less)
        found[name] = slots.astype(np.int32)
    return found


def _indices(arrays: Arrays) -> Iterator[tuple[str, bool]]:
    """Arrays of feature numbers, and whether the intercept counts there."""
    for name in arrays:
        if name.endswith("indices") and not name.startswith((_NAMES, _OWN)):
            yield name, f"{name.removesuffix('indices')}state" in arrays


def _is_sparse(arrays: Arrays) -> bool:
    """Whether features that nothing is known of are left out everywhere."""
    for name in arrays:
        before, _, last = name.rpartition("/")
        beside = f"{before}/indices" if before else "indices"
        if last == "state" and beside not in arrays:
            return False
        if before.rpartition("/")[2] == "squares" and not last.endswith("indices") and f"{name}.indices" not in arrays:
            return False
    return any(True for _ in _indices(arrays))


def _bytes_per_feature(arrays: Arrays) -> int:
    total = 0
    for name, _ in _indices(arrays):
        before = name.removesuffix("indices")
        beside = [before.removesuffix(".")] if before.endswith(".") else [before + each for each in _ROWS]
        rows = [arrays[each] for each in beside if each in arrays and len(arrays[each]) == len(arrays[name])]
        total += sum(array.itemsize * (array.shape[1] if array.ndim > 1 else 1) for array in rows)
    return total


def _can_be_compact(head: dict[str, Any], arrays: Arrays) -> bool:
    """As `compact.room.can_be_compact`, of a learner that is not there yet."""
    if head["grade"] == "weights":
        return True
    if "members" not in head:
        return room.is_plain(rule_of(find(head["algorithm"]), head["parameters"]))
    parameters = head["parameters"]
    if parameters.get("max_nnz") is not None or parameters.get("max_density") is not None:
        return False
    there = {int(place) for name, array in arrays.items() if name.endswith("record/places") for place in array.ravel()}
    members = [each for k, each in enumerate(head["members"]) if k in there]
    return all(room.is_plain(rule_of(find(each["learner"]), each["parameters"])) for each in members)
