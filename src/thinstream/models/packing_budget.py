"""A budget of features, in a file.

``budget/numbers`` has the features that are kept, sorted. In full, in the same order, ``budget/born`` tells which was
admitted before which; ``budget/sketch`` has the counts of all others, ``budget/counters`` how many were admitted ever,
and counted since counts were halved. The description has ``max_features`` and ``admit``.

``budget/text`` has the names of all, one behind another as bytes, ``budget/ends`` where each ends, ``budget/heads`` how
many bytes of it are its namespace's (−1: it has no name); without names, as of columns, there are none of these.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from thinstream.batch import plain
from thinstream.budget import BudgetLearner, BudgetTable, KeptLearner, budgeted
from thinstream.budget.learner import kept_learner, names_of
from thinstream.budget.sketch import sketch_shape
from thinstream.budget.table import ADMITTED, COUNTED
from thinstream.errors import ModelFileError
from thinstream.learners.frozen import require_array
from thinstream.learners.protocol import AnyLearner
from thinstream.models.container import Arrays
from thinstream.models.packing_compact import vectors_of
from thinstream.models.packing_one import checked_indices, narrow
from thinstream.spelling import KeptNames

_OWN = "budget/"
_LONG = np.dtype(np.int64)


def pack_budget(learner: KeptLearner, numbers: NDArray[np.int64], grade: str) -> Arrays:
    """What is kept, ``numbers``, and what decides what will be."""
    found: Arrays = {f"{_OWN}numbers": narrow(numbers, learner.n_features)}
    names = names_of(learner.table, numbers)
    if len(names.there):
        text, ends, heads = names.packed()
        found |= {f"{_OWN}text": text, f"{_OWN}ends": ends, f"{_OWN}heads": heads}
    if grade == "full" and isinstance(learner, BudgetLearner):
        table, used = learner.table, learner.table.used
        order = np.argsort(table.numbers[used - 1])
        found[f"{_OWN}born"] = table.born[used[order]]
        found[f"{_OWN}sketch"] = table.sketch
        found[f"{_OWN}counters"] = table.counters[[ADMITTED, COUNTED]]
    return found


def kept_numbers(head: dict[str, Any], arrays: Arrays) -> NDArray[np.int64]:
    """The features that a learner of a file keeps."""
    return checked_indices({"indices": arrays[f"{_OWN}numbers"]}, head["n_features"] // vectors_of(head))


def budget_around(inner: AnyLearner, head: dict[str, Any], arrays: Arrays) -> KeptLearner:
    """The learner of a file, around the one inside."""
    numbers = kept_numbers(head, arrays)
    names = _names_in(arrays, len(numbers))
    if head["grade"] == "weights":
        return kept_learner(inner, numbers, head["n_features"] // vectors_of(head), head["grow"], names)
    most, admit = head["budget"]["max_features"], head["budget"]["admit"]
    BudgetTable(1, admit)  # which checks it, before there is room for all
    if type(most) is not int or not len(numbers) <= most < 2**30:
        raise ModelFileError(f"it keeps {len(numbers)} features, and says that {most!r} is the most")
    sketch = require_array(arrays, f"{_OWN}sketch", sketch_shape(most), np.dtype(np.uint8))
    born = require_array(arrays, f"{_OWN}born", numbers.shape, _LONG)
    ever, counted = require_array(arrays, f"{_OWN}counters", (2,), _LONG).tolist()
    if born.min(initial=0) < 0 or born.max(initial=-1) >= ever or not 0 <= counted < sketch.shape[1]:
        raise ModelFileError("what it says of its budget contradicts itself")
    table = BudgetTable.of(most, admit, numbers, born, sketch, np.array([0, ever, counted]), names)
    return budgeted(inner, table, head["n_features"], head["grow"])


def _names_in(arrays: Arrays, count: int) -> KeptNames | None:
    """The names of a file, if it has any."""
    if f"{_OWN}heads" not in arrays:
        return None
    heads, ends = (require_array(arrays, f"{_OWN}{part}", (count,), _LONG) for part in ("heads", "ends"))
    text = arrays[f"{_OWN}text"]
    sizes = np.diff(ends, prepend=0)
    sound = text.dtype == np.uint8 and text.shape == (int(ends[-1]) if count else 0,)
    if not sound or sizes.min(initial=0) < 0 or heads.min(initial=0) < -1 or np.any(heads > sizes):
        raise ModelFileError("what it says of the names of its features contradicts itself")
    return KeptNames.of(plain(text), ends, heads)
