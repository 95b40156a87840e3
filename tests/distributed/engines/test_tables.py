"""What the columns of an engine's tables mean."""

import pytest

from thinstream.data import Hashing, Numbering, from_memory
from thinstream.distributed.sources import TableColumns
from thinstream.errors import InvalidInputError

pa = pytest.importorskip("pyarrow")
ROWS = [{"label": k % 2, "user": f"u{k % 3}", "age": k} for k in range(12)]


def test_columns_are_crossed():
    """As they are everywhere else, and part of the feature space."""
    table, cross = pa.Table.from_pylist(ROWS), [("user", "age")]
    stream = TableColumns(cross=cross, bits=18).stream([(lambda: table, len(ROWS))], table.column_names)
    dicts = [({"user": row["user"], "age": row["age"]}, row["label"]) for row in ROWS]
    other = from_memory(dicts, hasher=Numbering(Hashing(bits=18)), cross=cross)
    assert stream.feature_space == other.feature_space
    [one], [two] = stream.batches(), other.batches()
    assert one.indices.tolist() == two.indices.tolist()
    assert one.values.tolist() == two.values.tolist()
    misspelt = TableColumns(cross=[("user", "agee")]).stream([(lambda: table, len(ROWS))], table.column_names)
    with pytest.raises(InvalidInputError, match=r"table: cross: there is no feature column 'agee'; did you mean 'age'"):
        list(misspelt.batches())
