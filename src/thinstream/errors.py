"""What goes wrong, said so that a user can act on it: what, allowed, given, where."""

from collections.abc import Iterable


class ThinstreamError(Exception):
    """Base of every error this library raises on purpose."""


class InvalidInputError(ThinstreamError, ValueError):
    """Data that cannot be learned from; the model is exactly as it was before the call."""


class TooWideError(InvalidInputError, AttributeError):
    """A number for each feature, where there is no room for so many: to whoever looks at an estimator it has none."""


class NumericalError(ThinstreamError, ArithmeticError):
    """Numbers that would not be finite: a row that cannot be learned, and was not, or a model that cannot be used."""

    row: int = -1  # which row cannot be learned


class InvalidParameterError(ThinstreamError, ValueError):
    """A parameter outside its allowed range."""


class MergeError(ThinstreamError, ValueError):
    """Models that cannot become one: they differ in what they must share, or their algorithm has no such rule."""


class UnknownNameError(ThinstreamError, LookupError):
    """A name (of an algorithm, a parameter, a data set) that does not exist."""


class MissingPackageError(ThinstreamError, ImportError):
    """An optional package that what was asked for needs; the message has the command that installs it."""


class MissingDataError(ThinstreamError, FileNotFoundError):
    """A data set that is known but not on this machine."""


class DownloadError(ThinstreamError, OSError):
    """A file that could not be fetched whole; nothing is left under its name."""


class ModelFileError(ThinstreamError, ValueError):
    """A file that is not a model file, is damaged, or has an unknown format version; nothing was loaded."""


class FileWriteError(ThinstreamError, OSError):
    """A file that could not be written; the one it was to replace is as it was."""


class WeightsOnlyError(ThinstreamError, RuntimeError):
    """A model that was saved without its learning state is asked to learn, or for that state."""


class CacheError(ThinstreamError, ValueError):
    """A binary cache that is damaged, cut short, of another version, or no cache at all."""


class WorkerLostError(ThinstreamError, RuntimeError):
    """A worker of a distributed run that died and could not be replaced; nothing half-merged was kept."""


class PeerLostError(ThinstreamError, ConnectionError):
    """A worker that talks to others lost one of them: it died, or did not answer in time."""


class SourceError(ThinstreamError, ConnectionError):
    """A broker's stream that is not there, or that its server refuses: trying again is no use."""


class SourceLostError(SourceError):
    """A broker that cannot be reached at the moment."""


class SourceGapError(SourceError):
    """Messages that the broker has removed before they were read."""

    lost: int | None = 0  # messages, at most; None: an unknown number
    place: tuple[int, ...] | None = None  # where reading continues, if that is known before the next message
    counted: int = 0  # to add to the number of messages before the position


class ThinstreamWarning(UserWarning):
    """Base of every warning this library gives."""


class SortedRowsWarning(ThinstreamWarning):
    """Labels come in long runs: an online learner takes rows in their order and leans to the last class."""


class EdgeWarning(ThinstreamWarning):
    """The best model of a sweep is the first or the last: beyond it there may be better ones."""


class DeviceWarning(ThinstreamWarning):
    """A GPU is asked for where only the CPU can do it, or stands idle where it would be faster."""


def listed(names: Iterable[object]) -> str:
    """Names as they appear in messages.

    >>> listed(["a", "b", "c"])
    "'a', 'b' or 'c'"
    """
    *head, last = [repr(name) for name in names]
    return f"{', '.join(head)} or {last}" if head else last


def meant(name: str, known: Iterable[str]) -> str:
    """What a name that nothing has may have been meant for.

    >>> meant("usr", ["user", "item"])
    "did you mean 'user'?"
    >>> meant("day", ["user", "item"])
    "there are 'user' or 'item'"
    """
    names = list(known)
    return near(name, names) or (f"there are {listed(names)}" if names else "there are none")


def near(name: str, known: Iterable[str], before: str = "") -> str:
    """The same where one of them is close, with some text before it; else nothing.

    >>> near("usr", ["user", "item"], "; "), near("day", ["user", "item"], "; ")
    ("; did you mean 'user'?", '')
    """
    import difflib

    folded = {other.casefold(): other for other in known}
    found = difflib.get_close_matches(name.casefold(), folded, n=1)
    return f"{before}did you mean {folded[found[0]]!r}?" if found else ""


def no_attribute(module: str, name: str, known: Iterable[str]) -> AttributeError:
    """What a module raises that makes its attributes when they are asked for."""
    hint = "" if name.startswith("_") else near(name, known, "; ")  # nobody types what Python itself looks for
    return AttributeError(f"module {module!r} has no attribute {name!r}{hint}")
