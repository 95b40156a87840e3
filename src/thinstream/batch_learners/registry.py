"""Finding algorithms by name, those that learn in batches included."""

import importlib
from typing import Any

from thinstream import learners
from thinstream.batch_learners.declaration import REGISTRY, BatchAlgorithm
from thinstream.errors import InvalidParameterError, UnknownNameError, listed

#: Lower-case names of the batch algorithms, which are also those of their modules.
NAMES = ("bcw", "fgm", "grades", "sbcw", "scd", "spardca")
KINDS = ("all", "online", "batch")


def find_batch(name: str) -> BatchAlgorithm | None:
    """The batch algorithm of that name, in any case; None if there is no such.

    >>> find_batch("sbcw").paper
    'P1 Alg. 2, 3'
    """
    key = name.lower()
    if key not in NAMES:
        return None
    importlib.import_module(f"thinstream.batch_learners.{key}")
    return REGISTRY[key]


def algorithms(kind: str = "all") -> tuple[Any, ...]:
    """Algorithms, sorted by name, with paper, parameters and summary: all, those that learn online, or in batches.

    >>> [a.name for a in algorithms("batch")]
    ['BCW', 'FGM', 'GraDes', 'SBCW', 'SCD', 'SparDCA']
    """
    if kind not in KINDS:
        raise InvalidParameterError(f"algorithms: kind must be {listed(KINDS)}, got {kind!r}")
    online: tuple[Any, ...] = () if kind == "batch" else learners.algorithms()
    batch = () if kind == "online" else tuple(filter(None, map(find_batch, NAMES)))
    return tuple(sorted([*online, *batch], key=lambda a: a.name.lower()))


def find(name: str) -> Any:
    """The algorithm of that name, in any case, online or batch."""
    found = find_batch(name)
    if found is not None:
        return found
    try:
        return learners.find(name)
    except UnknownNameError as error:
        raise UnknownNameError(f"{error} (and, in batches, {listed(a.name for a in algorithms('batch'))})") from None
