"""The formats of files: one module each, which declares its names, endings and options, and how it is opened.

A module of this folder has a tuple ``FORMATS``. All of them are imported to tell formats apart, so they are light: what
parses is imported where a file is opened.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any

from thinstream.errors import InvalidParameterError, listed
from thinstream.streams.options import OPTIONS, WORDING, Options, feature_space, spelling

if TYPE_CHECKING:
    from thinstream.streams.reading import TextStream
    from thinstream.streams.stream import Stream
    from thinstream.streams.text.protocol import TextFormat

#: What a file is whose name tells nothing.
DEFAULT = "libsvm"
COMPRESSED = (".gz", ".bz2", ".xz", ".zst")
#: Options that several formats take.
LABELS_AND_WEIGHTS = ("classes", "grow_classes", "label", "weight", "ignore")
HASHING = ("bits", "signed")
TEXTS = ("text", *WORDING)
COLUMN_KINDS = ("categorical", "numeric", "dates")


@dataclass(frozen=True)
class Format:
    """A format of files.

    Parameters
    ----------
    name : str
        What ``format=`` and ``--format`` call it.
    endings : tuple of str
        Of files that have it, before that of a compression.
    options : tuple of str
        Names of the `Options` it takes, besides those that all formats take.
    open : function of (Format, files, Options)
        Returns the stream; of a text format by way of `text_stream`.
    lines : bool
        Whether it is text whose records are lines, so that a file may be cut at any end of line.
    is_table : bool
        Whether its files are read by columns, not as text.
    has_cells : bool
        Whether each record has a cell for each column, in text.

    """

    name: str
    endings: tuple[str, ...]
    options: tuple[str, ...]
    open: Callable[["Format", list[str], Options], "Stream"]
    lines: bool = False
    is_table: bool = False
    has_cells: bool = False

    def takes(self, option: str) -> bool:
        """Whether an option says something about files of this format."""
        return spelling(OPTIONS[option]).common or option in self.options

    def require_taken(self, options: Options) -> None:
        """Raises if an option was given that is for other formats."""
        for name, value in options.given().items():
            if not self.takes(name):
                takers = [other.name for other in formats().values() if other.takes(name)]
                raise InvalidParameterError(
                    f"{name} is for files of the format {listed(takers)}, got {value!r} for {self.name}"
                )


@cache
def formats() -> dict[str, Format]:
    """All formats by name, the default one first.

    >>> next(iter(formats())), formats()["csv"].endings
    ('libsvm', ('.csv',))
    """
    found: dict[str, Format] = {}
    for entry in iter_modules(__path__):
        module = import_module(f"{__name__}.{entry.name}")
        declared = getattr(module, "FORMATS", None)
        if not isinstance(declared, tuple) or not all(isinstance(known, Format) for known in declared):
            raise InvalidParameterError(
                f"{module.__file__}: a file of this folder must declare a tuple FORMATS of Format, got {declared!r}"
            )
        found |= {known.name: known for known in declared}
    return {name: found[name] for name in sorted(found, key=lambda name: (name != DEFAULT, name))}


def find_format(name: str) -> Format:
    """The format of this name."""
    if name not in formats():
        raise InvalidParameterError(f"format must be {listed(formats())}, got {name!r}")
    return formats()[name]


def format_of(path: str) -> str:
    """The format a file's name tells of, whatever it is compressed with; libsvm where it tells nothing.

    >>> format_of("day.vw.gz"), format_of("a9a.t")
    ('vw', 'libsvm')
    """
    stem, ending = os.path.splitext(path)
    if ending.lower() in COMPRESSED:
        ending = os.path.splitext(stem)[1]
    return next((name for name, known in formats().items() if ending.lower() in known.endings), DEFAULT)


def are_records(files: Sequence[str]) -> bool:
    """Whether files are CSV by their names: they have a header, and records that may go over several lines."""
    return all(find_format(format_of(file)).has_cells for file in files)


def text_stream(known: Format, files: list[str], parser: "TextFormat", options: Options) -> "TextStream":
    """The stream of text files, whose pieces the parser turns into rows."""
    from thinstream.streams.class_book import ClassBook
    from thinstream.streams.reading import TextStream

    reading: dict[str, Any] = {"format": known.name, "on_error": options.on_error}
    for name, option in OPTIONS.items():
        if (name == "classes" or spelling(option).remembered) and known.takes(name):
            value = getattr(options, name)
            if not value and name in COLUMN_KINDS and not known.has_cells:
                continue  # JSON objects have no fixed columns: only those that are declared count
            reading[name] = list(value) if isinstance(value, tuple) else value
    space = feature_space(options, hashed=known.takes("bits"))
    if not options.grow_classes:
        return TextStream(files, parser, options, space, reading)
    book = ClassBook(options.classes or ())
    return TextStream(files, parser, options, space, reading | {"grow_classes": True}, book=book)
