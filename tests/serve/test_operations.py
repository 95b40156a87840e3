"""What operators rely on: health, metrics, logs, configuration, and deploying a retrained model."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time

import pytest

from tests.serve.conftest import made
from tests.serve.servers import SOURCE, Server
from thinstream.cli.app import run
from thinstream.serve.client import Client
from thinstream.serve.folders import Origin, ServerPaths, digest_of

TABLE = """label,amount,country,when,age
0,5.5,NO,2026-01-01,31
1,300,SE,2026-01-02,22
0,7,NO,2026-01-03,44
1,250,DK,2026-01-04,
"""
ROW = {"amount": 300, "country": "SE", "when": "2026-01-02", "age": 22}


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """A model of a table with four columns."""
    folder = tmp_path_factory.mktemp("table")
    (folder / "pay.csv").write_text(TABLE)
    assert run(["train", str(folder / "pay.csv"), "-a", "arow", "-m", str(folder / "pay.ts"), "-q"]) == 0
    return folder / "pay.ts"


@pytest.fixture(scope="module")
def tabular(table, tmp_path_factory):
    """A server of that model, and of one of numbered features."""
    folder = tmp_path_factory.mktemp("tabular")
    made(folder / "m.ts", "ham", "spam")
    server = Server(folder / "data", table, folder / "m.ts", "--log", "--log-format", "json")
    server.until_ready()
    yield server
    assert server.stop() == 0


def numbers(server):
    """The samples of /metrics."""
    lines = server.get("/metrics")[1].decode().splitlines()
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines if line[0] != "#")}


def up(server):
    """Whether the learner and a predictor answer."""
    try:
        return numbers(server)["thinstream_learner_up"] == 1
    except OSError:  # the connection of a killed predictor
        return False


def logged(server, **fields):
    """The lines of a log in JSON that have these fields."""
    lines = map(json.loads, server.log_text().splitlines())
    return [line for line in lines if all(line.get(name) == value for name, value in fields.items())]


def until(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def failing(folder, *arguments, **environment):
    """The standard error of a server that does not start."""
    command = [sys.executable, "-m", "thinstream", "serve", "--data", str(folder / "data"), "--port", "0", *arguments]
    known = {**os.environ, "PYTHONPATH": SOURCE, **environment}
    done = subprocess.run(command, capture_output=True, text=True, env=known, timeout=60)
    assert done.returncode in (1, 2), done
    return done.stderr


# Health ---------------------------------------------------------------------------------------------------------------


def test_ready_means_that_it_predicts(tmp_path):
    made(tmp_path / "m.ts", "ham", "spam")
    server = Server(tmp_path / "data", tmp_path / "m.ts")
    try:
        server.until_ready()
        learner = server.children()[0]
        os.kill(learner, signal.SIGSTOP)  # it neither answers nor is restarted
        try:
            status, body = server.get("/v2/health/learning")
            assert (status, json.loads(body)["learning"]) == (503, False)
            assert "learner" in json.loads(body)["reason"]
            assert server.get("/v2/health/ready") == (200, b'{"ready":true}')
            assert server.get("/v2/health/live") == (200, b'{"live":true}')
            assert server.post("/predict", {"x": {"1": 1.0}})[0] == 200
            known = numbers(server)
            assert (known["thinstream_learner_up"], known['thinstream_serving_version{model="m"}']) == (0, 0)
        finally:
            os.kill(learner, signal.SIGCONT)
        until(lambda: server.get("/v2/health/learning") == (200, b'{"learning":true}'))
        server.post("/v2/repository/models/m/unload", {})
        assert server.get("/v2/health/ready") == (503, b'{"ready":false,"reason":"no model is loaded"}')
    finally:
        server.kill()


def test_a_server_without_models_does_not_start(tmp_path):
    (tmp_path / "data").mkdir()
    assert "has no models. Pass a model file" in failing(tmp_path)
    server = Server(tmp_path / "data", "--allow-empty")
    assert server.get("/v2/health/ready")[0] == 503
    assert server.stop() == 0


# Columns --------------------------------------------------------------------------------------------------------------


def test_missing_and_unknown_columns_are_counted_and_logged(tabular):
    before = numbers(tabular).get('thinstream_missing_columns_total{model="pay"}', 0)
    assert tabular.post("/predict", {"model": "pay", "x": ROW})[0] == 200
    assert numbers(tabular).get('thinstream_missing_columns_total{model="pay"}', 0) == before
    for _ in range(2):
        assert tabular.post("/predict", {"model": "pay", "x": {"amount": 5}})[0] == 200
    assert tabular.post("/predict", {"model": "pay", "x": ROW | {"agee": 5}})[0] == 422
    known = numbers(tabular)
    assert known['thinstream_missing_columns_total{model="pay"}'] == before + 6
    assert known['thinstream_unknown_columns_total{model="pay"}'] == 1
    [line] = logged(tabular, message="rows lack columns that the model was trained with", model="pay")
    assert (line["level"], line["columns"]) == ("warning", "age, country, when")
    assert logged(tabular, columns="agee", model="pay")


@pytest.mark.parametrize("body", [{"model": "pay", "x": ROW, "explain": True}, b"300,SE,2026-01-02,22\n"])
def test_explanations_have_names(tabular, body):
    if isinstance(body, dict):
        status, answer = tabular.post("/predict", body)
        result = answer["explanation"]
    else:
        status, raw, _ = tabular.ask("/predict?model=pay&explain", body, "text/csv")
        result = json.loads(raw)["explanation"]
    assert status == 200
    assert {"country=SE", "amount", "when.day=02"} <= {*result["contributions"]}


def test_required_columns(table, tmp_path):
    server = Server(tmp_path / "data", table, "--require-columns")
    try:
        assert server.post("/predict", {"x": [ROW, {"amount": 5}]}) == (
            422,
            {
                "error": "x, row 1: this server requires the columns of the model (--require-columns), "
                "but the row lacks "
                "'age', 'country', 'when'"
            },
        )
        assert "has unknown columns, 'agee'" in server.post("/predict", {"x": ROW | {"agee": 5}})[1]["error"]
        assert server.post("/predict", {"x": ROW})[0] == 200
        assert server.post("/predict", {"x": ROW | {"age": None}})[0] == 200  # it is there, without a value
    finally:
        server.kill()


def test_csv_with_a_header(tabular):
    """Found by its names, or declared; columns may be in any order."""
    score = tabular.post("/predict", {"model": "pay", "x": ROW})[1]["score"]

    def predicted(text, kind="text/csv"):
        status, raw, _ = tabular.ask("/predict?model=pay", text.encode(), kind)
        return status, json.loads(raw)

    plain = "amount,country,when,age\n300,SE,2026-01-02,22\n"
    assert predicted(plain)[1]["score"] == [score] or predicted(plain)[1]["score"] == score
    shuffled = 'when,"country",age,amount\n2026-01-02,"SE",22,300\n2026-01-02,SE,22,300\n'
    assert predicted(shuffled, "text/csv; header=present")[1]["score"] == [score, score]
    assert predicted(shuffled.replace("\n", "\r\n"))[1]["score"] == [score, score]
    assert predicted("300,SE,2026-01-02,22", "text/csv; header=absent")[1]["score"] == score
    status, answer = predicted("amount,land\n300,SE\n", "text/csv; header=present")
    assert (status, answer["error"]) == (422, "the header has unknown columns: 'land'")
    status, answer = predicted("amount,age\n300\n")
    assert (status, answer["error"]) == (422, "x, row 0: the row must have 2 cells like the header, got 1")
    assert predicted("amount,age\n300,22\n")[0] == 200  # the other columns are missing
    assert predicted(plain, "text/csv; header=absent")[0] == 422
    before = numbers(tabular)['thinstream_rows_learned_total{model="pay"}']
    status, raw, _ = tabular.ask("/learn?model=pay", b"age,label,amount\n22,1,300\n31,0,5\n", "text/csv")
    assert (status, json.loads(raw)["rows"]) == (200, 2)
    until(lambda: numbers(tabular).get('thinstream_rows_learned_total{model="pay"}') == before + 2)


# Metrics --------------------------------------------------------------------------------------------------------------


def test_metrics_of_predictions_and_processes(tabular):
    before = numbers(tabular)
    assert tabular.post("/predict", {"model": "m", "x": [{"1": 9.0}, {"1": -9.0}, {"2": 1.0}]})[0] == 200
    tensor = {"name": "x", "datatype": "FP32", "shape": [1, 2], "data": [9.0, 0.0]}
    assert tabular.post("/v2/models/m/infer", {"inputs": [tensor]})[0] == 200
    assert tabular.post("/predict", {"model": "m", "id": "late", "x": {"1": 1.0}})[0] == 200
    assert tabular.post("/label", {"model": "m", "id": ["late", "never"], "y": ["ham", "ham"]})[0] == 200
    known = numbers(tabular)

    def rise(name):
        return known[name] - before.get(name, 0)

    assert (
        rise('thinstream_rows_predicted_total{model="m"}') == rise('thinstream_score_bucket{le="+Inf",model="m"}') == 5
    )
    labels = [rise(f'thinstream_predictions_total{{label="{label}",model="m"}}') for label in ("ham", "spam")]
    assert (sum(labels), min(labels) >= 1) == (5, True)
    for outcome in ("predicted", "learned", "unknown"):
        assert rise(f'thinstream_labels_total{{model="m",outcome="{outcome}"}}') == 1
    assert known["process_cpu_seconds_total"] >= before["process_cpu_seconds_total"] > 0
    assert known["process_resident_memory_bytes"] > 50e6
    assert {name.partition("{")[0] for name in known} >= {
        "thinstream_build_info", "thinstream_checkpoint_age_seconds", "thinstream_challengers", "process_open_fds",
        "thinstream_rows_since_checkpoint", "process_start_time_seconds", "thinstream_learning",
    }  # fmt: skip


def test_counters_never_fall_and_rows_agree_with_the_lag(tmp_path):
    """While rows are learned, the learner is killed; rows learned and the lag are of the same moment."""
    made(tmp_path / "m.ts", "ham", "spam")
    server = Server(tmp_path / "data", tmp_path / "m.ts", "--checkpoint-seconds", "0.3", "--workers", "2")
    server.until_ready()
    base = numbers(server)['thinstream_rows_learned_total{model="m"}']
    over, acknowledged = threading.Event(), []

    def learn():
        with Client(server.url) as client:
            while not over.is_set():
                acknowledged.append(client.learn({"1": 1.0}, "ham")["entry"])

    thread = threading.Thread(target=learn)
    thread.start()
    try:
        highest, kills, end = {}, 0, time.monotonic() + 12
        while time.monotonic() < end or kills < 2:
            entries = len(acknowledged)
            known = numbers(server)
            for name, value in known.items():
                if re.match(r"\w+(_total|_count|_bucket)\b", name):
                    assert value >= highest.get(name, 0), name
                    highest[name] = value
            rows = known.get('thinstream_rows_learned_total{model="m"}')
            if rows is not None:
                assert rows - base + known['thinstream_journal_lag{model="m"}'] >= entries
            if kills < 2 and len(acknowledged) > 200 * (kills + 1):
                os.kill(server.children()[0], signal.SIGKILL)  # the learner, then a predictor
                kills += 1
                until(lambda: up(server))
        over.set()
        thread.join()
        until(lambda: server.get("/v2/health/learning")[0] == 200)
        until(lambda: numbers(server)['thinstream_journal_lag{model="m"}'] == 0)
        known = numbers(server)
        assert known['thinstream_rows_learned_total{model="m"}'] - base == max(acknowledged) == len(acknowledged)
        assert sum(value for name, value in known.items() if "process_restarts" in name) == 2
    finally:
        over.set()
        server.kill()


def test_unmatched_requests_are_counted_and_logged(tabular):
    before = numbers(tabular).get('thinstream_requests_total{path="(unmatched)",status="404"}', 0)
    status, _, headers = tabular.ask("/nowhere", X_Request_ID="lost-1")
    assert (status, headers["X-Request-ID"]) == (404, "lost-1")
    status, _, headers = tabular.ask("/predict", X_Request_ID="lost-2")
    assert (status, headers["Allow"]) == (405, "POST")
    known = numbers(tabular)
    assert known['thinstream_requests_total{path="(unmatched)",status="404"}'] == before + 1
    assert known['thinstream_requests_total{path="(unmatched)",status="405"}'] >= 1
    assert logged(tabular, request_id="lost-1", status=404, path="/nowhere", level="warning")
    assert logged(tabular, request_id="lost-2", status=405, method="GET")


# The log --------------------------------------------------------------------------------------------------------------


def test_the_log_is_structured(tmp_path):
    """Every line is JSON with a time and a level: starts, checkpoints, restarts, promotions, requests, the end."""
    made(tmp_path / "m.ts", "ham", "spam")
    arguments = ["--log", "--log-format", "json", "--checkpoint-seconds", "0.2"]
    server = Server(tmp_path / "data", tmp_path / "m.ts", *arguments)
    try:
        server.until_ready()
        status, _, headers = server.ask("/learn", {"x": [{"1": 1.0}] * 3, "y": ["ham"] * 3}, X_Request_ID="first")
        assert (status, headers["X-Request-ID"]) == (200, "first")
        _, _, headers = server.ask("/predict", {"x": {"1": 1.0}}, X_Request_ID="not a name")
        made_id = headers["X-Request-ID"]
        assert re.fullmatch(r"[0-9a-f]{12}-[0-9a-f]+", made_id)
        with Client(server.url, "m") as client:
            client.challenge("m", "rival", "fsol")
            client.promote("m", "rival")
        os.kill(server.children()[0], signal.SIGKILL)
        until(lambda: logged(server, process="learner", level="warning"))
        server.until_ready()
    finally:
        code = server.stop()
    assert code == 0
    lines = [json.loads(line) for line in (tmp_path / "log.txt").read_text().splitlines()]
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line["time"]) for line in lines)
    assert {line["level"] for line in lines} <= {"info", "warning", "error"}
    messages = [line["message"] for line in lines]
    assert any(message.startswith("serving m on http://127.0.0.1:") for message in messages)
    assert messages[-1] == "stopped"
    for message in (
        "checkpoint written",
        "challenger rival promoted",
        "the learner was killed by SIGKILL; restarting it",
    ):
        assert message in messages
    [line] = [line for line in lines if line.get("request_id") == "first"]
    assert (line["message"], line["model"], line["rows"], line["status"]) == ("POST /learn", "m", 3, 200)
    assert any(line.get("request_id") == made_id for line in lines)


# Configuration --------------------------------------------------------------------------------------------------------


def test_configuration(tmp_path, monkeypatch, capsys):
    """The command line overrides the environment, which overrides the file, which overrides defaults."""
    file = tmp_path / "serve.toml"
    file.write_text('port = 9001\nworkers = 3\nmax-rows = 77\narchive = true\nmodels = ["mail=mail.ts"]\n')
    monkeypatch.setenv("THINSTREAM_SERVE_WORKERS", "4")
    monkeypatch.setenv("THINSTREAM_SERVE_SOURCE", "redis://user:secret@h/s?group=g nats://h/x")
    assert run(["serve", "--config", str(file), "--max-rows", "55", "--print-config"]) == 0
    told = capsys.readouterr().out
    assert "secret" not in told
    for line in (
        f"port = 9001  # {file}", "workers = 4  # THINSTREAM_SERVE_WORKERS", "max-rows = 55  # command line",
        f"archive = true  # {file}", 'host = "127.0.0.1"  # default', f'models = ["mail=mail.ts"]  # {file}',
        'source = ["redis://…@h/s?group=g", "nats://h/x"]  # THINSTREAM_SERVE_SOURCE',
    ):  # fmt: skip
        assert line in told.splitlines()
    (tmp_path / "again.toml").write_text(told)
    monkeypatch.delenv("THINSTREAM_SERVE_WORKERS")
    assert run(["serve", "--config", str(tmp_path / "again.toml"), "--print-config"]) == 0
    assert "workers = 4  # " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("toml", "message"),
    [
        ("prot = 1", "unknown option 'prot'; did you mean 'port'?"),
        ("port = 99999", "port must be a whole number from 0 to 65535, got '99999'"),
        ("archive = 3", "archive must be true or false, got 3"),
        ("models = 3", "models must be a list of strings, got 3"),
        ("port =", "is not a TOML file"),
    ],
)
def test_wrong_configuration(tmp_path, capsys, toml, message):
    (tmp_path / "serve.toml").write_text(toml)
    assert run(["serve", "--config", str(tmp_path / "serve.toml")]) == 1
    assert message in " ".join(capsys.readouterr().err.split()).replace("--port must", "port must")


def test_secrets_come_from_files_or_the_environment(tmp_path):
    assert "Set it in THINSTREAM_BROKER_PASSWORD" in failing(tmp_path, "--source", "m=redis://u:secret@h/s")
    made(tmp_path / "m.ts", "ham", "spam")
    assert "--tokens FILE, set THINSTREAM_SERVER_TOKENS" in failing(
        tmp_path, str(tmp_path / "m.ts"), "--host", "0.0.0.0"
    )
    os.environ["THINSTREAM_SERVER_TOKENS"] = "read read-token-of-16-letters;read,learn other-token-of-16-letters"
    try:
        server = Server(tmp_path / "data", tmp_path / "m.ts")
    finally:
        del os.environ["THINSTREAM_SERVER_TOKENS"]
    try:
        assert server.post("/predict", {"x": {"1": 1.0}})[0] == 401
        bearer = {"Authorization": "Bearer read-token-of-16-letters"}
        assert server.post("/predict", {"x": {"1": 1.0}}, **bearer)[0] == 200
        assert server.post("/learn", {"x": {"1": 1.0}, "y": "ham"}, **bearer)[0] == 403
    finally:
        server.kill()


# Deployment -----------------------------------------------------------------------------------------------------------


def test_a_retrained_file_replaces_the_model_at_the_start(tmp_path):
    """Once, also if the container restarts; what was learned is a version, and can be rolled back to."""
    file = tmp_path / "m.ts"
    made(file, "ham", "spam", seed=0)
    first = file.read_bytes()
    server = Server(tmp_path / "data", file, "--on-retrained", "replace")
    with Client(server.url, "m") as client:
        client.learn([{"1": 1.0}] * 4, ["ham"] * 4)
    server.until_ready()
    assert server.stop() == 0
    made(file, "ham", "spam", seed=7)
    assert "--on-retrained replace to deploy it" in failing(tmp_path, str(file))
    score = scored(file)
    for number in range(3):
        server.start()
        server.until_ready()
        until(lambda: server.post("/predict", {"x": {"1": 1.0, "2": -1.0}})[1]["score"] == score)
        with Client(server.url, "m") as client:
            versions = client.versions("m")["versions"]
            assert [version["cause"] for version in versions].count("before a promotion") == 1
        if number == 1:  # as if the process had ended before the file was noted
            (tmp_path / "data" / "m" / "origin").write_text(digest_of(first))
            server.kill()
        else:
            assert server.stop() == 0
    assert Origin(tmp_path / "data" / "m").digests == [digest_of(first), digest_of(file.read_bytes())]
    file.write_bytes(first)  # back to the first one, and to the second once more
    for _ in range(2):
        server.start()
        server.until_ready()
        until(lambda: server.post("/predict", {"x": {"1": 1.0, "2": -1.0}})[1]["score"] == scored(file))
        assert server.stop() == 0
        made(file, "ham", "spam", seed=7)


def scored(file):
    from thinstream.models.file import read
    from thinstream.serve import Limits
    from thinstream.serve.request_rows import RowReader

    model = read(file)
    return float(model.learner.scores(RowReader(model, Limits()).rows({"1": 1.0, "2": -1.0}))[0])


def test_a_retrained_file_becomes_a_challenger(tmp_path):
    file = tmp_path / "m.ts"
    made(file, "ham", "spam", seed=0)
    server = Server(tmp_path / "data", file, "--on-retrained", "challenge")
    before = scored(file)
    assert server.stop() == 0
    made(file, "ham", "spam", seed=7)
    server.start()
    try:
        server.until_ready()
        name = f"file-{digest_of(file.read_bytes())[:12]}"
        with Client(server.url, "m") as client:
            until(lambda: [item["name"] for item in client.challengers("m")["challengers"]] == [name])
            assert server.post("/predict", {"x": {"1": 1.0, "2": -1.0}})[1]["score"] == before
            client.promote("m", name)
        until(lambda: server.post("/predict", {"x": {"1": 1.0, "2": -1.0}})[1]["score"] == scored(file))
    finally:
        server.kill()


def test_a_retrained_file_of_other_data_is_refused(tmp_path, table):
    made(tmp_path / "m.ts", "ham", "spam")
    server = Server(tmp_path / "data", tmp_path / "m.ts", f"pay={table}")
    assert server.stop() == 0
    made(tmp_path / "other.ts", "ham", "eggs")
    message = failing(tmp_path, f"m={tmp_path / 'other.ts'}", "--on-retrained", "replace")
    assert "cannot be deployed as 'm': its classes must be" in message
    (tmp_path / "pay.csv").write_text(TABLE.replace("country", "land"))
    assert run(["train", str(tmp_path / "pay.csv"), "-a", "arow", "-m", str(tmp_path / "pay.ts"), "-q"]) == 0
    message = failing(tmp_path, str(tmp_path / "pay.ts"), "--on-retrained", "replace")
    assert "it was trained with other reading options ('columns' or 'layout')" in message
    assert Origin(ServerPaths(tmp_path / "data").folder("m")).digests == [digest_of((tmp_path / "m.ts").read_bytes())]


def test_rolling_restarts_under_load(tmp_path):
    """32 clients predict and learn while the server is restarted: retries heal every request, and counts are exact."""
    made(tmp_path / "m.ts", "ham", "spam")
    server = Server(tmp_path / "data", tmp_path / "m.ts", "--workers", "2")
    server.until_ready()
    base = numbers(server)['thinstream_rows_learned_total{model="m"}']
    over, learned, errors = threading.Event(), [0] * 32, []
    client = Client(server.url, "m", patience=60)

    def ask(number):
        try:
            while not over.is_set():
                assert client.predict({"1": 1.0})["label"] in ("ham", "spam")
                if number % 4 == 0:
                    client.learn({"1": 1.0, "2": float(number)}, "ham")
                    learned[number] += 1
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(32)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(3):
            time.sleep(1.5)
            assert server.stop() == 0
            server.start()
        time.sleep(1.5)
    finally:
        over.set()
        for thread in threads:
            thread.join()
        client.close()
    try:
        assert not errors
        until(lambda: server.get("/v2/health/learning")[0] == 200)
        until(lambda: numbers(server)['thinstream_journal_lag{model="m"}'] == 0)
        assert numbers(server)['thinstream_rows_learned_total{model="m"}'] - base == sum(learned) > 100
    finally:
        server.kill()
