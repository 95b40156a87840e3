"""NATS JetStream: ``nats://[USER:PASSWORD@]HOST[:PORT][,HOST…]/STREAM``, encrypted as ``tls://``.

A consumer pulls messages in the order of the stream, without acknowledging them. It lives as long as the connection.
The position, which is the sequence number of the last message read, is only in the checkpoint. So a stream must retain
its messages (retention ``limits``), and others can read it at the same time. ``subject=`` reads only one subject.

The sequence number of a message is the number of messages that were added up to it. A position has the number of
messages up to it: those that were read, those removed before the run started, and those known to be missing. If that is
less than the sequence number, more messages are missing. With ``subject=``, they cannot be counted: some may be missing
if the stream starts after the last sequence number up to which everything was read.
"""

import asyncio
import ssl
import threading
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any

from thinstream.data.brokers import Address
from thinstream.data.brokers.broker import Cursor, Message, gap, missing, require_long
from thinstream.errors import SourceError, SourceLostError

PORT, SECONDS = 4222, 5.0
#: Seconds after which the server removes an unused consumer.
_FORGOTTEN = 120.0
#: Reads without a message after which the consumer is checked.
_DOUBT = 10


def package() -> Any:
    """Import and return the client, an optional package."""
    try:
        import nats
        import nats.aio.client
        import nats.js.errors
    except ImportError as error:
        raise missing("nats://", "nats-py", "nats") from error
    return nats


class JetStream:
    """Messages of a stream, in order."""

    def __init__(self, address: Address) -> None:
        self._address, self._stream = address, address.stream("STREAM")
        self._subject = address.settings.get("subject", "")
        self._nats = package()
        self._loop: asyncio.AbstractEventLoop | None = None  # runs in a separate thread for the client
        self._connection: Any = None
        self._server: Any = None
        self._pull: Any = None
        self._puller: Any = None  # the connection of the subscription
        self._cursor: Cursor = (0,)  # everything up to here was read
        self._noted: Cursor = (0,)  # the last position that a stream position contains
        self._count = 0  # messages up to the position
        self._ahead: list[Message] = []  # messages that were fetched and not returned yet
        self._read = 0  # messages of this consumer
        self._vain = 0  # reads since the last message
        self._last_error: BaseException | None = None

    def _ask(self, question: Callable[[], Coroutine[Any, Any, Any]], seconds: float = SECONDS) -> Any:
        """Run a request on the loop; connect first if necessary."""
        errors = self._nats.js.errors
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            # a daemon must not keep the process alive
            threading.Thread(target=_turn, args=(self._loop,), name=f"asking {self._address}", daemon=True).start()
        waiting = asyncio.run_coroutine_threadsafe(self._asked(question, seconds), self._loop)
        try:
            return waiting.result()
        except errors.NotFoundError:
            raise SourceError(f"{self._address}: the stream {self._stream!r} does not exist") from None
        except errors.ServiceUnavailableError:
            raise SourceLostError(f"{self._address}: JetStream is not available on the server at the moment") from None
        except errors.APIError as error:
            raise SourceError(f"{self._address}: the server refused the request: {error.description}") from None
        except (TimeoutError, self._nats.errors.Error, OSError) as error:
            asyncio.run_coroutine_threadsafe(self._hang_up(), self._loop)
            why = self._last_error or error
            if _is_refusal(why):
                raise SourceError(f"{self._address}: the server refused the request: {why}") from None
            raise SourceLostError(f"{self._address}: the server cannot be reached: {why or 'no answer'}") from None
        except BaseException:  # a signal: the answer is no longer needed
            waiting.cancel()
            raise

    async def _asked(self, question: Callable[[], Coroutine[Any, Any, Any]], seconds: float) -> Any:
        async with asyncio.timeout(seconds):
            if self._connection is None or not self._connection.is_connected:
                await self._connect()
            return await question()

    async def _connect(self) -> None:
        address, self._last_error = self._address, None
        scheme = "tls" if address.encrypted else "nats"
        credentials: dict[str, Any] = {"user": address.user, "password": address.password}
        if address.user and not address.password:
            credentials = {"token": address.user}
        tls = {"tls": ssl.create_default_context(cafile=address.settings.get("ca"))} if address.encrypted else {}
        await self._hang_up()
        self._connection = self._nats.aio.client.Client()
        await self._connection.connect(
            [f"{scheme}://{host}:{port or PORT}" for host, port in address.hosts],
            connect_timeout=2, allow_reconnect=False, max_reconnect_attempts=1, reconnect_time_wait=0.05,
            error_cb=self._fails, **credentials, **tls,
        )  # fmt: skip
        self._server = self._connection.jetstream(timeout=SECONDS)

    async def _fails(self, error: BaseException) -> None:
        """Called by the client; after a refusal, it tries again and may report less."""
        if self._last_error is None or not _is_refusal(self._last_error):
            self._last_error = error

    async def _hang_up(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(self._nats.errors.Error, OSError):
                await connection.close()

    def _about(self) -> Any:
        info = self._ask(lambda: self._server.stream_info(self._stream))
        retention = getattr(info.config.retention, "value", info.config.retention)
        if retention != "limits":
            raise SourceError(
                f"{self._address}: retention of the stream must be 'limits', got {retention!r}. Otherwise messages may "
                "be removed that a resumed run has to read again."
            )
        return info

    def identity(self) -> dict[str, Any]:
        properties = {"source": "nats", "stream": self._stream, "created": str(self._about().created)}
        return properties | ({"subject": self._subject} if self._subject else {})

    def start(self) -> tuple[int, Cursor]:
        state = self._about().state
        if self._address.begins == "new":
            return state.last_seq, (state.last_seq,)
        return state.last_seq - state.messages, (max(state.first_seq - 1, 0),)

    def seek(self, cursor: Cursor, taken: int = 0, first: int | None = None) -> None:
        """Create a consumer that starts after a message."""
        state = self._about().state
        require_long(self._address, state.last_seq < cursor[0], str(state.last_seq), str(cursor[0]))
        self._cursor, self._count, self._ahead, self._read, self._vain = cursor, taken, [], 0, 0
        self._noted = cursor
        self._ask(self._subscribe)

    async def _subscribe(self) -> None:
        api = self._nats.js.api
        self._pull = await self._server.pull_subscribe(
            self._subject,
            stream=self._stream,
            config=api.ConsumerConfig(
                deliver_policy=api.DeliverPolicy.BY_START_SEQUENCE,
                opt_start_seq=self._cursor[0] + 1,
                ack_policy=api.AckPolicy.NONE,
                inactive_threshold=_FORGOTTEN,
                mem_storage=True,
            ),
        )
        self._puller = self._server

    def read(self, most: int, seconds: float) -> list[Message]:
        """Return the next messages; raise `SourceLostError` if some were lost on the way, to pull them again."""
        messages, self._ahead = self._ahead, []
        if not messages:
            end = self._require_begin() if self._subject else 0
            messages = self._pulled(most, seconds)
            if not messages:
                self._look_around(end)
        if not self._subject:
            messages = self._up_to_gap(messages)
        if messages:
            self._cursor = self._noted = messages[-1].cursor
            self._count += len(messages)
        return messages

    def _require_begin(self) -> int:
        """Raise `SourceGapError` if the stream starts after the next message; else return its last sequence number."""
        state, last = self._about().state, self._cursor[0]
        if state.first_seq <= last + 1:
            return int(state.last_seq)
        if self._subject:
            self._cursor = self._noted = (state.first_seq - 1,)
            raise gap(self._address, state.first_seq - 1 - last, str(last), self._cursor, exact=False)
        lost = state.last_seq - state.messages - self._count
        if lost > 0:
            self._count += lost
            raise gap(self._address, lost, str(last), counted=lost)
        return int(state.last_seq)

    def _up_to_gap(self, messages: list[Message]) -> list[Message]:
        """Return the messages before a gap; if there are none, raise `SourceGapError`, and return the others next."""
        gaps = (k for k, message in enumerate(messages) if message.cursor[0] - 1 > self._count + k)
        first = next(gaps, len(messages))
        self._ahead = messages[first:]
        if messages and not first:
            lost = messages[-1].cursor[0] - len(messages) - self._count
            self._count += lost
            raise gap(self._address, lost, str(self._cursor[0]), counted=lost)
        return messages[:first]

    def _pulled(self, most: int, seconds: float) -> list[Message]:
        messages = []
        for message in self._ask(lambda: self._fetch(most, seconds), seconds + SECONDS):
            sequence = message.metadata.sequence
            self._read += 1
            if sequence.consumer != self._read:
                raise SourceLostError(f"{self._address}: a message was lost on the way")
            messages.append(Message(message.data, (sequence.stream,), named=str(sequence.stream)))
        self._vain = 0 if messages else self._vain + 1
        return messages

    def _look_around(self, end: int) -> None:
        """Check the consumer and the start of the stream after a read without messages.

        With a subject, everything up to ``end``, the end of the stream before the read, has been read, unless messages
        are still on the way.
        """
        doubt = self._vain >= _DOUBT
        if doubt:
            self._vain = 0
            self._ask(self._require_consumer)
        if not self._subject:
            self._require_begin()
            return
        if end > self._cursor[0]:
            consumer = self._ask(lambda: self._pull.consumer_info())
            if not consumer.num_pending and consumer.delivered.consumer_seq == self._read:
                self._cursor = (end,)
        if doubt and self._cursor != self._noted:  # rarely, as each new position is written to disk
            before, self._noted = self._noted, self._cursor
            raise gap(self._address, 0, str(before[0]), self._cursor)

    async def _fetch(self, most: int, seconds: float) -> Any:
        if self._puller is not self._server:  # the connection is closed, and its consumer is gone
            raise self._nats.errors.ConnectionClosedError
        try:
            return await self._pull.fetch(most, timeout=seconds)
        except (TimeoutError, self._nats.errors.TimeoutError):
            return []

    async def _require_consumer(self) -> None:
        """Raise if the server has removed the consumer."""
        try:
            await self._pull.consumer_info()
        except self._nats.js.errors.NotFoundError:
            raise self._nats.errors.ConnectionClosedError from None

    def after(self, cursor: Cursor, messages: Sequence[Message]) -> Cursor:
        return messages[-1].cursor if messages else cursor

    def lag(self, cursor: Cursor, taken: int) -> int | None:
        """Return the number of messages of the stream after a position; with a subject, those that were not pulled."""
        if self._subject:
            return int(self._ask(lambda: self._pull.consumer_info()).num_pending)
        return max(int(self._about().state.last_seq) - cursor[0], 0)

    def acknowledge(self, cursor: Cursor) -> None:
        """Do nothing: the server does not track positions."""

    def set_aside(self, name: str, message: Message, reason: str) -> None:
        """Publish under a subject that a stream accepts; the server drops duplicates for two minutes."""
        headers = {
            "Nats-Msg-Id": f"{self._stream}-{message.named}",
            "Thinstream-Reason": " ".join(reason.split()),
            "Thinstream-Source": f"{self._stream} {message.named}",
        }
        try:
            self._ask(lambda: self._server.publish(name, message.data, headers=headers))
        except SourceError as error:
            if isinstance(error, SourceLostError):
                raise
            raise SourceError(
                f"{self._address}: no stream accepts the subject {name!r} for dead letters: {error}"
            ) from None

    def close(self) -> None:
        loop, self._loop = self._loop, None
        if loop is not None:
            with suppress(TimeoutError):
                asyncio.run_coroutine_threadsafe(self._hang_up(), loop).result(SECONDS)
            loop.call_soon_threadsafe(loop.stop)


def _is_refusal(error: BaseException) -> bool:
    return "authorization" in str(error).lower()


def _turn(loop: asyncio.AbstractEventLoop) -> None:
    """Run a loop until it is stopped."""
    loop.run_forever()
    for task in asyncio.all_tasks(loop):
        task.cancel()
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()
