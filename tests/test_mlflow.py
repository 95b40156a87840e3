"""Models in MLflow: saved, logged, loaded, scored in process and by a server that MLflow starts."""

import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import thinstream as ts
from thinstream.errors import InvalidInputError

mlflow = pytest.importorskip("mlflow", reason="needs mlflow: pip install -e '.[mlflow]', make test-mlflow")
pytestmark = [pytest.mark.mlflow, pytest.mark.filterwarnings("ignore")]

from thinstream import mlflow as flavor  # noqa: E402


@pytest.fixture(scope="module")
def rows():
    X = sp.random_array((300, 20), density=0.2, rng=np.random.default_rng(0), format="csr", dtype=np.float32)
    return X, np.array(["ham", "spam"])[(X.sum(axis=1) > 1.0).astype(int)]


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    mlflow.set_tracking_uri(f"sqlite:///{tmp_path}/mlflow.db")


def sparse_frame(X):
    ends = zip(X.indptr[:-1], X.indptr[1:])
    cells = [(X.indices[a:b].tolist(), X.data[a:b].tolist()) for a, b in ends]
    return pd.DataFrame(cells, columns=["indices", "values"])


@pytest.mark.parametrize("answer", flavor.ANSWERS)
def test_saved_and_loaded(rows, answer, tmp_path):
    X, y = rows
    model = ts.AROW(calibrate=True).fit(X, y)
    flavor.save_model(model, tmp_path / "m", answer=answer, metadata={"of": "mail"})
    back = flavor.load_model(tmp_path / "m")
    assert back.decision_function(X).tobytes() == model.decision_function(X).tobytes()
    assert back.partial_fit(X, y).t_ == 600
    scorer = mlflow.pyfunc.load_model(str(tmp_path / "m"))
    assert scorer.metadata.metadata == {"of": "mail"}
    expected = getattr(model, answer)(X)
    for given in (X, sp.csr_matrix(X), X.toarray(), sparse_frame(X)):
        np.testing.assert_array_equal(scorer.predict(given), expected)


def test_a_refitted_model(rows, tmp_path):
    X, y = rows
    small = ts.AROW().fit(X, y).thin(5, X, y)
    flavor.save_model(small, tmp_path / "m", answer="predict_proba")
    assert flavor.load_model(tmp_path / "m").coef_.tobytes() == small.coef_.tobytes()
    scorer = mlflow.pyfunc.load_model(str(tmp_path / "m"))
    np.testing.assert_array_equal(scorer.predict(X), small.predict_proba(X))


@pytest.mark.parametrize("kind", ["sparse", "dense", "frame"])
def test_a_signature_and_an_example_are_logged(rows, kind):
    """The signature is that of the example; rows like it are predicted, and others are refused by MLflow."""
    X, y = rows
    forms = {
        "sparse": sp.csr_matrix(X),
        "dense": X.toarray(),
        "frame": pd.DataFrame(X.toarray(), columns=list("abcdefghijklmnopqrst")),
    }
    given = forms[kind]
    model = ts.AROW(calibrate=True).fit(given, y)
    with mlflow.start_run():
        info = flavor.log_model(
            model, "spam", answer="predict_proba", input_example=X[:3] if kind == "sparse" else given[:3]
        )
    known = mlflow.models.get_model_info(info.model_uri)
    assert known.signature.inputs is not None
    assert known.signature.outputs is not None
    example = mlflow.models.Model.load(info.model_uri).load_input_example(info.model_uri)
    assert example.shape == (3, 20)
    scorer = mlflow.pyfunc.load_model(info.model_uri)
    np.testing.assert_allclose(scorer.predict(given), model.predict_proba(given), rtol=1e-6)
    with pytest.raises(mlflow.exceptions.MlflowException, match="schema"):
        scorer.predict(given[:, :7] if kind != "frame" else given[["a"]])


def test_logged_and_registered(rows):
    X, y = rows
    model = ts.Auto().fit(X, y)
    with mlflow.start_run():
        info = flavor.log_model(model, "spam", registered_model_name="mail")
    assert flavor.load_model(info.model_uri).decision_function(X).tobytes() == model.decision_function(X).tobytes()
    assert mlflow.pyfunc.load_model("models:/mail/1").predict(X).tolist() == model.predict(X).tolist()


def test_named_features(tmp_path):
    (tmp_path / "d.csv").write_text("label,age,city\n" + "0,3,Oslo\n1,40,O'Brien\n" * 50)
    model = ts.AROW().fit_stream(ts.open_stream(tmp_path / "d.csv"))
    flavor.save_model(model, tmp_path / "m", answer="decision_function")
    frame = pd.DataFrame({"age": [3, 50], "city": ["Oslo", None]})
    found = mlflow.pyfunc.load_model(str(tmp_path / "m")).predict(frame)
    np.testing.assert_array_equal(found, model.decision_function(frame))


def test_errors(rows, tmp_path):
    model = ts.AROW().fit(*rows)
    with pytest.raises(InvalidInputError, match=r"answer must be 'predict', .* got 'score'"):
        flavor.save_model(model, tmp_path / "m", answer="score")
    flavor.save_model(model, tmp_path / "m")
    with pytest.raises(InvalidInputError, match="Give a new or empty folder"):
        flavor.save_model(model, tmp_path / "m")
    with pytest.raises(InvalidInputError, match="indices must be from 0 to 19, got 3 to 20"):
        flavor._load_pyfunc(str(tmp_path / "m" / "model.ts")).predict({"indices": [[3, 20]], "values": [[1, 1]]})
    with pytest.raises(InvalidInputError, match="each index needs a value"):
        flavor.sparse_rows([[1]], [[1.0, 2.0]], 5)


def test_served(rows, tmp_path):
    """By `mlflow models serve`, in this environment: sparse rows of JSON in, labels out."""
    X, y = rows
    model = ts.AROW().fit(X, y)
    flavor.save_model(model, tmp_path / "m")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "mlflow", "models", "serve", "-m", str(tmp_path / "m"), "-p", str(port)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PATH": _path()}
    log = open(tmp_path / "serve.log", "w")  # noqa: SIM115 (closed below)
    process = subprocess.Popen(
        [*command, "--env-manager", "local"], env=environment, stdout=log, stderr=log, start_new_session=True
    )
    try:
        body = {"dataframe_records": sparse_frame(X).to_dict("records")}
        found = _asked(f"http://127.0.0.1:{port}", body, process, tmp_path / "serve.log")
        assert found["predictions"] == model.predict(X).tolist()
    finally:
        os.killpg(process.pid, 15)
        process.wait(30)
        log.close()


def _path():
    return os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])


def _asked(address, body, process, log, seconds=180):
    for _ in range(seconds):
        assert process.poll() is None, log.read_text()
        try:
            urllib.request.urlopen(f"{address}/ping", timeout=5)
            break
        except (urllib.error.URLError, ConnectionError):
            time.sleep(1)
    request = urllib.request.Request(
        f"{address}/invocations", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)
