"""Which labels are classes: told by those met while looking."""

from collections import Counter
from typing import Any

from thinstream.errors import InvalidInputError
from thinstream.learners.growing_classes import kind_of
from thinstream.streams.looking.labels import MOST
from thinstream.streams.options import NOTHING

#: Classes that are named to the user, with how often each was met.
_SHOWN = 6


def classes_in(met: "Counter[Any]") -> tuple[Any, ...] | None:
    """Classes in order, of two the later one positive; None where labels are numbers, positive above 0.

    Numbers are classes if there are two of them that are not -1 and 1, or more that are whole. Texts always are, and
    all labels are texts where one is.

    >>> classes_in(Counter({"yes": 3, "no": 9})), classes_in(Counter({2: 1, 0: 5, 1: 4}))
    (('no', 'yes'), (0, 1, 2))
    >>> classes_in(Counter({1: 8, -1: 8})), classes_in(Counter({0: 5})), classes_in(Counter({0.5: 1, 2: 1, 0: 9}))
    (None, (0, 1), None)
    """
    labels = [label for label in met if label not in NOTHING]
    kinds = {kind_of(label) for label in labels}
    if not labels or kinds == {"numbers"}:
        return _numbers(sorted(labels))
    if len(labels) > MOST:
        raise InvalidInputError(
            f"labels are to be few, got more than {MOST:,} different ones like {labels[0]!r}: is another column meant "
            "(--label)? --grow-classes takes any number of classes"
        )
    if len(kinds) > 1:
        labels = [str(label) for label in labels]
    if kinds == {"booleans"}:
        return (False, True)
    if len(labels) < 2:
        raise InvalidInputError(
            f"two classes are needed at least, all labels looked at are {labels[0]!r}: --classes names others, "
            "--look looks farther"
        )
    return tuple(sorted(labels))


def _numbers(labels: list[Any]) -> tuple[Any, ...] | None:
    if labels == [0]:
        return (0, 1)
    if len(labels) < 2 or labels == [-1, 1] or len(labels) > MOST:
        return None
    return tuple(labels) if len(labels) == 2 or all(isinstance(label, int) for label in labels) else None


def in_words(met: "Counter[Any]", classes: tuple[Any, ...]) -> list[str]:
    """What a user is told of classes; nothing of 0 and 1.

    >>> in_words(Counter({"yes": 3, "no": 9}), ("no", "yes"))
    ["labels are 'no' (9) and 'yes' (3); 'yes' is positive"]
    """
    if classes == (0, 1):
        return []
    counts = {str(label): count for label, count in met.items()}
    shown = [f"{label!r} ({counts.get(str(label), 0):,})" for label in classes[:_SHOWN]]
    if len(classes) == 2:
        return [f"labels are {shown[0]} and {shown[1]}; {classes[1]!r} is positive"]
    more = ", …" if len(classes) > _SHOWN else ""
    return [f"labels are {len(classes)} classes: {', '.join(shown)}{more}"]
