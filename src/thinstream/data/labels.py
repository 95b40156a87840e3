"""Labels: the classes of a model, classes that are added during training, and how labels are read and ordered."""

import warnings
from collections.abc import Iterable, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from thinstream.engine.loop import Costs
from thinstream.engine.parameters import Interval
from thinstream.errors import InvalidInputError, InvalidParameterError, SortedRowsWarning, listed

# Classes, and the cost of an error on each.

#: Messages name up to twice this many classes, and three of more.
_SHOWN = 5
#: Kinds of NumPy dtypes of text.
_TEXT = "UST"


class Classes(tuple[Any, ...]):
    """The labels of two or more classes, in order; with two, the second is the positive class.

    >>> classes = Classes.of(["spam", "ham", "spam"])
    >>> classes, classes.positive, classes.coded(["ham", "spam"])
    (Classes('ham', 'spam'), 'spam', array([-1,  1], dtype=int8))
    >>> Classes("ham", "spam", "news").coded(["news", "ham"])
    array([2, 0], dtype=int32)
    """

    __slots__ = ()
    _fewest = 2

    def __new__(cls, *labels: Any) -> Self:
        """Create classes in the given order."""
        classes = super().__new__(cls, labels)
        if len(classes) < cls._fewest or len(set(classes)) < len(classes):
            raise InvalidInputError(f"classes must be two or more different labels, got {list(classes)!r}")
        return classes

    @classmethod
    def of(cls, labels: Any) -> Self:
        """Return the distinct labels, sorted."""
        distinct = np.unique(np.asarray(labels)).tolist()
        if len(distinct) < 2:
            problem = f"one class, {distinct[0]!r}" if distinct else "no labels"
            raise InvalidInputError(f"there must be at least two classes, got {problem}")
        return cls(*distinct)

    def __getnewargs__(self) -> tuple[Any, ...]:
        return tuple(self)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self))})"

    def __str__(self) -> str:
        return ", ".join(map(repr, self))

    @property
    def n_models(self) -> int:
        """The number of weight vectors of a model: one for two classes, else one per class (one-vs-rest)."""
        return 1 if len(self) == 2 else len(self)

    @property
    def are_two(self) -> bool:
        """Whether there are exactly two classes and none can be added, so that one score separates them."""
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
        """Return the classes if there are two; more raise an error, for code that is binary only."""
        if len(self) > 2:
            raise InvalidInputError(
                f"{method and method + ': '}Only binary classification is supported here, got {len(self)} classes. "
                "Pass labels with two values, such as one class against the rest"
                + (", or choose an online algorithm, which supports any number of classes." if method else ".")
            )
        return self

    @property
    def grow(self) -> bool:
        """Whether new labels become classes."""
        return False

    def meeting(self, labels: Any) -> Self:
        """Return the classes including these labels; here unchanged, because other labels are errors."""
        return self

    def coded(self, labels: Any) -> NDArray[Any]:
        """Encode labels as in batches: −1 and +1, or class numbers for more than two; other labels are errors."""
        labels = np.asarray(labels)
        if self.n_models == 1 and len(self) == 2:
            positive, negative = labels == self[1], labels == self[0]
            self._require_known(labels, positive | negative)
            return np.asarray(positive, dtype=np.int8) * np.int8(2) - np.int8(1)
        classes = np.array(self)
        if (labels.dtype.kind in _TEXT) == (classes.dtype.kind in _TEXT):
            order = np.argsort(classes)
            numbers = order[np.minimum(np.searchsorted(classes, labels, sorter=order), len(classes) - 1)]
            same = np.asarray(classes[numbers] == labels)
        else:  # NumPy would compare numbers as text, and cannot sort objects of several types
            number_of = {label: k for k, label in enumerate(self)}
            numbers = np.array([number_of.get(label, -1) for label in labels.tolist()], np.intp)
            same = numbers >= 0
        self._require_known(labels, same)
        return np.asarray(numbers, dtype=np.int32)

    def _require_known(self, labels: NDArray[Any], is_class: NDArray[np.bool_]) -> None:
        if not np.all(is_class):
            row = int(np.flatnonzero(~np.broadcast_to(is_class, labels.shape))[0])
            few = len(self) <= 2 * _SHOWN
            allowed = listed(self) if few else f"one of {len(self)} classes such as {listed(self[:3])}"
            label = labels.reshape(-1)[row : row + 1].tolist()[0]
            raise InvalidInputError(f"y: labels must be {allowed}, got {label!r} at row {row}")

    def chosen(self, scores: NDArray[Any], threshold: float = 0.0) -> NDArray[np.intp]:
        """Return the numbers of the predicted classes.

        With two classes, a score above the threshold predicts the second. With more, the highest score wins, and the
        first class of equal scores.
        """
        if len(self) == 2:
            return (scores > threshold).astype(np.intp)
        return np.asarray(np.argmax(scores, axis=1))


_COST = Interval()


def class_costs(class_weight: Any, classes: Classes, owner: str) -> tuple[Costs, ...]:
    """Return the costs of each model: c₋ and c₊ of two classes, or of each class against the rest, which costs 1.

    ``class_weight`` is None, "balanced" or {label: weight}. The default weight is 1.

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
    """Return the ``class_weight`` that gives these costs."""
    if costs[0].balanced:
        return "balanced"
    weights = costs[0][:2] if len(costs) == 1 else tuple(cost.positive for cost in costs)
    return None if all(weight == 1.0 for weight in weights) else dict(zip(classes, weights, strict=True))


def _given_weights(class_weight: dict[Any, Any], classes: Classes, owner: str) -> list[float]:
    for label, cost in class_weight.items():
        if label not in tuple(classes):
            names = " and ".join(map(repr, classes)) if len(classes) == 2 else ", ".join(map(repr, classes))
            raise InvalidParameterError(
                f"{owner}: class_weight has the label {label!r}, which is not a class; the classes are {names}"
            )
        checked_weight(label, cost, owner)
    return [float(class_weight.get(label, 1.0)) for label in classes]


def checked_weight(label: Any, cost: Any, owner: str) -> None:
    """Raise if the weight of a class is not allowed."""
    try:
        _COST.encode(cost)
    except (TypeError, ValueError):
        raise InvalidParameterError(
            f"{owner}: class_weight[{label!r}] must be {_COST.allowed()}, got {cost!r}"
        ) from None


# Classes that grow: their labels in order of appearance, and the cost of an error on each.

EQUAL, BALANCED = Costs(), Costs(balanced=True)


class GrowingClasses(Classes):
    """The labels so far, those given in advance first. New ones may come, all of one type.

    Labels are strings, numbers or booleans. Each class has its own model, even if there are only one or two.
    ``class_weight`` may name labels that have not occurred yet.

    >>> classes = GrowingClasses(class_weight={"news": 5})
    >>> classes = classes.meeting(["spam", "ham", "spam"])
    >>> classes, classes.coded(["ham", "spam"]), classes.meeting(["news"]).costs[2].positive
    (GrowingClasses('spam', 'ham'), array([1, 0], dtype=int32), 5.0)
    """

    class_weight: Any
    _fewest = 0

    def __new__(cls, *labels: Any, class_weight: Any = None) -> Self:
        """Create classes in the given order."""
        classes = super().__new__(cls, *labels)
        types = sorted({kind_of(label) for label in classes})
        if len(types) > 1:
            raise InvalidInputError(
                f"classes must all be of one type, got {' and '.join(types)}: {list(classes)[:5]!r}"
            )
        classes.class_weight = class_weight
        return classes

    @classmethod
    def of(cls, labels: Any, class_weight: Any = None) -> Self:
        """Return the distinct labels, sorted."""
        return cls(*np.unique(np.asarray(labels)).tolist(), class_weight=class_weight)

    def __getnewargs__(self) -> tuple[Any, ...]:
        return tuple(self)  # class_weight is restored with the other attributes

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
        """New labels become classes."""
        return True

    def require_two(self, method: str = "") -> Self:
        """Raise, because there may be any number of classes."""
        raise InvalidInputError(
            f"{method and method + ': '}Only binary classification is supported here, and with grow_classes=True there "
            "may be any number of classes. Leave out grow_classes."
        )

    def meeting(self, labels: Any) -> Self:
        """Return the classes with new labels added, in order of appearance."""
        array, types = _array(labels), _kinds(labels)
        types |= {kind_of(label) for label in self[:1]}
        if len(types) > 1:
            raise InvalidInputError(f"y: labels must all be of one type, got {' and '.join(sorted(types))}")
        return self._with(in_order(array)[0])

    def numbered(self, labels: Sequence[Any], y: NDArray[Any]) -> tuple[Self, NDArray[np.int32]]:
        """Convert the numbers of other classes, with these labels (or -1 and 1 of two), to numbers of these classes.

        >>> classes, numbers = GrowingClasses("b").numbered(("a", "b", "c"), np.array([2, 1, 0, 2], np.int32))
        >>> classes, numbers
        (GrowingClasses('b', 'c', 'a'), array([1, 0, 2, 1], dtype=int32))
        """
        theirs = (y > 0).astype(np.int32) if y.dtype == np.int8 else y
        distinct, positions = in_order(theirs)
        grown = self._with([labels[k] for k in distinct])
        number = {label: k for k, label in enumerate(grown)}
        table = np.array([number[labels[k]] for k in distinct], np.int32)
        return grown, table[positions] if len(distinct) else np.empty(0, np.int32)

    def _with(self, labels: Sequence[Any]) -> Self:
        classes = set(self)
        new = [label for label in labels if label not in classes]
        return type(self)(*self, *new, class_weight=self.class_weight) if new else self

    def chosen(self, scores: NDArray[Any], threshold: float = 0.0) -> NDArray[np.intp]:
        """Return the class numbers with the highest scores, the first of equal ones; a threshold needs two classes."""
        return np.asarray(np.argmax(scores, axis=1))

    @property
    def costs(self) -> tuple[Costs, ...]:
        """The costs of each class's model."""
        return tuple(self._cost(label) for label in self)

    def _cost(self, label: Any) -> Costs:
        if isinstance(self.class_weight, dict):
            return Costs(1.0, float(self.class_weight.get(label, 1.0)))
        return EQUAL if self.class_weight is None else BALANCED

    def spare_costs(self, owner: str) -> tuple[Costs, ...]:
        """Return all costs that a new class may have, the usual ones first; a bad class weight is an error."""
        if not isinstance(self.class_weight, dict):
            return class_costs(self.class_weight, Classes(0, 1), owner)
        for label, weight in self.class_weight.items():
            checked_weight(label, weight, owner)
        return tuple(dict.fromkeys([EQUAL, *map(self._cost, self.class_weight)]))


def in_order(labels: NDArray[Any]) -> tuple[list[Any], NDArray[np.int32]]:
    """Return the distinct labels in order of appearance, and for each row the position of its label among them.

    >>> in_order(np.array([7, 3, 7]))
    ([7, 3], array([0, 1, 0], dtype=int32))
    """
    distinct, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    order = np.argsort(first)
    positions = np.empty(len(distinct), np.int32)
    positions[order] = np.arange(len(distinct), dtype=np.int32)
    return distinct[order].tolist(), positions[inverse.reshape(-1)]


def kind_of(label: Any) -> str:
    """Return the type of a label as a plural noun, or raise if it is not allowed.

    >>> kind_of("spam"), kind_of(2.5), kind_of(True)
    ('strings', 'numbers', 'booleans')
    """
    if isinstance(label, bool | np.bool_):
        return "booleans"
    if isinstance(label, int | float | np.integer | np.floating):
        return "numbers"
    if isinstance(label, str):
        return "strings"
    raise InvalidInputError(f"y: labels must be strings, numbers or booleans, got {label!r}")


def _array(labels: Any) -> NDArray[Any]:
    return labels if isinstance(labels, np.ndarray) else np.asarray(labels)


def _kinds(labels: Any) -> set[str]:
    """Return the types of labels; a list is inspected before NumPy converts it to one type."""
    if isinstance(labels, np.ndarray) and labels.dtype.kind != "O":
        return {kind_of(label) for label in labels[:1].tolist()}
    return {kind_of(label) for label in labels}


# Predictions while classes grow: only a class that has occurred can be predicted.


def known_before(numbers: NDArray[Any], n_known: int) -> NDArray[np.int64]:
    """Return how many classes were known before each row, and ``n_known`` before the first; new ones come in order.

    >>> known_before(np.array([0, 1, 0, 2]), 1)
    array([1, 1, 2, 2])
    """
    before = np.concatenate([[n_known], numbers[:-1].astype(np.int64) + 1])
    return np.maximum.accumulate(before)[: len(numbers)]


def predict_known(scores: NDArray[Any], n_known: NDArray[np.int64]) -> NDArray[np.intp]:
    """Return the known class of the highest score, the first of equal ones; −1 if no class was known.

    >>> predict_known(np.array([[0.5, 2.0], [0.5, 2.0]]), np.array([1, 2]))
    array([0, 1])
    """
    if not scores.shape[1]:
        return np.full(len(scores), -1, np.intp)
    if not len(n_known) or n_known.min() >= scores.shape[1]:
        return np.asarray(np.argmax(scores, axis=1))
    hidden = np.arange(scores.shape[1]) >= n_known[:, np.newaxis]
    predicted = np.argmax(np.where(hidden, -np.inf, scores), axis=1)
    return np.where(n_known == 0, -1, predicted)


# The classes of a stream whose classes grow.


class ClassBook:
    """Labels and their numbers, in the order of delivery; all are of one type.

    Examples
    --------
    >>> book = ClassBook(("ham",))
    >>> book.numbers(["spam", "ham"]), book.labels
    (array([1, 0], dtype=int32), ['ham', 'spam'])
    >>> book.is_foreign(7)
    True

    """

    def __init__(self, labels: Sequence[Any] = ()) -> None:
        self.labels: list[Any] = []
        self._known: dict[Any, int] = {}
        for label in labels:
            if self.is_foreign(label):
                raise InvalidInputError(f"classes must all be of one type, got {list(labels)!r}")
            self.numbers([label])

    def is_foreign(self, label: Any) -> bool:
        """Return whether a label has another type than those before it."""
        return bool(self.labels) and kind_of(label) != kind_of(self.labels[0])

    def numbers(self, labels: Sequence[Any]) -> NDArray[np.int32]:
        """Return the numbers of labels; a new label gets the next number."""
        for label in labels:
            if label not in self._known:
                self._known[label] = len(self.labels)
                self.labels.append(label)
        return np.array([self._known[label] for label in labels], np.int32)

    def foreign_message(self, label: Any) -> str:
        """Describe the problem with a label of another type."""
        first = self.labels[0]
        return f"labels must all be of one type; others are {kind_of(first)} like {first!r}, got {label!r}"


def label_of(number: float) -> int | float:
    """Return a number as a label: an int if it is whole.

    >>> label_of(2.0), label_of(0.5)
    (2, 0.5)
    """
    return int(number) if float(number).is_integer() else float(number)


def local_numbers(codes: NDArray[Any], labels: Sequence[Any] | None) -> tuple[list[Any], NDArray[np.int32]]:
    """Return the distinct labels of a piece of text in order of appearance, and each row's position among them.

    ``codes`` are labels, or positions in ``labels``.

    >>> local_numbers(np.array([2.0, 0.0, 2.0]), ["a", "b", "c"])
    (['c', 'a'], array([0, 1, 0], dtype=int32))
    """
    distinct, positions = in_order(codes)
    return [label_of(code) if labels is None else labels[int(code)] for code in distinct], positions


# Numeric labels that are positive above 0. If there are more than two different ones, they may be meant as classes.

#: The most labels in a message.
MOST = 8


class NumberLabels:
    """The lowest labels so far.

    >>> labels = NumberLabels()
    >>> labels.add((0.0, 3.0))
    >>> labels.remarks()
    []
    >>> labels.add((1.0, 2.5))
    >>> labels.remarks()
    ['labels are 0, 1, 2.5, 3; those above 0 are positive (if each is a class, pass --classes or --grow-classes)']
    """

    def __init__(self) -> None:
        self._met: list[float] = []

    def add(self, labels: Iterable[float]) -> None:
        """Add the labels of further rows."""
        self._met = sorted({*self._met, *labels})[: MOST + 1]

    def remarks(self) -> list[str]:
        """Return a remark if there are more than two labels."""
        if len(self._met) <= 2:
            return []
        shown = ", ".join(f"{label:g}" for label in self._met[:MOST]) + (", …" if len(self._met) > MOST else "")
        advice = "if each is a class, pass --classes or --grow-classes"
        return [f"labels are {shown}; those above 0 are positive ({advice})"]


def lowest(labels: NDArray[Any]) -> tuple[float, ...]:
    """Return the lowest few of the different labels, without NaN.

    >>> lowest(np.array([2.0, 0.0, np.nan, 1.0, 2.0]))
    (0.0, 1.0, 2.0)
    """
    low, high = np.fmin.reduce(labels), np.fmax.reduce(labels)
    if np.all((labels == low) | (labels == high) | (labels != labels)):  # the usual case, in linear time
        return (float(low), float(high)) if low < high else (float(low),)
    return tuple(np.unique(labels[labels == labels])[: MOST + 1].tolist())


# Rows sorted by class, from which online learners learn badly.

#: The problem. Callers add advice.
SORTED = "rows seem to be sorted by class: progressive metrics are too optimistic, and models lean to the last class"

#: With fewer expected runs of equal labels, the order cannot be judged.
ENOUGH_RUNS = 20
#: Rows are not in random order if there are fewer than this share of the expected runs.
FEW = 0.1


class LabelOrder:
    """Detects rows that are sorted by class, entirely or in blocks, which makes progressive metrics too optimistic.

    Examples
    --------
    >>> import numpy as np
    >>> sorted_, mixed = LabelOrder(), LabelOrder()
    >>> sorted_.update(np.repeat([0, 1], 1000))
    >>> mixed.update(np.tile([0, 1], 1000))
    >>> sorted_.looks_sorted, mixed.looks_sorted
    (True, False)

    """

    def __init__(self) -> None:
        self.examples = np.zeros(2, np.int64)  # by class
        self._changes, self._last = 0, -2

    def update(self, y: NDArray[Any]) -> None:
        """Add the next labels: -1 and 1 in int8, or class numbers."""
        if not len(y):
            return
        if y.dtype == np.int8:
            positives = np.count_nonzero(y > 0)
            counts = np.array([len(y) - positives, positives])
        else:
            counts = np.bincount(y, minlength=len(self.examples))
        counts[: len(self.examples)] += self.examples
        self._changes += int(np.count_nonzero(y[1:] != y[:-1])) + int(self._last not in (y[0], -2))
        self.examples, self._last = counts, int(y[-1])

    @property
    def looks_sorted(self) -> bool:
        """Whether labels have far longer runs than in random order."""
        rows = int(self.examples.sum())
        if not rows:
            return False
        differ = 1.0 - float(np.sum((self.examples / rows) ** 2))  # the probability that two rows differ
        expected = 1.0 + rows * differ  # runs of equal labels in random order: 1 + 2PN/n for two classes
        return expected >= ENOUGH_RUNS and 1 + self._changes < FEW * expected


def warn_of_sorted(advice: str, stacklevel: int = 2) -> None:
    """Warn that rows seem to be sorted, with advice; ``stacklevel`` counts from the caller."""
    warnings.warn(f"{SORTED}; {advice}", SortedRowsWarning, stacklevel=stacklevel + 1)
