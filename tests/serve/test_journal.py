"""Journals: what is acknowledged is there, once and in order, whatever happens in between."""

import random
import resource
import signal
import sqlite3
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.serve.rows import packed_rows
from thinstream.batch import Batch
from thinstream.errors import InvalidInputError
from thinstream.serve.journal import Busy, Committer, Entry, Journal, JournalError, LearnRequest, Reader, SteadyClock
from thinstream.serve.learning_run import JournalNotifier
from thinstream.serve.wire import n_rows, pack, unpack


@pytest.fixture
def path(tmp_path):
    return tmp_path / "journal.sqlite"


def append(data, request=None):
    rows = n_rows(data)
    return lambda journal: journal.once(request, lambda: {"rows": rows, "entry": journal.append(data, rows)})


def entries(path):
    reader = Reader(path)
    try:
        return reader.after(0, 10**9)
    finally:
        reader.close()


@given(packed_rows())
def test_rows_come_back_as_they_were(rows):
    batch, labels, scores = rows
    result = unpack([pack(batch, labels, scores)] * 2)
    assert result.labels == labels * 2
    assert len(result.batch) == 2 * len(batch)
    np.testing.assert_array_equal(result.batch.values, np.tile(batch.values, 2))
    np.testing.assert_array_equal(result.batch.indices, np.tile(batch.indices, 2))
    if batch.weights is not None:
        np.testing.assert_array_equal(result.batch.weights, np.tile(batch.weights, 2))
    for row, got in zip([*scores, *scores] if scores is not None else [], result.scores):
        np.testing.assert_array_equal(np.atleast_1d(row), got)


@given(packed_rows(), st.data())
def test_a_changed_bit_is_found(rows, data):
    raw = bytearray(pack(*rows))
    raw[data.draw(st.integers(0, len(raw) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(InvalidInputError, match="damaged"):
        unpack([bytes(raw)])


@settings(max_examples=20)  # each step waits for the disk
@given(st.lists(st.tuples(st.sampled_from(["learn", "again", "fail", "cut"]), st.integers(0, 9)), max_size=30))
def test_any_order_of_work(tmp_path_factory, steps):
    """Against a list: requests sent again are answered as before, and what failed leaves no trace."""
    path = tmp_path_factory.mktemp("journal") / "journal.sqlite"
    journal, told, answers, cut = Journal(path), [], {}, 0
    for kind, number in steps:
        data = f"{kind} {number}".encode()
        request = None if kind == "learn" else f"request {number}"
        try:
            with journal.transaction():
                if kind == "cut":
                    journal.cut(number)
                    cut = max(cut, min(number, len(told)))
                    continue
                result = journal.once(request, lambda data=data: {"entry": journal.append(data, 1)})
                if kind == "fail":
                    raise KeyError
        except KeyError:
            continue
        if kind == "again" and request in answers:
            assert result == answers[request] | {"again": True}
        else:
            told.append(data)
            answers[request] = result
            assert result["entry"] == len(told)
    journal.close()
    left = [(k, data) for k, data in enumerate(told, 1) if k > cut]
    assert [(entry.number, entry.data) for entry in entries(path)] == left
    again = Journal(path)
    assert again.last == len(told) or not told  # numbers are never given twice, also after a cut
    again.close()


def test_numbers_go_on_after_all_was_cut(path):
    journal = Journal(path)
    with journal.transaction():
        journal.append(b"one", 1)
    with journal.transaction():
        journal.cut(1)
    journal.close()
    journal = Journal(path)
    with journal.transaction():
        assert journal.append(b"two", 1) == 2
    journal.close()


def test_it_is_cut_a_piece_at_a_time(path):
    """So that nobody waits long for it."""
    journal = Journal(path)
    with journal.transaction():
        for _ in range(5):
            journal.append(b"x", 1)
        journal.quarantine(2, 0, "too large", b"")
    for left, more in ((3, True), (1, True), (1, False)):
        with journal.transaction():
            assert journal.cut(4, most=2) is more
        assert len(entries(path)) == left
    assert journal.n_quarantined == 1  # which stays known after its entry is gone
    journal.close()


def test_answers_are_forgotten_in_time(path):
    journal = Journal(path, remembered=2)
    for k in (1, 2, 3):
        with journal.transaction():
            journal.once(f"r{k}", lambda: {"entry": journal.append(b"x", 1)})
    with journal.transaction():
        assert journal.once("r3", dict)["again"]
        assert "again" not in journal.once("r1", dict)
    journal.close()


def test_many_threads_and_one_sync_for_many(path):
    """Every acknowledged request is there once; far fewer transactions than requests."""
    groups = []
    committer = Committer(Journal(path), groups.append)
    answers = {}

    def work(thread):
        for k in range(50):
            name = f"{thread}.{k}"
            answers[name] = committer.do(append(pack(*ROW, [name]), name))["entry"]
            committer.do(append(pack(*ROW, [name]), name))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    committer.close()
    result = {unpack([entry.data]).labels[0]: entry.number for entry in entries(path)}
    assert result == answers
    assert len(groups) < 800
    assert [entry.number for group in groups for entry in group] == [*range(1, 401)]


@settings(max_examples=20)  # each step waits for the disk
@given(st.lists(st.lists(st.none() | st.integers(0, 5), max_size=9), max_size=6), st.sets(st.integers(0, 5)))
def test_requests_of_one_transaction(tmp_path_factory, groups, failing):
    """Against a list: as if they had come one by one, and none of those whose transaction fails."""
    path = tmp_path_factory.mktemp("journal") / "journal.sqlite"
    journal, told, known = Journal(path), [], {}
    for k, group in enumerate(groups):
        before, met = len(told), dict(known)
        taught = [LearnRequest(b"%d.%d" % (k, j), 1, None if r is None else f"r{r}") for j, r in enumerate(group)]
        expected = []
        for item in taught:
            if item.request in known:
                expected.append(known[item.request] | {"again": True})
                continue
            told.append(item.data)
            expected.append({"rows": 1, "entry": len(told)})
            if item.request is not None:
                known[item.request] = expected[-1]
        try:
            with journal.transaction():
                assert journal.append_requests(taught) == expected
                if k in failing:
                    raise KeyError
        except KeyError:
            told, known = told[:before], met
        assert [entry.data for entry in journal.new()] == told[before:]
    journal.close()
    assert [entry.data for entry in entries(path)] == told


def test_many_rows_by_few_statements(path):
    """Those of two powers of two and more."""
    journal = Journal(path)
    with journal.transaction():
        answers = journal.append_requests([LearnRequest(b"%d" % k, 1, f"r{k}") for k in range(700)])
    with journal.transaction():
        assert all(
            answer["again"]
            for answer in journal.append_requests([LearnRequest(b"x", 1, f"r{k}") for k in range(699, -1, -1)])
        )
    journal.close()
    assert [answer["entry"] for answer in answers] == [*range(1, 701)]
    assert [entry.data for entry in entries(path)] == [b"%d" % k for k in range(700)]


ROW = (Batch.of(np.array([0, 1]), np.array([3], np.int32), np.ones(1, np.float32), 4),)


def test_newest_entries_stay_in_memory():
    """As long as there is room, and only what follows at once."""
    rows = [Entry(k, pack(*ROW, [k])) for k in range(1, 7)]
    notifier = JournalNotifier(held=3 * len(rows[0].data))
    notifier.ring(rows[:2])
    assert notifier.after(0, 1) == rows[:1]
    assert notifier.after(0, 1) == []  # which was given out
    notifier.ring(rows[2:])
    assert notifier.after(2, 10) == []  # the third had no room
    assert notifier.after(4, 10) == rows[4:]
    assert notifier.after(6, 10) == []


def test_one_failure_of_many(path):
    """A request that fails fails alone."""
    committer, told = Committer(Journal(path)), []

    def bad(journal):
        journal.append(b"half", 1)
        raise InvalidInputError("no")

    with committer._some:  # all in one group
        for work in (append(pack(*ROW, ["a"])), bad, append(pack(*ROW, ["b"]))):
            committer._waiting.append((work, told.append))
        committer._some.notify()
    committer.close()
    assert [type(item) for item in told] == [dict, InvalidInputError, dict]
    assert [unpack([entry.data]).labels for entry in entries(path)] == [["a"], ["b"]]


def test_too_much_waits(path):
    committer, hold, begun = Committer(Journal(path), most=2), threading.Event(), threading.Event()
    committer.put(lambda journal: (begun.set(), hold.wait()))
    begun.wait()
    committer.put(lambda journal: 0)
    committer.put(lambda journal: 0)
    with pytest.raises(Busy, match="2 requests already wait"):
        committer.put(lambda journal: 0)
    hold.set()
    committer.close()


def test_a_full_disk(path):
    """Nothing is acknowledged, nothing is lost, and it goes on by itself once there is room."""
    journal = Journal(path)
    journal._tables.execute("PRAGMA max_page_count = 60")
    committer, kept = Committer(journal), 0
    with pytest.raises(JournalError, match="cannot be written: database or disk is full"):  # noqa: PT012
        for _ in range(100):
            committer.do(append(pack(*ROW, ["x" * 10_000])))
            kept += 1
    assert len(entries(path)) == kept > 0
    committer.do(lambda journal: journal.cut(kept - 1))
    committer.do(append(pack(*ROW, ["y"])))
    committer.close()
    assert [unpack([entry.data]).labels[0][:1] for entry in entries(path)] == ["x", "y"]


def test_a_disk_that_has_become_read_only(path):
    """The same: told, and it goes on."""
    journal = Journal(path)
    committer = Committer(journal)
    journal._tables.execute("PRAGMA query_only = ON")
    with pytest.raises(JournalError, match="cannot be written: attempt to write a readonly database"):
        committer.do(append(pack(*ROW, ["a"])))
    journal._tables.execute("PRAGMA query_only = OFF")
    assert committer.do(append(pack(*ROW, ["b"])))["entry"] == 1
    committer.close()


def test_a_file_that_cannot_grow(path):
    """The system's own limit on files: the same."""
    committer = Committer(Journal(path))
    committer.do(append(pack(*ROW, ["before"])))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 17, hard))
        with pytest.raises(JournalError, match="cannot be written"):  # noqa: PT012
            for _ in range(100):
                committer.do(append(pack(*ROW, ["x" * 10_000])))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)
    known = len(entries(path))
    committer.do(append(pack(*ROW, ["after"])))
    committer.close()
    labels = [unpack([entry.data]).labels[0][:6] for entry in entries(path)]
    assert labels == ["before", *["xxxxxx"] * (known - 1), "after"]


def test_a_torn_log(path):
    """The end of the log is cut off or overwritten: what is left is a beginning of what was written, entry by entry."""
    rng = random.Random(3)
    for _ in range(6):
        for item in path.parent.iterdir():
            item.unlink()
        journal = Journal(path)
        for k in range(10):
            with journal.transaction():
                journal.append(pack(*ROW, [f"{k} {'x' * rng.randrange(3000)}"]), 1)
        log = path.with_name(path.name + "-wal").read_bytes()
        whole = path.read_bytes()
        journal._tables.close()
        place = rng.randrange(len(log))
        torn = log[:place] + (bytes(rng.randrange(256) for _ in range(100)) if rng.random() < 0.5 else b"")
        path.write_bytes(whole)
        path.with_name(path.name + "-wal").write_bytes(torn)
        path.with_name(path.name + "-shm").unlink(missing_ok=True)
        again = Journal(path)
        result = [unpack([entry.data]).labels[0].split()[0] for entry in entries(path)]
        assert result == [str(k) for k in range(len(result))]
        with again.transaction():
            again.append(pack(*ROW, ["next"]), 1)
        again.close()
        assert len(entries(path)) == len(result) + 1


def test_a_file_that_is_no_journal(path):
    path.write_bytes(b"nonsense" * 1000)
    with pytest.raises(JournalError, match="cannot be opened: file is not a database"):
        Journal(path)


def test_labels_join_their_rows(path):
    """Row and label go into the journal in one step, with the score of the prediction; others are told."""
    journal = Journal(path, keep=2)
    rows = Batch.of(np.arange(4), np.arange(3, dtype=np.int32), np.ones(3, np.float32), 3)
    with journal.transaction():
        journal.keep(["a", "b", "c"], rows, np.array([0.5, -1.0, 2.0], np.float32))
    with pytest.raises(JournalError, match="the disk"), journal.transaction():  # noqa: PT012
        journal.label(["b"], ["spam"], None, 3)
        raise sqlite3.OperationalError("the disk")
    with journal.transaction():
        outcome = journal.label(["c", "a", "x", "c"], ["spam", "ham", "ham", "ham"], np.array([2.0, 1.0, 1.0, 1.0]), 3)
    assert outcome == (1, ["x"], ["a"], ["c"])
    assert len(journal.waiting) == 1
    journal.close()
    (entry,) = entries(path)
    batch, labels, scores = unpack([entry.data])
    assert (labels, batch.indices.tolist(), batch.weights.tolist(), scores[0].tolist()) == (["spam"], [2], [2.0], [2.0])


def test_rows_wait_independently_of_the_clock(path, monkeypatch):
    """Set forward by years, and back: no row expires that has not waited, and one that has does."""
    now, row = {"wall": 1e9, "steady": 7.0}, np.array([0.5], np.float32)
    monkeypatch.setattr("time.time", lambda: now["wall"])
    monkeypatch.setattr("time.monotonic", lambda: now["steady"])
    journal = Journal(path, seconds=60.0)
    with journal.transaction():
        journal.keep(["a"], *ROW, row)
    for wall, steady, ids, learned in ((2e9, 8.0, "a", 1), (0.0, 9.0, "b", 1), (0.0, 80.0, "c", 0)):
        with journal.transaction():
            journal.keep([ids] if ids != "a" else ["z"], *ROW, row)
        now |= {"wall": wall, "steady": steady}
        with journal.transaction():
            assert journal.label([ids], ["ham"], None, 4).learned == learned
    journal.close()


def test_the_clock_never_jumps(monkeypatch):
    now = {"wall": 100.0, "steady": 7.0}
    monkeypatch.setattr("time.time", lambda: now["wall"])
    monkeypatch.setattr("time.monotonic", lambda: now["steady"])
    clock = SteadyClock(latest=50.0)
    now |= {"wall": 1e9, "steady": 9.0}
    assert clock() == 102.0
    now["wall"] = 0.0  # set back: rows written before are not younger than now
    assert SteadyClock(latest=102.0)() == 102.0


def test_waiting_rows_are_bounded_in_bytes(path):
    """The oldest expire, also after the journal was opened again."""
    wide = Batch.of(np.array([0, 100]), np.arange(100), np.ones(100, np.float32), 100)
    for first in (0, 10):
        journal = Journal(path, keep_bytes=4000)
        with journal.transaction():
            for k in range(first, first + 10):
                journal.keep([k], wide, np.zeros((1, 1)))
        assert len(journal.waiting) == 3  # 1,200 bytes and a head each
        outcome, _ = journal.waiting.look([first, first + 6, first + 7, first + 9])
        assert (outcome.learned, outcome.expired) == (2, [first, first + 6])
        journal.close()
