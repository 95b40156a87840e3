"""Files that hold record batches: Parquet, and the file and stream formats of Arrow IPC."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
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


class File:
    """A file that is read from any row on; a subclass knows the format."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with self._explained():
            self.schema = self._open()
            self.columns: list[str] = list(self.schema.names)

    def count(self) -> int | None:
        """Rows, or None where only reading all of it would tell."""
        with self._explained():
            return self._count()

    def records(self, columns: list[str], start: int, rows: int) -> Iterator[Any]:
        """Record batches of these columns, of at most so many rows, from row ``start`` on."""
        with self._explained():
            yield from from_row(self._blocks(columns, rows), start, rows, str(self.path))

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Errors of pyarrow with the file's name."""
        try:
            yield
        except (FileNotFoundError, InvalidInputError):
            raise
        except (pyarrow().ArrowException, OSError, ValueError) as error:
            raise InvalidInputError(f"{self.path} cannot be read, it may be damaged: {error}") from error

    def _open(self) -> Any:
        """Begins to read; returns the schema."""
        raise NotImplementedError

    def _count(self) -> int | None:
        raise NotImplementedError

    def _blocks(self, columns: list[str], rows: int) -> Iterator[tuple[int, Iterator[Any]]]:
        """Blocks of the file: how many rows each has, and its record batches of about so many rows."""
        raise NotImplementedError


class Parquet(File):
    """Row groups of a Parquet file."""

    def _open(self) -> Any:
        # pre_buffer would fetch whole row groups
        options = {"buffer_size": _PAGES, "pre_buffer": False, "page_checksum_verification": True}
        self._file = pyarrow().parquet.ParquetFile(self.path, **options)
        return self._file.schema_arrow

    def _count(self) -> int:
        return int(self._file.metadata.num_rows)

    def _blocks(self, columns: list[str], rows: int) -> Iterator[tuple[int, Iterator[Any]]]:
        for group in range(self._file.num_row_groups):
            batches = self._file.iter_batches(batch_size=rows, row_groups=[group], columns=columns)
            yield self._file.metadata.row_group(group).num_rows, batches


class IpcFile(File):
    """Record batches of an Arrow IPC file, Feather version 2 included."""

    def _open(self) -> Any:
        return self._reader(None).schema

    def _reader(self, columns: list[str] | None) -> Any:
        pa = pyarrow()
        included = None if columns is None else sorted(self.schema.get_field_index(name) for name in columns)
        options = pa.ipc.IpcReadOptions(included_fields=included)
        return pa.ipc.open_file(pa.OSFile(str(self.path)), options=options)  # not mapped: what is used up is freed

    def _count(self) -> int:
        reader = self._reader(self.columns[:1])
        return sum(reader.get_batch(k).num_rows for k in range(reader.num_record_batches))

    def _blocks(self, columns: list[str], rows: int) -> Iterator[tuple[int, Iterator[Any]]]:
        reader = self._reader(columns)
        for number in range(reader.num_record_batches):
            batch = reader.get_batch(number)
            yield batch.num_rows, map(_validated, [batch])


class IpcStream(File):
    """Record batches of an Arrow IPC stream in a file."""

    def _open(self) -> Any:
        return self._reader().schema

    def _reader(self) -> Any:
        pa = pyarrow()
        return pa.ipc.open_stream(pa.OSFile(str(self.path)))

    def _count(self) -> None:
        return None

    def _blocks(self, columns: list[str], rows: int) -> Iterator[tuple[int, Iterator[Any]]]:
        for batch in self._reader():
            yield batch.num_rows, map(_validated, [batch.select(columns)])


def _validated(batch: Any) -> Any:
    """The batch, if its offsets and codes are within bounds: a damaged one would be read beyond its end."""
    batch.validate(full=True)
    return batch


def open_table(path: Path) -> File:
    """A file of the format its first bytes tell."""
    with open(path, "rb") as file:
        magic = file.read(6)
    for start, kind in ((b"PAR1", Parquet), (b"ARROW1", IpcFile), (b"\xff\xff\xff\xff", IpcStream)):
        if magic.startswith(start):
            return kind(path)
    more = " (version 1 of Feather is not read)" if magic.startswith(b"FEA1") else ""
    raise InvalidInputError(f"{path} is neither a Parquet nor an Arrow IPC file{more}")
