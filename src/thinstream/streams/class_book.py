"""Classes of a stream that are found as they come."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thinstream.errors import InvalidInputError
from thinstream.learners.growing_classes import in_order, kind_of


class ClassBook:
    """Labels and their numbers, in the order in which rows were delivered; all are of one kind.

    Examples
    --------
    >>> book = ClassBook(("ham",))
    >>> book.numbers(["spam", "ham"]), book.labels
    (array([1, 0], dtype=int32), ['ham', 'spam'])
    >>> book.is_foreign(7)
    True

    """

    def __init__(self, told: Sequence[Any] = ()) -> None:
        self.labels: list[Any] = []
        self._known: dict[Any, int] = {}
        for label in told:
            if self.is_foreign(label):
                raise InvalidInputError(f"classes must be of one kind, got {list(told)!r}")
            self.numbers([label])

    def is_foreign(self, label: Any) -> bool:
        """Whether a label is of another kind than those before it."""
        return bool(self.labels) and kind_of(label) != kind_of(self.labels[0])

    def numbers(self, labels: Sequence[Any]) -> NDArray[np.int32]:
        """The numbers of labels; one not met before gets the next."""
        for label in labels:
            if label not in self._known:
                self._known[label] = len(self.labels)
                self.labels.append(label)
        return np.array([self._known[label] for label in labels], np.int32)

    def foreign_message(self, label: Any) -> str:
        """What is wrong with such a label."""
        first = self.labels[0]
        return f"labels must be of one kind, others are {kind_of(first)} like {first!r}, got {label!r}"


def label_of(number: float) -> int | float:
    """A number as a label: whole ones are integers.

    >>> label_of(2.0), label_of(0.5)
    (2, 0.5)
    """
    return int(number) if float(number).is_integer() else float(number)


def local_numbers(codes: NDArray[Any], met: Sequence[Any] | None) -> tuple[list[Any], NDArray[np.int32]]:
    """Distinct labels of a piece of text in order of appearance, and each row's place among them.

    ``codes`` are labels themselves, or places in ``met``.

    >>> local_numbers(np.array([2.0, 0.0, 2.0]), ["a", "b", "c"])
    (['c', 'a'], array([0, 1, 0], dtype=int32))
    """
    found, places = in_order(codes)
    return [label_of(code) if met is None else met[int(code)] for code in found], places
