"""What real brokers do: where a run begins, what they refuse, what is told of them; Kafka is its client's cluster."""

import pytest

from tests.streams.brokers.servers import Kafka, Nats, Redis, free_port, libsvm_rows
from thinstream.batch import Position
from thinstream.errors import SourceError, SourceLostError
from thinstream.streams.brokers.places import as_number
from thinstream.streams.opening import open_stream
from thinstream.streams.stream import batches_from

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
    stream.known.asked = -1e9
    assert stream.lag == 300 - stream.known.position.row
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
    with pytest.raises(SourceError, match=r"there is no (stream|topic) 'nothing'"):
        next(opened(server.url("nothing")).batches())


def test_a_server_that_is_not_there(server):
    url = server.url().replace(server.url().split("/")[2], f"127.0.0.1:{free_port()}")
    with pytest.raises(SourceLostError, match=f"{url}: the server cannot be reached"):
        next(opened(url).batches())


def test_another_stream_than_that_of_a_checkpoint(server):
    place = {"redis": (2**62, 0), "nats": (10_000,), "kafka": (10_000, 0, 0, 0)}[server.kind]
    with pytest.raises(SourceError, match=r"ends at .*, before .*, where this run goes on"):
        read(server.url(), Position(offset=as_number(place), row=5))


def test_messages_that_are_gone(server):
    if server.kind == "kafka":
        pytest.skip("the cluster for tests keeps all messages")
    server.put([b"1 1:1", b"-1 2:1", b"1 3:1"], "short")
    [batch] = read(server.url("short"), rows=1)
    if server.kind == "redis":
        server.client.xtrim("short", maxlen=1, approximate=False)
    else:
        server.ask(lambda jetstream: jetstream.purge_stream("short", seq=3))
    with pytest.raises(SourceError, match=r"were removed before they were read.* gaps=ok"):
        read(server.url("short"), batch.position)
    assert values(read(server.url("short", gaps="ok"), batch.position)) == [1.0]


def test_redis_with_a_password_and_fields(tmp_path):
    server = Redis(tmp_path)
    try:
        server.client.xadd("events", {"label": 1, "age": 31, "city": "Oslo"})
        server.client.config_set("requirepass", "s3cret")
        with pytest.raises(SourceError, match="the server refuses") as raised:
            next(opened(server.url("events"), format="jsonl").batches())
        wrong = server.url("events").replace("://", "://:wr0ng@")
        with pytest.raises(SourceError, match="the server refuses") as raised:
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
