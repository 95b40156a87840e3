"""Versions and challengers over HTTP and on the command line."""

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress

import pytest

from tests.serve.conftest import made
from tests.serve.rows import random_rows
from tests.serve.servers import SOURCE, Server, tokens_in
from tests.serve.test_kill import Load
from thinstream.models.file import read
from thinstream.models.model import Model
from thinstream.serve.client import Client, ServerError
from thinstream.serve.versions import Versions


@pytest.fixture(scope="module")
def managed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("managed")
    made(folder / "m.ts", -1, 1)
    server = Server(folder / "data", folder / "m.ts")
    server.until_ready()
    yield server
    assert server.stop() == 0
    assert "Traceback" not in (folder / "log.txt").read_text()


def models(server, *words):
    """`thinstream models …`: its exit code, and what it says."""
    command = [sys.executable, "-m", "thinstream", "models", *words, "--url", server.url]
    done = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": SOURCE}, timeout=120
    )
    return done.returncode, done.stdout + done.stderr


def test_a_day_with_versions_and_challengers(managed, tmp_path):
    rows, labels = random_rows(300)
    with Client(managed.url, "m") as client:
        client.learn(rows[:100], labels[:100])
        kept = client.keep_version("m")
        assert (kept["kept"], kept["done"]) == (1, True)
        before = client.predict(rows[:5])["score"]
        client.learn(rows[100:200], labels[100:200])
        client.challenge("m", "rival", "ssol", {"eta": 0.5})
        client.learn(rows[200:], labels[200:])
        compared = client.compare("m", 1, "now")
        assert compared["changed"] > 0
        assert compared["versions"][0] == 1
        body = {
            "inputs": [{"name": "rows", "datatype": "BYTES", "shape": [5], "data": [line(row) for row in rows[:5]]}]
        }
        status, old = managed.post("/v2/models/m/versions/1/infer", body)
        assert (status, old["model_version"]) == (200, "1")
        assert old["outputs"][1]["data"] == pytest.approx(before)
        promoted = client.promote("m", "rival")
        assert client.status()["parameters"]["algorithm"] == "SSOL"
        assert [item["version"] for item in client.versions("m")["versions"]] == [promoted["kept"], 1, 0]
        assert client.challengers("m")["challengers"] == []
        back = client.rollback("m", 1)
        assert client.predict(rows[:5])["score"] == before
        assert client.predict(rows[0])["version"] == back["entry"]
        status, result = managed.post("/v2/models/m/versions/99/infer", body)
        assert (status, "there is no version '99'" in result["error"]) == (404, True)
        with pytest.raises(ServerError, match="there is no version '99'"):
            client.rollback("m", 99)
        with pytest.raises(ServerError, match="there is no challenger 'nobody'"):
            client.promote("m", "nobody")


def line(row):
    return " ".join(f"{j}:{x}" for j, x in sorted(row.items(), key=lambda pair: int(pair[0])))


def test_the_command_line(managed, tmp_path):
    with Client(managed.url, "m") as client:
        client.learn(*(item[:50] for item in random_rows(50, seed=5)))
    code, message = models(managed, "keep", "m", "--json")
    kept = json.loads(message)["kept"]
    assert code == 0
    code, message = models(managed, "challenge", "m", "rival", "--algorithm", "fsol", "--set", "eta=0.25")
    assert (code, "m has the challenger rival; it serves version" in message) == (0, True)
    with Client(managed.url, "m") as client:
        client.learn(*(item[:50] for item in random_rows(50, seed=6)))
    code, message = models(managed, "list")
    assert code == 0
    assert f"{kept:>12}" in message
    assert "rival (FSOL)" in message
    code, message = models(managed, "compare", "m", str(kept), "now")
    assert (code, "weights differ" in message) == (0, True)
    code, message = models(managed, "show", "m", str(kept))
    assert (code, "on request" in message) == (0, True)
    code, message = models(managed, "promote", "m", "rival")
    assert (code, "m was replaced by rival, and the previous champion is version" in message) == (0, True)
    code, message = models(managed, "rollback", "m", str(kept))
    assert (code, f"m was rolled back to version {kept}, and its previous state is version" in message) == (0, True)
    file = tmp_path / "same.ts"
    file.write_bytes(Versions(managed.data / "m").path(kept).read_bytes())
    assert models(managed, "challenge", "m", "same", str(file))[0] == 0
    assert models(managed, "withdraw", "m", "same")[0] == 0
    error = "thinstream: the arguments must be 'thinstream models rollback MODEL VERSION', got 1 after rollback"
    assert models(managed, "rollback", "m")[1].startswith(error)
    assert "either a model FILE or --algorithm" in models(managed, "challenge", "m", "x")[1]
    assert "NAME=VALUE" in models(managed, "challenge", "m", "x", "-a", "arow", "--set", "eta")[1]
    assert "the action must be 'list', 'show'" in models(managed, "dance")[1]


def test_changes_need_the_scope_admin(tmp_path):
    made(tmp_path / "m.ts", "ham", "spam")
    tokens_in(tmp_path, "read,learn a-token-of-somebody\nread,admin another-token-of-somebody\n")
    server = Server(tmp_path / "data", tmp_path / "m.ts", "--tokens", tmp_path / "tokens")
    try:
        server.until_ready()
        with Client(server.url, "m", token="a-token-of-somebody") as client:
            assert client.versions("m")["version"] == 0
            for call in (lambda: client.keep_version("m"), lambda: client.rollback("m", 0),
                         lambda: client.challenge("m", "x", "arow"), lambda: client.promote("m", "x"),
                         lambda: client.withdraw("m", "x")):  # fmt: skip
                with pytest.raises(ServerError, match="scope 'admin'"):
                    call()
        with Client(server.url, "m", token="another-token-of-somebody") as client:
            assert client.keep_version("m")["done"]
    finally:
        server.kill()


def changes(url, done, rounds):
    """Keeps, goes back, challenges and promotes, again and again; what was acknowledged, in order."""
    with Client(url, "m", patience=120) as client:
        for k in range(rounds):
            done.append(("challenge", client.challenge("m", f"rival-{k}", "arow")["entry"], None))
            time.sleep(0.1)
            done.append(("promote", client.promote("m", f"rival-{k}")["entry"], done[-1][1]))
            kept = client.keep_version("m")["kept"]
            time.sleep(0.1)
            done.append(("rollback", client.rollback("m", kept)["entry"], kept))


def run(tmp_path, rounds):
    """Killed under load and changes, the model is the one that the journal says."""
    model = made(tmp_path / "m.ts", "ham", "spam")
    arguments = ["--checkpoint-seconds", "0.3", "--archive", "--versions", "1000"]
    server = Server(tmp_path / "data", tmp_path / "m.ts", *arguments)
    server.until_ready()
    load, done = Load(server.url, 2), []
    changer, rng, kills = threading.Thread(target=changes, args=(server.url, done, rounds)), random.Random(7), 0
    changer.start()
    while changer.is_alive():
        changer.join(rng.uniform(0.2, 0.7))
        with suppress(ProcessLookupError, IndexError):
            os.kill(server.children()[0], signal.SIGKILL)  # the learning process is the oldest
            kills += 1
            server.until_ready()
    load.stop()
    server.until_ready()
    assert server.stop() == 0
    assert "Traceback" not in (tmp_path / "log.txt").read_text()
    assert len(done) == 3 * rounds
    assert kills >= rounds
    folder = tmp_path / "data" / "m"
    final = replayed(model, folder, done)
    result = read(folder / "checkpoint.ts").learner
    assert (result.t, result.algorithm.name) == (final.learner.t, "AROW")
    state = result.outputs.one.memory.state
    assert state.tobytes() == final.learner.outputs.one.memory.state[: len(state)].tobytes()


def replayed(model, folder, done):
    """The model, from the archive and the acknowledged changes alone, in one process."""
    from thinstream.data.labels import Classes
    from thinstream.data.opening import open_stream

    segments = {int(path.stem): open_stream(path) for path in sorted((folder / "archive").glob("*.cache"))}
    ends = sorted({*segments, *(entry for _, entry, _ in done)})
    changed = {entry: (what, of) for what, entry, of in done}
    versions, rivals, champion = {0: model.copy()}, {}, model
    for end in ends:
        for batch in segments[end].batches() if end in segments else ():
            rows = batch.labelled(batch.y, None)
            champion, _ = champion.learn(rows, champion.classes)
            rivals = {name: rival.learn(rows, rival.classes)[0] for name, rival in rivals.items()}
        what, of = changed.get(end, (None, None))
        if what == "challenge":
            rivals[end] = Model.fresh("arow", Classes("ham", "spam"), grow=True, fit_intercept=True)
        elif what == "promote":
            champion = rivals.pop(of)
        elif what == "rollback":
            champion = versions[max(version for version in versions if version <= of)].copy()
        versions[end] = champion.copy()
    return champion


def test_killed_between_changes(tmp_path):
    run(tmp_path, 1)


@pytest.mark.slow
def test_killed_often_between_changes(tmp_path):
    run(tmp_path, 20)
