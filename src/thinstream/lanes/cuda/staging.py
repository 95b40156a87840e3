"""Rows on their way to the device."""

import numpy as np

from thinstream.engine.rows import Rows
from thinstream.lanes.cuda.kernels import DeviceRows
from thinstream.lanes.cuda.package import cuda

#: The rows that were sent last, and where they are: several blocks learn from the same.
_last: list[tuple[Rows, DeviceRows]] = []


def staged(rows: Rows) -> DeviceRows:
    """The rows on the device."""
    if _last and all(a is b for a, b in zip(_last[0][0][:3], rows[:3], strict=True)):
        return _last[0][1]
    used = slice(int(rows.indptr[0]), int(rows.indptr[-1]))
    arrays = rows.indptr - rows.indptr[0], rows.indices[used], rows.values[used]
    sent = DeviceRows(*(cuda.to_device(np.ascontiguousarray(array)) for array in arrays))
    _last[:] = [(rows, sent)]
    return sent
