"""Sorting of lines by random keys, through files where they do not fit in memory."""

import io
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from thinstream.streams.lines.textlines import lines_of, write_lines

Keys = NDArray[np.uint64]


class Written(Protocol):
    """What takes bytes."""

    def write(self, text: bytes, /) -> Any:
        """One after another."""


_BITS = 6  # of a key, which choose one of 64 buckets
_PIECE = 1 << 12  # lines put in order at a time
#: Bytes a line in memory takes besides its text: object, reference, key, place in the order.
_PER_LINE = 96


def sort(
    rows: Iterable[tuple[Keys, list[bytes]]], file: Written, memory: int, folder: Path | None, shift: int = 64 - _BITS
) -> int:
    """Writes lines in the order of their keys, those of one key in the order given; returns how many.

    What does not fit in about ``memory`` bytes is scattered by six bits of the keys (from bit ``shift`` on; those above
    are the same in all) to temporary files in ``folder``, and each file sorted likewise. So the result does
    not depend on ``memory``.
    """
    rows = iter(rows)
    keys, lines = [np.empty(0, np.uint64)], list[bytes]()
    room = memory * 3 // 4  # the rest is for what is being read and written
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
    """Files of lines and of their keys, one pair for each value of six bits; without names, so that none stay."""

    def __init__(self, folder: Path | None, shift: int, memory: int, opened: ExitStack) -> None:
        self._shift, self._memory, self._folder = np.uint64(shift), memory, folder
        self._files: dict[int, tuple[io.BufferedWriter, ...]] = {}
        self._opened = opened  # which closes the files

    def add(self, keys: Keys, lines: list[bytes]) -> None:
        """Appends each line to its bucket."""
        for start in range(0, len(lines), _PIECE):
            piece = keys[start : start + _PIECE]
            which = ((piece >> self._shift) & np.uint64((1 << _BITS) - 1)).astype(np.uint8)
            order = np.argsort(which, kind="stable")
            ends = np.searchsorted(which[order], np.arange((1 << _BITS) + 1))
            places, sorted_keys = (order + start).tolist(), piece[order]
            for k in np.flatnonzero(np.diff(ends)).tolist():
                if k not in self._files:
                    self._files[k] = self._writer(), self._writer()
                texts, numbers = self._files[k]
                write_lines(texts, [lines[i] for i in places[ends[k] : ends[k + 1]]])
                numbers.write(sorted_keys[ends[k] : ends[k + 1]].tobytes())

    def _writer(self) -> io.BufferedWriter:
        size = min(max(self._memory >> 10, 1 << 9), 1 << 18)  # all 128 buffers: an eighth of the memory
        raw = tempfile.TemporaryFile(dir=self._folder, buffering=0)  # noqa: SIM115 (the stack closes it)
        return io.BufferedWriter(self._opened.enter_context(raw), size)

    def contents(self) -> Iterator[Iterator[tuple[Keys, list[bytes]]]]:
        """The lines and keys of each bucket in turn; what has been read is removed."""
        # without their buffers: there may be buckets within a bucket
        files = [tuple(writer.detach() for writer in self._files[k]) for k in sorted(self._files)]
        for texts, keys in files:
            with texts, keys:
                texts.seek(0)
                keys.seek(0)
                yield self._read(texts, keys)

    def _read(self, texts: Any, keys: Any) -> Iterator[tuple[Keys, list[bytes]]]:
        for lines in lines_of(texts, "a temporary file", self._memory):
            yield np.frombuffer(keys.read(8 * len(lines)), np.uint64), lines
