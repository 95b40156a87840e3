"""Who may ask what, and what is never shown."""

import os

import pytest

from tests.serve.conftest import made
from tests.serve.servers import Server, tokens_in
from thinstream.cli.app import run
from thinstream.errors import InvalidInputError, InvalidParameterError
from thinstream.serve.authentication import Guard, require_safe
from thinstream.serve.wire import Refused

READ, LEARN, ALL = "reader-of-the-scores", "teacher-of-the-model", "worker-of-all-things"
TOKENS = f"# comment\nread {READ}\nread,learn {LEARN}\n\nread,learn,admin  {ALL}\n"
ROW = {"x": {"1": 1.0}}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    folder = tmp_path_factory.mktemp("guarded")
    made(folder / "m.ts", "ham", "spam")
    tokens_in(folder, TOKENS)
    server = Server(folder / "data", folder / "m.ts", "--tokens", folder / "tokens", "--log")
    server.until_ready()
    yield server
    server.stop()


def test_scopes(guarded):
    """Without a token 401, with one for something else 403; health and docs are for all."""
    calls = {
        "read": ("/predict", ROW),
        "learn": ("/learn", ROW | {"y": "ham"}),
        "admin": ("/v2/repository/models/m/load", {}),
    }
    for token, scopes in ((READ, {"read"}), (LEARN, {"read", "learn"}), (ALL, {"read", "learn", "admin"})):
        for scope, (path, body) in calls.items():
            status, _ = guarded.post(path, body, Authorization=f"Bearer {token}")
            assert status == (200 if scope in scopes else 403)
    for given in ("", "Bearer", f"Basic {ALL}", f"Bearer {ALL}x", "Bearer \xff"):
        status, _, headers = guarded.ask("/predict", b"{}", Authorization=given)
        assert (status, headers["WWW-Authenticate"]) == (401, "Bearer")
    for path in ("/v2/health/live", "/v2/health/ready", "/docs", "/openapi.json"):
        assert guarded.get(path)[0] == 200
    assert guarded.get("/metrics")[0] == 401


def test_rows_with_ids_need_the_scope_learn(guarded):
    """They are learned later: a token that may only read must not decide what is learned."""
    row = {"x": {"1": 1.0}, "id": "order 1"}
    for path, kind, body in (
        ("/predict", "application/json", b'{"x": {"1": 1.0}, "id": "order 1"}'),
        ("/predict?id=order", "text/plain", b"1:1.0"),
    ):
        for token, expected in ((READ, 403), (LEARN, 200)):
            assert guarded.ask(path, body, kind=kind, Authorization=f"Bearer {token}")[0] == expected
    assert guarded.post("/predict", row | {"x": {"1": 2.0}}, Authorization=f"Bearer {LEARN}")[0] == 409
    assert guarded.post("/label", {"id": "order 1", "y": "ham"}, Authorization=f"Bearer {LEARN}")[1]["learned"] == 1


def test_the_log_has_no_bodies(guarded):
    """A line for each request, and nothing of what it said: no row, no id, no token, no query."""
    guarded.ask(
        "/predict?model=m&secret=query", b'{"x": {"1": 4711.25}, "id": "secret id"}', Authorization=f"Bearer {ALL}"
    )
    text_ = guarded.log_text()
    assert " POST /predict status=200 " in text_
    for secret in ("4711", "secret", ALL, READ):
        assert secret not in text_


def test_web_pages_need_a_token(server):
    """A page in a browser could send lines of text to this machine."""
    status, answer = server.post("/learn?model=two", ROW | {"y": "ham"}, Origin="https://example.org")
    assert status == 403
    assert "requests of web pages need a token" in answer["error"]


def test_other_names_of_this_machine_need_a_token(server, guarded):
    """Whose address somebody else may have set to this machine's."""
    row = {"x": {"1": 1.0}}
    for host, expected in (("localhost:1", 200), ("127.0.0.1", 200), ("[::1]:7", 200), ("evil.example:80", 403)):
        assert server.post("/predict?model=two", row, Host=host)[0] == expected
    assert server.ask("/metrics", Host="evil.example")[0] == 403
    assert guarded.post("/predict", row, Host="evil.example", Authorization=f"Bearer {READ}")[0] == 200


def test_errors_of_damaged_models_have_no_paths(guarded):
    """Also to those who may load it."""
    (guarded.data / "broken").mkdir()
    (guarded.data / "broken" / "model.ts").write_bytes(b"nonsense")
    status, answer = guarded.post("/v2/repository/models/broken/load", {}, Authorization=f"Bearer {ALL}")
    assert status == 422
    assert "'broken' cannot be loaded: " in answer["error"]
    assert str(guarded.data) not in answer["error"]
    (guarded.data / "broken" / "model.ts").unlink()


def test_wider_binding_needs_tokens():
    for host in ("127.0.0.1", "::1", "localhost", "127.8.9.1"):
        require_safe(host, Guard())
    for host in ("0.0.0.0", "::", "10.0.0.1", "example.org"):
        with pytest.raises(InvalidParameterError, match="other machines could send requests"):
            require_safe(host, Guard())
        require_safe(host, Guard.of(TOKENS, "tokens"))


@pytest.mark.parametrize("text", ["read short", "write a-long-enough-token", "read", "read a-long-enough-token more"])
def test_bad_files_of_tokens(text):
    with pytest.raises(InvalidInputError, match="tokens, line 1: must be scopes"):
        Guard.of(text, "tokens")


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o602, 0o610])
def test_tokens_that_others_may_access(tmp_path, mode):
    """Refused, with what to do about it; the server does not start."""
    path = tokens_in(tmp_path, TOKENS)
    Guard.read(path)
    path.chmod(mode)
    with pytest.raises(InvalidInputError, match=rf"Its mode is {mode:o} .* Run chmod 600 {path}"):
        Guard.read(path)


def test_tokens_of_another_user(tmp_path, monkeypatch):
    path, about = tokens_in(tmp_path, TOKENS), os.stat_result
    monkeypatch.setattr(os, "fstat", lambda file: about((0o100600, 0, 0, 1, os.getuid() + 1, 0, 0, 0, 0, 0)))
    with pytest.raises(InvalidInputError, match=f"its owner has the id {os.getuid() + 1}"):
        Guard.read(path)


def test_hosts_without_tokens():
    """Local ones, and those that are named."""
    guard = Guard(local=True, hosts=["TestServer"])
    for host in ("testserver", "TESTSERVER:80", "localhost:1", None):
        guard.require_host(host)
    for host in ("evil.example", "testserver.evil.example", "x.testserver"):
        with pytest.raises(Refused, match="got the host"):
            guard.require_host(host)


def test_no_tokens_at_all():
    with pytest.raises(InvalidInputError, match="tokens has no token"):
        Guard.of("# nobody\n", "tokens")
    Guard().require(None, "admin")
    guard = Guard.of(TOKENS, "tokens")
    with pytest.raises(Refused, match=r"needs a token\. "):
        guard.require(None, "read")
    with pytest.raises(Refused, match="unknown token"):
        guard.require("Bearer another-token-than-these", "read")


def test_without_a_token_it_ends_at_once(guarded, tmp_path, capsys, monkeypatch):
    """And says where the token comes from; the variable is one of the two places."""
    rows = tmp_path / "rows.svm"
    rows.write_text("1:1\n" * 40)
    monkeypatch.delenv("THINSTREAM_TOKEN", raising=False)
    command = ["load", guarded.url, str(rows), "--predict", "--connections", "1"]
    for token, message in ((None, "this server needs a token. "), ("not-one-of-its-tokens", "unknown token")):
        if token is not None:
            monkeypatch.setenv("THINSTREAM_TOKEN", token)
        assert run(command) == 1
        out, err = capsys.readouterr()
        assert "statuses: 401: 1\n" in out
        assert "1 of 1 requests failed, and the test was stopped. The first error: " in err
        assert message in err
        assert "--token-file FILE or the environment variable THINSTREAM_TOKEN" in err
        assert run(["models", "list", "--url", guarded.url]) == 1
        err = capsys.readouterr().err
        assert message in err
        assert "--token-file FILE or the environment variable THINSTREAM_TOKEN" in err
    monkeypatch.setenv("THINSTREAM_TOKEN", READ)
    assert run(command) == 0
    assert "statuses: 200: 40" in capsys.readouterr().out
    assert run([*command[:3]]) == 1  # to learn it has not the scope
    assert "scope 'learn'" in capsys.readouterr().err


def test_one_server_for_a_folder(guarded, tmp_path):
    """A second one is told so, and the first goes on."""
    import subprocess
    import sys

    command = [sys.executable, "-m", "thinstream", "serve", "--data", str(guarded.data), "--port", "0"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert result.returncode == 1
    assert "another server uses" in result.stderr
    assert guarded.get("/v2/health/ready")[0] == 200
