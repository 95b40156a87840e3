"""A quote that is not closed hides all records behind it, and their labels."""

from typing import Any

from thinstream.errors import InvalidInputError
from thinstream.streams.lines.records import is_open
from thinstream.streams.looking.heads import heads
from thinstream.streams.sources import display_name


def unclosed_quote(form: Any, files: list[str], records: int) -> InvalidInputError | None:
    """The error of the first file of CSV, looked at to its end, that has one."""
    for file, (text, whole) in zip(files, heads(files, records), strict=False):
        if not whole or not len(text):
            continue
        start = form.header(text)
        start += form.records(text[start:])
        if is_open(bytes(text[start:]), form.between.encode()):
            error = form.parse(text[start:]).error
            where = start if error is None else start + error.offset
            line = bytes(text[:where]).count(b"\n") + 1
            return InvalidInputError(
                f"{display_name(file)}, line {line}: a quote that opens a cell must be closed again, got the end of "
                "the text"
            )
    return None
