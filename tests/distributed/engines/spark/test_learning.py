"""From a source to a model on Spark: bits of the serial run from one worker, also when processes are killed."""

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

import thinstream as ts
from tests.distributed.engines.spark.test_frames import LISTS, WIDTH, frame_of, rows
from tests.distributed.engines.spark.test_launcher import parent_of
from thinstream.algorithms.auto import Member
from thinstream.batch import Batch, Position
from thinstream.data.labels import Classes
from thinstream.data.stream import START, Stream
from thinstream.distributed import train
from thinstream.distributed.engines.spark import SparkLauncher
from thinstream.distributed.engines.spark_frames import DataFrameSource
from thinstream.distributed.rounds import learn_examples
from thinstream.distributed.sources import FileSource
from thinstream.lanes.learner import Learner
from thinstream.models.file import write
from thinstream.models.model import Model
from thinstream.training.metrics import Progress

pytestmark = pytest.mark.spark
DATA = rows(200)


class Here:
    """Workers one after another, in this process, that remember nothing."""

    remembers, worthwhile = False, 1 << 16

    def __init__(self, workers: int) -> None:
        self.workers = workers

    def share(self, value: Any) -> Callable[[], Any]:
        return lambda: value

    def run_tasks(self, tasks: Sequence[Callable[[], Any]]) -> list[Any]:
        return [task() for task in tasks]


@dataclass(frozen=True)
class Mortal:
    """A source, and each of its shards: whoever comes to the row first is killed there, or the executor."""

    inner: Any
    mark: Path
    row: int
    executor: bool

    def shards(self, workers: int) -> list["Mortal"]:
        return [replace(self, inner=shard) for shard in self.inner.shards(workers)]

    def fingerprint(self) -> Any:
        return self.inner.fingerprint()

    def open(self) -> Stream:
        stream = self.inner.open()
        every = stream.batches

        def batches(start: Position = START) -> Iterator[Batch]:
            for batch in every(start):
                if batch.first_row + len(batch) > self.row and not self.mark.exists():
                    self.mark.touch()
                    os.kill(parent_of(os.getppid()) if self.executor else os.getpid(), signal.SIGKILL)
                yield batch

        stream.batches = batches
        return stream


@pytest.fixture(scope="module")
def frame(spark_cluster: Any) -> DataFrameSource:
    return DataFrameSource(frame_of(spark_cluster, DATA, LISTS, 3), dtype="float64")


@pytest.fixture
def files(tmp_path: Path) -> FileSource:
    lines = [" ".join([f"{2 * row[0] - 1}", *(f"{j + 1}:{x}" for j, x in zip(row[1], row[2]))]) + "\n" for row in DATA]
    (tmp_path / "one.svm").write_text("".join(lines[:70]))
    (tmp_path / "two.svm").write_text("".join(lines[70:]))
    return FileSource(tmp_path / "*.svm", dtype="float64")


@pytest.fixture(scope="module")
def launcher(spark_cluster: Any) -> Iterator[SparkLauncher]:
    made = SparkLauncher(2)
    yield made
    made.close()


def model(**options: Any) -> Model:
    return Model(Learner("fsol", **{"n_features": WIDTH, "dtype": "float64", "eta": 0.5, **options}), Classes(-1, 1))


def bits(state: Any) -> list[bytes]:
    """Of the model, and of what was counted."""
    counted = state.progress.arrays()
    return [
        *(array.tobytes() for array in state.model.learner.outputs.one.memory),
        *(counted[name].tobytes() for name in counted),
    ]


def test_one_worker_has_the_bits_of_the_serial_run(spark_cluster: Any, files: FileSource, frame: Any) -> None:
    alone = SparkLauncher(1)
    for source in (files, frame):
        given, progress = model(), Progress(2)
        for batch in source.shards(1)[0].open().batches():
            progress.update(given.learner.learn(batch), batch.y, batch.weights)
        state = learn_examples(alone, source, model(), merge_every=60)
        assert [array.tobytes() for array in state.model.learner.outputs.one.memory] == [
            array.tobytes() for array in given.learner.outputs.one.memory
        ]
        assert state.progress.report() == progress.report()
    alone.close()


@pytest.mark.parametrize("executor", [False, True])
def test_killed_on_the_way_two_workers_end_with_the_same_bits(
    launcher: SparkLauncher, frame: Any, tmp_path: Path, executor: bool
) -> None:
    calm = learn_examples(Here(2), frame, model(), merge_every=40, merge="mean")
    mortal = Mortal(frame, tmp_path / "killed", 60, executor)
    rough = learn_examples(launcher, mortal, model(), merge_every=40, merge="mean")
    assert mortal.mark.exists()
    assert calm.progress.rows == 200
    assert bits(rough) == bits(calm)


def test_from_a_frame_to_an_estimator(spark_cluster: Any, frame: Any) -> None:
    alone = ts.FSOL(eta=0.5, dtype="float64").fit_stream(frame.shards(1)[0].open())
    given = frame_of(spark_cluster, DATA, LISTS, 3)
    one = train(given, ts.FSOL(eta=0.5, dtype="float64"), engine="spark", workers=1)
    assert one.coef_.tobytes() == alone.coef_.tobytes()
    assert one.progressive_.rows == one.t_ == 200
    assert spark_cluster.range(2).count() == 2  # the session is left as it was


def auto() -> Model:
    """A portfolio with a matrix, which is for few features."""
    few = Member("arow", {"covariance": "full"}, max_features=300)
    portfolio = [Member("fsol", {}), Member("arow", {}, "rms", "l2"), few]
    options: dict[str, Any] = {"n_features": WIDTH, "dtype": "float64", "parameters": {"portfolio": portfolio}}
    return Model.fresh("auto", Classes(-1, 1), **options)


def test_auto_matches_two_local_learners(launcher: SparkLauncher, files: Any, tmp_path: Path) -> None:
    found, expected = (learn_examples(where, files, auto(), merge_every=30).model for where in (launcher, Here(2)))
    for name, item in (("found", found), ("expected", expected)):
        write(tmp_path / name, item)
    assert (tmp_path / "found").read_bytes() == (tmp_path / "expected").read_bytes()
    (blend,) = found.learner.blends
    assert (blend.t, [line["out"] for line in blend.table()]) == (len(DATA), [None] * 3)
