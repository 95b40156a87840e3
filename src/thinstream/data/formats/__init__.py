"""The file formats: each declares its name, extensions and options, and how a file is opened.

Each module of this folder declares a tuple ``FORMATS``. All of them are imported to detect a format, so they are light:
the function that opens a file imports the parser.
"""

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any

from thinstream.data.options import OPTIONS, WORDING, Options, feature_space, spelling
from thinstream.errors import InvalidParameterError, listed

if TYPE_CHECKING:
    from thinstream.data.stream import Stream, TextStream
    from thinstream.data.text.protocol import TextFormat

#: The format of files with an unknown extension.
DEFAULT = "libsvm"
COMPRESSED = (".gz", ".bz2", ".xz", ".zst")
#: Options that several formats accept.
LABELS_AND_WEIGHTS = ("classes", "grow_classes", "label", "weight", "ignore")
HASHING = ("bits", "signed")
TEXTS = ("text", *WORDING)
COLUMN_KINDS = ("categorical", "numeric", "dates")


@dataclass(frozen=True)
class Format:
    """A file format.

    Parameters
    ----------
    name : str
        Its name in ``format=`` and ``--format``.
    endings : tuple of str
        File extensions, without that of a compression.
    options : tuple of str
        Names of the `Options` it accepts, in addition to those that all formats accept.
    open : function of (Format, files, Options)
        Returns the stream. Text formats call `text_stream`.
    lines : bool
        Whether each record is one line of text, so that a file may be cut at any end of line.
    is_table : bool
        Whether files are read by columns, not as text.
    has_cells : bool
        Whether each record of text has a cell for each column.

    """

    name: str
    endings: tuple[str, ...]
    options: tuple[str, ...]
    open: Callable[["Format", list[str], Options], "Stream"]
    lines: bool = False
    is_table: bool = False
    has_cells: bool = False

    def takes(self, option: str) -> bool:
        """Return whether files of this format have this option."""
        return spelling(OPTIONS[option]).common or option in self.options

    def require_taken(self, options: Options) -> None:
        """Raise if an option is set that this format does not have."""
        for name, value in options.given().items():
            if not self.takes(name):
                takers = [other.name for other in formats().values() if other.takes(name)]
                raise InvalidParameterError(
                    f"{name} is an option of the format {listed(takers)}, got {value!r} for {self.name}. Leave it out."
                )


@cache
def formats() -> dict[str, Format]:
    """Return all formats by name, the default one first.

    >>> next(iter(formats())), formats()["csv"].endings
    ('libsvm', ('.csv',))
    """
    by_name: dict[str, Format] = {}
    for entry in iter_modules(__path__):
        module = import_module(f"{__name__}.{entry.name}")
        declared = getattr(module, "FORMATS", None)
        if not isinstance(declared, tuple) or not all(
            isinstance(declared_format, Format) for declared_format in declared
        ):
            raise InvalidParameterError(
                f"{module.__file__}: a module in data/formats/ must declare FORMATS, a tuple of Format objects, got "
                f"{declared!r}"
            )
        by_name |= {declared_format.name: declared_format for declared_format in declared}
    return {name: by_name[name] for name in sorted(by_name, key=lambda name: (name != DEFAULT, name))}


def find_format(name: str) -> Format:
    if name not in formats():
        raise InvalidParameterError(f"format must be {listed(formats())}, got {name!r}")
    return formats()[name]


def format_of(path: str) -> str:
    """Return the format of a file by its extension, libsvm if that is unknown.

    >>> format_of("day.vw.gz"), format_of("a9a.t")
    ('vw', 'libsvm')
    """
    return format_by_ending(path) or DEFAULT


def format_by_ending(path: str) -> str | None:
    """Return the format of a file by its extension, compressed or not; None for an unknown extension."""
    return next((name for name, file_format in formats().items() if _ending_of(path) in file_format.endings), None)


_FEATURES = re.compile(rb"\S+(?:\s+\d+:\S+)+\s*(?:#.*)?")
_VW = re.compile(rb"(?:[-+]?[\d.][^|]*|'\S+ *)?\s*\|\S*\s.*")
#: Bytes and lines from which a format is detected.
HEAD, _LINES = 1 << 16, 20


def format_of_content(head: bytes) -> str | None:
    r"""Return the format that the first bytes of a file look like; None if they look like no format.

    >>> format_of_content(b"label,x\nyes,1\n"), format_of_content(b"+1 3:0.5 7:1\n"), format_of_content(b"1 |a b\n")
    ('csv', 'libsvm', 'vw')
    >>> format_of_content(b'{"label": 1}\n'), format_of_content(b"label\tx\nyes\t1\n"), format_of_content(b"hello\n")
    ('jsonl', 'tsv', None)
    """
    for magic, name in ((b"PAR1", "parquet"), (b"ARROW1", "arrow")):
        if head.startswith(magic):
            return name
    if b"\0" in head or head.startswith((b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd")):  # not text
        return None
    lines = [line.strip(b"\r") for line in head.removeprefix(b"\xef\xbb\xbf").split(b"\n") if line.strip()]
    lines = lines[: max(min(len(lines) - (not head.endswith(b"\n")), _LINES), 1)]
    if not lines:
        return None
    if all(line.lstrip().startswith(b"{") for line in lines):
        return "jsonl"
    if any(map(_FEATURES.fullmatch, lines)) and not any(b"," in line or b"|" in line for line in lines):
        return "libsvm"
    if all(map(_VW.fullmatch, lines)):
        return "vw"
    for delimiter, name in ((b"\t", "tsv"), (b",", "csv"), (b";", "csv"), (b"|", "csv")):
        if all(delimiter in line for line in lines):
            return name
    return None


def has_format(path: str) -> bool:
    """Return whether a file has the extension of a data format.

    >>> has_format("day.vw.gz"), has_format("model.ts")
    (True, False)
    """
    return any(_ending_of(path) in file_format.endings for file_format in formats().values())


def _ending_of(path: str) -> str:
    stem, ending = os.path.splitext(path)
    return (os.path.splitext(stem)[1] if ending.lower() in COMPRESSED else ending).lower()


def are_records(files: Sequence[str]) -> bool:
    """Return whether all files are CSV or TSV by their extensions: they have headers, and records may span lines."""
    return all(find_format(format_of(file)).has_cells for file in files)


def text_stream(file_format: Format, files: list[str], parser: "TextFormat", options: Options) -> "TextStream":
    """Return the stream of text files, which the parser turns into rows."""
    from thinstream.data.labels import ClassBook
    from thinstream.data.stream import TextStream

    reading: dict[str, Any] = {"format": file_format.name, "on_error": options.on_error}
    for name, option in OPTIONS.items():
        if (name == "classes" or spelling(option).remembered) and file_format.takes(name):
            value = getattr(options, name)
            if not value and name in COLUMN_KINDS and not file_format.has_cells:
                continue  # JSON objects have no fixed columns: only those that are declared count
            reading[name] = list(value) if isinstance(value, tuple) else value
    space = feature_space(options, hashed=file_format.takes("bits"))
    if not options.grow_classes:
        return TextStream(files, parser, options, space, reading)
    book = ClassBook(options.classes or ())
    return TextStream(files, parser, options, space, reading | {"grow_classes": True}, book=book)
