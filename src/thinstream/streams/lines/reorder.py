"""Shuffling and splitting of files of lines that need not fit in memory.

Lines are bytes between newlines, whatever they say; of CSV, records. Blank ones are dropped, as is a byte order mark at
the head of a file, and each line comes out with a newline, also the last one.
"""

import os
from collections.abc import Callable, Sequence
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thinstream.errors import InvalidParameterError
from thinstream.streams.compression import Name
from thinstream.streams.lines.buckets import sort
from thinstream.streams.lines.outputs import open_outputs
from thinstream.streams.lines.records import as_line, as_lines
from thinstream.streams.lines.textlines import Progress, as_list, text_rows, write_lines

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
    r"""Writes the lines of all inputs in random order; returns how many.

    Every line draws a random key, and lines are sorted by key. So every order is equally likely, and a seed gives the
    same one on every machine and with any ``memory``. What does not fit is sorted by way of files in the folder of
    ``out`` (of standard output: where temporary files go), which need as much disk as the text and are always removed.

    Parameters
    ----------
    paths : path or list of paths
        Inputs, taken as one; compressed as their endings say, "-" is standard input.
    out : path
        Output; it appears when complete, and may be one of the inputs. "-" is standard output.
    seed : int
        Names the order.
    memory : int
        Bytes to use at most, about.
    header : bool
        Whether inputs begin with a header (which must be the same in all). It stays the first line.
    progress : function
        Called now and then with the number of lines read.
    quoted : bool
        Whether it is CSV, where a record with a newline in quotes goes over several lines.

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
    """A file to which lines that stand for several are written as these."""

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
    r"""Deals the lines of all inputs out to several outputs, in one pass; returns how many each got.

    Exactly one of ``fractions``, ``counts`` and ``every`` says how. Lines keep their order.

    Parameters
    ----------
    paths : path or list of paths
        Inputs, taken as one; compressed as their endings say, "-" is standard input.
    outs : list of paths
        Outputs; they appear when complete.
    fractions : list of numbers
        One share per output, adding up to 1: each line goes to one of them at random.
    counts : list of int
        The first ``counts[0]`` lines go to the first output, the next ``counts[1]`` to the second, …, the rest to the
        last, for which no count is given.
    every : int
        Of two outputs, the second gets lines ``every``, ``2·every``, …, counted from 1.
    seed : int
        Of ``fractions``. The same seed deals in the same way on every machine.
    header : bool
        Whether inputs begin with a header (which must be the same in all). Every output gets it.
    progress : function
        Called now and then with the number of lines read.
    quoted : bool
        Whether it is CSV, where a record with a newline in quotes goes over several lines.

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
    """The function of (first row, rows) that says to which output each row goes."""
    given = [name for name, way in (("fractions", fractions), ("counts", counts), ("every", every)) if way is not None]
    if len(given) != 1:
        raise InvalidParameterError(
            f"split takes one of fractions, counts and every, got {' and '.join(given) or 'none'}"
        )
    if n < 2:
        raise InvalidParameterError(f"split needs two outputs or more, got {n}")
    if fractions is not None:
        raw, bounds = _raw(seed), np.cumsum(_shares(fractions, n))[:-1]
        return lambda row, rows: np.searchsorted(bounds, (raw(rows) >> np.uint64(11)) * 2.0**-53, side="right")
    if counts is not None:
        if len(counts) != n - 1:
            raise InvalidParameterError(
                f"counts must be one fewer than the {n} outputs (the last gets the rest), got {list(counts)}"
            )
        ends = np.cumsum([_count("counts", count) for count in counts])
        return lambda row, rows: np.searchsorted(ends, np.arange(row, row + rows), side="right")
    if n != 2:
        raise InvalidParameterError(f"every needs exactly two outputs, got {n}")
    period = _count("every", every)
    return lambda row, rows: (np.arange(row + 1, row + rows + 1) % period == 0).astype(np.int64)


def _shares(fractions: Sequence[float], n: int) -> NDArray[np.float64]:
    try:
        shares = np.array([float(share) for share in fractions])
        fine = len(shares) == n and bool((shares > 0).all()) and abs(float(shares.sum()) - 1) < 1e-9
    except (TypeError, ValueError):
        fine = False
    if not fine:
        raise InvalidParameterError(f"fractions must be {n} numbers > 0 whose sum is 1, got {fractions!r}")
    return shares


def _count(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise InvalidParameterError(f"{name} must be an int >= 1, got {value!r}")
    return int(value)


def _raw(seed: Any) -> Callable[[int], NDArray[np.uint64]]:
    """A source of random 64-bit numbers, the same in every release of numpy and for any sizes drawn."""
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise InvalidParameterError(f"seed must be an int >= 0, got {seed!r}")
    return np.random.PCG64(int(seed)).random_raw
