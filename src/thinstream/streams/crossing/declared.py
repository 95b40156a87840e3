"""What crosses may be asked for, checked; nothing heavy is imported here."""

from collections.abc import Iterable, Sequence
from typing import Any

from thinstream.errors import InvalidInputError, InvalidParameterError, meant

#: Between the names of what is crossed.
MARK = " × "
#: Different names in all crosses together: each has a bit.
MOST_NAMES = 63
Cross = tuple[str, ...]


def parse_cross(text: str) -> Cross:
    """One cross, as the command line has it.

    >>> parse_cross("user, item")
    ('user', 'item')
    """
    names = tuple(part.strip() for part in text.split(","))
    if len(names) < 2 or not all(names):
        raise InvalidParameterError(f"--cross must be two names or more, as in user,item, got {text!r}")
    return names


def as_crosses(given: Any) -> tuple[Cross, ...]:
    """Crosses in the one order that all who ask for the same have.

    >>> as_crosses([("user", "item"), ("age", "age")])
    (('age', 'age'), ('user', 'item'))
    """
    if not isinstance(given, Sequence) or isinstance(given, str):
        raise InvalidParameterError(f'cross must be a list of crosses, [("user", "item"), …], got {given!r}')
    seen: set[Cross] = set()
    for cross in given:
        names = [] if isinstance(cross, str) or not isinstance(cross, Sequence) else list(cross)
        if len(names) < 2 or not all(isinstance(name, str) and name for name in names):
            raise InvalidParameterError(
                f'a cross must be two names or more, as in cross=[("user", "item")], got {cross!r}'
            )
        if tuple(sorted(names)) in seen:
            raise InvalidParameterError(f"a cross may be given once, in one order of its names, got {cross!r} again")
        seen.add(tuple(sorted(names)))
    found = sorted(tuple(cross) for cross in given)
    if len(names_of(found)) > MOST_NAMES:
        raise InvalidParameterError(f"crosses may have {MOST_NAMES} different names, got {len(names_of(found))}")
    return tuple(found)


def names_of(crosses: Iterable[Cross]) -> list[str]:
    """The different names in crosses, in their order.

    >>> names_of([("user", "item"), ("user", "day")])
    ['user', 'item', 'day']
    """
    return list(dict.fromkeys(name for cross in crosses for name in cross))


def answers(column: str, name: str) -> bool:
    """Whether a column is meant by a name: it is its own, or that of what it is within.

    >>> answers("user", "user"), answers("user.age", "user"), answers("size[0]", "size"), answers("user", "use")
    (True, True, True, False)
    """
    return column == name or column.startswith((f"{name}.", f"{name}["))


def require_columns(crosses: Iterable[Cross], columns: Sequence[str], place: str = "") -> None:
    """Raises where a name means none of the columns of features; ``place`` is whose they are."""
    for name in names_of(crosses):
        if not any(answers(column, name) for column in columns):
            where = f"{place}: " if place else ""
            raise InvalidInputError(f"{where}cross: no column of features is called {name!r}; {meant(name, columns)}")
