"""Shuffle and split text files that are larger than memory."""

import io
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from itertools import compress
from pathlib import Path
from typing import Any, BinaryIO, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from thinstream.data.compression import Name, ending, open_write
from thinstream.data.sources import Progress, as_line, as_lines, as_list, lines_of, text_rows, write_lines
from thinstream.errors import InvalidParameterError
from thinstream.files import draft, explained

# Sort lines by random keys, with temporary files if they do not fit in memory.

Keys = NDArray[np.uint64]


class Written(Protocol):
    """An object to which bytes are written."""

    def write(self, text: bytes, /) -> Any:
        """Write bytes."""


_BITS = 6  # bits of a key that choose one of 64 buckets
_PIECE = 1 << 12  # lines that are written at a time
#: Bytes of a line in memory in addition to its text: object, reference, key, position in the order.
_PER_LINE = 96


def sort(
    rows: Iterable[tuple[Keys, list[bytes]]], file: Written, memory: int, folder: Path | None, shift: int = 64 - _BITS
) -> int:
    """Write lines in the order of their keys, with a stable sort; return their number.

    Lines that do not fit in about ``memory`` bytes are distributed to temporary files in ``folder`` by six bits of the
    keys (from bit ``shift`` on; the bits above are equal), and each file is sorted in the same way. So the result does
    not depend on ``memory``.
    """
    rows = iter(rows)
    keys, lines = [np.empty(0, np.uint64)], list[bytes]()
    room = memory * 3 // 4  # the rest is for reading and writing
    for some_keys, some in rows:
        keys.append(some_keys)
        lines += some
        room -= sum(map(len, some)) + _PER_LINE * len(some)
        if room < 0 and len(lines) > 1 and shift >= 0:
            break
    else:
        order = np.argsort(np.concatenate(keys), kind="stable")
        for start in range(0, len(lines), _PIECE):
            write_lines(file, [lines[i] for i in order[start : start + _PIECE].tolist()])
        return len(lines)
    with ExitStack() as opened:
        buckets = _Buckets(folder, shift, memory, opened)
        buckets.add(np.concatenate(keys), lines)
        keys.clear()
        lines.clear()
        for some_keys, some in rows:
            buckets.add(some_keys, some)
        return sum(sort(rows, file, memory, folder, shift - _BITS) for rows in buckets.contents())


class _Buckets:
    """Files of lines and of their keys, one pair for each value of six bits; unnamed, so that none remain."""

    def __init__(self, folder: Path | None, shift: int, memory: int, opened: ExitStack) -> None:
        self._shift, self._memory, self._folder = np.uint64(shift), memory, folder
        self._files: dict[int, tuple[io.BufferedWriter, ...]] = {}
        self._opened = opened  # closes the files

    def add(self, keys: Keys, lines: list[bytes]) -> None:
        """Append each line to its bucket."""
        for start in range(0, len(lines), _PIECE):
            piece = keys[start : start + _PIECE]
            which = ((piece >> self._shift) & np.uint64((1 << _BITS) - 1)).astype(np.uint8)
            order = np.argsort(which, kind="stable")
            ends = np.searchsorted(which[order], np.arange((1 << _BITS) + 1))
            positions, sorted_keys = (order + start).tolist(), piece[order]
            for k in np.flatnonzero(np.diff(ends)).tolist():
                if k not in self._files:
                    self._files[k] = self._writer(), self._writer()
                texts, numbers = self._files[k]
                write_lines(texts, [lines[i] for i in positions[ends[k] : ends[k + 1]]])
                numbers.write(sorted_keys[ends[k] : ends[k + 1]].tobytes())

    def _writer(self) -> io.BufferedWriter:
        size = min(max(self._memory >> 10, 1 << 9), 1 << 18)  # all 128 buffers together use an eighth of the memory
        raw = tempfile.TemporaryFile(dir=self._folder, buffering=0)  # noqa: SIM115 (the stack closes it)
        return io.BufferedWriter(self._opened.enter_context(raw), size)

    def contents(self) -> Iterator[Iterator[tuple[Keys, list[bytes]]]]:
        """Yield the lines and keys of each bucket; files that were read are removed."""
        # without their buffers, because a bucket may be distributed to buckets again
        files = [tuple(writer.detach() for writer in self._files[k]) for k in sorted(self._files)]
        for texts, keys in files:
            with texts, keys:
                texts.seek(0)
                keys.seek(0)
                yield self._read(texts, keys)

    def _read(self, texts: Any, keys: Any) -> Iterator[tuple[Keys, list[bytes]]]:
        for lines in lines_of(texts, "a temporary file", self._memory):
            yield np.frombuffer(keys.read(8 * len(lines)), np.uint64), lines


# Files that appear under their names only when all of them are complete.


@contextmanager
def open_outputs(names: Sequence[Name], inputs: Sequence[Name] = ()) -> Iterator[list[BinaryIO]]:
    """Open files to write, compressed according to their extensions; existing files stay unchanged until the end.

    Files are written under temporary names, renamed when the block succeeds, and removed when it fails. Standard output
    ("-"), pipes and devices are written directly. New files get no more read permissions than
    the inputs have.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with open_outputs([f"{folder}/a.txt"]) as (a,):
    ...         _ = a.write(b"new")
    ...         print(os.path.exists(f"{folder}/a.txt"))
    ...     print(Path(folder, "a.txt").read_text())
    False
    new

    """
    # links are resolved
    targets = [Path(name) if os.fspath(name) == "-" else Path(os.path.realpath(name)) for name in names]
    twice = [os.fspath(name) for name, target in zip(names, targets, strict=True) if targets.count(target) > 1]
    if twice:
        raise InvalidParameterError(f"all outputs must be different files, got {twice[0]!r} twice")
    like = [name for name in inputs if os.path.isfile(name)]
    with ExitStack() as drafts, ExitStack() as opened:  # all are closed before the first gets its name
        files: list[BinaryIO] = []
        for name, target in zip(names, targets, strict=True):
            direct = str(target) == "-" or (target.exists() and not target.is_file())
            path = target if direct else drafts.enter_context(draft(name, like))
            file = open_write(path, ending(target))
            files.append(file if direct else cast(BinaryIO, _Named(file, name)))
            opened.callback(_close, files[-1])
        yield files
        for file in files:
            file.close()


class _Named:
    """A file whose errors show its final name instead of its temporary name."""

    def __init__(self, file: BinaryIO, name: Name) -> None:
        self._file, self._name = file, name

    def write(self, data: Any) -> int:
        with explained(self._name):
            return self._file.write(data)

    def close(self) -> None:
        with explained(self._name):
            self._file.close()


def _close(file: BinaryIO) -> None:
    """Close a file after an error, which is the one to report."""
    with suppress(OSError):
        file.close()


# Shuffle and split files of lines (or of CSV records) that do not have to fit in memory.
#
# Blank lines and byte order marks are dropped. Each line is written with a newline, including the last one.

MEMORY = 256 << 20


def shuffle(
    paths: Name | Sequence[Name],
    out: Name,
    seed: int = 0,
    memory: int = MEMORY,
    header: bool = False,
    progress: Progress | None = None,
    quoted: bool = False,
) -> int:
    r"""Write the lines of all inputs in random order; return their number.

    Every line gets a random key, and lines are sorted by key. So every order is equally likely, and a seed gives the
    same order on every machine and with any ``memory``. Lines that do not fit in memory are sorted with temporary files
    in the folder of ``out``. These need as much disk space as the text, and are always removed.

    Parameters
    ----------
    paths : path or list of paths
        Inputs, which are concatenated. Compression follows from the extensions; "-" is standard input.
    out : path
        Output. It appears when it is complete, and may be one of the inputs. "-" is standard output.
    seed : int
        Seed of the random order.
    memory : int
        The approximate limit of memory in bytes.
    header : bool
        Whether inputs begin with a header, which must be the same in all. It stays the first line.
    progress : function
        Called now and then with the number of lines read.
    quoted : bool
        Whether inputs are CSV, where a record with newlines in quotes spans several lines.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "a").write_bytes(b"1\n2\n3\n4\n5")
    ...     print(shuffle(f"{folder}/a", f"{folder}/b", seed=1), Path(folder, "b").read_bytes())
    5 b'3\n5\n1\n4\n2\n'

    """
    raw, memory = _raw(seed), _count("memory", memory)
    folder = None if os.fspath(out) == "-" else Path(os.path.realpath(out)).parent
    with open_outputs([out], as_list(paths)) as (file,):
        rows = text_rows(paths, [file] if header else None, memory, progress, quoted)
        if not quoted:
            return sort(((raw(len(lines)), lines) for lines in rows), file, memory, folder)
        lines = ((raw(len(records)), [as_line(record) for record in records]) for records in rows)
        return sort(lines, _Unfolded(file), memory, folder)


class _Unfolded:
    """Writes the lines of each record, which are one line in the sort."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def write(self, text: bytes) -> None:
        self._file.write(as_lines(text))


def split(
    paths: Name | Sequence[Name],
    outs: Sequence[Name],
    *,
    fractions: Sequence[float] | None = None,
    counts: Sequence[int] | None = None,
    every: int | None = None,
    seed: int = 0,
    header: bool = False,
    progress: Progress | None = None,
    quoted: bool = False,
) -> list[int]:
    r"""Distribute the lines of all inputs to several outputs in one pass; return the number of lines of each.

    Pass exactly one of ``fractions``, ``counts`` and ``every``. Lines keep their order.

    Parameters
    ----------
    paths : path or list of paths
        Inputs, which are concatenated. Compression follows from the extensions; "-" is standard input.
    outs : list of paths
        Outputs. They appear when they are complete.
    fractions : list of numbers
        One share per output, with a sum of 1. Each line goes to a random output.
    counts : list of int
        The first ``counts[0]`` lines go to the first output, the next ``counts[1]`` to the second, and so on. The last
        output, which has no count, gets the rest.
    every : int
        The second of two outputs gets lines ``every``, ``2·every``, …, counted from 1.
    seed : int
        Seed for ``fractions``. The same seed gives the same split on every machine.
    header : bool
        Whether inputs begin with a header, which must be the same in all. Every output gets it.
    progress : function
        Called now and then with the number of lines read.
    quoted : bool
        Whether inputs are CSV, where a record with newlines in quotes spans several lines.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "all").write_bytes(b"1\n2\n3\n4\n5\n")
    ...     print(split(f"{folder}/all", [f"{folder}/train", f"{folder}/test"], every=2))
    ...     print(Path(folder, "test").read_bytes())
    [3, 2]
    b'2\n4\n'

    """
    deal = _dealer(len(outs), fractions, counts, every, seed)
    dealt, row = [0] * len(outs), 0
    with open_outputs(outs, as_list(paths)) as files:
        for lines in text_rows(paths, files if header else None, MEMORY, progress, quoted):
            which = deal(row, len(lines))
            row += len(lines)
            for k, file in enumerate(files):
                chosen = list(compress(lines, which == k))
                write_lines(file, chosen)
                dealt[k] += len(chosen)
    return dealt


def _dealer(n: int, fractions: Any, counts: Any, every: Any, seed: int) -> Callable[[int, int], NDArray[Any]]:
    """Return the function of (first row, rows) that chooses the output of each row."""
    modes = [name for name, way in (("fractions", fractions), ("counts", counts), ("every", every)) if way is not None]
    if len(modes) != 1:
        raise InvalidParameterError(
            f"split needs exactly one of fractions, counts and every, got {' and '.join(modes) or 'none of them'}"
        )
    if n < 2:
        raise InvalidParameterError(f"split needs at least two outputs, got {n}")
    if fractions is not None:
        raw, bounds = _raw(seed), np.cumsum(_shares(fractions, n))[:-1]
        return lambda row, rows: np.searchsorted(bounds, (raw(rows) >> np.uint64(11)) * 2.0**-53, side="right")
    if counts is not None:
        if len(counts) != n - 1:
            raise InvalidParameterError(
                f"counts must have {n - 1} numbers for {n} outputs (the last output gets the rest), got {list(counts)}"
            )
        ends = np.cumsum([_count("counts", count) for count in counts])
        return lambda row, rows: np.searchsorted(ends, np.arange(row, row + rows), side="right")
    if n != 2:
        raise InvalidParameterError(f"every is for exactly two outputs, got {n}")
    period = _count("every", every)
    return lambda row, rows: (np.arange(row + 1, row + rows + 1) % period == 0).astype(np.int64)


def _shares(fractions: Sequence[float], n: int) -> NDArray[np.float64]:
    try:
        shares = np.array([float(share) for share in fractions])
        fine = len(shares) == n and bool((shares > 0).all()) and abs(float(shares.sum()) - 1) < 1e-9
    except (TypeError, ValueError):
        fine = False
    if not fine:
        raise InvalidParameterError(f"fractions must be {n} numbers > 0 with a sum of 1, got {fractions!r}")
    return shares


def _count(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise InvalidParameterError(f"{name} must be an int >= 1, got {value!r}")
    return int(value)


def _raw(seed: Any) -> Callable[[int], NDArray[np.uint64]]:
    """Return a source of random 64-bit numbers, the same in every release of NumPy and for any sizes."""
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise InvalidParameterError(f"seed must be an int >= 0, got {seed!r}")
    return np.random.PCG64(int(seed)).random_raw
