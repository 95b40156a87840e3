"""Tables of an engine as a source: what their columns mean, and the stretches of rows that each worker reads."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from inspect import signature
from itertools import pairwise
from typing import Any, ClassVar, Self

from thinstream.distributed.sources import stretches
from thinstream.errors import InvalidParameterError, listed
from thinstream.streams.crossing.declared import as_crosses
from thinstream.streams.normalise import UnitRows
from thinstream.streams.stream import Stream
from thinstream.streams.tables.arrow import ArrowTables
from thinstream.streams.text.hashing import Hashing, Numbering

#: What list columns of feature numbers and values are called, unless told otherwise.
INDICES, VALUES = "indices", "values"


class TableColumns:
    """What columns mean.

    Parameters
    ----------
    label, weight : str
        Columns of the labels, and of the rows' weights.
    indices, values : str
        List columns of feature numbers (from 0) and values. If they are not there, every other column is a feature:
        numbers and booleans under the name of the column, text under ``column=text``, hashed. Nulls are no features, as
        in files read with ``missing="as-is"``.
    ignore : sequence of str
        Columns that are no features.
    classes : (negative, positive), or more
        The labels.
    dtype : {"float32", "float64"}
        Of the values.
    bits, signed : int, bool
        How names are hashed.
    normalize : "l2" or None
        Whether rows are scaled to unit length.
    cross : list of tuples of names
        Columns to be crossed, as ``[("user", "item")]``.

    """

    #: Whose columns they are, as messages have it.
    owner: ClassVar[str] = "a table"
    place: ClassVar[str] = "the table"

    def __init__(
        self,
        *,
        label: str = "label",
        weight: str | None = None,
        indices: str = INDICES,
        values: str = VALUES,
        ignore: Sequence[str] = (),
        classes: Sequence[Any] | None = None,
        dtype: str = "float32",
        bits: int | None = None,
        signed: bool = False,
        normalize: str | None = None,
        cross: Sequence[Sequence[str]] = (),
    ) -> None:
        if normalize not in (None, "l2"):
            raise InvalidParameterError(f"normalize must be None or 'l2', got {normalize!r}")
        self.normalize = normalize
        self.reading: dict[str, Any] = {
            "label": label,
            "weight": weight,
            "indices": indices,
            "values": values,
            "ignore": tuple(ignore),
            "classes": None if classes is None else tuple(classes),
            "dtype": dtype,
            "hasher": Numbering(Hashing(bits=bits or 22, signed=signed)),
            **({"cross": as_crosses(cross)} if cross else {}),
        }
        ArrowTables([], [], **self.reading)  # raises on what is not allowed

    @classmethod
    def of(cls, options: dict[str, Any]) -> Self:
        """What options say of columns; one that there is not is an error."""
        allowed = [*signature(TableColumns).parameters, *signature(cls).parameters]
        allowed = [name for name in dict.fromkeys(allowed) if name != "columns"]
        for name in options:
            if name not in allowed:
                raise InvalidParameterError(f"for {cls.owner} the options are {listed(allowed)}, got {name!r}")
        return cls(**options)

    def stream(self, tables: Sequence[tuple[Any, int]], names: Sequence[str], **more: Any) -> Stream:
        """Rows of tables (see `ArrowTables`), as a stream."""
        stream: Stream = ArrowTables(tables, names, self.place, **{**self.reading, **more})
        return stream if self.normalize is None else UnitRows(stream)


@dataclass(frozen=True)
class TableShard:
    """What one worker reads: stretches of tables, each a function that fetches it and its number of rows."""

    stretches: tuple[tuple[Callable[[], Any], int], ...]
    names: tuple[str, ...]
    columns: TableColumns
    more: dict[str, Any] = field(default_factory=dict)  # for the stream

    def open(self) -> Stream:
        """The rows as a stream."""
        return self.columns.stream(self.stretches, self.names, **self.more)


def cut(sizes: Sequence[int], workers: int) -> list[list[tuple[int, int, int]]]:
    """Stretches of equal length for each worker, one after another: (table, first row, rows) of each.

    >>> cut([3, 4], 2)
    [[(0, 0, 3)], [(1, 0, 4)]]
    >>> cut([5], 2)
    [[(0, 0, 2)], [(0, 2, 3)]]
    """
    borders = [sum(sizes) * i // workers for i in range(workers + 1)]
    return [list(stretches(sizes, start, stop)) for start, stop in pairwise(borders)]
