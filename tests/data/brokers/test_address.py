"""Addresses of sources: what they say, what is refused, and that nobody is told a password."""

import pytest

from thinstream.data.brokers import PASSWORD, USER, Address, is_address, shown
from thinstream.data.brokers.broker import open_broker
from thinstream.data.opening import open_stream
from thinstream.data.sources import resolve
from thinstream.errors import InvalidInputError, InvalidParameterError, MissingPackageError

SECRET = "s3cret"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("redis://h/s?fields=row", "redis://h/s: there is no setting 'fields'; did you mean 'field'?"),
        ("nats://h/s?group=a", "nats://h/s: there is no setting 'group'; there are 'format', "),
        ("kafka://h/s?from=middle", "kafka://h/s: from must be 'start' or 'new', got 'middle'"),
        ("kafka://h/s?gaps=ok", "kafka://h/s: there is no setting 'gaps'"),
        ("redis://h:port/s", "redis://h:port/s: .*port"),
        (
            "rediss://h/s?ca=/no/such/file",
            "rediss://h/s: ca must be a file of certificates, and the file /no/such/file does not exist",
        ),
        (
            "mysql://h/s",
            "the address of a message stream must begin with 'redis://', 'rediss://', 'nats://', .*, got 'mysql://h/s'",
        ),
    ],
)
def test_what_is_refused(text, message):
    with pytest.raises(InvalidParameterError, match=message) as raised:
        Address.of(text.replace("://", f"://ann:{SECRET}@"))
    assert SECRET not in str(raised.value)


def test_nobody_is_told_a_password(monkeypatch):
    address = Address.of(f"redis://ann:{SECRET}@localhost:7/0/clicks?group=g")
    assert address.password == SECRET
    assert SECRET not in f"{address} {address!r} {shown(f'redis://ann:{SECRET}@h/s')}"
    with pytest.raises(InvalidInputError, match="redis://h/s is a message stream, which has no end") as raised:
        resolve([f"redis://ann:{SECRET}@h/s"])
    assert SECRET not in str(raised.value)
    monkeypatch.setenv(USER, "bob")
    monkeypatch.setenv(PASSWORD, SECRET)
    found = Address.of("nats://h/s")
    assert (found.user, found.password) == ("bob", SECRET)


def test_escapes_and_hosts():
    found = Address.of("kafka+ssl://a%40b:p%3Aw@one:1,two:2/my%2Ftopic?header=x%09y")
    assert (found.user, found.password, found.hosts) == ("a@b", "p:w", (("one", 1), ("two", 2)))
    assert (found.path, found.header, found.encrypted) == (("my/topic",), b"x\ty\n", True)
    assert not is_address("C://windows")
    assert not is_address(None)


@pytest.mark.parametrize(
    ("scheme", "package", "name"),
    [("redis", "redis", "redis"), ("nats", "nats", "nats-py"), ("kafka", "confluent_kafka", "confluent-kafka")],
)
def test_packages_that_are_missing(monkeypatch, scheme, package, name):
    monkeypatch.setitem(__import__("sys").modules, package, None)
    with pytest.raises(MissingPackageError, match=rf"{scheme}:// needs .*: pip install '{name}>="):
        open_broker(Address.of(f"{scheme}://localhost/clicks"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cache": True}, "A cache is saved next to a file"),
        ({"rows": 0}, "rows must be 1 or more, or None, got 0"),
        ({"idle_seconds": -1.0}, "idle_seconds must be 0 or more, or None, got -1.0"),
        ({"on_gap": "ignore"}, r"on_gap \(--on-gap\) must be 'stop' or 'continue', got 'ignore'"),
        ({"format": "parquet"}, "the format of messages must be 'libsvm', .*, got 'parquet'"),
        ({"zero_based": "auto"}, "zero_based='auto' reads all rows first"),
        ({"idle": 1}, "there is no option 'idle'"),
    ],
)
def test_options_that_are_refused(options, message):
    with pytest.raises(InvalidParameterError, match=message):
        open_stream("redis://localhost/clicks", **options)


def test_one_source_at_a_time():
    with pytest.raises(
        InvalidParameterError, match=r"only one message stream can be read at a time, got redis://h/s, a\.svm"
    ):
        open_stream([f"redis://:{SECRET}@h/s", "a.svm"])
