"""NATS JetStream: ``nats://[USER:PASSWORD@]HOST[:PORT][,HOST…]/STREAM``, encrypted as ``tls://``.

Messages are pulled in the order of the stream by a consumer that lives as long as the connection and acknowledges
nothing: the place, the sequence of the last message taken, is in the checkpoint and nowhere else. So a stream must keep
its messages (retention ``limits``), and anybody else may read it, too. ``subject=`` takes those of a subject only.

The sequence of a message is the number of messages that were added up to it, and a position has the number of messages
up to it: those read, those removed before the run started, and those known to be missing. If it is less, more messages
are missing. With ``subject=`` nobody can count them: some may be missing if the stream begins after the last sequence
up to which all was read.
"""

import asyncio
import ssl
import threading
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any

from thinstream.streams.brokers.address import Address
from thinstream.streams.brokers.broker import (
    Message,
    Place,
    SourceError,
    SourceLostError,
    gap,
    missing,
    require_long,
)

PORT, SECONDS = 4222, 5.0
#: Seconds after which the server forgets a consumer that nobody asks.
_FORGOTTEN = 120.0
#: Reads in vain until the consumer is looked for.
_DOUBT = 10


def package() -> Any:
    """The client, an optional package; imported when first needed."""
    try:
        import nats
        import nats.aio.client
        import nats.js.errors
    except ImportError as error:
        raise missing("nats://", "nats-py", "nats") from error
    return nats


class JetStream:
    """Messages of a stream, in its order."""

    def __init__(self, address: Address) -> None:
        self._address, self._stream = address, address.stream("STREAM")
        self._subject = address.settings.get("subject", "")
        self._nats = package()
        self._loop: asyncio.AbstractEventLoop | None = None  # of a thread of its own, which the client needs
        self._connection: Any = None
        self._server: Any = None
        self._pull: Any = None
        self._puller: Any = None  # the connection it is of
        self._place: Place = (0,)  # up to which all was read
        self._noted: Place = (0,)  # the same, as far as a position has it
        self._count = 0  # messages up to the place
        self._ahead: list[Message] = []  # messages that were fetched and not returned yet
        self._read = 0  # messages of this consumer
        self._vain = 0  # reads since the last message
        self._last_error: BaseException | None = None

    def _ask(self, question: Callable[[], Coroutine[Any, Any, Any]], seconds: float = SECONDS) -> Any:
        """Runs it on the loop; connects before if need be."""
        errors = self._nats.js.errors
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            # a daemon must not keep the process alive
            threading.Thread(target=_turn, args=(self._loop,), name=f"asking {self._address}", daemon=True).start()
        waiting = asyncio.run_coroutine_threadsafe(self._asked(question, seconds), self._loop)
        try:
            return waiting.result()
        except errors.NotFoundError:
            raise SourceError(f"{self._address}: there is no stream {self._stream!r}") from None
        except errors.ServiceUnavailableError:
            raise SourceLostError(f"{self._address}: the server has no JetStream at the moment") from None
        except errors.APIError as error:
            raise SourceError(f"{self._address}: the server refuses: {error.description}") from None
        except (TimeoutError, self._nats.errors.Error, OSError) as error:
            asyncio.run_coroutine_threadsafe(self._hang_up(), self._loop)
            why = self._last_error or error
            if _is_refusal(why):
                raise SourceError(f"{self._address}: the server refuses: {why}") from None
            raise SourceLostError(
                f"{self._address}: the server cannot be reached: {why or 'it does not answer'}"
            ) from None
        except BaseException:  # a signal: nobody waits for the answer any more
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
        who: dict[str, Any] = {"user": address.user, "password": address.password}
        if address.user and not address.password:
            who = {"token": address.user}
        tls = {"tls": ssl.create_default_context(cafile=address.settings.get("ca"))} if address.encrypted else {}
        await self._hang_up()
        self._connection = self._nats.aio.client.Client()
        await self._connection.connect(
            [f"{scheme}://{host}:{port or PORT}" for host, port in address.hosts],
            connect_timeout=2, allow_reconnect=False, max_reconnect_attempts=1, reconnect_time_wait=0.05,
            error_cb=self._fails, **who, **tls,
        )  # fmt: skip
        self._server = self._connection.jetstream(timeout=SECONDS)

    async def _fails(self, error: BaseException) -> None:
        """Told by the client; after it was refused it tries once more, and may hear less."""
        if self._last_error is None or not _is_refusal(self._last_error):
            self._last_error = error

    async def _hang_up(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(self._nats.errors.Error, OSError):
                await connection.close()

    def _about(self) -> Any:
        found = self._ask(lambda: self._server.stream_info(self._stream))
        keeps = found.config.retention
        if getattr(keeps, "value", keeps) != "limits":
            raise SourceError(
                f"{self._address}: retention of the stream must be 'limits', got {getattr(keeps, 'value', keeps)!r}: "
                "it would not keep what a run may have to read again"
            )
        return found

    def identity(self) -> dict[str, Any]:
        """The stream, by when it was made."""
        found = {"source": "nats", "stream": self._stream, "created": str(self._about().created)}
        return found | ({"subject": self._subject} if self._subject else {})

    def start(self) -> tuple[int, Place]:
        """Before the first message, or after the last."""
        state = self._about().state
        if self._address.begins == "new":
            return state.last_seq, (state.last_seq,)
        return state.last_seq - state.messages, (max(state.first_seq - 1, 0),)

    def seek(self, place: Place, taken: int = 0, first: int | None = None) -> None:
        """A consumer that begins after a message."""
        state = self._about().state
        require_long(self._address, state.last_seq < place[0], str(state.last_seq), str(place[0]))
        self._place, self._count, self._ahead, self._read, self._vain = place, taken, [], 0, 0
        self._noted = place
        self._ask(self._subscribe)

    async def _subscribe(self) -> None:
        api = self._nats.js.api
        self._pull = await self._server.pull_subscribe(
            self._subject,
            stream=self._stream,
            config=api.ConsumerConfig(
                deliver_policy=api.DeliverPolicy.BY_START_SEQUENCE,
                opt_start_seq=self._place[0] + 1,
                ack_policy=api.AckPolicy.NONE,
                inactive_threshold=_FORGOTTEN,
                mem_storage=True,
            ),
        )
        self._puller = self._server

    def read(self, most: int, seconds: float) -> list[Message]:
        """The next messages; `SourceLostError` if some were lost on the way: they are pulled again."""
        messages, self._ahead = self._ahead, []
        if not messages:
            end = self._require_begin() if self._subject else 0
            messages = self._pulled(most, seconds)
            if not messages:
                self._look_around(end)
        if not self._subject:
            messages = self._up_to_gap(messages)
        if messages:
            self._place = self._noted = messages[-1].place
            self._count += len(messages)
        return messages

    def _require_begin(self) -> int:
        """Raise `SourceGapError` if the stream begins after the next message; else return its last sequence."""
        state, last = self._about().state, self._place[0]
        if state.first_seq <= last + 1:
            return int(state.last_seq)
        if self._subject:
            self._place = self._noted = (state.first_seq - 1,)
            raise gap(self._address, state.first_seq - 1 - last, str(last), self._place, exact=False)
        lost = state.last_seq - state.messages - self._count
        if lost > 0:
            self._count += lost
            raise gap(self._address, lost, str(last), counted=lost)
        return int(state.last_seq)

    def _up_to_gap(self, messages: list[Message]) -> list[Message]:
        """Return the messages before a gap; if there are none, raise `SourceGapError`, and return all others next."""
        gone = (k for k, message in enumerate(messages) if message.place[0] - 1 > self._count + k)
        first = next(gone, len(messages))
        self._ahead = messages[first:]
        if messages and not first:
            lost = messages[-1].place[0] - len(messages) - self._count
            self._count += lost
            raise gap(self._address, lost, str(self._place[0]), counted=lost)
        return messages[:first]

    def _pulled(self, most: int, seconds: float) -> list[Message]:
        messages = []
        for each in self._ask(lambda: self._fetch(most, seconds), seconds + SECONDS):
            sequence = each.metadata.sequence
            self._read += 1
            if sequence.consumer != self._read:
                raise SourceLostError(f"{self._address}: a message was lost on the way")
            messages.append(Message(each.data, (sequence.stream,), named=str(sequence.stream)))
        self._vain = 0 if messages else self._vain + 1
        return messages

    def _look_around(self, end: int) -> None:
        """Nothing has come: check the consumer and the begin of the stream.

        With a subject, all up to ``end``, which was the stream's end before, is read, unless something is on its way.
        """
        doubt = self._vain >= _DOUBT
        if doubt:
            self._vain = 0
            self._ask(self._require_consumer)
        if not self._subject:
            self._require_begin()
            return
        if end > self._place[0]:
            consumer = self._ask(lambda: self._pull.consumer_info())
            if not consumer.num_pending and consumer.delivered.consumer_seq == self._read:
                self._place = (end,)
        if doubt and self._place != self._noted:  # rarely, as each new position is written to disk
            before, self._noted = self._noted, self._place
            raise gap(self._address, 0, str(before[0]), self._place)

    async def _fetch(self, most: int, seconds: float) -> Any:
        if self._puller is not self._server:  # that connection is gone, and the consumer with it
            raise self._nats.errors.ConnectionClosedError
        try:
            return await self._pull.fetch(most, timeout=seconds)
        except (TimeoutError, self._nats.errors.TimeoutError):
            return []

    async def _require_consumer(self) -> None:
        """The server may have forgotten it, and says nothing."""
        try:
            await self._pull.consumer_info()
        except self._nats.js.errors.NotFoundError:
            raise self._nats.errors.ConnectionClosedError from None

    def after(self, place: Place, messages: Sequence[Message]) -> Place:
        """The sequence of the last."""
        return messages[-1].place if messages else place

    def lag(self, place: Place, taken: int) -> int | None:
        """Messages of the stream after a place; of one subject those that were not pulled."""
        if self._subject:
            return int(self._ask(lambda: self._pull.consumer_info()).num_pending)
        return max(int(self._about().state.last_seq) - place[0], 0)

    def acknowledge(self, place: Place) -> None:
        """The server need not know."""

    def set_aside(self, name: str, message: Message, reason: str) -> None:
        """Published under a subject, which a stream must take; the server drops the same one again for two minutes."""
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
                f"{self._address}: no stream takes the subject {name!r} of dead letters: {error}"
            ) from None

    def close(self) -> None:
        """Lets go of the server."""
        loop, self._loop = self._loop, None
        if loop is not None:
            with suppress(TimeoutError):
                asyncio.run_coroutine_threadsafe(self._hang_up(), loop).result(SECONDS)
            loop.call_soon_threadsafe(loop.stop)


def _is_refusal(error: BaseException) -> bool:
    return "authorization" in str(error).lower()


def _turn(loop: asyncio.AbstractEventLoop) -> None:
    """Runs a loop until it is stopped."""
    loop.run_forever()
    for task in asyncio.all_tasks(loop):
        task.cancel()
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()
