"""Versions of a model that are kept: checkpoints under the number of their last entry, the oldest of which go."""

import json
import os
import shutil
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from thinstream.atomic import replacing
from thinstream.errors import InvalidInputError, ThinstreamError, listed
from thinstream.models.file import read
from thinstream.models.model import Model


class Keeping(NamedTuple):
    """When a version is kept, and how many are."""

    rows: int | None = None  # learned since the one before
    seconds: float | None = 600.0
    most: int = 10


class NoVersion(ThinstreamError, LookupError):
    """A version that is not kept, or is no number."""


class Versions:
    """The versions of one model, in a folder; the one that it began with is version 0, and stays.

    Parameters
    ----------
    folder : path
        Of the model.
    keeping : Keeping

    """

    def __init__(self, folder: Path, keeping: Keeping | None = None) -> None:
        self._first, self._folder, self.keeping = folder / "model.ts", folder / "versions", keeping or Keeping()
        self._lock = threading.RLock()
        self._pins: dict[int, int] = {}  # entry of the journal that goes back to a version → that version
        self._rows, self._time = 0, time.monotonic()
        self._listed: list[dict[str, Any]] | None = None

    def due(self, rows: int) -> bool:
        """Whether one is to be kept, so many rows having been learned."""
        every, seconds = self.keeping.rows, self.keeping.seconds
        if rows == self._rows:
            return False
        return (every is not None and rows - self._rows >= every) or (
            seconds is not None and time.monotonic() - self._time >= seconds
        )

    def seen(self, rows: int) -> None:
        """Rows and time until the next are counted from now."""
        self._rows, self._time = rows, time.monotonic()

    def keep(self, checkpoint: Path, number: int, **about: Any) -> None:
        """A checkpoint stays, under the number of its last entry; the oldest versions go."""
        self._folder.mkdir(exist_ok=True)
        file, draft = self._file(number), self._folder / f".{number}.link"
        with self._lock:
            draft.unlink(missing_ok=True)
            try:
                os.link(checkpoint, draft)  # the next checkpoint is another file
            except OSError:  # a file system without links
                shutil.copyfile(checkpoint, draft)
            draft.replace(file)
            told = {"version": number, "time": time.time(), **about}
            with replacing(file.with_suffix(".json")) as new:  # forces the folder, and so the file's name, to disk
                new.write_text(json.dumps(told), encoding="utf-8")
            self._listed = None
            self._prune()

    def listed(self) -> list[dict[str, Any]]:
        """What is known of each, the newest first."""
        with self._lock:
            if self._listed is None:
                found = list[dict[str, Any]]()
                for path in self._folder.glob("[0-9]*.json"):
                    with suppress(FileNotFoundError):  # another process lets it go
                        found.append(json.loads(path.read_text(encoding="utf-8")))
                first = {"version": 0, "time": self._first.stat().st_mtime, "cause": "as it was given"}
                first |= dict.fromkeys(("rows", "error", "nnz", "algorithm"))
                kept = [each for each in found if self._file(each["version"]).exists() and each["version"]]
                self._listed = [*sorted(kept, key=lambda each: -each["version"]), first]
            return self._listed

    def path(self, version: Any) -> Path:
        """The file of a version; `NoVersion` if it is not kept."""
        text = str(version)
        numbers = [each["version"] for each in self.listed()]
        if not text.isdecimal() or int(text) not in numbers:
            raise NoVersion(f"there is no version {text!r:.40}; kept are {listed(numbers)}")
        return self._file(int(text)) if int(text) else self._first

    def read(self, version: Any) -> Model:
        """A version, without where it stood in its journal."""
        path = self.path(version)
        try:
            return replace(read(path), extra={}, arrays={})
        except FileNotFoundError:
            raise NoVersion(f"version {version} is not kept any more") from None

    def pin(self, entry: int, version: int) -> None:
        """The version stays until the entry that goes back to it is in a checkpoint."""
        with self._lock:
            self.path(version)
            self._pins[entry] = version

    def unpin(self, saved: int) -> None:
        """A checkpoint has all entries up to this one."""
        with self._lock:
            self._pins = {entry: version for entry, version in self._pins.items() if entry > saved}

    def _file(self, number: int) -> Path:
        return self._folder / f"{number:016d}.ts"

    def _prune(self) -> None:
        numbers = [each["version"] for each in self.listed() if each["version"]]
        stay = {*numbers[: self.keeping.most], *self._pins.values()}
        for path in self._folder.glob("[0-9]*.ts"):
            if int(path.stem) not in stay:
                with suppress(OSError):  # then the next time
                    path.with_suffix(".json").unlink(missing_ok=True)
                    path.unlink()
                self._listed = None


def settled(model: Model, like: Model, named: str) -> Model:
    """A model in another's place: it must have the same classes and features; reading and names are the other's."""
    for what in ("classes", "feature_space"):
        one, two = getattr(model, what), getattr(like, what)
        if one != two:
            raise InvalidInputError(f"{named}: its {what.replace('_', ' ')} must be {two!r:.200}, got {one!r:.200}")
    if model.learner.dtype != like.learner.dtype:
        raise InvalidInputError(f"{named}: its dtype must be {like.learner.dtype}, got {model.learner.dtype}")
    return replace(model, reading=like.reading, names=like.names, extra={}, arrays={}, report=None)


def numbers_of(kept: Iterable[dict[str, Any]]) -> list[str]:
    """Of versions, as the Open Inference Protocol has them: texts, the oldest first."""
    return [str(number) for number in sorted({int(each["version"]) for each in kept})]
