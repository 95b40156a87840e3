"""Records of CSV that go over several lines, as one line each."""

from collections.abc import Iterable, Iterator

from thinstream.errors import InvalidInputError
from thinstream.streams.option_texts import DELIMITERS

_QUOTE, _MARK = b'"', b"\xff"  # a byte that no text in UTF-8 has


def delimiter_in(head: bytes) -> bytes:
    """What stands between the cells of a header: whatever there is most of.

    >>> delimiter_in(b"label;age;city, country")
    b';'
    """
    return max((each.encode() for each in DELIMITERS), key=head.count)


def is_open(record: bytes, delimiter: bytes) -> bool:
    r"""Whether a cell of it begins with a quote that is not closed: the record goes on in the next line.

    >>> is_open(b'1,"two', b","), is_open(b'1,5" disk', b","), is_open(b'"a ""b""\nc",2', b",")
    (True, False, False)
    """
    at = 0
    while True:
        if record.startswith(_QUOTE, at):
            at = record.find(_QUOTE, at + 1)
            while at >= 0 and record.startswith(_QUOTE, at + 1):
                at = record.find(_QUOTE, at + 2)
            if at < 0:
                return True
        at = record.find(delimiter, at) + 1
        if not at:
            return False


def whole_records(found: Iterable[list[bytes]], path: object, memory: int) -> Iterator[list[bytes]]:
    """Lines, those of one record joined."""
    delimiter, parts, size = None, list[bytes](), 0
    for lines in found:
        records = []
        for line in lines:
            if delimiter is None and line.strip():
                delimiter = delimiter_in(line)
            if not parts and _QUOTE not in line:
                records.append(line)
                continue
            parts.append(line)
            size += len(line)
            if _QUOTE in line and not is_open(record := b"\n".join(parts), delimiter or b","):
                records.append(record)
                parts, size = [], 0
            elif size > memory:
                raise _not_closed(path, parts[0])
        if records:
            yield records
    if parts:
        raise _not_closed(path, parts[0])


def _not_closed(path: object, line: bytes) -> InvalidInputError:
    return InvalidInputError(f"{path}: a quote that opens a cell must be closed again, got {line!r:.60}")


def as_line(record: bytes) -> bytes:
    r"""One without a newline.

    >>> as_line(b'1,"a\nb"'), as_lines(as_line(b'1,"a\nb"'))
    (b'1,"a\xff\x02b"', b'1,"a\nb"')
    """
    if b"\n" not in record and _MARK not in record:
        return record
    return record.replace(_MARK, b"\xff\x01").replace(b"\n", b"\xff\x02")


def as_lines(text: bytes) -> bytes:
    """The text that lines were made of."""
    return text.replace(b"\xff\x02", b"\n").replace(b"\xff\x01", _MARK) if _MARK in text else text
