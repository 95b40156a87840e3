"""Tables of Arrow in memory: one stream, wherever its rows are cut."""

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from thinstream.batch import Position
from thinstream.data.stream import batches_from
from thinstream.data.tables.arrow import ArrowTables
from thinstream.errors import InvalidInputError

ROWS = 30
_draw = np.random.default_rng(1)
_lists = [sorted(_draw.choice(9, _draw.integers(0, 4), replace=False).tolist()) for _ in range(ROWS)]
TABLE = pa.table(
    {
        "label": [i % 3 == 0 for i in range(ROWS)],
        "indices": pa.array(_lists, pa.list_(pa.int32())),
        "values": pa.array([[float(i + 1) for _ in each] for i, each in enumerate(_lists)], pa.list_(pa.float64())),
        "other": ["x"] * ROWS,
    }
)


def tables_of(cuts, fetched=None, batches=False):
    def piece(a, b):
        def fetch():
            if fetched is not None:
                fetched.append(a)
            part = TABLE.slice(a, b - a)
            return part.combine_chunks().to_batches()[0] if batches and b > a else part

        return fetch, b - a

    return [piece(a, b) for a, b in pairwise([0, *sorted(cuts), ROWS])]


def stream_of(tables, **options):
    return ArrowTables(tables, TABLE.column_names, "here", **options)


@given(
    cuts=st.lists(st.integers(0, ROWS), max_size=6),
    start=st.integers(0, ROWS),
    skip=st.integers(0, 3),
    rows_per_batch=st.integers(1, 40),
    batches=st.booleans(),
)
def test_rows_are_the_same_from_any_row_on(cuts, start, skip, rows_per_batch, batches):
    fetched = []
    stream = stream_of(tables_of(cuts, fetched, batches), rows_per_batch=rows_per_batch)
    found = [batch for _, batch in batches_from(stream, Position(0, start, 0, start, skip)) if len(batch)]
    first = min(start + skip, ROWS)
    assert [label for batch in found for label in batch.y.tolist()] == [
        1 if i % 3 == 0 else -1 for i in range(first, ROWS)
    ]
    assert [j for batch in found for j in batch.indices.tolist()] == [j for each in _lists[first:] for j in each]
    assert [x for batch in found for x in batch.values.tolist()] == [
        i + 1.0 for i in range(first, ROWS) for _ in _lists[i]
    ]
    for batch in found:
        assert batch.position == Position(0, batch.position.row, 0, batch.position.row)
    ends = [b for _, b in pairwise([0, *sorted(cuts), ROWS])]
    assert len(fetched) <= sum(end > start for end in ends)  # what lies before is not fetched
    assert (stream.size, stream.done(Position(0, 7, 0, 7)), stream.feature_space) == (ROWS, 7, {})


def test_fingerprints_know_rows_and_columns_but_no_cuts():
    one = stream_of(tables_of([])).fingerprint()
    assert one == stream_of(tables_of([3, 20])).fingerprint()
    assert one != stream_of(tables_of([])[:0]).fingerprint()
    assert one != stream_of(tables_of([]), label="other").fingerprint()


def test_nothing_and_too_much():
    assert list(stream_of([]).batches()) == []
    with pytest.raises(InvalidInputError, match="here has 30 rows, so reading cannot resume at row 31"):
        list(stream_of(tables_of([5])).batches(Position(0, 31, 0, 31)))
    with pytest.raises(InvalidInputError, match="here has no column 'y', only 'label', 'indices', 'values' or 'other'"):
        list(stream_of(tables_of([5]), label="y").batches())
