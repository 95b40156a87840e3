"""Rows of messages: in any reads, from any position on, bad ones set aside; with a broker that is a list."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from thinstream.data.brokers import Address
from thinstream.data.brokers import stream as opening
from thinstream.data.brokers.broker import Message, gap
from thinstream.data.brokers.redis import row_of
from thinstream.data.brokers.stream import MessageStream
from thinstream.data.labels import Classes
from thinstream.data.opening import open_stream
from thinstream.data.stream import START, batches_from
from thinstream.errors import (
    InvalidInputError,
    InvalidParameterError,
    SourceError,
    SourceGapError,
    SourceLostError,
)
from thinstream.models.model import Model
from thinstream.training.checkpoint import Checkpoints
from thinstream.training.live import LiveRun
from thinstream.training.run import Interrupted


class Listed:
    """Messages of two parts, each in its order; reads are as long as told, and fail where told.

    ``trimmed`` is the number of messages of the first part that are removed before it is read, if they were not.
    """

    def __init__(self, parts, sizes=(), failures=(), trimmed=0):
        self.parts, self._sizes, self._failures, self.trimmed = parts, iter(sizes), iter(failures), trimmed
        self.acknowledged, self.aside, self._first = [], [], None

    def identity(self):
        return {"source": "list"}

    def start(self):
        return 0, (0,) * len(self.parts)

    def seek(self, cursor, taken=0, first=None):
        self._at, self._first = list(cursor), first

    def read(self, most, seconds):
        if next(self._failures, False):
            raise SourceLostError("the list is away")
        if (lost := self.trimmed - self._at[0]) > 0:
            self._at[0] = self.trimmed
            raise gap(Address.of("redis://localhost/s"), lost, "the last", tuple(self._at), counted=lost)
        found = []
        for _ in range(min(most, next(self._sizes, most))):
            left = [k for k, part in enumerate(self.parts) if self._at[k] < len(part)]
            if self._first in left:
                left, self._first = [self._first], None
            if left:
                part = left[len(found) % len(left)]
                data, offset = self.parts[part][self._at[part]], self._at[part]
                found.append(Message(data, (offset,), part, f"{part}:{offset}"))
                self._at[part] += 1
        return found

    def after(self, cursor, messages):
        found = list(cursor)
        for each in messages:
            found[each.part] = each.cursor[0] + 1
        return tuple(found)

    def lag(self, cursor, taken):
        return sum(map(len, self.parts)) - sum(cursor)

    def acknowledge(self, cursor):
        self.acknowledged.append(cursor)

    def set_aside(self, name, message, reason):
        self.aside.append((name, message.named, reason))

    def close(self):
        """Nothing is open."""


def opened(monkeypatch, broker, **options):
    monkeypatch.setattr(opening, "open_broker", lambda address: broker)
    return open_stream("redis://localhost/s", idle_seconds=0.0, threads=0, **{"classes": (-1, 1), **options})


def rows_in(batches):
    return [
        (int(y), batch.indices[a:b].tolist())
        for batch in batches
        for y, a, b in zip(batch.y, batch.indptr[:-1], batch.indptr[1:])
    ]


line = st.integers(1, 9).map(lambda j: f"{1 if j % 2 else -1} {j}:1")
bad = st.sampled_from([b"", b"1 x:y", b"+1 3:1\n7 q", b"\xff", b"# nothing"])
message = st.lists(line, min_size=1, max_size=3).map(lambda rows: "\n".join(rows).encode())


def expected(data):
    found = []
    for row in data.decode().split("\n"):
        label, feature = row.split()
        found.append((int(label), [int(feature.split(":")[0]) - 1]))
    return found


@given(st.lists(message | bad, max_size=12), st.lists(st.integers(1, 4), max_size=20), st.data())
def test_any_reads_from_any_place(messages, sizes, data):
    """Also from the middle of a message; each bad one is set aside, whole, and counted once."""
    with pytest.MonkeyPatch.context() as patch:
        good = [each for each in messages if each.split(b":")[-1:] == [b"1"] and b"q" not in each]
        wanted = [row for each in good for row in expected(each)]
        broker = Listed([messages], sizes)
        stream = opened(patch, broker, dead_letters="stream:dead")
        positions, found, row = [START], [], 0
        for batch in stream.batches():
            found += rows_in([batch])
            for _ in range(len(batch)):
                row += 1
                positions.append(stream.at_row(row))
            if batch.position is not None:
                assert stream.at_row(batch.position.row) == batch.position or not len(batch)
        assert found == wanted
        assert stream.skipped.count == len(broker.aside) == len(messages) - len(good)
        cut = data.draw(st.integers(0, len(wanted)))
        again = opened(patch, Listed([messages], sizes[::-1]))
        assert rows_in(batch for _, batch in batches_from(again, positions[cut])) == wanted[cut:]


def test_two_parts_go_on_in_the_middle_of_a_message(monkeypatch):
    """The message that was taken in part comes first, whichever part it is of."""
    parts = [[b"1 1:1\n1 2:1"], [b"-1 3:1\n-1 4:1\n-1 5:1"]]
    stream = opened(monkeypatch, Listed(parts))
    [batch] = [batch for batch in stream.batches() if len(batch)]
    whole = rows_in([batch])
    for row in range(6):
        position = stream.at_row(row)
        again = opened(monkeypatch, Listed(parts))
        found = rows_in(batch for _, batch in batches_from(again, position))
        assert sorted(whole[:row] + found) == sorted(whole), row


def test_a_server_that_is_away_is_asked_again(monkeypatch):
    stream = opened(monkeypatch, Listed([[b"1 1:1", b"-1 2:1"]], [1, 1], [False, True, True]))
    troubles, rows = [], []
    for batch in stream.batches():
        troubles.append(stream.trouble)
        rows += rows_in([batch])
    assert rows == [(1, [0]), (-1, [1])]
    assert troubles[:4] == [None, "the list is away", "the list is away", None]


def test_one_that_was_never_there_is_an_error(monkeypatch):
    broker = Listed([[b"1 1:1"]])
    broker.seek = lambda cursor, taken=0, first=None: (_ for _ in ()).throw(SourceLostError("the list is away"))
    with pytest.raises(SourceError, match="the list is away"):
        next(opened(monkeypatch, broker).batches())


def test_rows_end_in_the_middle_of_a_message(monkeypatch):
    messages = [b"1 1:1\n-1 2:1", b"1 3:1\n-1 4:1"]
    stream = opened(monkeypatch, Listed([messages]), rows=3)
    [batch] = stream.batches()
    assert rows_in([batch]) == [(1, [0]), (-1, [1]), (1, [2])]
    assert (batch.position.row, batch.position.skip) == (2, 1)
    more = opened(monkeypatch, Listed([messages]), rows=4)
    assert rows_in(batch for _, batch in batches_from(more, batch.position)) == [(-1, [3])]


def test_the_broker_is_told_what_is_kept_and_no_more(monkeypatch):
    broker = Listed([[b"1 1:1"] * 5], [2, 3])
    stream = opened(monkeypatch, broker)
    first = next(stream.batches())
    assert broker.acknowledged == []
    stream.kept(first.position)
    assert broker.acknowledged == [(2,)]
    assert stream.lag == 3


def test_dead_letters_in_a_file_stand_there_once(monkeypatch, tmp_path):
    path = tmp_path / "dead"
    for _ in range(2):
        stream = opened(monkeypatch, Listed([[b"1 1:1", b"1 x:1", b"\xff\xfe"]]), dead_letters=str(path))
        assert len(rows_in(stream.batches())) == 1
        with path.open("a") as file:
            file.write('{"place": "0:9", "rea')  # as a killed run would leave it
    first, second, _ = path.read_text().splitlines()
    assert json.loads(first)["place"] == "0:1"
    assert "index:value" in json.loads(first)["reason"]
    assert json.loads(second)["base64"] == "//4="
    path.write_text("something else\n")
    with pytest.raises(InvalidParameterError, match="is not a file of dead letters"):
        opened(monkeypatch, Listed([[]]), dead_letters=str(path))


def test_nothing_but_bad_messages_ends_it(monkeypatch):
    stream = opened(monkeypatch, Listed([[b'{"label": 1}'] * 30]), max_errors=20)
    with pytest.raises(InvalidInputError, match=r"more than 20 messages in a row \(--max-errors\) cannot be read"):
        list(stream.batches())
    mixed = opened(monkeypatch, Listed([[b"no row", b"1 1:1"] * 30]), max_errors=20)
    assert len(rows_in(mixed.batches())) == 30


def test_classes_and_columns_are_found_by_looking(monkeypatch):
    rows = [{"label": "spam" if k % 3 else "ham", "size": k, "from": f"u{k % 5}"} for k in range(200)]
    broker = Listed([[json.dumps(row).encode() for row in rows]])
    stream = opened(monkeypatch, broker, format="jsonl", classes=None)
    assert stream.classes == ("ham", "spam")
    found = np.concatenate([batch.y for batch in stream.batches() if len(batch)])
    assert found.tolist() == [1 if k % 3 else -1 for k in range(200)]


def test_csv_needs_to_know_its_columns(monkeypatch):
    broker = Listed([[b"1,2.5,Oslo", b"0,3,Rome"]])
    monkeypatch.setattr(opening, "open_broker", lambda address: broker)
    for more in ({}, {"header": False}):
        with pytest.raises(InvalidParameterError, match="to the address: header=a,b,c"):
            open_stream("redis://localhost/s", format="csv", **more)
    given = "redis://localhost/s?format=csv&header=label,size,city"
    stream = open_stream(given, classes=(0, 1), idle_seconds=0.0, threads=0, look=0)
    [batch] = [batch for batch in stream.batches() if len(batch)]
    assert (batch.y.tolist(), np.diff(batch.indptr).tolist()) == ([1, -1], [2, 2])
    assert stream.feature_columns == ["size", "city"]


def test_rows_wider_than_the_model_are_set_aside(monkeypatch):
    from dataclasses import replace

    stream = replace(opened(monkeypatch, Listed([[b"1 5:1", b"1 6:1"]])), widest=5)
    assert rows_in(stream.batches()) == [(1, [4])]
    assert "feature indices must be at most 5" in stream.skipped.reasons[0]


def test_rows_that_cannot_be_learned_are_set_aside(monkeypatch, tmp_path):
    """All since the checkpoint is learned again without them; the model is that of the others."""
    messages = [f"{1 if k % 2 else -1} {k % 7 + 1}:1".encode() for k in range(60)]
    wild = [*messages[:10], b"1 1:9e14", *messages[10:50], b"1 3:1\n1 2:9e14", *messages[50:]]

    def learned(rows, path):
        model = Model.fresh("fsol", Classes(-1, 1), grow=True, fit_intercept=True, parameters={"eta": 1e25})
        broker = Listed([rows], [7] * 100)
        stream = opened(monkeypatch, broker, dead_letters="stream:dead")
        run = LiveRun(stream, model, checkpoints=Checkpoints(path, every=13))
        return broker, run, run.run().learner

    broker, run, found = learned(wild, tmp_path / "wild")
    _, other, wanted = learned(messages, tmp_path / "tame")
    assert [named for _, named, _ in broker.aside] == ["0:10", "0:51"]
    assert "cannot be learned" in broker.aside[0][2]
    assert (found.t, run.skipped) == (wanted.t, 2) == (60, 2)
    np.testing.assert_array_equal(found.outputs.one.memory.state, wanted.outputs.one.memory.state)
    assert run.state.progress.report().as_dict() == other.state.progress.report().as_dict()


def test_a_gap_stops_a_run_unless_it_is_allowed(monkeypatch, tmp_path):
    """All that was learned before is in the checkpoint; a run that continues says what is missing."""
    messages = [f"1 1:{k}".encode() for k in range(1, 21)]

    def run(trimmed=0, **options):
        said, broker = [], Listed([messages], [4] * 10, trimmed=trimmed)
        stream = opened(monkeypatch, broker, **options)
        found = LiveRun(stream, Model.fresh("fsol", Classes(-1, 1), grow=True), checkpoints=Checkpoints(tmp_path / "c"))
        monkeypatch.setattr(found.watch, "on_message", said.append)
        learn = found._take
        monkeypatch.setattr(found, "_take", lambda batch: (learn(batch), setattr(broker, "trimmed", 10)))
        return found, said

    first, said = run()
    with pytest.raises(SourceGapError, match=r"has removed 6 messages after .* --on-gap continue .* without them"):
        first.run()
    second, said = run(10, on_gap="continue")
    assert second.resume()
    assert second.state.position.row == 4
    assert second.run().learner.t == 14
    assert second.stream.lost == 6
    [told] = said
    assert told.endswith("that had not been read; continuing (6 messages are missing so far)")
    assert second.state.position == (0, second.state.position.offset, 20, 14, 0)


def test_a_run_may_start_after_a_gap(monkeypatch):
    """The first message there is may be another one when it is read; later ones are missing."""
    stream = opened(monkeypatch, Listed([[b"1 1:1"] * 5], trimmed=2))
    assert len(rows_in(stream.batches())) == 3
    assert stream.lost == 0


def test_a_message_that_was_learned_in_part_is_gone(monkeypatch):
    """Rows of the next message must not be left out in its place."""
    messages = [b"1 1:1\n1 2:1\n1 3:1", b"1 4:1\n1 5:1"]
    [batch] = opened(monkeypatch, Listed([messages]), rows=2).batches()
    assert batch.position.skip == 2
    stream = opened(monkeypatch, Listed([messages], trimmed=1), on_gap="continue")
    with pytest.raises(SourceError, match="was learned in part, so remove the checkpoint"):
        list(batches_from(stream, batch.position))


@pytest.mark.parametrize("where", ["_rows", "_delivered"])
@pytest.mark.parametrize("error", [RecursionError("too deep"), MemoryError(), TypeError("a\nb"), KeyError("x")])
def test_any_error_of_a_message_sets_it_aside(monkeypatch, where, error):
    messages = [b"1 1:1", b"1 2:1 # boom", b"-1 3:1\n1 4:1", b"-1 5:1"]
    broker = Listed([messages])
    stream = opened(monkeypatch, broker, dead_letters="stream:dead")
    work = getattr(MessageStream, where)

    def fails(self, given, *others):
        text = given.tobytes() if where == "_rows" else b"".join(each.data for each in others[0])
        if b"boom" in text and (where == "_rows" or others[1] != [0]):
            raise error
        return work(self, given, *others)

    monkeypatch.setattr(MessageStream, where, fails)
    assert rows_in(stream.batches()) == [(1, [0]), (-1, [2]), (1, [3]), (-1, [4])]
    assert broker.aside == [("dead", "0:1", " ".join(f"{type(error).__name__}: {error}".split()))]
    assert stream.skipped.count == 1
    assert stream.status.position.line == 4


def test_a_signal_sets_no_message_aside(monkeypatch):
    broker = Listed([[b"1 1:1"]])
    stream = opened(monkeypatch, broker, dead_letters="stream:dead")
    monkeypatch.setattr(MessageStream, "_rows", lambda self, text: (_ for _ in ()).throw(Interrupted(15)))
    with pytest.raises(Interrupted):
        next(stream.batches())
    assert broker.aside == []


def test_entries_of_redis_with_odd_fields():
    deep = "[" * 100_000
    assert json.loads(row_of({b"label": b"1", b"text": deep.encode()})) == {"label": 1, "text": deep}
    assert json.loads(row_of({b"label": b"1", b"n": b"1" * 5000})) == {"label": 1, "n": "1" * 5000}


def test_a_message_that_the_broker_cannot_read(monkeypatch):
    broker = Listed([[b"1 1:1", b"1 2:1", b"1 3:1"]])
    read = broker.read
    mark = lambda message: message._replace(error="no good") if message.cursor == (1,) else message  # noqa: E731
    monkeypatch.setattr(broker, "read", lambda most, seconds: [*map(mark, read(most, seconds))])
    stream = opened(monkeypatch, broker, dead_letters="stream:dead")
    assert rows_in(stream.batches()) == [(1, [0]), (1, [2])]
    assert broker.aside == [("dead", "0:1", "no good")]
