"""Two classes of any kind of label, and what an error on each costs."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinstream.engine.loop import Costs
from thinstream.engine.parameters import Interval
from thinstream.errors import InvalidInputError, InvalidParameterError


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
            shown = ", ".join(repr(label) for label in found[:5].tolist()) + (", …" if len(found) > 5 else "")
            trouble = "only one class was given" if len(found) == 1 else f"{len(found)} classes were given"
            raise InvalidInputError(
                f"Only binary classification is supported: two classes are needed, {trouble}: {shown}"
            )
        return cls(*found.tolist())

    def signs(self, labels: Any) -> NDArray[np.int8]:
        """−1 and +1 for labels; an unknown one raises, with its row."""
        labels = np.asarray(labels)
        positive, negative = labels == self.positive, labels == self.negative
        if np.count_nonzero(positive) + np.count_nonzero(negative) != labels.size:
            row = int(np.flatnonzero(~(positive | negative))[0])
            given = labels.reshape(-1)[row : row + 1].tolist()[0]
            raise InvalidInputError(
                f"y: labels must be {self.negative!r} or {self.positive!r}, got {given!r} at row {row}"
            )
        return np.asarray(positive, dtype=np.int8) * np.int8(2) - np.int8(1)


_COST = Interval()


def class_costs(class_weight: Any, classes: Classes, owner: str) -> Costs:
    """c₋ and c₊ of ``class_weight``: None, "balanced" or {label: weight}, labels left out weighing 1."""
    if class_weight is None:
        return Costs()
    if isinstance(class_weight, str) and class_weight == "balanced":
        return Costs(balanced=True)
    if not isinstance(class_weight, dict):
        raise InvalidParameterError(
            f"{owner}: class_weight must be None, 'balanced' or a dict {{label: weight}}, got {class_weight!r}"
        )
    for label, cost in class_weight.items():
        if label not in tuple(classes):
            raise InvalidParameterError(
                f"{owner}: class_weight has label {label!r}, the classes are "
                f"{classes.negative!r} and {classes.positive!r}"
            )
        try:
            _COST.encode(cost)
        except (TypeError, ValueError):
            raise InvalidParameterError(
                f"{owner}: class_weight[{label!r}] must be {_COST.allowed()}, got {cost!r}"
            ) from None
    negative, positive = (float(class_weight.get(label, 1.0)) for label in classes)
    return Costs(negative, positive)
