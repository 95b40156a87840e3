"""Spark DataFrames as sources: in three forms, the rows that were put in, in their order."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from thinstream.batch import Batch
from thinstream.data.stream import Stream
from thinstream.data.tables.arrow import ArrowTables
from thinstream.data.text.hashing import Hashing, Numbering
from thinstream.distributed.engines.spark_frames import DataFrameSource, Stretch, vectors_to_lists
from thinstream.distributed.sources import source_of
from thinstream.errors import InvalidInputError, InvalidParameterError

pytestmark = pytest.mark.spark

WIDTH = 40
LISTS = "label int, indices array<int>, values array<float>, weight double, other string"


def rows(count: int = 101, seed: int = 1) -> list[tuple[int, list[int], list[float], float, str]]:
    generator = np.random.default_rng(seed)
    result = []
    for number in range(count):
        where = np.sort(generator.choice(WIDTH, generator.integers(0, 6), replace=False))
        values = generator.integers(1, 9, len(where)) / 8
        result.append((number % 2, where.tolist(), values.tolist(), 1 + number / 128, "no feature"))
    return result


def frame_of(session: Any, data: Sequence[Any], schema: Any, partitions: int = 3) -> Any:
    return session.createDataFrame(session.sparkContext.parallelize(data, partitions), schema)


def taken(stream: Stream) -> tuple[list[int], list[Any], list[float]]:
    """Labels, (feature, value) pairs of each row, and weights."""
    labels, pairs, weights = [], [], []
    for batch in stream.batches():
        assert batch.y is not None
        labels += batch.y.tolist()
        weights += [1.0] * len(batch) if batch.weights is None else batch.weights.tolist()
        pairs += pairs_of(batch)
    return labels, pairs, weights


def pairs_of(batch: Batch) -> list[list[tuple[int, float]]]:
    both = list(zip(batch.indices.tolist(), batch.values.tolist()))
    return [both[start:stop] for start, stop in zip(batch.indptr[:-1], batch.indptr[1:])]


def expected(data: Sequence[Any]) -> tuple[list[int], list[Any], list[float]]:
    return [2 * row[0] - 1 for row in data], [list(zip(row[1], row[2])) for row in data], [row[3] for row in data]


def test_list_columns(spark_cluster: Any, tmp_path: Path) -> None:
    data = rows()
    source = source_of(frame_of(spark_cluster, data, LISTS), folder=tmp_path)
    assert source is not None
    [whole] = source.shards(1)
    stream = whole.open()
    assert taken(stream) == expected(data)
    assert (source.dtype, source.classes, source.feature_space, stream.size) == ("float32", None, {}, 101)
    parts = [taken(shard.open()) for shard in source.shards(4)]
    assert [len(labels) for labels, _, _ in parts] == [25, 25, 25, 26]
    assert [row for _, pairs, _ in parts for row in pairs] == expected(data)[1]
    first, second, *_ = stream.batches()
    assert first.position is not None
    assert next(stream.batches(first.position)).values.tolist() == second.values.tolist()
    [folder] = tmp_path.iterdir()
    assert len(list(folder.iterdir())) == 3  # a file for each partition, and nothing else
    source.close()
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(InvalidInputError, match="Pass folder= with a folder that all machines share"):
        next(iter(whole.open().batches()))


def test_vectors_of_spark_ml(spark_cluster: Any) -> None:
    from pyspark.ml.linalg import Vectors, VectorUDT
    from pyspark.sql.types import IntegerType, StructField, StructType

    data = rows(40)
    dense = [Vectors.dense(np.bincount(row[1], row[2], WIDTH)) for row in data[:15]]
    sparse = [Vectors.sparse(WIDTH + 2, row[1], row[2]) for row in data[15:]]
    schema = StructType([StructField("bought", IntegerType()), StructField("basket", VectorUDT())])
    frame = frame_of(spark_cluster, [(row[0], vector) for row, vector in zip(data, [*dense, *sparse, None])], schema)
    source = DataFrameSource(frame, label="bought", features="basket", dtype="float64")
    stream = source.shards(1)[0].open()
    labels, pairs, _ = expected(data)
    assert taken(stream) == (labels, pairs, [1.0] * 40)
    assert {batch.n_features for batch in stream.batches()} == {WIDTH + 2}
    assert {batch.values.dtype.name for batch in stream.batches()} == {"float64"}


def test_feature_columns(spark_cluster: Any) -> None:
    data = [("yes" if k % 3 else "no", 20.5 + k, k % 2 == 0, "Oslo" if k % 5 else None, k) for k in range(23)]
    names = ["label", "age", "member", "home town", "number"]
    frame = frame_of(spark_cluster, data, "label string, age double, member boolean, `home town` string, number long")
    source = DataFrameSource(frame, classes=("no", "yes"), ignore=["number"], bits=12, normalize="l2")
    table = pa.table(dict(zip(names, map(list, zip(*data))))).drop(["number"])
    hasher = Numbering(Hashing(bits=12))
    naive = ArrowTables([(lambda: table, 23)], table.column_names, hasher=hasher, classes=("no", "yes"))
    labels, pairs, weights = taken(source.shards(1)[0].open())
    result, rest, ones = taken(naive)
    assert (labels, weights) == (result, ones)
    for scaled, plain in zip(pairs, rest):
        length = np.sqrt(sum(value**2 for _, value in plain))
        assert [feature for feature, _ in scaled] == [feature for feature, _ in plain]
        assert [value for _, value in scaled] == pytest.approx([value / length for _, value in plain], rel=1e-6)
    assert source.feature_space["hashing"] == hasher.as_dict()
    assert source.classes == ("no", "yes")


def test_fingerprints_tell_sources_apart(spark_cluster: Any) -> None:
    data, others = rows(20), rows(20, seed=2)
    one, same, other = (DataFrameSource(frame_of(spark_cluster, item, LISTS, 1)) for item in (data, data, others))
    assert one.fingerprint() == same.fingerprint() != other.fingerprint()


def test_refusals(spark_cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = frame_of(spark_cluster, rows(2), LISTS, 1)
    with pytest.raises(InvalidInputError, match="the DataFrame has no column 'y'; its columns are 'label', 'indices'"):
        DataFrameSource(frame, label="y")
    with pytest.raises(InvalidInputError, match="the DataFrame has no rows"):
        DataFrameSource(frame.limit(0))
    with pytest.raises(
        InvalidParameterError,
        match=r"the options for .* must be 'label', 'weight', .* "
        r"got 'zero_based'",
    ):
        source_of(frame, zero_based=True)
    with pytest.raises(InvalidParameterError, match="normalize must be None or 'l2', got 'l1'"):
        DataFrameSource(frame, normalize="l1")
    monkeypatch.setattr(spark_cluster.sparkContext, "master", "spark://far:7077")
    with pytest.raises(InvalidParameterError, match="a DataFrame on spark://far:7077 needs folder="):
        DataFrameSource(frame)


def test_vectors_as_lists() -> None:
    kind = pa.struct([("type", pa.int8()), ("size", pa.int32()), ("indices", pa.list_(pa.int32())),
                      ("values", pa.list_(pa.float64()))])  # fmt: skip
    sparse = {"type": 0, "size": 9, "indices": [2, 7], "values": [1.0, 2.0]}
    dense = {"type": 1, "size": None, "indices": None, "values": [0.5, 0.0, 3.0]}
    empty = {"type": 0, "size": 9, "indices": [], "values": []}
    column = pa.array([dense, sparse, None, empty, dense], kind)
    batch = pa.RecordBatch.from_arrays([column, pa.array([1, 0, 1, 0, 1])], ["v", "label"])
    for part, width in ((batch, 9), (batch.slice(4), 3), (batch.slice(0, 0), 0)):
        result, wide = vectors_to_lists(part, "v")
        assert wide == width
        assert result.column("label").equals(part.column("label"))
        naive = [_naive(vector) for vector in part.column("v").to_pylist()]
        assert list(zip(result.column("indices").to_pylist(), result.column("values").to_pylist())) == naive


def _naive(vector: Any) -> tuple[list[int], list[float]]:
    if vector is None:
        return [], []
    values = vector["values"]
    return (list(range(len(values))) if vector["type"] else vector["indices"]), values


def test_a_missing_file() -> None:
    with pytest.raises(InvalidInputError, match="Pass folder= with a folder that all machines share"):
        Stretch(os.devnull + "/nowhere", 0, 1)()
