"""The exceptions and warnings. Messages state what is wrong, what is allowed, what was given and where."""

import re
from collections.abc import Iterable


class ThinstreamError(Exception):
    """Base class of all errors that thinstream raises deliberately."""


class InvalidInputError(ThinstreamError, ValueError):
    """Invalid data. The model has not changed."""


class TooWideError(InvalidInputError, AttributeError):
    """Dense weights that would not fit into memory. As an AttributeError, it makes `hasattr` return False."""


class NumericalError(ThinstreamError, ArithmeticError):
    """Numbers that would not be finite: a row that was not learned, or a model that cannot be used."""

    row: int = -1  # the row that cannot be learned


class InvalidParameterError(ThinstreamError, ValueError):
    """A parameter outside its allowed range."""


class MergeError(ThinstreamError, ValueError):
    """Models that cannot be merged, because they differ or because their algorithm has no merge rule."""


class UnknownNameError(ThinstreamError, LookupError):
    """An unknown name of an algorithm, a parameter or a dataset."""


class MissingPackageError(ThinstreamError, ImportError):
    """A missing optional package. The message contains the command that installs it."""


def install(extra: str) -> str:
    """Return the command that installs the packages of an optional feature, wherever thinstream was installed from.

    >>> install("zstd")
    "pip install 'zstandard>=0.19'"
    """
    from importlib.metadata import PackageNotFoundError, requires

    try:
        own = [line.split(";") for line in requires("thinstream") or () if ";" in line]
    except PackageNotFoundError:  # a copy of the repository that is on sys.path, but not installed
        return f"pip install '.[{extra}]'"
    names = [name.strip() for name, marker in own if re.search(rf"extra == ['\"]{extra}['\"]", marker)]
    return " ".join(["pip install", *(f"'{name}'" for name in names)])


class MissingDataError(ThinstreamError, FileNotFoundError):
    """A dataset that has not been downloaded to this machine."""


class DownloadError(ThinstreamError, OSError):
    """A download that failed. No partial file remains."""


class ModelFileError(ThinstreamError, ValueError):
    """A file that is not a model file, is damaged, or has an unknown format version. Nothing was loaded."""


class FileWriteError(ThinstreamError, OSError):
    """A file that could not be written. An existing file has not changed."""


class WeightsOnlyError(ThinstreamError, RuntimeError):
    """A model without the state that learning needs, because it was saved with its weights only."""


class CacheError(ThinstreamError, ValueError):
    """A file that is not a binary cache, is damaged or truncated, or has another version."""


class WorkerLostError(ThinstreamError, RuntimeError):
    """A worker of a distributed run that died and could not be replaced. No partial merge was saved."""


class SourceError(ThinstreamError, ConnectionError):
    """A broker's stream that does not exist or was refused by the server. Retrying does not help."""


class SourceLostError(SourceError):
    """A broker that is currently unreachable."""


class SourceGapError(SourceError):
    """Messages that the broker removed before they were read."""

    lost: int | None = 0  # upper bound of the number of messages; None: unknown
    cursor: tuple[int, ...] | None = None  # position where reading continues, if it is known
    counted: int = 0  # to add to the number of messages before this position


class ThinstreamWarning(UserWarning):
    """Base class of all warnings of thinstream."""


class SortedRowsWarning(ThinstreamWarning):
    """Labels come in long runs. Online learning depends on the order of rows, so the last class is favored."""


class EdgeWarning(ThinstreamWarning):
    """The best model of a sweep is the first or the last, so there may be better ones beyond it."""


class DeviceWarning(ThinstreamWarning):
    """A GPU was requested but cannot be used, or is available but not used."""


def listed(names: Iterable[object]) -> str:
    """Return names as they appear in messages.

    >>> listed(["a", "b", "c"])
    "'a', 'b' or 'c'"
    """
    *head, last = [repr(name) for name in names]
    return f"{', '.join(head)} or {last}" if head else last


def meant(name: str, names: Iterable[str]) -> str:
    """Return a suggestion for an unknown name.

    >>> meant("usr", ["user", "item"])
    "did you mean 'user'?"
    >>> meant("day", ["user", "item"])
    "there are 'user' or 'item'"
    """
    names = list(names)
    return near(name, names) or (f"there are {listed(names)}" if names else "there are none")


def near(name: str, names: Iterable[str], before: str = "") -> str:
    """Return a suggestion, after some text, if one of the names is similar, else an empty string.

    >>> near("usr", ["user", "item"], "; "), near("day", ["user", "item"], "; ")
    ("; did you mean 'user'?", '')
    """
    import difflib

    folded = {other.casefold(): other for other in names}
    matches = difflib.get_close_matches(name.casefold(), folded, n=1)
    return f"{before}did you mean {folded[matches[0]]!r}?" if matches else ""


def no_attribute(module: str, name: str, names: Iterable[str]) -> AttributeError:
    """Return the error of a module that imports its attributes on first use."""
    hint = "" if name.startswith("_") else near(name, names, "; ")  # Python itself looks for names with underscores
    return AttributeError(f"module {module!r} has no attribute {name!r}{hint}")
