"""What real brokers do: where a run begins, what they refuse, what is told of them; Kafka is its client's cluster."""

import pytest

from tests.data.brokers.servers import Kafka, Nats, Redis, free_port, libsvm_rows
from thinstream.batch import Position
from thinstream.data.brokers.broker import as_number
from thinstream.data.brokers.redis import RedisStream
from thinstream.data.opening import open_stream
from thinstream.data.stream import batches_from
from thinstream.errors import SourceError, SourceGapError, SourceLostError

pytestmark = pytest.mark.services

KINDS = {"redis": Redis, "nats": Nats, "kafka": Kafka}
ROWS = [row.encode() for row in libsvm_rows(300)]


@pytest.fixture(scope="module", params=KINDS)
def server(request, tmp_path_factory):
    found = KINDS[request.param](tmp_path_factory.mktemp(request.param))
    found.kind = request.param
    found.put(ROWS)
    yield found
    found.kill()


def opened(url, **options):
    return open_stream(url, **{"classes": (-1, 1), "idle_seconds": 1.0, **options})


def read(url, position=None, **options):
    stream = opened(url, **options)
    batches = stream.batches() if position is None else (batch for _, batch in batches_from(stream, position))
    found = [batch for batch in batches if len(batch)]
    stream.close()
    return found


def values(batches):
    return [value for batch in batches for value in batch.values.tolist()]


def test_all_of_it_and_from_any_place(server):
    first = read(server.url(), rows=100)
    rest = read(server.url(), first[-1].position, rows=300)
    everything = read(server.url(), rows=300)
    assert sum(map(len, everything)) == 300
    assert values(first) + values(rest) == values(everything)


def test_only_what_is_new(server):
    server.put([b"1 1:1"], "fresh")
    stream = opened(server.url("fresh", **{"from": "new"}), idle_seconds=5.0, rows=1)
    batches = stream.batches()
    assert len(next(batches)) == 0
    server.put([b"-1 7:1"], "fresh")
    [batch] = [batch for batch in batches if len(batch)]
    assert batch.indices.tolist() == [6]
    stream.close()


def test_lag(server):
    stream = opened(server.url(), rows=300)
    for batch in stream.batches():
        if len(batch):
            break
    stream.status.asked = -1e9
    assert stream.lag == 300 - stream.status.position.row
    stream.close()


def test_dead_letters_in_another_stream(server):
    if server.kind == "nats":
        server.put([b"1 1:1"], "dead")  # a stream that takes the subject
        before = 1
    else:
        before = 0
    server.put([b"1 1:1", b"no row", b"-1 2:1", b"1 x:y"], "mixed")
    where = "dead.letter" if server.kind == "nats" else "dead"
    for _ in range(2):
        assert sum(map(len, read(server.url("mixed"), dead_letters=f"stream:{where}"))) == 2
    if server.kind == "redis":
        assert [fields[b"data"] for _, fields in server.client.xrange("dead")] == [b"no row", b"1 x:y"]
        assert b"index:value" in server.client.xrange("dead")[1][1][b"reason"]
    else:
        many = 4 if server.kind == "kafka" else 2  # Kafka's stand there again
        assert sorted(server.all("dead")[before:]) == sorted([b"no row", b"1 x:y"] * (many // 2))


def test_a_stream_that_is_not_there(server):
    with pytest.raises(SourceError, match=r"the (stream|topic) 'nothing' does not exist"):
        next(opened(server.url("nothing")).batches())


def test_a_server_that_is_not_there(server):
    url = server.url().replace(server.url().split("/")[2], f"127.0.0.1:{free_port()}")
    with pytest.raises(SourceLostError, match=f"{url}: the server cannot be reached"):
        next(opened(url).batches())


def test_another_stream_than_that_of_a_checkpoint(server):
    place = {"redis": (2**62, 0), "nats": (10_000,), "kafka": (10_000, 0, 0, 0)}[server.kind]
    with pytest.raises(SourceError, match=r"ends at .*, but this run resumes at"):
        read(server.url(), Position(offset=as_number(place), row=5))


def trim(server, stream, keep):
    """Remove all messages of a stream but the last few."""
    if server.kind == "redis":
        server.client.xtrim(stream, maxlen=keep, approximate=False)
    else:
        server.ask(lambda jetstream: jetstream.purge_stream(stream, keep=keep))


def next_rows(batches):
    """Return the values of the next batch that has rows."""
    return next(batch for batch in batches if len(batch)).values.tolist()


def test_messages_removed_while_a_run_is_stopped(server):
    if server.kind == "kafka":
        pytest.skip("see test_kafka_removes_messages")
    server.put([b"1 1:1", b"-1 2:2", b"1 3:3", b"1 4:4"], "short")
    [batch] = read(server.url("short"), rows=1)
    trim(server, "short", 1)
    for _ in range(2):  # nothing changes by looking
        with pytest.raises(SourceGapError, match=r"removed 2 messages after .* --on-gap continue") as raised:
            read(server.url("short"), batch.position)
        assert raised.value.lost == 2
    assert values(read(server.url("short"), batch.position, on_gap="continue")) == [4.0]


@pytest.mark.parametrize("on_gap", ["stop", "continue"])
def test_messages_removed_between_two_reads(server, on_gap):
    if server.kind == "kafka":
        pytest.skip("see test_kafka_removes_messages")
    name = f"trimmed-{on_gap}"
    server.put([b"1 1:1", b"1 1:2", b"1 1:3"], name)
    stream = opened(server.url(name), on_gap=on_gap)
    batches = stream.batches()
    assert next_rows(batches) == [1.0, 2.0, 3.0]
    trim(server, name, 0)  # of messages that were read
    assert len(next(batches)) == stream.lost == 0
    server.put([b"1 1:4", b"1 1:5", b"1 1:6"], name)
    trim(server, name, 1)
    if on_gap == "stop":
        with pytest.raises(SourceGapError, match="removed 2 messages"):
            next_rows(batches)
    else:
        assert next_rows(batches) == [6.0]
        assert stream.lost == 2
        server.put([b"1 1:7", b"1 1:8"], name)
        trim(server, name, 0)
        server.put([b"1 1:9"], name)
        assert next_rows(batches) == [9.0]
        assert stream.lost == 4
        assert "4 messages were removed before they were read" in stream.remarks[-1]
        stream.status.asked = -1e9
        assert stream.lag == 0
    stream.close()


def test_messages_deleted_one_by_one(server):
    if server.kind == "kafka":
        pytest.skip("it cannot delete them")
    server.put([f"1 1:{k}".encode() for k in range(1, 9)], "deleted")
    if server.kind == "redis":
        names = [name for name, _ in server.client.xrange("deleted")]
        delete = lambda *which: server.client.xdel("deleted", *(names[k - 1] for k in which))  # noqa: E731
    else:
        delete = lambda *which: [server.ask(lambda js, k=k: js.delete_msg("deleted", k)) for k in which]  # noqa: E731
    delete(1, 3)  # before the run starts
    whole = opened(server.url("deleted"))
    first = next(batch for batch in whole.batches() if len(batch))
    assert first.values.tolist() == [2.0, 4.0, 5.0, 6.0, 7.0, 8.0]
    assert whole.lost == 0
    whole.close()
    stream = opened(server.url("deleted"), rows=2, on_gap="continue")
    [*_, half] = [batch for batch in stream.batches() if len(batch)]
    assert half.values.tolist()[-1] == 4.0
    stream.close()
    delete(2, 4)  # after they were read
    later = opened(server.url("deleted"))
    batches = (batch for _, batch in batches_from(later, half.position))
    assert next_rows(batches) == [5.0, 6.0, 7.0, 8.0]
    assert all(len(batch) == 0 for batch in batches)
    assert later.lost == 0
    later.close()
    delete(6, 8)
    fewer = opened(server.url("deleted"), on_gap="continue")
    assert values(batch for _, batch in batches_from(fewer, half.position)) == [5.0, 7.0]
    if server.kind == "redis":
        assert fewer.lost == 2
    else:  # the last one was the end of the stream: nobody knows that there was more until the next one comes
        assert fewer.lost == 1
    fewer.close()


def test_kafka_removes_messages():
    """Its cluster for tests keeps five megabytes of a partition."""
    server = Kafka()
    large = [b"1 1:1 # " + b"x" * 20_000] * 100
    server.put([b"1 1:2", b"1 1:3"])
    first = read(server.url(), rows=1)[-1]
    stream = opened(server.url(), on_gap="continue", idle_seconds=30.0)
    batches = stream.batches()
    assert next_rows(batches) == [2.0, 3.0]
    for _ in range(4):
        server.put(large)
    start, end = stream.broker._ends(1)[0]
    assert 2 < start < end == 402
    stream.broker._assign()  # what the client has fetched by itself is forgotten
    seen = len(next_rows(batches))
    while seen < end - start:
        seen += len(next_rows(batches))
    assert (stream.lost, seen) == (start - 2, end - start)
    stream.close()
    with pytest.raises(SourceGapError, match=rf"removed {start - 1} messages after offsets \[1.*--on-gap continue"):
        read(server.url(), first.position)
    assert sum(map(len, read(server.url(), first.position, on_gap="continue"))) == end - start


def test_nats_with_a_subject(tmp_path):
    """Messages of other subjects may go; if some of this subject may be among them, that is a gap."""
    server = Nats(tmp_path)

    async def made(jetstream):
        await jetstream.add_stream(name="mixed", subjects=["mixed.*"], max_msgs=50)

    async def put(jetstream, subject, rows):
        for row in rows:
            await jetstream.publish(f"mixed.{subject}", row)

    try:
        server.ask(made)
        server.ask(lambda jetstream: put(jetstream, "mine", [b"1 1:1", b"1 1:2"]))
        stream = opened(server.url("mixed", subject="mixed.mine"), idle_seconds=60.0, on_gap="continue")
        batches = stream.batches()
        assert next_rows(batches) == [1.0, 2.0]
        for _ in range(3):
            server.ask(lambda jetstream: put(jetstream, "other", [b"1 1:0"] * 40))
            position = next(batches).position
        while position.offset != as_number((122,)):  # it follows the end of the stream
            position = next(batches).position
        server.ask(lambda jetstream: put(jetstream, "mine", [b"1 1:3"]))
        assert next_rows(batches) == [3.0]
        assert stream.lost == 0
        position = stream.status.position
        server.ask(lambda jetstream: put(jetstream, "mine", [b"1 1:4"] * 60))
        assert next_rows(batches) == [4.0] * 50
        assert stream.lost == 10
        assert "an unknown number of messages (at most 10)" in stream.status.gap
        stream.close()
        with pytest.raises(SourceGapError, match="at most 10"):
            read(server.url("mixed", subject="mixed.mine"), position)
    finally:
        server.kill()


def test_a_group_counts_what_is_missing(tmp_path):
    """Also after it was stopped and started again, and of entries that were removed while they were pending."""
    server = Redis(tmp_path)
    server.kind = "redis"
    url = server.url(group="g", consumer="a")

    def more(first, last, keep=1000):
        server.put([f"1 1:{k}".encode() for k in range(first, last + 1)])
        trim(server, "clicks", keep)

    try:
        more(1, 10, 8)  # before the group is there
        stream = opened(url, on_gap="continue")
        batches = stream.batches()
        assert len(next_rows(batches)) == 8
        assert stream.lost == 0
        for k in range(3):  # before Redis 7.4, the server's own count is too low after the first
            more(11 + 10 * k, 20 + 10 * k, 4)
            assert next_rows(batches) == [17.0 + 10 * k + j for j in range(4)]
            assert stream.lost == 6 * (k + 1)
        stream.status.asked = -1e9
        assert stream.lag == 0
        kept = stream.status.position
        stream.kept(kept)
        stream.close()
        more(41, 45)
        again = opened(url)
        assert next_rows(batch for _, batch in batches_from(again, kept)) == [41.0, 42.0, 43.0, 44.0, 45.0]
        again.close()  # these are pending now
        more(46, 48, 5)  # 41 to 43 go
        for _ in range(2):
            with pytest.raises(SourceGapError, match="removed 3 messages"):
                read(url, kept)
        last = opened(url, on_gap="continue")
        assert values(batch for _, batch in batches_from(last, kept)) == [44.0, 45.0, 46.0, 47.0, 48.0]
        assert last.lost == 3
        last.kept(last.status.position)
        last.close()
        [group] = server.client.xinfo_groups("clicks")
        assert group["pending"] == 0
    finally:
        server.kill()


def test_members_of_a_group_are_told_of_a_gap(tmp_path):
    server = Redis(tmp_path)
    server.kind = "redis"
    try:
        server.put(ROWS[:20])
        options = {"on_gap": "continue", "idle_seconds": 60.0}
        streams = [opened(server.url(group="g", consumer=name), **options) for name in "ab"]
        first, second = (stream.batches() for stream in streams)
        assert len(next(batch for batch in first if len(batch))) == 20
        server.put(ROWS[:4])
        assert len(next(batch for batch in second if len(batch))) == 4
        trim(server, "clicks", 0)
        assert len(next(first)) == len(next(second)) == 0
        assert [stream.lost for stream in streams] == [0, 0]
        server.put(ROWS[:10])
        trim(server, "clicks", 3)
        assert len(next(batch for batch in second if len(batch))) == 3
        assert streams[1].lost == 7
        assert "an unknown number of messages (at most 7)" in streams[1].status.gap
        assert [len(next(first)) for _ in range(3)] == [0, 0, 0]
        assert streams[0].lost == 0
    finally:
        server.kill()


@pytest.mark.parametrize("group", [{}, {"group": "g", "consumer": "a"}])
def test_redis_stream_that_was_made_again(tmp_path, group):
    server = Redis(tmp_path)
    try:
        server.put(ROWS[:20])
        position = read(server.url(**group))[-1].position
        server.client.delete("clicks")
        server.put(ROWS[:5])
        with pytest.raises(SourceGapError, match=r"20 entries were read, .* --on-gap continue"):
            read(server.url(**group), position)
        stream = opened(server.url(**group), on_gap="continue", idle_seconds=60.0)
        batches = (batch for _, batch in batches_from(stream, position))
        assert len(next(batch for batch in batches if len(batch))) == 5
        server.put(ROWS[:5])
        server.client.xtrim("clicks", maxlen=2, approximate=False)
        assert len(next(batch for batch in batches if len(batch))) == 2
        assert stream.lost == 3
        stream.close()
    finally:
        server.kill()


def test_redis_that_does_not_count(tmp_path, monkeypatch):
    """Servers before 7.0 cannot tell what they removed: that is an error unless gaps are allowed."""
    server = Redis(tmp_path)
    try:
        server.put(ROWS[:5])
        about = RedisStream._about
        old = lambda self: {k: v for k, v in about(self).items() if k != "entries-added"}  # noqa: E731
        monkeypatch.setattr(RedisStream, "_about", old)
        with pytest.raises(SourceGapError, match=r"older than Redis 7\.0 .* --on-gap continue"):
            read(server.url())
        assert sum(map(len, read(server.url(), on_gap="continue"))) == 5
    finally:
        server.kill()


def test_redis_with_a_password_and_fields(tmp_path):
    server = Redis(tmp_path)
    try:
        server.client.xadd("events", {"label": 1, "age": 31, "city": "Oslo"})
        server.client.config_set("requirepass", "s3cret")
        with pytest.raises(SourceError, match="the server refused the request") as raised:
            next(opened(server.url("events"), format="jsonl").batches())
        wrong = server.url("events").replace("://", "://:wr0ng@")
        with pytest.raises(SourceError, match="the server refused the request") as raised:
            next(opened(wrong, format="jsonl").batches())
        assert "wr0ng" not in str(raised.value)
        right = server.url("events").replace("://", "://:s3cret@")
        [batch] = read(right, format="jsonl", classes=(0, 1))
        assert sorted(batch.values.tolist()) == [1.0, 31.0]
    finally:
        server.kill()


def test_members_of_a_group_share(tmp_path):
    server = Redis(tmp_path)
    try:
        server.put(ROWS)
        streams = [opened(server.url(group="g", consumer=name)) for name in "ab"]
        first, second = (stream.batches() for stream in streams)
        batch = next(each for each in first if len(each))
        assert len(batch) == 300
        server.put(ROWS[:10])
        assert sum(len(each) for each in second) == 10
        [group] = server.client.xinfo_groups("clicks")
        assert group["pending"] == 310
        streams[0].kept(batch.position)
        [group] = server.client.xinfo_groups("clicks")
        assert group["pending"] == 10
        # the second one is killed before it has kept anything: it is given its ten again
        assert sum(map(len, read(server.url(group="g", consumer="b")))) == 10
    finally:
        server.kill()


def test_kafka_commits_for_those_who_watch():
    server = Kafka()
    server.put(ROWS[:20])
    stream = opened(server.url(group="watched"))
    batch = next(each for each in stream.batches() if len(each))
    stream.kept(batch.position)
    stream.close()
    where = server.kafka.TopicPartition("clicks", 0)
    reader = server.kafka.Consumer({"bootstrap.servers": server.place, "group.id": "watched", "log_level": 0})
    [found] = reader.committed([where], timeout=5)
    reader.close()
    assert found.offset == len(batch)


def test_all_partitions_of_a_topic():
    server = Kafka()
    server.put(ROWS, partitions=4)
    first = read(server.url(), rows=130)
    rest = read(server.url(), first[-1].position, rows=300)
    assert sorted(values(first) + values(rest)) == sorted(values(read(server.url(), rows=300)))
    assert sum(map(len, first + rest)) == 300
