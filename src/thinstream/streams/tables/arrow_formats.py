"""Files that hold record batches: Parquet, and the file and stream formats of Arrow IPC."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from thinstream.errors import InvalidInputError
from thinstream.streams.tables.arrow_package import pyarrow

_PAGES = 1 << 18  # bytes of a column of Parquet that are fetched at a time, instead of a whole row group


class Format(Protocol):
    """An opened file."""

    schema: Any

    def count(self) -> int | None:
        """Rows, or None where only reading all of it would tell."""

    def blocks(self, columns: list[str], rows: int) -> Iterator[tuple[int, Iterator[Any]]]:
        """Blocks of the file: how many rows each has, and its record batches of about so many rows."""


def open_table(path: Path) -> "File":
    """A file of the format its first bytes tell."""
    with open(path, "rb") as file:
        magic = file.read(6)
    for start, kind in ((b"PAR1", Parquet), (b"ARROW1", IpcFile), (b"\xff\xff\xff\xff", IpcStream)):
        if magic.startswith(start):
            return File(path, kind)
    more = " (version 1 of Feather is not read)" if magic.startswith(b"FEA1") else ""
    raise InvalidInputError(f"{path} is neither a Parquet nor an Arrow IPC file{more}")


class File:
    """Reads from any row on."""

    def __init__(self, path: Path, kind: type[Any]) -> None:
        self.path = path
        with self._explained():
            self._format: Format = kind(path)
            self.columns: list[str] = list(self._format.schema.names)

    def count(self) -> int | None:
        """Rows, where the format tells."""
        with self._explained():
            return self._format.count()

    def records(self, columns: list[str], start: int, rows: int) -> Iterator[Any]:
        """Record batches of these columns, of at most so many rows, from row ``start`` on."""
        left = start
        with self._explained():
            for length, batches in self._format.blocks(columns, rows):
                if length <= left:  # not looked at
                    left -= length
                    continue
                for batch in batches:
                    skipped = min(left, batch.num_rows)
                    left -= skipped
                    for first in range(skipped, batch.num_rows, rows):
                        yield batch.slice(first, rows)
        if left:
            raise InvalidInputError(f"{self.path} has {start - left} rows, cannot go on from row {start}")

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Errors of pyarrow with the file's name."""
        try:
            yield
        except (pyarrow().ArrowException, OSError, ValueError) as error:
            if isinstance(error, FileNotFoundError):
                raise
            raise InvalidInputError(f"{self.path} cannot be read, it may be damaged: {error}") from error


class Parquet:
    """Row groups of a Parquet file."""

    def __init__(self, path: Path) -> None:
        # pre_buffer would fetch whole row groups
        options = {"buffer_size": _PAGES, "pre_buffer": False, "page_checksum_verification": True}
        self._file = pyarrow().parquet.ParquetFile(path, **options)
        self.schema = self._file.schema_arrow

    def count(self) -> int:
        """Rows."""
        return int(self._file.metadata.num_rows)

    def blocks(self, columns: list[str], rows: int) -> Iterator[tuple[int, Iterator[Any]]]:
        """Row groups."""
        for group in range(self._file.num_row_groups):
            batches = self._file.iter_batches(batch_size=rows, row_groups=[group], columns=columns)
            yield self._file.metadata.row_group(group).num_rows, batches


class IpcFile:
    """Record batches of an Arrow IPC file, Feather version 2 included."""

    def __init__(self, path: Path) -> None:
        self._path = str(path)
        self.schema = self._open(None).schema

    def _open(self, columns: list[str] | None) -> Any:
        pa = pyarrow()
        included = None if columns is None else sorted(self.schema.get_field_index(name) for name in columns)
        options = pa.ipc.IpcReadOptions(included_fields=included)
        return pa.ipc.open_file(pa.OSFile(self._path), options=options)  # not mapped: what is used up is freed

    def count(self) -> int:
        """Rows, by way of the first column."""
        reader = self._open(self.schema.names[:1])
        return sum(reader.get_batch(k).num_rows for k in range(reader.num_record_batches))

    def blocks(self, columns: list[str], rows: int) -> Iterator[tuple[int, Iterator[Any]]]:
        """Record batches."""
        reader = self._open(columns)
        for number in range(reader.num_record_batches):
            batch = reader.get_batch(number)
            yield batch.num_rows, map(_validated, [batch])


class IpcStream:
    """Record batches of an Arrow IPC stream in a file."""

    def __init__(self, path: Path) -> None:
        self._path = str(path)
        self.schema = self._open().schema

    def _open(self) -> Any:
        pa = pyarrow()
        return pa.ipc.open_stream(pa.OSFile(self._path))

    def count(self) -> None:
        """Not known beforehand."""

    def blocks(self, columns: list[str], rows: int) -> Iterator[tuple[int, Iterator[Any]]]:
        """Record batches."""
        for batch in self._open():
            yield batch.num_rows, map(_validated, [batch.select(columns)])


def _validated(batch: Any) -> Any:
    """The batch, if its offsets and codes are within bounds: a damaged one would be read beyond its end."""
    batch.validate(full=True)
    return batch
