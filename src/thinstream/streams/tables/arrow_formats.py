"""Files that hold record batches: Parquet, and the file and stream formats of Arrow IPC."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from thinstream.errors import InvalidInputError
from thinstream.streams.tables.arrow_package import pyarrow

_PAGES = 1 << 18  # bytes of a column of Parquet that are fetched at a time, instead of a whole row group


def from_row(blocks: Iterable[tuple[int, Iterable[Any]]], start: int, rows: int, place: str) -> Iterator[Any]:
    """Record batches of at most so many rows, from row ``start`` on, of blocks whose lengths are known before."""
    left = start
    for length, batches in blocks:
        if length <= left:  # not looked at
            left -= length
            continue
        for batch in batches:
            skipped = min(left, batch.num_rows)
            left -= skipped
            for first in range(skipped, batch.num_rows, rows):
                yield batch.slice(first, rows)
    if left:
        raise InvalidInputError(f"{place} has {start - left} rows, cannot go on from row {start}")


@dataclass
class File:
    """A file that is read from any row on."""

    path: Path
    columns: list[str]
    rows: Callable[[], int | None]
    #: Of these columns, in record batches of about so many rows: how many rows each block has, and its batches.
    blocks: Callable[[list[str], int], Iterator[tuple[int, Iterable[Any]]]]

    def count(self) -> int | None:
        """Rows, or None where only reading all of it would tell."""
        with _explained(self.path):
            return self.rows()

    def records(self, columns: list[str], start: int, rows: int) -> Iterator[Any]:
        """Record batches of these columns, of at most so many rows, from row ``start`` on."""
        with _explained(self.path):
            yield from from_row(self.blocks(columns, rows), start, rows, str(self.path))


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Errors of pyarrow with the file's name."""
    try:
        yield
    except (FileNotFoundError, InvalidInputError):
        raise
    except (pyarrow().ArrowException, OSError, ValueError) as error:
        raise InvalidInputError(f"{path} cannot be read, it may be damaged: {error}") from error


def _parquet(path: Path) -> File:
    """Blocks are row groups."""
    # pre_buffer would fetch whole row groups
    options = {"buffer_size": _PAGES, "pre_buffer": False, "page_checksum_verification": True}
    file = pyarrow().parquet.ParquetFile(path, **options)

    def blocks(columns: list[str], rows: int) -> Iterator[tuple[int, Iterable[Any]]]:
        for group in range(file.num_row_groups):
            batches = file.iter_batches(batch_size=rows, row_groups=[group], columns=columns)
            yield file.metadata.row_group(group).num_rows, batches

    return File(path, list(file.schema_arrow.names), lambda: int(file.metadata.num_rows), blocks)


def _ipc_file(path: Path) -> File:
    """Blocks are record batches; Feather version 2 is this, too."""
    pa = pyarrow()

    def batches(columns: list[str] | None = None) -> Iterator[Any]:
        included = None if columns is None else sorted(schema.get_field_index(name) for name in columns)
        # not mapped: what is used up is freed
        reader = pa.ipc.open_file(pa.OSFile(str(path)), options=pa.ipc.IpcReadOptions(included_fields=included))
        return (reader.get_batch(k) for k in range(reader.num_record_batches))

    schema = pa.ipc.open_file(pa.OSFile(str(path))).schema
    names = list(schema.names)
    return File(
        path,
        names,
        lambda: sum(batch.num_rows for batch in batches(names[:1])),
        lambda columns, rows: ((batch.num_rows, map(_validated, [batch])) for batch in batches(columns)),
    )


def _ipc_stream(path: Path) -> File:
    """Record batches one after another."""

    def reader() -> Any:
        return pyarrow().ipc.open_stream(pyarrow().OSFile(str(path)))

    def blocks(columns: list[str], rows: int) -> Iterator[tuple[int, Iterable[Any]]]:
        return ((batch.num_rows, map(_validated, [batch.select(columns)])) for batch in reader())

    return File(path, list(reader().schema.names), lambda: None, blocks)


def _validated(batch: Any) -> Any:
    """The batch, if its offsets and codes are within bounds: a damaged one would be read beyond its end."""
    batch.validate(full=True)
    return batch


def open_table(path: Path) -> File:
    """A file of the format its first bytes tell."""
    with open(path, "rb") as file:
        magic = file.read(6)
    for start, kind in ((b"PAR1", _parquet), (b"ARROW1", _ipc_file), (b"\xff\xff\xff\xff", _ipc_stream)):
        if magic.startswith(start):
            with _explained(path):
                return kind(path)
    more = " (version 1 of Feather is not read)" if magic.startswith(b"FEA1") else ""
    raise InvalidInputError(f"{path} is neither a Parquet nor an Arrow IPC file{more}")
