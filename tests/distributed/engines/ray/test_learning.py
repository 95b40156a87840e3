"""From a source to a model on Ray: bits of the serial run from one worker, also when workers are killed on the way."""

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thinstream as ts
from thinstream.algorithms.auto import Member
from thinstream.batch import Batch, Position
from thinstream.data.labels import Classes
from thinstream.data.stream import START, Stream
from thinstream.distributed.engines.ray import RayDatasetSource, RayLauncher
from thinstream.distributed.job import learn, train
from thinstream.distributed.rounds import _kept
from thinstream.distributed.sources import FileSource
from thinstream.estimators.distributed import DistributedClassifier
from thinstream.lanes.learner import Learner
from thinstream.models.file import write
from thinstream.models.model import Model
from thinstream.training.checkpoint import State
from thinstream.training.metrics import Progress
from thinstream.training.observer import Observer, Step

pytestmark = [
    pytest.mark.ray,
    pytest.mark.filterwarnings("ignore::DeprecationWarning:ray"),  # Ray's warnings about itself
    pytest.mark.filterwarnings("ignore::FutureWarning:ray"),
]
ROWS, WIDTH, FILES = 600, 40, 6


@dataclass(frozen=True)
class Mortal:
    """A source, and each of its shards: the first worker that comes to the row is killed there."""

    inner: Any
    mark: Path
    row: int

    def shards(self, workers: int) -> list["Mortal"]:
        return [replace(self, inner=shard) for shard in self.inner.shards(workers)]

    @property
    def feature_space(self) -> Any:
        return self.inner.feature_space

    def fingerprint(self) -> Any:
        return self.inner.fingerprint()

    def open(self) -> Any:
        return _Stream(self.inner.open(), self)

    def strike(self) -> None:
        try:
            os.close(os.open(self.mark, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return
        os.kill(os.getpid(), signal.SIGKILL)


class _Stream:
    def __init__(self, inner: Stream, source: Mortal) -> None:
        self._inner, self._source = inner, source

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def batches(self, start: Position = START) -> Iterator[Batch]:
        for batch in self._inner.batches(start):
            if batch.first_row >= self._source.row:
                self._source.strike()
            yield batch


class Here:
    """Workers one after another, in this process, that remember nothing."""

    remembers, worthwhile = False, 1 << 12

    def __init__(self, workers: int) -> None:
        self.workers = workers

    def share(self, value: Any) -> Callable[[], Any]:
        return lambda: value

    def run_tasks(self, tasks: Sequence[Callable[[], Any]]) -> list[Any]:
        return [task() for task in tasks]


@dataclass(frozen=True)
class Remembered:
    """What a worker's process has kept of its last round: the number of the base, and its bits."""

    worker: int

    def __call__(self) -> tuple[int, int, list[bytes]]:
        kept = _kept[self.worker]
        return os.getpid(), kept.version, [array.tobytes() for array in kept.base.outputs.one.memory]  # type: ignore[union-attr]


class Interrupting(Observer):
    """Ends a run after so many rows."""

    lines = False

    def __init__(self, rows: int) -> None:
        self.rows = rows

    def moved(self, step: Step) -> None:
        if step.rows >= self.rows:
            raise KeyboardInterrupt


@pytest.fixture(scope="module")
def data() -> list[tuple[int, list[int], list[float]]]:
    """Rows of two classes, with some noise."""
    draw = np.random.default_rng(7)
    hidden, made = draw.normal(size=WIDTH), []
    for _ in range(ROWS):
        indices, values = np.sort(draw.choice(WIDTH, 6, replace=False)), np.round(draw.normal(size=6), 4)
        label = 1 if values @ hidden[indices] + draw.normal() > 0 else -1
        made.append((label, indices.tolist(), values.tolist()))
    return made


@pytest.fixture(scope="module")
def files(data: Any, tmp_path_factory: pytest.TempPathFactory) -> FileSource:
    """They in libsvm format; each file is a batch."""
    folder = tmp_path_factory.mktemp("rows")
    for number in range(FILES):
        part = data[number * ROWS // FILES : (number + 1) * ROWS // FILES]
        lines = [" ".join([str(y), *(f"{j + 1}:{x}" for j, x in zip(a, b))]) + "\n" for y, a, b in part]
        (folder / f"part-{number}.svm").write_text("".join(lines))
    return FileSource(folder / "part-*.svm", dtype="float64")


@pytest.fixture(scope="module")
def dataset(data: Any, ray_cluster: str) -> Iterator[RayDatasetSource]:
    """They as a Ray Dataset, computed before workers hold all CPUs; each block is a batch."""
    import ray
    import ray.data

    ray.init(ray_cluster, _node_ip_address="127.0.0.1", log_to_driver=False, logging_level="ERROR")
    try:
        ray.data.DataContext.get_current().enable_progress_bars = False
        rows = [{"label": y, "indices": a, "values": b} for y, a, b in data]
        yield RayDatasetSource(ray.data.from_items(rows, override_num_blocks=FILES), dtype="float64")
    finally:
        ray.shutdown()


@pytest.fixture(scope="module")
def launcher(dataset: RayDatasetSource) -> Iterator[RayLauncher]:
    made = RayLauncher(2)
    yield made
    made.close()


def model(name: str = "fsol", **options: Any) -> Model:
    return Model(Learner(name, **{"n_features": WIDTH, "dtype": "float64", **options}), Classes(-1, 1))


def memory(state: Any) -> list[bytes]:
    return [array.tobytes() for array in state.model.learner.outputs.one.memory]


def bits(state: Any) -> list[bytes]:
    """Of the model, and of what was counted."""
    return [*memory(state), *(array.tobytes() for array in state.progress.arrays().values())]


def serial(given: Model, source: Any) -> State:
    progress = Progress(2)
    for batch in source.shards(1)[0].open().batches():
        progress.update(given.learner.learn(batch), batch.y, batch.weights)
    return State(given, progress, 1, START)


# By examples ----------------------------------------------------------------------------------------------------------


def test_one_worker_has_the_bits_of_the_serial_run(launcher: RayLauncher, files: Any, dataset: Any) -> None:
    alone = RayLauncher(1, cpus=0)  # beside the others
    try:
        for source in (files, dataset):
            expected = serial(model(), source)
            found = learn(alone, source, model(), merge_every=70)
            assert memory(found) == memory(expected)
            assert found.progress.report() == expected.progress.report()
    finally:
        alone.close()


def test_two_workers_match_two_local_learners(launcher: RayLauncher, files: Any, dataset: Any) -> None:
    for source in (files, dataset):
        found = learn(launcher, source, model())
        assert bits(found) == bits(learn(Here(2), source, model()))
        assert found.progress.rows == ROWS


def test_all_workers_have_the_same_model(launcher: RayLauncher, dataset: Any) -> None:
    learn(launcher, dataset, model(), merge_every=30)
    (one, first, here), (two, second, there) = launcher.run_tasks([Remembered(0), Remembered(1)])
    assert one != two
    assert first == second == ROWS // 2 // 30 - 1  # the base of the last round: all merges but the last
    assert here == there


@pytest.mark.parametrize("kind", ["files", "dataset"])
def test_a_killed_worker_changes_no_bit(
    launcher: RayLauncher, request: pytest.FixtureRequest, tmp_path: Path, kind: str
) -> None:
    source = request.getfixturevalue(kind)
    calm = learn(launcher, source, model(), merge_every=30)
    rough = learn(launcher, Mortal(source, tmp_path / "killed", 200), model(), merge_every=30)
    assert (tmp_path / "killed").exists()
    assert bits(rough) == bits(calm)


def test_a_resumed_run_is_bit_identical(launcher: RayLauncher, files: Any, tmp_path: Path) -> None:
    place = tmp_path / "run.ts"
    options: dict[str, Any] = {"merge_every": 30, "checkpoint": place, "checkpoint_every": 1}
    with pytest.raises(KeyboardInterrupt):
        learn(launcher, files, model(), **options, watch=Interrupting(250))
    assert place.exists()
    resumed = learn(launcher, files, model(), **options, resume=True)
    assert bits(resumed) == bits(learn(launcher, files, model(), merge_every=30))


def test_train_fits_an_estimator(launcher: RayLauncher, files: Any, dataset: Any) -> None:
    paths = list(files.files)
    fitted = train(paths, ts.FSOL(l1=1.0), engine=launcher)
    assert fitted.progressive_.rows == fitted.t_ == ROWS
    serial_run = ts.FSOL(l1=1.0).fit_stream(ts.open_stream(paths))
    assert fitted.coef_.shape == serial_run.coef_.shape


def auto() -> Model:
    """A portfolio with a matrix, which is for few features."""
    few = Member("arow", {"covariance": "full"}, max_features=300)
    portfolio = [Member("fsol", {}), Member("arow", {}, "rms", "l2"), few]
    options: dict[str, Any] = {"n_features": WIDTH, "dtype": "float64", "parameters": {"portfolio": portfolio}}
    return Model.fresh("auto", Classes(-1, 1), **options)


def test_auto_matches_two_local_learners(launcher: RayLauncher, files: Any, tmp_path: Path) -> None:
    found, expected = (learn(where, files, auto(), merge_every=70).model for where in (launcher, Here(2)))
    for name, item in (("found", found), ("expected", expected)):
        write(tmp_path / name, item)
    assert (tmp_path / "found").read_bytes() == (tmp_path / "expected").read_bytes()
    (blend,) = found.learner.blends
    assert (blend.t, [line["out"] for line in blend.table()]) == (ROWS, [None] * 3)


def test_a_pipeline_can_hold_it(launcher: RayLauncher) -> None:
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import MaxAbsScaler

    draw = np.random.default_rng(2)
    X = draw.normal(size=(200, 5))
    y = np.where(X[:, 0] > X[:, 1], "yes", "no")
    fitted = make_pipeline(MaxAbsScaler(), DistributedClassifier(ts.FSOL(), engine=launcher)).fit(X, y)
    assert fitted.score(X, y) > 0.9
