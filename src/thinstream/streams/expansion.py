"""A limit on how many features rows in memory may expand to: n-grams and crosses make many of a short text."""

from contextvars import ContextVar, Token

from thinstream.errors import InvalidInputError

_most: ContextVar[int | None] = ContextVar("most", default=None)


class AtMost:
    """Limits the features that texts parsed within the block may have, before equal ones are summed.

    >>> with AtMost(10):
    ...     require_few(12, "crosses")
    Traceback (most recent call last):
    thinstream.errors.InvalidInputError: rows may have 10 features in all, with their crosses these have about 12;
    send fewer or shorter rows at a time
    """

    def __init__(self, features: int) -> None:
        self._features = features

    def __enter__(self) -> None:
        self._token: Token[int | None] = _most.set(self._features)

    def __exit__(self, *error: object) -> None:
        _most.reset(self._token)


def require_few(features: int, of: str) -> None:
    """Raise if there is a limit, and rows would have more features than that."""
    most = _most.get()
    if most is not None and features > most:
        raise InvalidInputError(
            f"rows may have {most:,} features in all, with their {of} these have about {features:,}; send fewer or "
            "shorter rows at a time"
        )
