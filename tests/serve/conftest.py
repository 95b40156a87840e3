"""One server for the tests that only ask it."""

import numpy as np
import pytest

from tests.serve.servers import Server
from thinstream.batch import Batch
from thinstream.data.labels import Classes
from thinstream.models.file import write
from thinstream.models.model import Model
from thinstream.serve.folders import ServerPaths


def made(path, *labels, n=60, seed=0, **options):
    """A model file of numbered features that has learned a little."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 5)).astype(np.float32)
    number = rng.integers(len(labels), size=n)
    y = np.where(number > 0, 1, -1).astype(np.int8) if len(labels) == 2 else number.astype(np.int32)
    model = Model.fresh("arow", Classes(*labels), n_features=5, grow=True, fit_intercept=True, **options)
    columns = np.tile(np.arange(5, dtype=np.int32), n)
    model.learner.learn(Batch.of(np.arange(0, 5 * n + 1, 5), columns, X.ravel(), 5, y=y))
    write(path, model)
    return model


@pytest.fixture(scope="session")
def models(tmp_path_factory):
    """Model files of two and three classes; pair and triple are left as they are, tests may teach the others."""
    folder = tmp_path_factory.mktemp("models")
    return {
        "two": (folder / "two.ts", made(folder / "two.ts", "ham", "spam")),
        "three": (folder / "three.ts", made(folder / "three.ts", 0, 1, 2)),
        "pair": (folder / "pair.ts", made(folder / "pair.ts", "ham", "spam")),
        "triple": (folder / "triple.ts", made(folder / "triple.ts", 0, 1, 2)),
    }


@pytest.fixture(scope="session")
def server(models, tmp_path_factory):
    """A server of both, and of a fresh one of named features."""
    data = tmp_path_factory.mktemp("server") / "data"
    files = [path for path, _ in models.values()]
    result = Server(data, *files, "--new", "fresh:arow:ham,spam", "--max-rows", "300", "--max-body", "200000")
    result.until_ready()
    yield result
    assert result.stop() == 0
    assert "Traceback" not in (data.parent / "log.txt").read_text()


@pytest.fixture
def paths(tmp_path):
    """The folder of a server, held by this process."""
    paths = ServerPaths(tmp_path / "data")
    with paths.held():
        yield paths
        paths.clear()


@pytest.fixture(autouse=True)
def all_levels(caplog):
    """Let tests read everything that the server's modules log in this process."""
    caplog.set_level("INFO", "thinstream.serve")
