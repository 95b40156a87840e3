"""Classes of any kind of label, and what an error on each costs."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinstream.engine.loop import Costs
from thinstream.engine.parameters import Interval
from thinstream.errors import InvalidInputError, InvalidParameterError, listed

#: Classes that a message names; of more only their number.
_SHOWN = 5
#: Kinds of arrays of text.
_TEXT = "UST"


class Classes(NamedTuple):
    """The negative and the positive label.

    >>> Classes.of(["spam", "ham"])
    Classes(negative='ham', positive='spam')
    """

    negative: Any
    positive: Any

    @classmethod
    def of(cls, labels: Any) -> "Classes":
        """The two distinct labels among these; the larger is positive."""
        found = np.unique(np.asarray(labels))
        if len(found) != 2:
            shown = ", ".join(repr(label) for label in found[:_SHOWN].tolist()) + ", …" * (len(found) > _SHOWN)
            trouble = "only one class was given" if len(found) == 1 else f"{len(found)} classes were given"
            raise InvalidInputError(f"two classes are needed, {trouble}: {shown}")
        return cls(*found.tolist())

    def signs(self, labels: Any) -> NDArray[np.int8]:
        """−1 and +1 for labels; an unknown one raises, with its row."""
        labels = np.asarray(labels)
        positive, negative = labels == self.positive, labels == self.negative
        if np.count_nonzero(positive) + np.count_nonzero(negative) != labels.size:
            row = int(np.flatnonzero(~(positive | negative))[0])
            raise _unknown(labels, row, listed(self))
        return np.asarray(positive, dtype=np.int8) * np.int8(2) - np.int8(1)

    def coded(self, labels: Any) -> NDArray[Any]:
        """Labels as a batch has them: −1 and +1."""
        return self.signs(labels)

    def chosen(self, scores: NDArray[Any]) -> NDArray[np.intp]:
        """Numbers of the classes that scores speak for; a score of exactly 0 is the negative one."""
        return (scores > 0).astype(np.intp)


class ManyClasses(tuple[Any, ...]):
    """More than two labels; their order numbers them.

    >>> classes = ManyClasses(["ham", "spam", "news"])
    >>> classes.coded(["news", "ham"])
    array([2, 0], dtype=int32)
    """

    __slots__ = ()

    def __new__(cls, labels: Iterable[Any]) -> "ManyClasses":
        """In the given order."""
        found = super().__new__(cls, labels)
        if len(found) < 3 or len(set(found)) < len(found):
            raise InvalidInputError(f"three different classes are needed at least, got {list(found)!r}")
        return found

    def coded(self, labels: Any) -> NDArray[Any]:
        """Labels as a batch has them: the numbers of their classes. An unknown one raises, with its row."""
        labels, known = np.asarray(labels), np.array(self)
        order = np.argsort(known)
        if (labels.dtype.kind in _TEXT) == (known.dtype.kind in _TEXT):
            place = order[np.minimum(np.searchsorted(known, labels, sorter=order), len(known) - 1)]
            same = np.asarray(known[place] == labels)
        else:  # numpy would compare numbers as text, and has no order for objects of several kinds
            place = np.array([self.index(label) if label in self else -1 for label in labels.tolist()], np.intp)
            same = place >= 0
        if not np.all(same):
            raise _unknown(labels, int(np.flatnonzero(~same)[0]), self.shown())
        return np.asarray(place, dtype=np.int32)

    def chosen(self, scores: NDArray[Any]) -> NDArray[np.intp]:
        """Numbers of the classes of highest score; the first of several."""
        return np.asarray(np.argmax(scores, axis=1))

    def shown(self) -> str:
        """All of a few, or how many there are."""
        return listed(self) if len(self) <= 2 * _SHOWN else f"among {len(self)} classes, {listed(self[:3])} for three"


AnyClasses = Classes | ManyClasses


def classes_of(labels: Any) -> AnyClasses:
    """The distinct labels among these, sorted.

    >>> classes_of([3, 1, 2, 1])
    (1, 2, 3)
    """
    found = np.unique(np.asarray(labels))
    return Classes.of(found) if len(found) < 3 else ManyClasses(found.tolist())


def _unknown(labels: NDArray[Any], row: int, allowed: str) -> InvalidInputError:
    given = labels.reshape(-1)[row : row + 1].tolist()[0]
    return InvalidInputError(f"y: labels must be {allowed}, got {given!r} at row {row}")


_COST = Interval()


def class_costs(class_weight: Any, classes: Classes, owner: str) -> Costs:
    """c₋ and c₊ of ``class_weight``: None, "balanced" or {label: weight}, labels left out weighing 1."""
    weights = _weights(class_weight, classes, owner)
    return Costs(balanced=True) if weights is None else Costs(weights[0], weights[1])


def costs_of_each(class_weight: Any, classes: ManyClasses, owner: str) -> list[Costs]:
    """The same for each class against all others, which cost 1."""
    weights = _weights(class_weight, classes, owner)
    return [Costs(balanced=True)] * len(classes) if weights is None else [Costs(1.0, weight) for weight in weights]


def _weights(class_weight: Any, classes: AnyClasses, owner: str) -> list[float] | None:
    """Weights of the classes; None: balanced."""
    if class_weight is None:
        return [1.0] * len(classes)
    if isinstance(class_weight, str) and class_weight == "balanced":
        return None
    if not isinstance(class_weight, dict):
        raise InvalidParameterError(
            f"{owner}: class_weight must be None, 'balanced' or a dict {{label: weight}}, got {class_weight!r}"
        )
    for label, cost in class_weight.items():
        if label not in tuple(classes):
            known = " and ".join(map(repr, classes)) if len(classes) == 2 else ", ".join(map(repr, classes))
            raise InvalidParameterError(f"{owner}: class_weight has label {label!r}, the classes are {known}")
        try:
            _COST.encode(cost)
        except (TypeError, ValueError):
            raise InvalidParameterError(
                f"{owner}: class_weight[{label!r}] must be {_COST.allowed()}, got {cost!r}"
            ) from None
    return [float(class_weight.get(label, 1.0)) for label in classes]
