"""What the columns of a Spark DataFrame mean, and its vectors as lists."""

from collections.abc import Sequence
from inspect import signature
from typing import Any

import numpy as np

from thinstream.errors import InvalidParameterError, listed
from thinstream.streams.normalise import UnitRows
from thinstream.streams.stream import Stream
from thinstream.streams.tables.arrow_columns import list_lengths
from thinstream.streams.tables.arrow_package import pyarrow
from thinstream.streams.tables.arrow_tables import ArrowTables
from thinstream.streams.tables.numbering import Numbering
from thinstream.streams.text.hashing import Hashing

#: List columns that a column of Spark ML vectors becomes.
INDICES, VALUES = "indices", "values"


def columns_of(options: dict[str, Any]) -> "Columns":
    """What options say of columns; one that there is not is an error."""
    allowed = list(signature(Columns).parameters)
    for name in options:
        if name not in allowed:
            raise InvalidParameterError(f"for a Spark DataFrame the options are {listed(allowed)}, got {name!r}")
    return Columns(**options)


class Columns:
    """What the columns of a DataFrame mean; `DataFrameSource` explains the parameters."""

    def __init__(
        self,
        *,
        label: str = "label",
        weight: str | None = None,
        indices: str = INDICES,
        values: str = VALUES,
        features: str = "features",
        ignore: Sequence[str] = (),
        classes: Sequence[Any] | None = None,
        dtype: str = "float32",
        bits: int | None = None,
        signed: bool = False,
        normalize: str | None = None,
    ) -> None:
        if normalize not in (None, "l2"):
            raise InvalidParameterError(f"normalize must be None or 'l2', got {normalize!r}")
        self.features, self.normalize = features, normalize
        self.reading: dict[str, Any] = {
            "label": label,
            "weight": weight,
            "indices": indices,
            "values": values,
            "ignore": tuple(ignore),
            "classes": None if classes is None else tuple(classes),
            "dtype": dtype,
            "hasher": Numbering(Hashing(bits=bits or 22, signed=signed)),
        }
        ArrowTables([], [], **self.reading)  # raises on what is not allowed

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

    def stream(self, tables: Sequence[tuple[Any, int]], names: Sequence[str], vectors: bool, width: int) -> Stream:
        """Rows that were written, as a stream."""
        reading = {**self.reading, **({"indices": INDICES, "values": VALUES} if vectors else {})}
        stream: Stream = ArrowTables(tables, names, "the DataFrame", n_features=width or None, **reading)
        return stream if self.normalize is None else UnitRows(stream)


def listed_vectors(batch: Any, name: str) -> tuple[Any, int]:
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
