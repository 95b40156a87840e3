"""What `train` and `DistributedClassifier` refuse, before any worker begins; and learning inside joblib."""

import gzip

import numpy as np
import pytest
from sklearn.model_selection import cross_val_score

import thinstream as ts
from thinstream.cli.app import run
from thinstream.distributed import train
from thinstream.errors import FileWriteError, InvalidInputError, InvalidParameterError
from thinstream.estimators.distributed import DistributedClassifier

X = np.random.default_rng(0).normal(size=(120, 5))
Y = X[:, 0] > 0


class Dataset:
    """Looks like one of Ray."""


Dataset.__module__ = "ray.data"


@pytest.fixture
def path(tmp_path):
    result = tmp_path / "a.svm"
    result.write_text("+1 1:1\n-1 2:1\n")
    return result


@pytest.mark.parametrize(
    ("estimator", "options", "message"),
    [
        (ts.FSOL, {}, r"estimator must be an instance such as FSOL\(\), got the class"),
        (3, {}, "estimator must be an online learner of thinstream, got int"),
        ("fsol", {}, r"got 'fsol'. thinstream.make\('fsol'\) creates an estimator by name"),
        (ts.FGM(), {}, "estimator must be an online learner of thinstream, got FGM"),
        (ts.FSOL(), {"engine_options": {"foo": 1}}, "the options of engine 'local' must be 'retries', got 'foo'"),
        (ts.FSOL(), {"engine": ts.FSOL()}, "engine must be 'ray', 'spark' or 'local', or a launcher"),
    ],
)
def test_parameters(path, estimator, options, message):
    with pytest.raises(InvalidParameterError, match=message):
        train(path, estimator, **{"engine": "local", **options})


def test_sources():
    with pytest.raises(InvalidInputError, match=r"got ndarray\. For arrays, use DistributedClassifier"):
        train(X, ts.FSOL(), engine="local")
    for engine in ("local", "spark"):
        with pytest.raises(
            InvalidInputError, match=f"only the engine 'ray' can read a Ray Dataset, got engine '{engine}'"
        ):
            train(Dataset(), ts.FSOL(), engine=engine)


def test_checkpoints(path, tmp_path):
    with pytest.raises(FileWriteError, match=r"is a folder\. Give the name of a file"):
        train(path, ts.FSOL(), engine="local", checkpoint=tmp_path)


def test_estimators_of_the_classifier():
    for bad in ("x", ts.FSOL):
        with pytest.raises(InvalidParameterError, match=r"such as FSOL\(\), got"):
            DistributedClassifier(bad).fit(X, Y)


def test_inside_joblib():
    model = DistributedClassifier(ts.FSOL(), engine="local", workers=1)
    assert cross_val_score(model, X, Y, n_jobs=2, cv=2).mean() > 0.7


def test_more_workers_than_parts_are_refused_before_workers_start(tmp_path, monkeypatch):
    path = tmp_path / "a.svm.gz"
    path.write_bytes(gzip.compress(b"+1 1:1\n-1 2:1\n" * 50))
    started = []
    monkeypatch.setattr("thinstream.distributed.job.launcher_for", lambda *a, **k: started.append(a))
    message = "1 file for 2 workers: only plain text"
    with pytest.raises(InvalidInputError, match=message):
        train(path, ts.FSOL(), engine="local", workers=2)
    assert run(["train", str(path), "-a", "fsol", "--engine", "local", "--workers", "2", "-q"]) == 1
    assert not started
