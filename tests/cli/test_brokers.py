"""``thinstream train`` on messages of a broker: what it says, what it keeps, how it stops and goes on."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.data.brokers.servers import Redis, libsvm_rows
from thinstream.models.file import read

SOURCE, SECRET = str(Path(__file__).parents[2] / "src"), "s3cret"
ROWS = libsvm_rows(500)


def start(*arguments):
    command = [sys.executable, "-m", "thinstream", "train", *map(str, arguments), "-a", "arow"]
    environment = {**os.environ, "PYTHONPATH": SOURCE}
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def train(*arguments, code=0):
    process = start(*arguments)
    out, errors = process.communicate(timeout=60)
    assert process.returncode == code, errors
    return out, errors


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["redis://h/s", "--passes", "2"], "--passes cannot be used with messages of a broker: messages are read once"),
        (["redis://h/s", "--cache"], "--cache cannot be used with messages of a broker: a cache belongs to a file"),
        (["redis://h/s", "b.svm"], "only one message stream can be read at a time, got redis://h/s, b.svm"),
        (["redis://h/s", "--format", "parquet"], "the format of messages must be 'libsvm'"),
        (["a.svm", "--idle-seconds", "3"], "--idle-seconds can only be used with redis://, nats:// or kafka://"),
        (["a.svm", "--on-gap", "stop"], "--on-gap can only be used with redis://, nats:// or kafka://"),
        (["redis://h/s", "--on-gap", "skip"], "on_gap (--on-gap) must be 'stop' or 'continue', got 'skip'"),
        (["redis://h/s", "--resume"], "checkpoints need a file. Pass --model or --checkpoint"),
    ],
)
def test_options_that_do_not_go_together(thin, there, arguments, message):
    (there / "a.svm").write_text("1 1:1\n")
    errors = thin("train", *[each.replace("://", f"://ann:{SECRET}@") for each in arguments], code=2).errors
    assert message in errors
    assert SECRET not in errors


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    found = Redis(tmp_path_factory.mktemp("redis"))
    found.client.config_set("requirepass", SECRET)
    found.url = lambda stream, here=found: f"redis://:{SECRET}@127.0.0.1:{here.port}/0/{stream}"
    yield found
    found.kill()


def put(server, rows, stream):
    import redis

    pipe = redis.Redis(port=server.port, password=SECRET).pipeline()
    for row in rows:
        pipe.xadd(stream, {"row": row})
    pipe.execute()


@pytest.mark.services
def test_a_run_stops_and_goes_on(server, tmp_path):
    """On SIGTERM there is a model; a later run goes on; nobody is told the password."""
    model = tmp_path / "m.ts"
    put(server, [*ROWS[:200], "no row"], "events")
    process = start(server.url("events"), "-m", model, "--checkpoint-every", 50)
    until = time.monotonic() + 60
    while not (tmp_path / "m.ts.dead-letters").exists():
        assert time.monotonic() < until
        time.sleep(0.02)
    time.sleep(0.5)
    process.send_signal(signal.SIGTERM)
    out, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    assert f"stopped by SIGTERM after 200 rows; to continue from {model}.checkpoint, pass --resume" in errors
    assert " lag" in out.splitlines()[0]
    assert read(model).learner.t == 200
    put(server, ROWS[200:], "events")
    out, more = train(
        server.url("events"),
        "-m",
        model,
        "--resume",
        "--idle-seconds",
        0.5,
        "--json",
        "--report",
        tmp_path / "run.html",
    )
    assert "after 200 rows" in more
    assert json.loads(out.splitlines()[0])["lag"] >= 0
    assert read(model).learner.t == 500
    (tmp_path / "all.svm").write_text("\n".join(ROWS) + "\n")
    train(tmp_path / "all.svm", "-m", tmp_path / "serial.ts")
    assert model.read_bytes() == (tmp_path / "serial.ts").read_bytes()
    [letter] = (tmp_path / "m.ts.dead-letters").read_text().splitlines()
    assert json.loads(letter)["data"] == "no row"
    assert b"on redis://127.0.0.1" in (tmp_path / "run.html").read_bytes()
    kept = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert SECRET.encode() not in kept + (out + errors + more).encode()


@pytest.mark.services
def test_what_was_found_by_looking_is_kept(server, tmp_path):
    """Classes and texts are those of the first run, though the first messages are gone."""
    rows = [{"label": ["ham", "spam"][k % 2], "subject": f"offer {k} for you", "size": k} for k in range(150)]
    put(server, map(json.dumps, rows), "mail")
    options = [server.url("mail"), "-m", tmp_path / "m.ts", "--format", "jsonl", "--idle-seconds", 0.5, "--bits", 12]
    _, errors = train(*options)
    assert "'spam' is positive" in errors
    assert "1 text (subject)" in errors
    import redis

    client = redis.Redis(port=server.port, password=SECRET)
    client.xtrim("mail", maxlen=0, approximate=False)
    put(server, [json.dumps({**row, "label": "ham"}) for row in rows[:10]], "mail")
    train(*options, "--resume")
    assert read(tmp_path / "m.ts").learner.t == 160


@pytest.mark.services
def test_brokers_that_are_not_there(server, tmp_path):
    gone = f"redis://:{SECRET}@127.0.0.1:1/clicks"
    for source, message in (
        (gone, "the server cannot be reached"),
        (server.url("no"), "the stream 'no' does not exist"),
    ):
        _, errors = train(source, "-m", tmp_path / "m.ts", code=1)
        assert message in errors
        assert "Traceback" not in errors
        assert SECRET not in errors


@pytest.mark.services
def test_rows_too_wide_for_the_model(server, tmp_path):
    put(server, ["1 1:1", "-1 2:1", "1 900:1"], "wide")
    more = ["--features", 10, "--idle-seconds", 0.3, "--classes", "-1,1"]
    _, errors = train(server.url("wide"), "-m", tmp_path / "m.ts", *more)
    assert "feature indices must be at most 10" in errors
    assert read(tmp_path / "m.ts").learner.t == 2


@pytest.mark.services
@pytest.mark.parametrize("kind", ["jsonl", "csv"])
def test_kinds_of_columns_are_those_of_a_file(server, tmp_path, kind):
    """Of a few messages, too: the model is that of a file, in what it knows of its columns and by its bytes."""
    rows = [["ham" if k % 2 else "spam", f"offer number {k} for you", k] for k in range(16)]
    names, file = ["label", "subject", "size"], tmp_path / f"mail.{kind}"
    if kind == "csv":
        lines, header = [",".join(map(str, row)) for row in rows], [",".join(names)]
    else:
        lines, header = [json.dumps(dict(zip(names, row, strict=True))) for row in rows], []
    put(server, lines, f"few-{kind}")
    file.write_text("\n".join(header + lines) + "\n")
    options = ["--format", kind, "--bits", 12]
    source = server.url(f"few-{kind}") + (f"?header={header[0]}" if header else "")
    train(source, "-m", tmp_path / "sent.ts", "--idle-seconds", 0.5, *options)
    train(file, "-m", tmp_path / "filed.ts", *options)
    sent, filed = read(tmp_path / "sent.ts"), read(tmp_path / "filed.ts")
    assert sent.reading == filed.reading
    assert sent.reading["numeric"] == ["size"]
    assert (tmp_path / "sent.ts").read_bytes() == (tmp_path / "filed.ts").read_bytes()


@pytest.mark.services
def test_no_message_that_can_be_read(server, tmp_path):
    """How many, as what, where they are and why; there is nothing to go on from."""
    put(server, ['{"label": 1, "size": 2}', '{"label": 0, "size": 3}'], "objects")
    _, errors = train(server.url("objects"), "-m", tmp_path / "m.ts", "--idle-seconds", 0.3, code=1)
    said = "none of 2 messages is valid libsvm. Pass --format if they have another format. They are in "
    assert f"{said}{tmp_path / 'm.ts'}.dead-letters. The first error: redis://127.0.0.1" in errors
    assert "--resume" not in errors
    assert len((tmp_path / "m.ts.dead-letters").read_text().splitlines()) == 2
    assert not (tmp_path / "m.ts").exists()


@pytest.mark.services
def test_messages_that_are_missing(server, tmp_path):
    """A run stops at a gap, and keeps what it has learned; it continues if that is asked for, and reports the gap."""
    import redis

    options = [server.url("gappy"), "-m", tmp_path / "m.ts", "--idle-seconds", 0.5, "--classes", "-1,1"]
    put(server, ROWS[:50], "gappy")
    train(*options)
    put(server, ROWS[50:100], "gappy")
    redis.Redis(port=server.port, password=SECRET).xtrim("gappy", maxlen=20, approximate=False)
    for _ in range(2):
        _, errors = train(*options, "--resume", code=1)
        assert "the broker has removed 30 messages after " in errors
        assert "--on-gap continue" in errors
    _, errors = train(*options, "--resume", "--on-gap", "continue")
    assert "; continuing (30 messages are missing so far)" in errors
    assert read(tmp_path / "m.ts").learner.t == 70
