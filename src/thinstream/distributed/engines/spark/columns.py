"""What the columns of a Spark DataFrame mean, and its vectors as lists."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from thinstream.distributed.engines.tables import INDICES, VALUES, TableColumns
from thinstream.streams.stream import Stream
from thinstream.streams.tables.arrow_columns import list_lengths
from thinstream.streams.tables.arrow_package import pyarrow


class FrameColumns(TableColumns):
    """What the columns of a DataFrame mean; ``features`` is a column of Spark ML vectors."""

    owner, place = "a Spark DataFrame", "the DataFrame"

    def __init__(self, *, features: str = "features", **columns: Any) -> None:
        super().__init__(**columns)
        self.features = features

    def vector(self, frame: Any) -> str | None:
        """The column of vectors, if there is one."""
        kinds = {field.name: type(field.dataType).__name__ for field in frame.schema.fields}
        return self.features if kinds.get(self.features) == "VectorUDT" else None

    def taken(self, frame: Any) -> Any:
        """The columns that are read, without the others."""
        reading, names = self.reading, frame.columns
        weight = reading["weight"] or "weight"
        vector = self.vector(frame)
        if vector is not None:
            wanted = [vector, reading["label"], weight]
        elif {reading["indices"], reading["values"]} <= set(names):
            wanted = [reading["indices"], reading["values"], reading["label"], weight]
        else:
            wanted = [name for name in names if name not in reading["ignore"]]
        quoted = [f"`{name.replace('`', '``')}`" for name in wanted if name in names]
        return frame.select(*quoted)

    def names(self, frame: Any) -> list[str]:
        """Columns as they are written: vectors as lists."""
        vector = self.vector(frame)
        names = self.taken(frame).columns
        return list(names) if vector is None else [INDICES, VALUES, *(name for name in names if name != vector)]

    def rows(self, tables: Sequence[tuple[Any, int]], names: Sequence[str], vectors: bool, width: int = 0) -> Stream:
        """Rows that were written, as a stream; ``width``: of their vectors, if they tell."""
        return self.stream(tables, names, **written_as(vectors, width))


def written_as(vectors: bool, width: int) -> dict[str, Any]:
    """What a stream must be told of rows that were written: vectors are lists now."""
    return {"n_features": width or None, **({"indices": INDICES, "values": VALUES} if vectors else {})}


def vectors_to_lists(batch: Any, name: str) -> tuple[Any, int]:
    """A record batch with its column of Spark ML vectors as two of lists, and how wide they are.

    A vector comes as a struct: whether it is dense, its size if not, feature numbers if not, values. Null is empty.
    """
    pa = pyarrow()
    dense, size, indices, values = batch.column(name).flatten()
    lengths = list_lengths(values, name, "the DataFrame")
    sparse = np.repeat(dense.fill_null(1).to_numpy(zero_copy_only=False) == 0, lengths)
    ends = np.cumsum(lengths)
    numbers = (np.arange(len(sparse)) - np.repeat(ends - lengths, lengths)).astype(np.int32)
    numbers[sparse] = indices.flatten().to_numpy()
    offsets = pa.array(np.concatenate([[0], ends]).astype(np.int32))
    lists = [pa.ListArray.from_arrays(offsets, pa.array(numbers)), pa.ListArray.from_arrays(offsets, values.flatten())]
    others = [other for other in batch.schema.names if other != name]
    width = max(int(size.fill_null(0).to_numpy(zero_copy_only=False).max(initial=0)), int(numbers.max(initial=-1)) + 1)
    columns = [*lists, *(batch.column(other) for other in others)]
    return pa.RecordBatch.from_arrays(columns, [INDICES, VALUES, *others]), width
