"""What goes wrong, said so that a user can act on it: what, allowed, given, where."""

from collections.abc import Iterable


class ThinstreamError(Exception):
    """Base of every error this library raises on purpose."""


class InvalidInputError(ThinstreamError, ValueError):
    """Data that cannot be learned from; the model is exactly as it was before the call."""


class InvalidParameterError(ThinstreamError, ValueError):
    """A parameter outside its allowed range."""


class UnknownNameError(ThinstreamError, LookupError):
    """A name (of an algorithm, a parameter, a data set) that does not exist."""


class MissingPackageError(ThinstreamError, ImportError):
    """An optional package that what was asked for needs; the message has the command that installs it."""


class CacheError(ThinstreamError, ValueError):
    """A binary cache that is damaged, cut short, of another version, or no cache at all."""


def listed(names: Iterable[object]) -> str:
    """Names as they appear in messages.

    >>> listed(["a", "b", "c"])
    "'a', 'b' or 'c'"
    """
    *head, last = [repr(name) for name in names]
    return f"{', '.join(head)} or {last}" if head else last
