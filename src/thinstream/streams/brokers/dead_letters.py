"""Messages that cannot be read are set aside with the reason: in a file, or in another stream of the same broker."""

import base64
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from thinstream.errors import FileWriteError, InvalidParameterError
from thinstream.streams.brokers.broker import Broker, Message

STREAM = "stream:"
#: A message and why it cannot be read.
Letter = tuple[Message, str]


class DeadLetters(Protocol):
    """Where they go."""

    def put(self, letters: Sequence[Letter]) -> None:
        """Write them; one that was written before is left out, as far as the place can tell."""


class Nowhere:
    """They are counted and told, and stay where they are: in the source."""

    def put(self, letters: Sequence[Letter]) -> None:
        """Do nothing."""


class AnotherStream:
    """A stream (subject, topic) of the same broker."""

    def __init__(self, broker: Broker, name: str) -> None:
        self._broker, self._name = broker, name

    def put(self, letters: Sequence[Letter]) -> None:
        """Hand them over."""
        for message, reason in letters:
            self._broker.set_aside(self._name, message, reason)


class DeadLetterFile:
    """A file of JSON Lines: ``place``, ``reason`` and ``data`` (or ``base64``, where that is no text)."""

    def __init__(self, path: Path) -> None:
        self._path, self._known = path, set[str]()
        if path.is_dir() or not path.parent.is_dir():
            raise InvalidParameterError(f"dead letters go to a file, or to stream:NAME, got {path}")
        if path.exists():
            self._known = _known(path)

    def put(self, letters: Sequence[Letter]) -> None:
        """Write a line for each, on disk before the run continues."""
        new = {message.named: (message, reason) for message, reason in letters if message.named not in self._known}
        lines = (
            json.dumps({"place": place, "reason": reason, **_data(message.data)}) + "\n"
            for place, (message, reason) in new.items()
        )  # others are there: a run has written them that was killed before its checkpoint
        try:
            with self._path.open("ab") as file:
                file.writelines(line.encode() for line in lines)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise FileWriteError(f"{self._path}: cannot be written: {error.strerror}") from error
        self._known.update(new)


def _data(data: bytes) -> dict[str, str]:
    try:
        return {"data": data.decode()}
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def _known(path: Path) -> set[str]:
    """Places of the lines of a file; what a killed run has left of its last line is cut off."""
    found = set()
    with path.open("r+b") as file:
        for line in file:
            if not line.endswith(b"\n"):
                file.seek(-len(line), os.SEEK_END)
                file.truncate()
                break
            try:
                found.add(json.loads(line)["place"])
            except (ValueError, TypeError, KeyError):
                raise InvalidParameterError(f"{path} is there, and holds no dead letters; give another name") from None
    return found


def dead_letters(where: str | None, broker: Broker) -> DeadLetters:
    """A file, or ``stream:NAME``; None: nowhere."""
    if where is None:
        return Nowhere()
    if where.startswith(STREAM):
        return AnotherStream(broker, where.removeprefix(STREAM))
    return DeadLetterFile(Path(where))
