"""A batch on the device: sent chunk by chunk, learned block after block."""

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thinstream.batch import Batch
from thinstream.lanes.cuda.block import CudaBlock
from thinstream.lanes.cuda.kernels import Array, Columns, DeviceRows
from thinstream.lanes.cuda.staging import Stage
from thinstream.learners.learner import make_rows, row_blocks

#: ``count(lanes, scores, more, rows)``: scores of some lanes for some rows, and what else was sent of these.
Count = Callable[[list[int], Array, list[Array], slice], None]
#: Of each thread one: what it sends is in order.
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
    """What a block calls with scores of its lanes, and the slice of the chunk they are of."""
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
    columns = Columns(y, weights, *(lanes if each.shape[1] > 1 else 0 * lanes for each in (y, weights)))

    def fetch(numbers: list[int], found: Array, _: list[Array], rows: slice) -> None:
        where = slice(None) if len(numbers) == out.shape[1] else numbers
        out[rows, where] = found.copy_to_host()

    learn_batch(blocks, batch, columns, count=fetch if len(out) else None)
