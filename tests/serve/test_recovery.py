"""A journal and a checkpoint of different moments are found, recovered and avoided; a full disk is survived."""

import json
import shutil
import sqlite3
import threading
import time

import numpy as np
import pytest

from tests.serve.rows import random_rows
from tests.serve.servers import Server
from tests.serve.test_learning_run import answer_to, made, state_of, teach, until, until_learned
from thinstream.cli.app import run
from thinstream.data.labels import Classes
from thinstream.errors import InvalidInputError, ThinstreamError
from thinstream.models.file import read, write
from thinstream.models.model import Model
from thinstream.serve import Limits, Settings
from thinstream.serve import learner as keeping
from thinstream.serve.folders import back_up
from thinstream.serve.journal import Journal, JournalError, JournalMismatchError
from thinstream.serve.learner import ModelWorker
from thinstream.serve.request_rows import RowReader
from thinstream.serve.shared_memory import version_of
from thinstream.serve.wire import pack

OFTEN, SELDOM = Settings(checkpoint_seconds=0.05), Settings(checkpoint_seconds=1000)
RECOVER = SELDOM._replace(recover=True)
ROWS, LABELS = random_rows(300)


class Served:
    """A model with a journal; rows are taught one by one, in order."""

    def __init__(self, paths):
        self.paths, self.model = paths, made(paths)
        self.folder, self.reader, self.n_rows = paths.folder("m"), RowReader(self.model, Limits()), 0

    def learn(self, worker, many):
        for _ in range(many):
            k = self.n_rows
            teach(worker, self.reader, ROWS[k : k + 1], LABELS[k : k + 1])
            self.n_rows += 1
        until_learned(worker)

    def open(self, settings=SELDOM):
        """As by a new server, which has nothing in shared memory."""
        self.paths.weights("m").unlink(missing_ok=True)
        return ModelWorker("m", self.paths, settings)

    def session(self, many, settings=SELDOM):
        """Learn some rows; a checkpoint is written at the end."""
        worker = self.open(settings)
        self.learn(worker, many)
        worker.close()

    def alone(self, rows):
        model = self.model.copy()
        model.learner.learn(self.reader.rows([ROWS[k] for k in rows]).labelled(np.array(LABELS, np.int8)[[*rows]]))
        return model


@pytest.fixture
def served(paths):
    return Served(paths)


def copied(path, target):
    """The files of a journal."""
    for file in path.parent.glob(f"{path.name}*"):
        shutil.copy(file, target / file.name)


def test_a_journal_older_than_its_checkpoint(served, tmp_path, caplog):
    """It is refused; recovered, every row that was ever acknowledged is learned once."""
    served.session(30)
    (tmp_path / "old").mkdir()
    copied(served.folder / "journal.sqlite", tmp_path / "old")
    served.session(70)
    for file in served.folder.glob("journal*"):
        file.unlink()
    copied(tmp_path / "old" / "journal.sqlite", served.folder)
    with pytest.raises(JournalMismatchError, match=r"ends at entry 30, but checkpoint.ts has entries up to 100"):
        served.open()
    served.session(50, RECOVER)
    assert state_of(read(served.folder / "checkpoint.ts"), tmp_path) == state_of(served.alone(range(150)), tmp_path)
    assert "Learning continues after entry 100" in caplog.text
    assert [*served.folder.glob("journal.2*.sqlite")]
    served.session(10)  # and it is as any other again


def test_a_journal_newer_than_its_checkpoint(served, tmp_path):
    """Entries are missing: it is refused, and recovered without them, also if it is killed at once."""
    served.session(30)
    shutil.copy(served.folder / "checkpoint.ts", tmp_path)
    served.session(20)
    worker = served.open()
    served.learn(worker, 10)
    (tmp_path / "new").mkdir()
    copied(served.folder / "journal.sqlite", tmp_path / "new")  # as after a kill: 10 rows are in the journal alone
    worker.close()
    copied(tmp_path / "new" / "journal.sqlite", served.folder)
    shutil.copy(tmp_path / "checkpoint.ts", served.folder)
    with pytest.raises(JournalMismatchError, match="entries 31 to 50 are missing"):
        served.open()
    (served.folder / "checkpoint.ts").rename(tmp_path / "checkpoint.ts")
    with pytest.raises(JournalMismatchError, match=r"checkpoint.ts is missing, .* entries 1 to 50 are missing"):
        served.open()
    (tmp_path / "checkpoint.ts").rename(served.folder / "checkpoint.ts")
    for settings in (RECOVER, SELDOM):
        worker = served.open(settings)
        until_learned(worker)
        worker._open._learning.run.checkpoints.wrote = lambda: None
        worker.close()
        rows = [*range(30), *range(50, 60)]
        assert state_of(read(served.folder / "checkpoint.ts"), tmp_path) == state_of(served.alone(rows), tmp_path)


@pytest.mark.parametrize("what", ["deleted", "damaged"])
def test_a_journal_that_is_gone(served, tmp_path, what):
    """The checkpoint is not learned over; recovered, the next rows follow it."""
    served.session(30)
    for file in served.folder.glob("journal*"):
        file.unlink()
    if what == "deleted":
        with pytest.raises(JournalMismatchError, match="sqlite is missing"):
            served.open()
    else:
        (served.folder / "journal.sqlite").write_bytes(b"no database" * 1000)
        worker = served.open()
        assert "file is not a database" in worker.failure
        worker.close()
    served.session(30, RECOVER)
    served.session(5)
    assert state_of(read(served.folder / "checkpoint.ts"), tmp_path) == state_of(served.alone(range(65)), tmp_path)


def test_a_journal_that_is_gone_before_the_first_rows_are_saved(served, monkeypatch):
    """Its name is in the checkpoint that is written when the model is opened."""
    worker = served.open()
    with monkeypatch.context() as patched:
        patched.setattr("thinstream.serve.learning_run.JournalRun._checkpoint", lambda run: None)  # as if killed
        served.learn(worker, 10)
        worker.close()
    for file in served.folder.glob("journal*"):
        file.unlink()
    with pytest.raises(JournalMismatchError, match="sqlite is missing"):
        served.open()


def test_a_damaged_entry(served, tmp_path, monkeypatch):
    """What is before it is learned, it is named, nothing new is accepted; recovered, it is in quarantine."""
    monkeypatch.setattr("thinstream.serve.learning_run.FIRST_PAUSE", 0.05)
    worker = served.open()
    with monkeypatch.context() as patched:
        patched.setattr("thinstream.serve.learning_run.JournalRun._checkpoint", lambda run: None)
        served.learn(worker, 30)
        worker.close()
    with sqlite3.connect(served.folder / "journal.sqlite") as tables:
        (data,) = tables.execute("SELECT data FROM entries WHERE number = 11").fetchone()
        tables.execute("UPDATE entries SET data = ? WHERE number = 11", (data[:60] + b"?" + data[61:],))
    tables.close()
    worker = served.open()
    until(lambda: worker.failure)
    assert worker.failure.startswith("entry 11 of the journal is damaged")
    time.sleep(0.3)  # it is tried again, and nothing changes
    assert not worker.status()["learning"]
    status, answer = answer_to(worker, what="learn", data=pack(served.reader.rows(ROWS[:1]), LABELS[:1]))
    assert status == 503
    assert "entry 11" in answer["error"]
    assert version_of(served.paths.weights("m"), served.model) == 10
    worker.close()
    worker = served.open(RECOVER)
    until_learned(worker)
    assert worker.failure is None
    assert [(row["entry"], row["row"]) for row in worker.quarantine()["rows"]] == [(11, -1)]
    served.learn(worker, 5)
    worker.close()
    served.session(5)
    rows = [*range(10), *range(11, 40)]
    assert state_of(read(served.folder / "checkpoint.ts"), tmp_path) == state_of(served.alone(rows), tmp_path)


@pytest.mark.parametrize("suffix", ["", "-wal"])
def test_a_journal_deleted_while_it_is_written(served, tmp_path, suffix):
    """Nothing is acknowledged any more; what was, is in the checkpoint, and is not lost."""
    worker = served.open()
    served.learn(worker, 10)
    (served.folder / f"journal.sqlite{suffix}").unlink()
    for _ in range(2):
        status, _ = answer_to(worker, what="learn", data=pack(served.reader.rows(ROWS[:1]), LABELS[:1]))
        assert status == 503
    assert "deleted or replaced while the server ran" in worker.status()["trouble"]
    assert worker.failure == worker.status()["trouble"]
    assert not worker.status()["learning"]
    worker.close()
    if not suffix:
        served.session(10, RECOVER)
        assert state_of(read(served.folder / "checkpoint.ts"), tmp_path) == state_of(served.alone(range(20)), tmp_path)


def test_a_full_disk_at_the_start(served, tmp_path, monkeypatch, caplog):
    """The model predicts with its checkpoint, refuses to learn, and learns once there is room."""
    served.session(30)
    monkeypatch.setattr(keeping, "AGAIN", 0.05)
    with monkeypatch.context() as patched:

        def full(*arguments, **options):
            raise JournalError("the journal 'm' cannot be opened: database or disk is full")

        patched.setattr("thinstream.serve.folders.Journal", full)
        worker = served.open()
        assert "disk is full" in worker.failure
        assert not worker.status()["learning"]
        assert version_of(served.paths.weights("m"), served.model) == 30
        status, answer = answer_to(worker, what="learn", data=pack(served.reader.rows(ROWS[:1]), LABELS[:1]))
        assert status == 503
        assert answer["error"].startswith("the model 'm' predicts but cannot learn now: the journal 'm' cannot be")
        assert worker.rivals() == {"versions": [], "challengers": []}
        time.sleep(0.2)
    until(lambda: worker.failure is None)
    served.learn(worker, 10)
    worker.close()
    assert state_of(read(served.folder / "checkpoint.ts"), tmp_path) == state_of(served.alone(range(40)), tmp_path)
    assert "learns again" in caplog.text


def test_backups_of_a_model_that_learns(served, tmp_path):
    """Taken at any moment, each opens as it is, and has the bits of a run over the rows until then."""
    worker, stop = served.open(OFTEN), threading.Event()
    served.learn(worker, 5)

    def learn_on():
        while not stop.is_set() and served.n_rows < len(ROWS):
            served.learn(worker, 1)

    thread = threading.Thread(target=learn_on)
    thread.start()
    before = []
    for k in range(5):
        before.append(served.n_rows)
        assert back_up(served.paths, tmp_path / f"backup{k}") == ["m"]
        time.sleep(0.1)
    stop.set()
    thread.join()
    worker.close()
    for k, many in enumerate(before):
        shutil.rmtree(served.folder)
        shutil.copytree(tmp_path / f"backup{k}" / "m", served.folder)
        worker = served.open()
        until_learned(worker)
        rows = worker.status()["rows"]
        assert many <= rows <= len(ROWS)
        worker.close()
        alone = served.alone(range(rows))
        assert state_of(read(served.folder / "checkpoint.ts"), tmp_path) == state_of(alone, tmp_path)


def test_backups_that_would_be_useless(served, tmp_path, caplog):
    """A journal that is missing, does not match or cannot be read is not backed up; a damaged entry is reported."""
    served.session(10)
    with pytest.raises(InvalidInputError, match="is inside"):
        back_up(served.paths, served.paths.data / "copy")
    journal = served.folder / "journal.sqlite"
    (tmp_path / "old").mkdir()
    copied(journal, tmp_path / "old")
    served.session(10)
    for content, message in (
        (None, "cannot be backed up: journal.sqlite is missing"),
        ((tmp_path / "old" / "journal.sqlite").read_bytes(), "cannot be backed up: journal.sqlite ends at entry 10"),
        (b"no database" * 1000, "cannot be copied: file is not a database"),
    ):
        journal.unlink() if content is None else journal.write_bytes(content)
        with pytest.raises(ThinstreamError, match=message):
            back_up(served.paths, tmp_path / "copy")
    assert not (tmp_path / "copy").exists()
    assert all(record.levelname == "INFO" for record in caplog.records)


def test_backup_by_command(served, tmp_path, capsys):
    """A new folder is needed, and one of a server."""
    served.session(10)
    assert run(["backup", str(served.paths.data), str(tmp_path / "copy")]) == 0
    assert "backed up m to " in capsys.readouterr().out
    assert Journal(tmp_path / "copy" / "m" / "journal.sqlite").last == 10
    with pytest.raises(InvalidInputError, match=r"is not empty\. Give a new folder"):
        back_up(served.paths, tmp_path / "copy")
    assert not [*tmp_path.glob(".*")]


def test_a_folder_that_does_not_exist_is_not_served(tmp_path, capsys):
    """A mistyped folder must not become a healthy server without models."""
    assert run(["serve", "--data", str(tmp_path / "nothere"), "--port", "0"]) == 1
    assert "nothere does not exist. Pass a model file" in capsys.readouterr().err
    assert not (tmp_path / "nothere").exists()


def test_a_server_with_a_model_that_fails(tmp_path):
    """The other model learns, the reason is reported, the exit code shows it, and --recover helps."""
    for name in ("bad", "good"):
        write(tmp_path / f"{name}.ts", Model.fresh("nag", Classes(-1, 1), grow=True))
    server = Server(tmp_path / "data", tmp_path / "bad.ts", tmp_path / "good.ts", "--checkpoint-seconds", "600")
    server.until_ready()

    def learn(model, rows, **options):
        return server.post(f"/learn?model={model}", {"x": rows, "y": [1] * len(rows), **options})

    def status_of(name):
        lines = server.get("/metrics")[1].decode().splitlines()
        return {line.split("{")[0]: float(line.split()[-1]) for line in lines if f'model="{name}"' in line}

    assert learn("bad", [{"1": 1e14}, {"1": 1.0}], weight=[1e29, 1.0])[0] == 200
    until(lambda: status_of("bad")["thinstream_rows_refused_total"] == 1)
    result = json.loads(server.get("/v2/models/bad/quarantine")[1])
    assert (result["model"], result["count"], result["rows"][0]["row"]) == ("bad", 1, 0)
    assert "cannot be learned" in result["rows"][0]["reason"]
    server.kill()
    with sqlite3.connect(tmp_path / "data" / "bad" / "journal.sqlite") as tables:
        tables.execute("UPDATE entries SET data = CAST(data || 'x' AS BLOB)")
    tables.close()
    server.start()
    until(lambda: learn("bad", [{"1": 1.0}])[0] == 503)
    assert "entry 1 of the journal is damaged" in learn("bad", [{"1": 1.0}])[1]["error"]
    assert server.post("/predict?model=bad", {"x": {"1": 1.0}})[0] == 200
    assert learn("good", [{"1": 1.0}])[0] == 200
    until(lambda: status_of("good")["thinstream_rows_learned_total"] == 1)
    assert server.get("/v2/health/ready")[0] == 200
    assert server.stop() == 1
    server._arguments.append("--recover")
    server.start()
    until(lambda: learn("bad", [{"1": 1.0}])[0] == 200)
    assert server.stop() == 0
    assert "entry 1 of the journal is damaged; it is in quarantine" in (tmp_path / "log.txt").read_text()
