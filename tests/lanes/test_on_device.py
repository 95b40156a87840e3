"""Models of many classes, and Auto's, on a GPU or in its simulator: scores and files have the bytes of the CPU's."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from papers import p0_common as p0
from papers.places import grids_on

import thinstream as ts
from tests.lanes.cuda.cases import require_device
from thinstream.batch import Batch
from thinstream.data.labels import Classes, GrowingClasses
from thinstream.errors import DeviceWarning, InvalidInputError, NumericalError
from thinstream.lanes import devices
from thinstream.models import blend as blends
from thinstream.models.file import read, write
from thinstream.models.model import Model
from thinstream.models.outputs import Outputs

pytestmark = [pytest.mark.interpreted, pytest.mark.gpu]
WIDTH, CLASSES = 7, Classes(*"abcd")
#: No logistic loss, of which a GPU has other bits; some models come to stand alone in their group.
EXACT = [ts.FSOL(eta=0.5), ts.FSOL(eta=2.0, normalize="l2"), ts.AROW(scale="rms", normalize="l2"), ts.AROW(r=3.0)]


@pytest.fixture(autouse=True)
def _device():
    require_device()


def rows(seed, n, width=WIDTH, classes=4, weights=False):
    rng = np.random.default_rng(seed)
    X = sp.csr_matrix(np.round(rng.normal(size=(n, width)), 2) * (rng.random((n, width)) < 0.5))
    y = rng.integers(0, classes, n).astype(np.int32)
    batch = Batch.of(X.indptr, X.indices, X.data, width, y=y)
    return batch.labelled(y, rng.choice([0.0, 1.0, 2.0], n)) if weights else batch


def in_bytes(model, path):
    write(path, model)
    return path.read_bytes()


def both(make):
    """The model on the CPU, and on the device."""
    home, away = make(), make()
    away.learner.outputs.place("cuda")
    return home, away


KINDS = {
    "arow": ("arow", {}, {"fit_intercept": True, "class_weight": "balanced"}),
    "sofs": ("sofs", {"B": 3}, {}),
    "prepared": ("fsol", {}, {"scale": "rms", "normalize": "l2", "dtype": "float64"}),
    "budget": ("adafobos", {}, {"max_features": 6, "admit": 1}),
    "auto": ("auto", {"portfolio": EXACT}, {"fit_intercept": True}),
    "auto, prepared": ("auto", {"portfolio": EXACT[:1]}, {"normalize": "l2"}),
    "auto, budget": ("auto", {"portfolio": EXACT[:2]}, {"max_features": 6, "admit": 1}),
}


@pytest.mark.parametrize("kind", KINDS)
def test_classes(kind, tmp_path):
    name, parameters, options = KINDS[kind]
    options = {"class_weight": None, **options}
    home, away = both(lambda: Model.fresh(name, CLASSES, grow=True, n_features=0, parameters=parameters, **options))
    for k, (n, width) in enumerate([(6, 4), (12, WIDTH), (16, WIDTH)]):
        batch = rows(k, n, width, weights=k == 1)
        home, expected = home.learn(batch, CLASSES)
        cut = 1 + n // 3  # chunks do not matter
        found = []
        for part in (batch.until(cut), batch.after(cut)):
            away, scores = away.learn(part, CLASSES)
            found.append(scores)
        assert np.concatenate(found).tobytes() == expected.tobytes()
        assert away.learner.outputs.n_lanes_on_gpu
        assert in_bytes(away, tmp_path / "away") == in_bytes(home, tmp_path / "home")
    unseen = rows(9, 6, WIDTH + 2)
    assert away.learner.scores(unseen).tobytes() == home.learner.scores(unseen).tobytes()
    for read_ in ("nnz", "t", "n_mistakes", "n_updates", "cumulative_loss"):
        np.testing.assert_array_equal(getattr(away.learner, read_), getattr(home.learner, read_))
    moved = pickle.loads(pickle.dumps(away))
    assert b"cuda" not in pickle.dumps(away)
    copied = away.copy()
    away.learner.outputs.to_cpu()
    _, expected = home.learn(rows(5, 6), CLASSES)
    assert not away.learner.outputs.n_lanes_on_gpu
    assert not moved.learner.outputs.n_lanes_on_gpu
    for model, there in ((away, True), (moved, False), (copied, True), (read(tmp_path / "away"), False)):
        assert model.learn(rows(5, 6), CLASSES)[1].tobytes() == expected.tobytes()
        assert bool(model.learner.outputs.n_lanes_on_gpu) == there


@pytest.mark.parametrize("parameters", [{}, {"portfolio": EXACT[:3]}], ids=["fsol", "auto"])
def test_classes_that_come_later(parameters, tmp_path):
    def make():
        classes = GrowingClasses(class_weight={"c": 3.0})
        return Model.fresh("auto" if parameters else "fsol", classes, None, grow=True, parameters=parameters)

    home, away = both(make)
    for k, n in enumerate((1, 2, 4, 4)):
        known = GrowingClasses(*"abcd"[:n], class_weight={"c": 3.0})
        batch = rows(k, 10 * n, classes=n)
        y = np.sort(batch.y) if k < 3 else batch.y
        batch = batch.labelled(np.ascontiguousarray(y), None)
        home, expected = home.learn(batch, known)
        away, found = away.learn(batch, known)
        assert found.tobytes() == expected.tobytes()
        assert away.learner.outputs.n_lanes_on_gpu
        assert in_bytes(away, tmp_path / "away") == in_bytes(home, tmp_path / "home")


def test_auto_leaves_out_models_on_a_device(tmp_path, monkeypatch):
    """Lanes without a share go, of each class others; a share of 30 % is nothing here."""
    monkeypatch.setattr(blends, "FIRST_DROP", 64)
    monkeypatch.setattr(blends, "WORTH", 0.3)
    home, away = both(lambda: Model.fresh("auto", CLASSES, None, n_features=WIDTH, parameters={"portfolio": EXACT}))
    for k, n in enumerate((100, 100, 80)):
        home, expected = home.learn(rows(k, n), CLASSES)
        away, found = away.learn(rows(k, n), CLASSES)
        assert found.tobytes() == expected.tobytes()
    assert 4 <= away.learner.outputs.n_lanes_on_gpu < 16
    assert in_bytes(away, tmp_path / "away") == in_bytes(home, tmp_path / "home")


def test_auto_of_two_classes(tmp_path, monkeypatch):
    monkeypatch.setattr(blends, "FIRST_DROP", 64)
    monkeypatch.setattr(blends, "WORTH", 0.3)
    home, away = both(lambda: Model.fresh("auto", Classes(0, 1), None, grow=True, parameters={"portfolio": EXACT}))
    for k, n in enumerate((20, 130)):
        batch = rows(k, n, WIDTH + k, classes=2)
        batch = batch.labelled(np.where(batch.y > 0, 1, -1).astype(np.int8), None)
        assert away.learner.learn(batch).tobytes() == home.learner.learn(batch).tobytes()
    assert 0 < away.learner.outputs.n_lanes_on_gpu < 4
    assert in_bytes(away, tmp_path / "away") == in_bytes(home, tmp_path / "home")


@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning", "ignore:invalid value:RuntimeWarning")
def test_models_that_cannot_go_on(tmp_path):
    """A lane of a blend is out where a row would leave infinite numbers; of plain classes that is an error."""
    huge = rows(3, 4)
    huge.values[:] = 1e30
    home, away = both(lambda: Model.fresh("auto", CLASSES, None, n_features=WIDTH, parameters={"portfolio": EXACT}))
    for batch in (rows(0, 20), huge, rows(1, 20)):
        home, expected = home.learn(batch, CLASSES)
        away, found = away.learn(batch, CLASSES)
        assert found.tobytes() == expected.tobytes()
    assert in_bytes(away, tmp_path / "away") == in_bytes(home, tmp_path / "home")
    assert any(line["out"] for line in next(iter(away.learner.models)).table())
    plain = Model.fresh("arow", CLASSES, None, n_features=WIDTH)
    plain.learner.outputs.place("cuda")
    with pytest.raises(NumericalError, match="the learner of class number"):
        plain.learn(huge, CLASSES)


def few(monkeypatch, enough):
    """Four lanes pay, after so many non-zeros × classes."""
    monkeypatch.setattr(devices, "has_gpu", lambda: True)
    monkeypatch.setattr(devices, "FEWEST", 4)
    monkeypatch.setattr(devices, "PER_THREAD", 4)
    monkeypatch.setattr(Outputs, "enough", enough)


def test_a_gpu_is_taken_where_it_pays(monkeypatch):
    """By the number of lanes, once there is enough to learn, and only if that changes no bits."""
    few(monkeypatch, enough=200)

    def after(name, classes, n=30, **parameters):
        model = Model.fresh(name, Classes(*range(classes)), None, n_features=WIDTH, parameters=parameters)
        model.learner.outputs.place("auto")
        return model.learn(rows(0, n, classes=classes), model.classes)[0].learner.outputs.n_lanes_on_gpu

    assert (after("arow", 4), after("arow", 3), after("arow", 4, n=3)) == (4, 0, 0)
    assert (after("fsol", 4), after("adafobos", 4, loss="logistic"), after("smidas", 4)) == (4, 0, 0)
    assert after("auto", 3) == 3 * 5  # three are logistic, one has a matrix
    assert after("auto", 3, portfolio=[ts.AROW()]) == 0


@pytest.mark.parametrize(("name", "parameters"), [("arow", {}), ("auto", {"portfolio": EXACT})])
def test_what_does_not_fit_stays(name, parameters, monkeypatch):
    """By "auto"; who insists on a GPU is told."""
    from thinstream.lanes.cuda.block import CudaBlock

    few(monkeypatch, enough=1)
    made = [Model.fresh(name, CLASSES, None, n_features=WIDTH, grow=True, parameters=parameters) for _ in range(4)]
    alone, asked, insisting, refused = made
    for model, device in ((asked, "auto"), (insisting, "cuda"), (refused, "auto")):
        model.learner.outputs.place(device)
    with monkeypatch.context() as patch:
        patch.setattr(CudaBlock, "room", staticmethod(lambda: 100))
        with pytest.raises(InvalidInputError, match="are free on the GPU"):
            insisting.learn(rows(0, 5), CLASSES)
        refused.learn(rows(0, 5), CLASSES)
    for model in (alone, asked, insisting):
        model.learn(rows(0, 5), CLASSES)
    assert [model.learner.outputs.n_lanes_on_gpu > 0 for model in made] == [False, True, True, False]
    monkeypatch.setattr(CudaBlock, "room", staticmethod(lambda: 0))
    wide = rows(1, 5, 100)
    with pytest.raises(InvalidInputError, match="are free on the GPU"):
        insisting.learn(wide, CLASSES)
    expected = alone.learn(wide, CLASSES)[1]
    with pytest.warns(DeviceWarning, match="do not fit on the GPU, so training continues on the CPU"):
        found = asked.learn(wide, CLASSES)[1]
    assert found.tobytes() == expected.tobytes() == refused.learn(wide, CLASSES)[1].tobytes()
    assert not asked.learner.outputs.n_lanes_on_gpu


@pytest.mark.parametrize("make", [ts.AROW, lambda **given: ts.Auto(portfolio=EXACT, **given)], ids=["arow", "auto"])
def test_estimators(make, tmp_path):
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(40, 5)), rng.choice(["x", "y", "z"], 40)
    home, away = make(shuffle=True, random_state=0), make(shuffle=True, random_state=0, device="cuda")
    for model in (home, away):
        model.fit(X, y).partial_fit(X[:9], y[:9])
    assert away._model.learner.outputs.n_lanes_on_gpu
    assert away.coef_.tobytes() == home.coef_.tobytes()
    assert away.decision_function(X).tobytes() == home.decision_function(X).tobytes()
    for name, model in (("home", home), ("away", away)):
        ts.save(model, tmp_path / name)
    assert (tmp_path / "away").read_bytes() == (tmp_path / "home").read_bytes()
    loaded = ts.load(tmp_path / "away")
    assert loaded.device == "cpu"
    again = pickle.loads(pickle.dumps(away))
    assert (again.device, again._model.learner.outputs.n_lanes_on_gpu) == ("cuda", 0)
    for model in (home, away, again, loaded.set_params(device="cuda")):
        model.partial_fit(X[:7], y[:7])
        assert model.coef_.tobytes() == home.coef_.tobytes()
        assert bool(model._model.learner.outputs.n_lanes_on_gpu) == (model is not home)
    away.set_params(device="cpu").partial_fit(X[:1], y[:1])
    assert not away._model.learner.outputs.n_lanes_on_gpu
    assert away.thin(3).coef_.tobytes() == home.partial_fit(X[:1], y[:1]).thin(3).coef_.tobytes()


def test_grids_of_experiments():
    batch = rows(0, 20)
    batch = batch.labelled(np.where(batch.y > 1, 1, -1).astype(np.int8), None)
    home = p0.learned(p0.SPARSE["FSOL"], {}, [0.0, 0.1], batch)
    with grids_on("cuda"):
        away = p0.learned(p0.SPARSE["FSOL"], {}, [0.0, 0.1], batch)
    assert (away.device, home.device) == ("cuda", "cpu")
    assert p0.weights_of(away).tobytes() == p0.weights_of(home).tobytes()


def test_a_model_that_is_out_stays_out():
    """One that failed before it came to the device, and one that is told to learn no more there."""
    from thinstream.models.members import Group

    found = []
    for device in ("cpu", "cuda"):
        group = Group("fsol", [{"eta": eta} for eta in (0.5, 1.0, 2.0, 3.0, 4.0)], n_features=WIDTH, device=device)
        batch = rows(3, 12, classes=2)
        batch = batch.labelled(np.where(batch.y > 0, 1, -1).astype(np.int8), None)
        group.learn(batch.until(4))
        group.fail(1, 4)
        scores = group.learn(batch.after(4))
        found.append((scores.tobytes(), group.out().tolist(), group.failed, [m.weights().tobytes() for m in group]))
    assert found[0] == found[1]
    assert found[0][1] == [False, True, False, False, False]
