"""What each row is to each split of a cross-validation."""

import numbers
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import check_cv
from sklearn.utils import indexable

from thinstream.errors import InvalidInputError, InvalidParameterError
from thinstream.tune.lane_counts import ABSENT, HELD_OUT, LEARNED
from thinstream.tune.sources import Roles


def is_number(cv: Any) -> bool:
    """Whether rows are held out by their number; else a splitter or an iterable says."""
    return isinstance(cv, numbers.Number)


def check_folds(cv: Any) -> int:
    """A number of folds."""
    if isinstance(cv, bool) or not isinstance(cv, numbers.Integral) or cv < 2:
        raise InvalidParameterError(
            f"cv must be a whole number ≥ 2, a splitter, an iterable of splits or None, got {cv!r}"
        )
    return int(cv)


def splits_of(cv: Any, X: Any, y: NDArray[Any], groups: Any, explicit: bool) -> tuple[int, Roles | None]:
    """How many splits there are, and the roles of the rows in each; None, unless ``explicit``, for row number mod k.

    >>> splits_of([([0, 1], [2])], np.zeros((4, 1)), np.array([0, 1, 1, 0]), None, False)[1].ravel()
    array([ 1,  1,  0, -1], dtype=int8)
    """
    n = len(y)
    if cv is None:
        return 0, None
    if is_number(cv):
        folds = check_folds(cv)
        if n < folds:
            raise InvalidInputError(f"cv={folds} needs as many rows at least, got {n}")
        by_number = np.arange(n)[:, np.newaxis] % folds == np.arange(folds)
        return folds, np.where(by_number, HELD_OUT, LEARNED).astype(np.int8) if explicit else None
    X, y, groups = indexable(X, y, groups)
    splits = list(check_cv(cv, y, classifier=True).split(X, y, groups))
    if not splits:
        raise InvalidParameterError("cv must make one split at least, got none")
    roles = np.full((n, len(splits)), ABSENT, np.int8)
    for number, (train, test) in enumerate(splits):
        for rows, role, what in ((train, LEARNED, "train"), (test, HELD_OUT, "test")):
            _mark(roles[:, number], np.asarray(rows), role, f"cv: split {number} has {what} rows that")
    return len(splits), roles


def _mark(roles: Roles, rows: NDArray[Any], role: int, who: str) -> None:
    """The rows, as indices or a mask, get a role."""
    n = len(roles)
    rows = np.flatnonzero(rows) if rows.dtype == bool else rows.astype(np.intp)
    if len(rows) and not (-n <= rows.min() and rows.max() < n):
        raise InvalidInputError(f"{who} are not among the {n} of X")
    if len(np.unique(rows % n)) != len(rows):
        raise InvalidInputError(f"{who} come twice; a lane sees each row once")
    if np.any(roles[rows] != ABSENT):
        raise InvalidInputError(f"{who} are in train, too")
    roles[rows] = role
