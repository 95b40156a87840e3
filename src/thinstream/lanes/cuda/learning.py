"""A batch on the device: sent chunk by chunk, learned block after block."""

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thinstream.batch import Batch
from thinstream.engine.rows import make_rows, row_blocks
from thinstream.lanes.cuda.block import CudaBlock
from thinstream.lanes.cuda.kernels import Array, Columns, DeviceRows, working
from thinstream.lanes.cuda.package import cuda

# Rows on their way to the device: two sets of buffers, of which one is filled while kernels read the other.
#
# Kernels run in one stream, copies in another. A set is filled again only when its last copy is over, which the host
# waits for, and when the kernels that read it are done, which the copy waits for. So the host parses, the bus copies
# and the device learns at the same time, and the host is never more than two chunks ahead.


class _Buffers:
    """Memory for the arrays of one chunk, on the host (pinned, so that copies don't have to wait) and on the device."""

    def __init__(self) -> None:
        self._here: list[Any] = []
        self._there: list[Any] = []
        self._copied, self._read = cuda.event(), cuda.event()
        self._used = False

    def fill(self, arrays: Sequence[NDArray[Any]], stream: Any) -> list[Array]:
        """The arrays on the device, once the stream has got so far."""
        if self._used:
            self._copied.synchronize()
            self._read.wait(stream)
        self._used = True
        sent = []
        for number, array in enumerate(arrays):
            self._require(number, array)
            here, there = self._here[number][: array.size], self._there[number][: array.size]
            here.reshape(array.shape)[...] = array
            if array.size:
                there.copy_to_device(here, stream=stream)
            sent.append(there.reshape(*array.shape))
        self._copied.record(stream)
        self._copied.wait(working())
        return sent

    def release(self) -> None:
        """All kernels that read them have been launched."""
        self._read.record(working())

    def _require(self, number: int, array: NDArray[Any]) -> None:
        """Room for an array, and for somewhat larger ones."""
        if number == len(self._here):
            self._here.append(np.empty(0))
            self._there.append(None)
        if self._here[number].dtype != array.dtype or self._here[number].size < max(array.size, 1):
            size = array.size + array.size // 4 + 1
            self._here[number] = cuda.pinned_array(size, array.dtype)
            self._there[number] = cuda.device_array(size, array.dtype)


class Stage:
    """Sends chunks of rows."""

    def __init__(self) -> None:
        self._sets, self._turn, self._stream = (_Buffers(), _Buffers()), 0, cuda.stream()

    def send(self, *arrays: NDArray[Any]) -> list[Array]:
        """The arrays on the device, for kernels launched before the next but one is sent."""
        self._sets[self._turn].release()
        self._turn = 1 - self._turn
        return self._sets[self._turn].fill(arrays, self._stream)


#: ``count(lanes, scores, more, rows)``: scores of some lanes for some rows, and what else was sent of these.
Count = Callable[[list[int], Array, list[Array], slice], None]
#: One for each thread, so that its transfers are in order.
_own = threading.local()


def learn_batch(
    blocks: Sequence[tuple[CudaBlock, list[int]]],
    batch: Batch,
    columns: Columns,
    more: Sequence[NDArray[Any]] = (),
    count: Count | None = None,
) -> None:
    """Blocks, each with the numbers of its lanes, take a batch whose labels and weights are in ``columns``.

    Nothing waits for the device but ``count``, if that does. ``more`` are arrays of a number, or several, per row.
    """
    if not hasattr(_own, "stage"):
        _own.stage = Stage()
    for start, stop in row_blocks(batch):
        rows = make_rows(batch, start, stop, blocks[0][0].dtype, 0)
        used = slice(int(rows.indptr[0]), int(rows.indptr[-1]))
        of_rows = [array[start:stop] for array in (columns.y, columns.weights, *more)]
        sent = _own.stage.send(rows.indptr - rows.indptr[0], rows.indices[used], rows.values[used], *of_rows)
        there = DeviceRows(sent[0], sent[1], sent[2], first=batch.first_row + start)
        for block, lanes in blocks:
            own = Columns(sent[3], sent[4], columns.label_of[lanes], columns.weight_of[lanes])
            block.learn(there, own, float(batch.largest), _counting(count, lanes, sent[5:], start))


def _counting(count: Count | None, lanes: list[int], more: list[Array], start: int) -> Any:
    """Return the function that a block calls with scores of its lanes and their slice of the chunk."""
    if count is None:
        return None

    def counted(scores: Array, part: slice) -> None:
        rows = slice(start + part.start, start + part.stop)
        count(lanes, scores, [array[part] for array in more], rows)

    return counted


def learn_scored(
    blocks: Sequence[tuple[CudaBlock, list[int]]],
    batch: Batch,
    y: NDArray[np.int8],
    weights: NDArray[np.float64],
    out: NDArray[Any],
) -> None:
    """The same with a column of labels and weights per lane, or one for all; scores go where ``out`` has room."""
    lanes = np.arange(out.shape[1], dtype=np.int32)
    columns = Columns(y, weights, *(lanes if array.shape[1] > 1 else 0 * lanes for array in (y, weights)))

    def fetch(numbers: list[int], scores: Array, _: list[Array], rows: slice) -> None:
        where = slice(None) if len(numbers) == out.shape[1] else numbers
        out[rows, where] = scores.copy_to_host()

    learn_batch(blocks, batch, columns, count=fetch if len(out) else None)
