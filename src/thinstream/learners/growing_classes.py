"""Classes that are met as they come: their labels in order of appearance, and what an error on each costs."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from thinstream.engine.loop import Costs
from thinstream.errors import InvalidInputError
from thinstream.learners.classes import Classes, checked_weight, class_costs

EQUAL, BALANCED = Costs(), Costs(balanced=True)


class GrowingClasses(Classes):
    """The labels met so far, those told beforehand first; more may come, all of one kind: texts, numbers or booleans.

    Each has a model of its own, be there one, two or more. ``class_weight`` may name labels that were not met yet.

    >>> classes = GrowingClasses(class_weight={"news": 5})
    >>> classes = classes.meeting(["spam", "ham", "spam"])
    >>> classes, classes.coded(["ham", "spam"]), classes.meeting(["news"]).costs[2].positive
    (GrowingClasses('spam', 'ham'), array([1, 0], dtype=int32), 5.0)
    """

    class_weight: Any
    _fewest = 0

    def __new__(cls, *labels: Any, class_weight: Any = None) -> Self:
        """In the given order."""
        found = super().__new__(cls, *labels)
        kinds = sorted({kind_of(label) for label in found})
        if len(kinds) > 1:
            raise InvalidInputError(f"classes must be of one kind, got {' and '.join(kinds)}: {list(found)[:5]!r}")
        found.class_weight = class_weight
        return found

    @classmethod
    def of(cls, labels: Any, class_weight: Any = None) -> Self:
        """The distinct labels among these, sorted."""
        return cls(*np.unique(np.asarray(labels)).tolist(), class_weight=class_weight)

    def __getnewargs__(self) -> tuple[Any, ...]:
        return tuple(self)  # class_weight comes with the other attributes

    @property
    def n_models(self) -> int:
        """One for each class."""
        return len(self)

    @property
    def are_two(self) -> bool:
        """Never: more may come."""
        return False

    @property
    def grow(self) -> bool:
        """Labels not met before are welcome."""
        return True

    def require_two(self, method: str = "") -> Self:
        """Raises: there may be any number of them."""
        raise InvalidInputError(
            f"{method and method + ': '}Only binary classification is supported here, with grow_classes=True there may "
            "be any number of classes"
        )

    def meeting(self, labels: Any) -> Self:
        """With those of the labels that were not met before, in order of appearance."""
        found, kinds = _array(labels), _kinds(labels)
        kinds |= {kind_of(label) for label in self[:1]}
        if len(kinds) > 1:
            raise InvalidInputError(f"y: labels must be of one kind, got {' and '.join(sorted(kinds))}")
        return self._with(in_order(found)[0])

    def numbered(self, labels: Sequence[Any], y: NDArray[Any]) -> tuple[Self, NDArray[np.int32]]:
        """Numbers of other classes, whose labels are given (or -1 and 1 of two), as numbers of these.

        >>> classes, numbers = GrowingClasses("b").numbered(("a", "b", "c"), np.array([2, 1, 0, 2], np.int32))
        >>> classes, numbers
        (GrowingClasses('b', 'c', 'a'), array([1, 0, 2, 1], dtype=int32))
        """
        theirs = (y > 0).astype(np.int32) if y.dtype == np.int8 else y
        met, places = in_order(theirs)
        grown = self._with([labels[k] for k in met])
        number = {label: k for k, label in enumerate(grown)}
        table = np.array([number[labels[k]] for k in met], np.int32)
        return grown, table[places] if len(met) else np.empty(0, np.int32)

    def _with(self, labels: Sequence[Any]) -> Self:
        known = set(self)
        new = [label for label in labels if label not in known]
        return type(self)(*self, *new, class_weight=self.class_weight) if new else self

    def chosen(self, scores: NDArray[Any], threshold: float = 0.0) -> NDArray[np.intp]:
        """Numbers of the classes of highest score, the first of several; a threshold is for two."""
        return np.asarray(np.argmax(scores, axis=1))

    @property
    def costs(self) -> tuple[Costs, ...]:
        """Of the model of each class."""
        return tuple(self._cost(label) for label in self)

    def _cost(self, label: Any) -> Costs:
        if isinstance(self.class_weight, dict):
            return Costs(1.0, float(self.class_weight.get(label, 1.0)))
        return EQUAL if self.class_weight is None else BALANCED

    def spare_costs(self, owner: str) -> tuple[Costs, ...]:
        """Those that a class to come may have, the usual ones first; a bad class weight raises."""
        if not isinstance(self.class_weight, dict):
            return class_costs(self.class_weight, Classes(0, 1), owner)
        for label, weight in self.class_weight.items():
            checked_weight(label, weight, owner)
        return tuple(dict.fromkeys([EQUAL, *map(self._cost, self.class_weight)]))


def in_order(labels: NDArray[Any]) -> tuple[list[Any], NDArray[np.int32]]:
    """The distinct labels in order of appearance, and for each row the place of its label among them.

    >>> in_order(np.array([7, 3, 7]))
    ([7, 3], array([0, 1, 0], dtype=int32))
    """
    found, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    order = np.argsort(first)
    places = np.empty(len(found), np.int32)
    places[order] = np.arange(len(found), dtype=np.int32)
    return found[order].tolist(), places[inverse.reshape(-1)]


def kind_of(label: Any) -> str:
    """What a label is, in words.

    >>> kind_of("spam"), kind_of(2.5), kind_of(True)
    ('texts', 'numbers', 'booleans')
    """
    if isinstance(label, bool | np.bool_):
        return "booleans"
    if isinstance(label, int | float | np.integer | np.floating):
        return "numbers"
    if isinstance(label, str):
        return "texts"
    raise InvalidInputError(f"y: labels must be texts, numbers or booleans, got {label!r}")


def _array(labels: Any) -> NDArray[Any]:
    return labels if isinstance(labels, np.ndarray) else np.asarray(labels)


def _kinds(labels: Any) -> set[str]:
    """Of an array one, unless it is of objects; a list is looked at before numpy makes one kind of it."""
    if isinstance(labels, np.ndarray) and labels.dtype.kind != "O":
        return {kind_of(label) for label in labels[:1].tolist()}
    return {kind_of(label) for label in labels}


# Which class rows are called, if a class can be called only after it was met ------------------------------------------


def known_before(numbers: NDArray[Any], known: int) -> NDArray[np.int64]:
    """How many classes were known before each row, ``known`` before the first; new ones come in order.

    >>> known_before(np.array([0, 1, 0, 2]), 1)
    array([1, 1, 2, 2])
    """
    before = np.concatenate([[known], numbers[:-1].astype(np.int64) + 1])
    return np.maximum.accumulate(before)[: len(numbers)]


def called(scores: NDArray[Any], known: NDArray[np.int64]) -> NDArray[np.intp]:
    """The class of highest score among those known, the first of several; −1 where none was.

    >>> called(np.array([[0.5, 2.0], [0.5, 2.0]]), np.array([1, 2]))
    array([0, 1])
    """
    if not scores.shape[1]:
        return np.full(len(scores), -1, np.intp)
    if not len(known) or known.min() >= scores.shape[1]:
        return np.asarray(np.argmax(scores, axis=1))
    hidden = np.arange(scores.shape[1]) >= known[:, np.newaxis]
    found = np.argmax(np.where(hidden, -np.inf, scores), axis=1)
    return np.where(known == 0, -1, found)
