"""Structured Streaming: each micro-batch is learned once, whatever is killed, and as without Spark."""

import base64
import os
import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import thinstream as ts
from tests.distributed.engines.spark.test_frames import LISTS, frame_of, rows
from thinstream.data.labels import Classes
from thinstream.data.tables.arrow import ArrowFiles
from thinstream.distributed.deltas import copy_learner, delta, merge_deltas
from thinstream.distributed.engines.spark_frames import foreach_batch, learn_stream
from thinstream.errors import InvalidInputError, WorkerLostError

pytestmark = pytest.mark.spark

SCHEMA = "label int, indices array<int>, values array<float>"


def put(folder: Path, number: int, data: Sequence[Any]) -> Path:
    """A file of rows; Spark takes files by their age."""
    folder.mkdir(exist_ok=True)
    columns = {
        "label": [row[0] for row in data],
        "indices": [row[1] for row in data],
        "values": [row[2] for row in data],
    }
    types = pa.schema({"label": pa.int32(), "indices": pa.list_(pa.int32()), "values": pa.list_(pa.float32())})
    path = folder / f"{number}.parquet"
    pq.write_table(pa.table(columns, types), folder / "beside.tmp")
    os.utime(folder / "beside.tmp", (1e9 + number, 1e9 + number))
    (folder / "beside.tmp").rename(path)
    return path


def serial(*paths: Path) -> Any:
    return ts.FSOL(eta=0.5).fit_stream(ArrowFiles(*paths))


def assert_same(one: Any, other: Any) -> None:
    assert (one.t_, one.n_mistakes_, one.cumulative_loss_) == (other.t_, other.n_mistakes_, other.cumulative_loss_)
    assert one.coef_.tobytes() == other.coef_.tobytes()


@pytest.fixture
def incoming(spark_cluster: Any, tmp_path: Path) -> Any:
    """Files of a folder as a stream, one in each micro-batch."""
    (tmp_path / "incoming").mkdir()
    reader = spark_cluster.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
    return reader.parquet(str(tmp_path / "incoming"))


def learned(incoming: Any, folder: Path, **options: Any) -> Any:
    query, learning = learn_stream(incoming, ts.FSOL(eta=0.5), folder, trigger={"availableNow": True}, **options)
    query.awaitTermination()
    return learning


def test_a_stream_is_learned_exactly_once(incoming: Any, tmp_path: Path) -> None:
    files, folder = [put(tmp_path / "incoming", k, rows(30, seed=k)) for k in range(2)], tmp_path / "learned"
    learning = learned(incoming, folder, workers=1)
    assert learning.batch == 1
    assert learning.progressive.rows == 60
    assert_same(learning.estimator, serial(*files))
    assert_same(ts.load(folder / "model.ts"), serial(*files))

    files.append(put(tmp_path / "incoming", 2, rows(30, seed=2)))
    learning = learned(incoming, folder, workers=1)
    assert learning.batch == 2
    assert_same(learning.estimator, serial(*files))

    # killed after the model was written, before Spark has noted that the micro-batch is done
    for note in (folder / "spark" / "commits").glob("*2*"):
        note.unlink()
    before = (folder / "model.ts").read_bytes()
    assert learned(incoming, folder, workers=1).batch == 2
    assert (folder / "model.ts").read_bytes() == before

    # Spark's notes are lost: its numbers begin anew
    (folder / "spark").rename(tmp_path / "lost")
    with pytest.raises(Exception, match="belongs to the query"):
        learned(incoming, folder, workers=1)
    assert (folder / "model.ts").read_bytes() == before


def test_parts_of_a_micro_batch_are_merged(spark_cluster: Any, tmp_path: Path) -> None:
    data = [row[:3] for row in rows(60)]
    estimator = ts.FSOL(eta=0.5)
    learning = foreach_batch(estimator, tmp_path / "model.ts", merge="mean")
    learning(frame_of(spark_cluster, data, SCHEMA, 2), 0)
    assert not estimator.__sklearn_is_fitted__()

    halves = [put(tmp_path / "halves", k, data[30 * k : 30 * k + 30]) for k in range(2)]
    base = ts.FSOL(eta=0.5)._fresh_model(Classes(-1, 1)).learner
    changes = []
    for half in halves:
        learner = copy_learner(base)
        learner.grow = True
        for batch in ArrowFiles(half).batches():
            learner.learn(batch)
        changes.append(delta(base, learner))
    merged = merge_deltas(base, changes, "mean")
    assert learning.estimator.coef_[0].tobytes() == merged.weights().tobytes()
    assert (learning.estimator.t_, learning.progressive.rows) == (60, 60)

    # a bad row: nothing of its micro-batch is kept
    before = (tmp_path / "model.ts").read_bytes()
    with pytest.raises(InvalidInputError, match="NaN"):
        learning(frame_of(spark_cluster, [*data, (1, [3], [float("nan")])], SCHEMA, 2), 1)
    assert learning.batch == 0
    assert (tmp_path / "model.ts").read_bytes() == before
    learning(frame_of(spark_cluster, data[:0], SCHEMA, 2), 1)
    assert (learning.batch, learning.estimator.t_) == (1, 60)


def test_a_fitted_estimator_continues(spark_cluster: Any, tmp_path: Path) -> None:
    data = rows(40)
    files = [put(tmp_path, 0, data[:20]), put(tmp_path, 1, data[20:])]
    fitted = serial(files[0])
    learning = foreach_batch(fitted, tmp_path / "model.ts", workers=1, ignore=["other"])
    weights = fitted.coef_.copy()
    plain = frame_of(spark_cluster, data[20:], LISTS, 2).drop("weight")
    learning(plain, 0)
    assert_same(learning.estimator, serial(*files))
    np.testing.assert_array_equal(fitted.coef_, weights)
    with pytest.raises(InvalidInputError, match="cannot be resumed, because the model differs in eta"):
        foreach_batch(ts.FSOL(eta=2.0), tmp_path / "model.ts", ignore=["other"])


class Attack:
    """Whoever unpickles this runs a command."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.mark),)


@pytest.mark.parametrize("form", ["thinstream raised 0 {};", "None 0 {};"])
def test_cells_are_not_executed(spark_cluster: Any, tmp_path: Path, form: str) -> None:
    """Spark quotes the cell that it cannot cast in its error, on the driver."""
    mark = tmp_path / "attacked"
    text = form.format(base64.b64encode(pickle.dumps(Attack(mark))).decode())
    frame = spark_cluster.createDataFrame([(text, [1], [1.0])], "label string, indices array<int>, values array<float>")
    frame = frame.selectExpr("cast(label as int) as label", "indices", "values")
    with pytest.raises(WorkerLostError, match="CAST_INVALID_INPUT"):
        foreach_batch(ts.FSOL(), tmp_path / "model.ts")(frame, 0)
    assert not mark.exists()
