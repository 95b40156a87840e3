"""The application under another server: it starts its learning process, and ends it."""

import asyncio
import json

from tests.serve.conftest import made
from thinstream.models.file import read
from thinstream.serve import create_app


async def ask(app, path, body):
    """One request, as a server passes it on."""
    sent = []

    async def receive():
        return {"type": "http.request", "body": json.dumps(body).encode(), "more_body": False}

    async def send(message):
        sent.append(message)

    scope = {
        "type": "http", "method": "POST", "path": path, "raw_path": path.encode(), "query_string": b"", "headers": [],
        "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 2), "scheme": "http", "http_version": "1.1",
        "root_path": "",
    }  # fmt: skip
    await app(scope, receive, send)
    return sent[0]["status"], json.loads(b"".join(each.get("body", b"") for each in sent[1:]))


def test_any_server_that_speaks_asgi(tmp_path):
    made(tmp_path / "m.ts", "ham", "spam")
    app = create_app([tmp_path / "m.ts"], data=tmp_path / "data")

    async def live():
        async with app.router.lifespan_context(app):
            for _ in range(500):  # until the learning process is found
                status, answer = await ask(app, "/learn", {"x": {"1": 2.0}, "y": "ham", "request": "once"})
                if status == 200:
                    break
                await asyncio.sleep(0.02)
            assert (status, answer["entry"]) == (200, 1)
            assert (await ask(app, "/predict", {"x": {"1": 2.0}}))[1]["label"] in ("ham", "spam")

    asyncio.run(live())
    assert read(tmp_path / "data" / "m" / "checkpoint.ts").learner.t == 61
