"""What `train` and `DistributedClassifier` refuse, before any worker begins; and learning inside joblib."""

import numpy as np
import pytest
from sklearn.model_selection import cross_val_score

import thinstream as ts
from thinstream.distributed import DistributedClassifier, train
from thinstream.errors import FileWriteError, InvalidInputError, InvalidParameterError

X = np.random.default_rng(0).normal(size=(120, 5))
Y = X[:, 0] > 0


class Dataset:
    """Looks like one of Ray."""


Dataset.__module__ = "ray.data"


@pytest.fixture
def path(tmp_path):
    found = tmp_path / "a.svm"
    found.write_text("+1 1:1\n-1 2:1\n")
    return found


@pytest.mark.parametrize(
    ("estimator", "options", "message"),
    [
        (ts.FSOL, {}, r"estimator must be an instance, FSOL\(\), got the class"),
        (3, {}, "estimator must be an online learner of thinstream, or the name of one, got int"),
        (ts.FSOL(), {"engine_options": {"foo": 1}}, "engine 'local' takes the options 'retries', got 'foo'"),
        (ts.FSOL(), {"engine": ts.FSOL()}, "engine must be 'ray', 'spark' or 'local', or a launcher"),
        (ts.SMIDAS(), {"mode": "features"}, "SMIDAS ranks or couples"),
        (ts.FSOL(half_life=9), {"mode": "features"}, "FSOL: mode='features' has no half_life"),
    ],
)
def test_parameters(path, estimator, options, message):
    with pytest.raises(InvalidParameterError, match=message):
        train(path, estimator, **{"engine": "local", **options})


def test_sources():
    with pytest.raises(InvalidInputError, match="got ndarray; for arrays there is DistributedClassifier"):
        train(X, ts.FSOL(), engine="local")
    for engine in ("local", "spark"):
        with pytest.raises(InvalidInputError, match=f"by workers of engine 'ray' only, got engine '{engine}'"):
            train(Dataset(), ts.FSOL(), engine=engine)


def test_checkpoints(path, tmp_path):
    for mode, place in (("examples", tmp_path), ("features", path)):
        with pytest.raises(FileWriteError, match=f"but a checkpoint of mode {mode} is a"):
            train(path, ts.FSOL(), engine="local", mode=mode, checkpoint=place)
    assert path.exists()


def test_estimators_of_the_classifier():
    for bad in ("x", ts.FSOL):
        with pytest.raises(InvalidParameterError, match=r"such as FSOL\(\), got"):
            DistributedClassifier(bad).fit(X, Y)


def test_inside_joblib():
    model = DistributedClassifier(ts.FSOL(), engine="local", workers=1)
    assert cross_val_score(model, X, Y, n_jobs=2, cv=2).mean() > 0.7
