"""``train --live`` and ``--report``."""

import json
import re
import threading
import urllib.error
import urllib.request

import pytest

from thinstream.cli.app import run
from thinstream.models.file import read


@pytest.fixture
def rows(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = [json.dumps({"label": k % 2, "words": "free offer" if k % 2 else "lunch friday"}) for k in range(400)]
    (tmp_path / "rows.jsonl").write_text("\n".join(lines) + "\n")
    return "rows.jsonl"


def told(path):
    return json.loads(re.search(r'id="data">(.*?)</script>', path.read_text(), flags=re.S)[1])


def test_a_report_is_the_run_and_changes_nothing(rows, tmp_path):
    arguments = ["train", rows, "--text", "words", "--bits", "16", "-a", "arow", "--monitor", "adwin", "--names", "100"]
    assert run([*arguments, "-m", "a.ts"]) == 0
    assert run([*arguments, "-m", "b.ts", "--report", "run.html"]) == 0
    assert (tmp_path / "a.ts").read_bytes() == (tmp_path / "b.ts").read_bytes()
    found = told(tmp_path / "run.html")
    assert found["title"] == "AROW on rows.jsonl"
    model = found["models"]["b"]
    assert model["status"]["rows"] == 400
    assert model["status"]["progressive"] == read("a.ts").report
    assert " ".join(model["samples"][-1]["top"]).count("free") == 1
    assert model["curve"][-1][0] == 400
    assert found["over"]


def test_live_is_for_this_machine_and_the_run_goes_on(rows, capsys):
    """The page is there while the run goes; another name than this machine's is refused."""
    heard = {}

    def look(port):
        for path, host in {
            "/": "127.0.0.1",
            "/events": "localhost",
            "/x": "127.0.0.1",
            "/events ": "evil.example",
        }.items():
            request = urllib.request.Request(
                f"http://127.0.0.1:{port}{path.strip()}", headers={"Host": f"{host}:{port}"}
            )
            try:
                with urllib.request.urlopen(request, timeout=20) as answer:
                    heard[path] = answer.status, answer.readline()
            except urllib.error.HTTPError as error:
                heard[path] = error.code, b""

    import thinstream.serve.dashboard.live as live

    started = live.LivePage.__init__

    def starting(self, *arguments):
        started(self, *arguments)
        looking = threading.Thread(target=look, args=(int(self.address.rstrip("/").rpartition(":")[2]),))
        looking.start()
        looking.join()

    live.LivePage.__init__ = starting
    try:
        assert run(["train", rows, "--text", "words", "--bits", "16", "-a", "arow", "-m", "a.ts", "--live"]) == 0
    finally:
        live.LivePage.__init__ = started
    assert "live dashboard at http://127.0.0.1:" in capsys.readouterr().err
    assert heard["/"] == (200, b"<!doctype html>\n")
    assert heard["/events"][0] == 200
    assert heard["/events"][1].startswith(b"event: ")
    assert (heard["/x"][0], heard["/events "][0]) == (404, 403)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--live-port", "1234"], "--live-port needs --live"),
        (["--report", "nowhere/run.html"], "--report nowhere/run.html: the folder nowhere does not exist"),
        (["-a", "fgm", "--report", "run.html"], "FGM needs all rows before it learns, so it has nothing to show"),
        (["--engine", "local", "-a", "arow", "--live"], "--live and --report cannot be used with --engine"),
    ],
)
def test_what_cannot_be(rows, capsys, arguments, said):
    assert run(["train", rows, "--text", "words", *arguments]) == 2
    assert said in capsys.readouterr().err
