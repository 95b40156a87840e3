"""Classes of any kind of label, and what an error on each costs."""

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from thinstream.engine.loop import Costs
from thinstream.engine.parameters import Interval
from thinstream.errors import InvalidInputError, InvalidParameterError, listed

#: Classes that a message names; of more only their number.
_SHOWN = 5
#: Kinds of arrays of text.
_TEXT = "UST"


class Classes(tuple[Any, ...]):
    """The labels of two or more classes, in order; of two the second is the positive one.

    >>> classes = Classes.of(["spam", "ham", "spam"])
    >>> classes, classes.positive, classes.coded(["ham", "spam"])
    (Classes('ham', 'spam'), 'spam', array([-1,  1], dtype=int8))
    >>> Classes("ham", "spam", "news").coded(["news", "ham"])
    array([2, 0], dtype=int32)
    """

    __slots__ = ()
    _fewest = 2

    def __new__(cls, *labels: Any) -> Self:
        """In the given order."""
        found = super().__new__(cls, labels)
        if len(found) < cls._fewest or len(set(found)) < len(found):
            raise InvalidInputError(f"classes must be two different labels or more, got {list(found)!r}")
        return found

    @classmethod
    def of(cls, labels: Any) -> Self:
        """The distinct labels among these, sorted."""
        found = np.unique(np.asarray(labels)).tolist()
        if len(found) < 2:
            given = f"only one class was given: {found[0]!r}" if found else "none was given"
            raise InvalidInputError(f"two classes are needed at least, {given}")
        return cls(*found)

    def __getnewargs__(self) -> tuple[Any, ...]:
        return tuple(self)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self))})"

    def __str__(self) -> str:
        return ", ".join(map(repr, self))

    @property
    def n_models(self) -> int:
        """Rows of weights a model of them has: one for two classes, else one for each class against the rest."""
        return 1 if len(self) == 2 else len(self)

    @property
    def are_two(self) -> bool:
        """Whether there are two and no more will come: one score tells them apart."""
        return len(self) == 2

    @property
    def negative(self) -> Any:
        """The first of two labels."""
        return self.require_two()[0]

    @property
    def positive(self) -> Any:
        """The second of two labels."""
        return self.require_two()[1]

    def require_two(self, method: str = "") -> Self:
        """Itself, if it is two classes: what tunes, and the batch methods, take no more."""
        if len(self) > 2:
            raise InvalidInputError(
                f"{method and method + ': '}Only binary classification is supported here, {len(self)} classes were "
                "given; give labels of two values, one class against the rest"
                + (", or choose an online algorithm, which takes any number of classes" if method else "")
            )
        return self

    @property
    def grow(self) -> bool:
        """Whether labels not met before are welcome: these are all there are."""
        return False

    def meeting(self, labels: Any) -> Self:
        """Itself: others than these are refused where labels are coded."""
        return self

    def coded(self, labels: Any) -> NDArray[Any]:
        """Labels as a batch has them: −1 and +1, or the numbers of more classes; an unknown one raises."""
        labels = np.asarray(labels)
        if self.n_models == 1 and len(self) == 2:
            positive, negative = labels == self[1], labels == self[0]
            self._require_known(labels, positive | negative)
            return np.asarray(positive, dtype=np.int8) * np.int8(2) - np.int8(1)
        known = np.array(self)
        if (labels.dtype.kind in _TEXT) == (known.dtype.kind in _TEXT):
            order = np.argsort(known)
            place = order[np.minimum(np.searchsorted(known, labels, sorter=order), len(known) - 1)]
            same = np.asarray(known[place] == labels)
        else:  # numpy would compare numbers as text, and has no order for objects of several kinds
            number = {label: k for k, label in enumerate(self)}
            place = np.array([number.get(label, -1) for label in labels.tolist()], np.intp)
            same = place >= 0
        self._require_known(labels, same)
        return np.asarray(place, dtype=np.int32)

    def _require_known(self, labels: NDArray[Any], known: NDArray[np.bool_]) -> None:
        if not np.all(known):
            row = int(np.flatnonzero(~np.broadcast_to(known, labels.shape))[0])
            few = len(self) <= 2 * _SHOWN
            allowed = listed(self) if few else f"among {len(self)} classes, {listed(self[:3])} for three"
            given = labels.reshape(-1)[row : row + 1].tolist()[0]
            raise InvalidInputError(f"y: labels must be {allowed}, got {given!r} at row {row}")

    def chosen(self, scores: NDArray[Any], threshold: float = 0.0) -> NDArray[np.intp]:
        """Numbers of the classes that scores speak for.

        Of two a score above the threshold is the second, of more the highest score wins, the first of several.
        """
        if len(self) == 2:
            return (scores > threshold).astype(np.intp)
        return np.asarray(np.argmax(scores, axis=1))


_COST = Interval()


def class_costs(class_weight: Any, classes: Classes, owner: str) -> tuple[Costs, ...]:
    """The costs of each model: c₋ and c₊ of two classes, or of each class against all others, which cost 1.

    ``class_weight`` is None, "balanced" or {label: weight}, labels left out weighing 1.

    >>> class_costs({"spam": 5}, Classes("ham", "spam"), "FSOL")
    (Costs(negative=1.0, positive=5.0, balanced=False),)
    """
    if class_weight is None:
        weights = [1.0] * len(classes)
    elif isinstance(class_weight, str) and class_weight == "balanced":
        return (Costs(balanced=True),) * classes.n_models
    elif isinstance(class_weight, dict):
        weights = _given_weights(class_weight, classes, owner)
    else:
        raise InvalidParameterError(
            f"{owner}: class_weight must be None, 'balanced' or a dict {{label: weight}}, got {class_weight!r}"
        )
    return (Costs(weights[0], weights[1]),) if len(weights) == 2 else tuple(Costs(1.0, weight) for weight in weights)


def class_weight_of(costs: tuple[Costs, ...], classes: Classes) -> Any:
    """The ``class_weight`` that gives these costs."""
    if costs[0].balanced:
        return "balanced"
    weights = costs[0][:2] if len(costs) == 1 else tuple(each.positive for each in costs)
    return None if all(weight == 1.0 for weight in weights) else dict(zip(classes, weights, strict=True))


def _given_weights(class_weight: dict[Any, Any], classes: Classes, owner: str) -> list[float]:
    for label, cost in class_weight.items():
        if label not in tuple(classes):
            known = " and ".join(map(repr, classes)) if len(classes) == 2 else ", ".join(map(repr, classes))
            raise InvalidParameterError(f"{owner}: class_weight has label {label!r}, the classes are {known}")
        checked_weight(label, cost, owner)
    return [float(class_weight.get(label, 1.0)) for label in classes]


def checked_weight(label: Any, cost: Any, owner: str) -> None:
    """Raises if the weight of a class is none."""
    try:
        _COST.encode(cost)
    except (TypeError, ValueError):
        raise InvalidParameterError(
            f"{owner}: class_weight[{label!r}] must be {_COST.allowed()}, got {cost!r}"
        ) from None
