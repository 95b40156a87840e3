"""Models whose classes come later: any label is learned, in the order of the journal, and soon predicted."""

import time

import numpy as np
import pytest

from tests.serve.servers import Server
from thinstream.batch import Batch
from thinstream.data.labels import GrowingClasses
from thinstream.models.file import read, write
from thinstream.models.model import Model


def begun():
    """A model that has met one class."""
    model = Model.fresh("arow", GrowingClasses("tea"), grow=True, fit_intercept=True)
    return model.learn(row(0, [0]), model.classes)[0]


def row(column, y):
    batch = Batch.of(np.arange(2), np.array([column], np.int32), np.ones(1, np.float32), column + 1)
    return batch.labelled(np.array(y, np.int32))


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("growing")
    write(folder / "m.ts", begun())
    result = Server(folder / "data", folder / "m.ts")
    result.until_ready()
    yield result
    result.stop()


def until(server, version):
    for _ in range(600):
        answer = server.post("/predict", {"x": {"1": 1.0}})[1]
        if answer["version"] >= version:
            return answer
        time.sleep(0.05)
    raise AssertionError(answer)


def test_classes_come_as_they_are_taught(server):
    """Late labels, other kinds of labels, and what a serial run makes of the same rows."""
    rows, labels = [{"1": 1.0}, {"2": 1.0}, {"3": 1.0}], ["tea", "coffee", "water"]
    assert server.post("/predict", {"x": rows[1], "id": "early"})[1]["label"] == "tea"
    assert server.post("/learn", {"x": rows[:2], "y": labels[:2]})[0] == 200
    assert server.post("/label", {"id": "early", "y": "coffee"})[1]["learned"] == 1
    status, answer = server.post("/learn", {"x": rows[2], "y": "water"})
    assert status == 200
    assert until(server, answer["entry"])["label"] == "tea"
    _, answer = server.post("/predict", {"x": rows})
    assert answer["label"] == labels
    assert np.shape(answer["score"]) == (3, 3)
    status, answer = server.post("/learn", {"x": rows[0], "y": 7})
    assert (status, answer["error"]) == (422, "y: labels must be strings like 'tea', got 7 at row 0")
    for bad in ("x" * 300, {"a": 1}, True):
        assert server.post("/learn", {"x": rows[0], "y": bad})[0] == 422
    assert server.post("/v2/models/m/infer", {"inputs": [_tensor()]})[1]["outputs"][1]["shape"] == [1, 3]
    assert server.stop() == 0
    model = begun()
    for column, label in ((0, 0), (1, 1), (1, 1), (2, 2)):
        classes, y = model.classes.numbered(labels, np.array([label], np.int32))
        model, _ = model.learn(row(column, y), classes)
    served = read(server.data / "m" / "checkpoint.ts")
    assert tuple(served.classes) == tuple(labels)
    for one, other in zip(served.learner.models, model.learner.models):
        np.testing.assert_array_equal(one.weights(), other.weights())
    server.start()
    server.until_ready()
    assert server.post("/predict", {"x": rows})[1]["label"] == labels


def _tensor():
    return {"name": "x", "datatype": "FP32", "shape": [1, 3], "data": [1, 0, 0]}


def test_no_archive_of_them(tmp_path):
    from thinstream.errors import InvalidInputError
    from thinstream.serve import Settings
    from thinstream.serve.folders import ServerPaths
    from thinstream.serve.learner import ModelWorker
    from thinstream.serve.served_models import register

    write(tmp_path / "m.ts", begun())
    paths = ServerPaths(tmp_path / "data")
    with paths.held():
        register(paths, [tmp_path / "m.ts"])
        with pytest.raises(InvalidInputError, match="accepts new classes"):
            ModelWorker("m", paths, Settings(archive=True))
        paths.clear()
