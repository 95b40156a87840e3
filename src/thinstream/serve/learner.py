"""The learning process: the one that writes journals and changes models. Others ask it through a socket."""

import asyncio
import os
import select
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from thinstream.errors import InvalidInputError, ThinstreamError
from thinstream.locks import locked
from thinstream.serve.keeper import Answer, Keeper
from thinstream.serve.places import Places
from thinstream.serve.settings import Settings
from thinstream.serve.wire import Ask, Frames, Told, framed, from_json


class House:
    """All models of a server, those that are loaded."""

    def __init__(self, places: Places, settings: Settings) -> None:
        self._places, self._settings = places, settings
        self.keepers: dict[str, Keeper] = {}
        self._changing = threading.Lock()
        self._closing = False

    def load(self, name: str) -> Answer:
        """Loads a model and all it has learned, if it is not."""
        if name not in self._places.names():
            return 404, {"error": f"there is no model {name!r}"}
        with self._changing:
            try:
                if name not in self.keepers:
                    self.keepers[name] = Keeper(name, self._places, self._settings)
            except ThinstreamError as error:
                said = str(error).replace(f"{self._places.data}{os.sep}", "")  # where it is, is nobody's business
                return 422, {"error": f"{name!r} cannot be loaded: {said}"}
        return 200, {}

    def unload(self, name: str) -> Answer:
        """The model is answered no more; all of it stays on disk."""
        with self._changing:
            keeper = self.keepers.pop(name, None)
            if keeper is not None:
                keeper.unload()
        return 200, {}

    def close(self) -> None:
        """Checkpoints of all; whoever asks meanwhile is put off."""
        self._closing = True
        with self._changing:
            for keeper in self.keepers.values():
                keeper.close()

    def ask(self, asked: Ask, tell: Callable[[Answer], None]) -> None:
        """Does what is asked, and tells the answer, now or later, on any thread."""
        if self._closing:
            tell((503, {"error": "the learning process is ending; try again in a second"}))
        elif asked.what == "status":
            tell((200, {name: keeper.status() for name, keeper in self.keepers.items()}))
        elif asked.what == "look":
            since = from_json(asked.data)
            tell((200, {name: keeper.look(since.get(name, -1)) for name, keeper in self.keepers.items()}))
        elif asked.what in ("load", "unload"):  # which takes a while: others are answered meanwhile
            change = self.load if asked.what == "load" else self.unload
            _in_thread(lambda: tell(change(asked.model)), tell)
        elif (keeper := self.keepers.get(asked.model)) is None:
            tell((404, {"error": f"no model {asked.model!r} is loaded"}))
        elif asked.what == "rivals":
            tell((200, keeper.rivals()))
        elif asked.what == "quarantine":
            tell((200, keeper.quarantine()))
        elif asked.what == "change":  # which may compile: others are answered meanwhile
            _in_thread(lambda: keeper.ask(asked, tell), tell)
        else:
            keeper.ask(asked, tell)


def _in_thread(work: Callable[[], None], tell: Callable[[Answer], None]) -> None:
    """Do some work in a thread; whatever happens, the client is answered."""

    def run() -> None:
        try:
            work()
        except Exception:
            traceback.print_exc(file=sys.stderr)
            tell((500, {"error": "the request failed; nothing was changed"}))

    threading.Thread(target=run, daemon=True).start()


class Door(asyncio.Protocol):
    """A connection of a predicting process."""

    def __init__(self, house: House, loop: asyncio.AbstractEventLoop) -> None:
        self._house, self._loop, self._frames = house, loop, Frames(Ask)
        self._out: list[bytes] = []
        self._lock = threading.Lock()
        self._transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Somebody has come."""
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Something is asked."""
        for asked in self._frames.take(data):
            self._house.ask(asked, partial(self._tell, asked.number))

    def _tell(self, number: int, answer: Answer) -> None:
        """The answers of one transaction go out together."""
        with self._lock:
            self._out.append(framed(Told(number, *answer)))
            if len(self._out) > 1:
                return
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._flush)

    def _flush(self) -> None:
        with self._lock:
            out, self._out = self._out, []
        if not self._transport.is_closing():
            self._transport.write(b"".join(out))


async def learn(places: Places, settings: Settings, names: list[str], ended: asyncio.Event) -> bool:
    """Serve until the event, then write checkpoints; return whether all models could learn to the end."""
    loop = asyncio.get_running_loop()
    house = House(places, settings)
    server: asyncio.Server | None = None
    for name in names:
        status, answer = house.load(name)
        if status != 200:
            raise InvalidInputError(answer["error"])
    if _is_orphan():  # while it was loading: the next server waits for a door of its own
        ended.set()
    else:
        server = await loop.create_unix_server(lambda: Door(house, loop), str(places.door))
    try:
        await ended.wait()
    finally:
        if server is not None:
            server.close()
        await asyncio.to_thread(house.close)
        places.door.unlink(missing_ok=True)
    return all(keeper.failure is None for keeper in house.keepers.values())


async def _main(places: Places, settings: Settings, names: list[str]) -> bool:
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    loop.add_reader(sys.stdin.fileno(), ended.set)  # closed: the process that started this one is gone
    return await learn(places, settings, names, ended)


def run(places: Places, settings: Settings, names: list[str]) -> bool:
    """The process; whether all models could learn to the end.

    One that was started before it, and is about to end, is waited for.

    Whoever started this one may be gone by then: it gives way to the next, or a server that is killed again and again
    would wait for all that were to learn for those before it.
    """
    with locked(places.learning):
        if _is_orphan():
            return True
        places.door.unlink(missing_ok=True)
        with asyncio.Runner(loop_factory=fast_loop) as runner:
            return runner.run(_main(places, settings, names))


def _is_orphan() -> bool:
    """Whether standard input, which is silent as long as whoever started this process lives, has ended."""
    ready, _, _ = select.select([sys.stdin], [], [], 0)
    return bool(ready)


def fast_loop() -> asyncio.AbstractEventLoop:
    """The loop of uvloop where that is installed."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    found: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return found
