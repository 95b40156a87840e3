"""The application under another server: it starts its learning process, and ends it."""

import asyncio
import json

import pytest

from tests.serve.conftest import made
from thinstream.errors import InvalidInputError
from thinstream.models.file import read
from thinstream.serve import Limits, create_app
from thinstream.serve.folders import ServerPaths
from thinstream.serve.served_models import ServedModels, register
from thinstream.serve.shared_memory import publish
from thinstream.serve.wire import Refused


async def ask(app, path, body, host="localhost:8000"):
    """One request, as a server passes it on."""
    sent = []

    async def receive():
        return {"type": "http.request", "body": json.dumps(body).encode(), "more_body": False}

    async def send(message):
        sent.append(message)

    scope = {
        "type": "http", "method": "POST", "path": path, "raw_path": path.encode(), "query_string": b"",
        "headers": [(b"host", host.encode())],
        "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 2), "scheme": "http", "http_version": "1.1",
        "root_path": "",
    }  # fmt: skip
    await app(scope, receive, send)
    return sent[0]["status"], json.loads(b"".join(item.get("body", b"") for item in sent[1:]))


def test_a_process_of_a_server_that_was_killed(tmp_path):
    """It puts off whoever still asks it, when the next server has cleared what they shared; a model is not unknown."""
    made(tmp_path / "m.ts", "ham", "spam")
    paths = ServerPaths(tmp_path / "data")
    with paths.held():
        register(paths, [tmp_path / "m.ts"])
        publish(paths.weights("m"), read(tmp_path / "m.ts"), version=1)
        models = ServedModels(paths, Limits())
        models.warm_up()
        assert models("m")[1].about["version"] == 1
    for name in ("m", None):
        with ServerPaths(tmp_path / "data").held():  # the next server
            models._known.clear()
            with pytest.raises(Refused, match="is restarting") as refused:
                models(name)
            assert (refused.value.status, refused.value.retry_after) == (503, 1)
    with paths.held():
        with pytest.raises(Refused, match="no model 'm' is loaded"):
            models("m")
        paths.clear()


def test_any_server_that_speaks_asgi(tmp_path):
    made(tmp_path / "m.ts", "ham", "spam")
    app = create_app([tmp_path / "m.ts"], data=tmp_path / "data", hosts=["models.example"])

    async def live():
        async with app.router.lifespan_context(app):
            for _ in range(500):  # until the learning process is found
                status, answer = await ask(app, "/learn", {"x": {"1": 2.0}, "y": "ham", "request": "once"})
                if status == 200:
                    break
                await asyncio.sleep(0.02)
            assert (status, answer["entry"]) == (200, 1)
            assert (await ask(app, "/predict", {"x": {"1": 2.0}}))[1]["label"] in ("ham", "spam")
            assert (await ask(app, "/predict", {"x": {"1": 2.0}}, "models.example"))[0] == 200
            status, answer = await ask(app, "/predict", {"x": {"1": 2.0}}, "evil.example")
            assert (status, "got the host 'evil.example'" in answer["error"]) == (403, True)

    asyncio.run(live())
    assert read(tmp_path / "data" / "m" / "checkpoint.ts").learner.t == 61


def test_leftovers_of_killed_servers_are_removed(tmp_path):
    """Any server of the user removes it when it starts; what running servers have stays."""
    one, two, three = (ServerPaths(tmp_path / name) for name in ("one", "two", "three"))
    with one.held(), two.held():
        for paths in (one, two):
            paths.weights("m").write_bytes(b"weights")
    with two.held():  # the lock of one is free, as after a kill
        assert not one.weights("m").exists()
        two.weights("m").write_bytes(b"weights")
        with three.held():
            assert not one.shared.exists()  # removed by the second start
            assert two.weights("m").exists()
        with one.held():
            assert one.metrics.exists()
            assert two.weights("m").exists()
    for paths in (one, two, three):
        paths.clear()


def test_a_folder_whose_lock_was_removed(tmp_path, monkeypatch):
    """It is served nevertheless: the lock in shared memory is still there."""
    monkeypatch.setattr("thinstream.serve.folders._PATIENCE", 0.1)
    paths = ServerPaths(tmp_path / "data")
    with paths.held():
        paths.lock.unlink()
        with pytest.raises(InvalidInputError, match="another server uses"), ServerPaths(paths.data).held():
            pass
        paths.clear()
