"""From a source to a model on Ray: the serial run's bits from one worker, also when a worker is killed on the way."""

import os
import pickle
import signal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from thinstream.batch import Batch, Position
from thinstream.distributed.features import learn_features
from thinstream.distributed.on_ray import RayLauncher
from thinstream.evaluate.several import progress_for
from thinstream.learners import Classes, Learner
from thinstream.models.model import Model
from thinstream.streams.opening import open_stream
from thinstream.streams.stream import START, Stream

pytestmark = pytest.mark.ray
ROWS, WIDTH, FILES = 600, 40, 6


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ...]:
    """Rows with some noise in libsvm format, in two classes; each file is a batch."""
    draw = np.random.default_rng(7)
    hidden = draw.normal(size=WIDTH)
    lines = []
    for _ in range(ROWS):
        indices = np.sort(draw.choice(WIDTH, 6, replace=False))
        values = draw.normal(size=6)
        label = "+1" if values @ hidden[indices] + draw.normal() > 0 else "-1"
        lines.append(" ".join([label, *(f"{j + 1}:{x:.4f}" for j, x in zip(indices, values))]))
    folder = tmp_path_factory.mktemp("rows")
    paths = tuple(folder / f"part-{number}.svm" for number in range(FILES))
    for number, path in enumerate(paths):
        path.write_text("".join(line + "\n" for line in lines[number::FILES]))
    return paths


@pytest.fixture(scope="module")
def launcher(ray_cluster: str) -> Iterator[RayLauncher]:
    made = RayLauncher(2, address=ray_cluster, _node_ip_address="127.0.0.1")
    yield made
    made.close()


@dataclass(frozen=True)
class Mortal:
    """A source, and each of its shards: the first worker that comes to the row is killed there."""

    inner: Any
    mark: Path
    row: int

    def shards(self, workers: int) -> list["Mortal"]:
        return [Mortal(shard, self.mark, self.row) for shard in self.inner.shards(workers)]

    def open(self) -> Stream:
        return _Mortal(self.inner.open(), self.mark, self.row)  # type: ignore[return-value]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "inner":
            raise AttributeError(name)
        return getattr(self.inner, name)


class _Mortal:
    def __init__(self, stream: Stream, mark: Path, row: int) -> None:
        self.stream, self.mark, self.row = stream, mark, row

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)

    def batches(self, start: Position = START) -> Iterator[Batch]:
        for batch in self.stream.batches(start):
            if batch.first_row >= self.row and not self.mark.exists():
                self.mark.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            yield batch


@dataclass(frozen=True)
class Whole:
    paths: tuple[Path, ...]

    def shards(self, workers: int) -> Sequence["Whole"]:
        return [self]

    def open(self) -> Stream:
        return open_stream(self.paths, dtype="float64", workers=1)

    def fingerprint(self) -> dict[str, Any]:
        return self.open().fingerprint()


def model(name: str = "fsol", **options: Any) -> Model:
    return Model(Learner(name, **{"dtype": "float64", "n_features": WIDTH, **options}), Classes(-1, 1))


def serial(given: Model, stream: Stream) -> tuple[Any, Any]:
    learner, progress = pickle.loads(pickle.dumps(given.learner)), progress_for(2)
    for batch in stream.batches():
        assert batch.y is not None
        progress.update(learner.learn(batch), batch.y)
    return learner, progress


def weights(learner: Any) -> Any:
    return learner.weights()


@pytest.mark.parametrize("name", ["fsol", "arow"])
def test_by_features_the_serial_run_up_to_rounding(launcher: RayLauncher, files: tuple[Path, ...], name: str) -> None:
    alone, progress = serial(model(name), Whole(files).open())
    state = learn_features(launcher, Whole(files), model(name))
    np.testing.assert_allclose(weights(state.model.learner), weights(alone), rtol=0, atol=1e-9)
    assert state.progress.arrays().keys() == progress.arrays().keys()
    assert state.progress.rows == ROWS


def test_by_features_a_killed_worker_changes_no_bit(
    launcher: RayLauncher, files: tuple[Path, ...], tmp_path: Path
) -> None:
    calm = learn_features(launcher, Whole(files), model(), checkpoint=tmp_path / "calm", segment=200)
    mortal = Mortal(Whole(files), tmp_path / "killed", row=300)
    rough = learn_features(launcher, mortal, model(), checkpoint=tmp_path / "rough", segment=200)
    assert (tmp_path / "killed").exists()
    assert weights(rough.model.learner).tobytes() == weights(calm.model.learner).tobytes()
