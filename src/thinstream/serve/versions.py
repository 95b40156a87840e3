"""Versions of a served model: saved checkpoints, challengers, promotion, rollback and comparison."""

import json
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinstream.algorithms.registry import find
from thinstream.batch import Batch
from thinstream.errors import InvalidInputError, InvalidParameterError, ModelFileError, ThinstreamError, listed
from thinstream.files import replacing
from thinstream.models.file import read, write
from thinstream.models.model import Model
from thinstream.serve.dashboard import name_of
from thinstream.serve.folders import require_name
from thinstream.serve.journal import Journal
from thinstream.serve.shared_memory import require_shareable
from thinstream.serve.wire import Change, change_of, pack_change
from thinstream.training.metrics import Progress


class VersionPolicy(NamedTuple):
    rows: int | None = None  # rows learned between two versions
    seconds: float | None = 600.0
    most: int = 10


class NoVersion(ThinstreamError, LookupError):
    """A version that does not exist, or is not a number."""


class Versions:
    """The saved versions of one model. The model that it began with is version 0, which is never deleted."""

    def __init__(self, folder: Path, keeping: VersionPolicy | None = None) -> None:
        self._first, self._folder, self.keeping = folder / "model.ts", folder / "versions", keeping or VersionPolicy()
        self._lock = threading.RLock()
        self._pins: dict[int, int] = {}  # journal entry that rolls back to a version → that version
        self._rows, self._time = 0, time.monotonic()
        self._listed: list[dict[str, Any]] | None = None

    def due(self, rows: int) -> bool:
        """Return whether a version is due after ``rows`` learned rows."""
        every, seconds = self.keeping.rows, self.keeping.seconds
        if rows == self._rows:
            return False
        return (every is not None and rows - self._rows >= every) or (
            seconds is not None and time.monotonic() - self._time >= seconds
        )

    def seen(self, rows: int) -> None:
        """Start to count rows and time until the next version."""
        self._rows, self._time = rows, time.monotonic()

    def keep(self, checkpoint: Path, number: int, **about: Any) -> None:
        """Save a checkpoint as a version, under the number of its last entry; delete the oldest versions."""
        self._folder.mkdir(exist_ok=True)
        file, draft = self._file(number), self._folder / f".{number}.link"
        with self._lock:
            draft.unlink(missing_ok=True)
            try:
                os.link(checkpoint, draft)  # the next checkpoint is a new file
            except OSError:  # a file system without links
                shutil.copyfile(checkpoint, draft)
            draft.replace(file)
            record = {"version": number, "time": time.time(), **about}
            with replacing(
                file.with_suffix(".json")
            ) as new:  # also syncs the folder, and so the name of the model file
                new.write_text(json.dumps(record), encoding="utf-8")
            self._listed = None
            self._prune()

    def listed(self) -> list[dict[str, Any]]:
        """Describe all versions, the newest first."""
        with self._lock:
            if self._listed is None:
                records = list[dict[str, Any]]()
                for path in self._folder.glob("[0-9]*.json"):
                    with suppress(FileNotFoundError):  # another process has deleted it
                        records.append(json.loads(path.read_text(encoding="utf-8")))
                first = {"version": 0, "time": self._first.stat().st_mtime, "cause": "initial model"}
                first |= dict.fromkeys(("rows", "error", "nnz", "algorithm"))
                existing = [
                    record for record in records if self._file(record["version"]).exists() and record["version"]
                ]
                self._listed = [*sorted(existing, key=lambda record: -record["version"]), first]
            return self._listed

    def path(self, version: Any) -> Path:
        """Return the file of a version; raise `NoVersion` if it does not exist."""
        text = str(version)
        numbers = [record["version"] for record in self.listed()]
        if not text.isdecimal() or int(text) not in numbers:
            raise NoVersion(f"there is no version {text!r:.40}; saved versions: {listed(numbers)}")
        return self._file(int(text)) if int(text) else self._first

    def read(self, version: Any) -> Model:
        """Read a version, without its position in the journal."""
        path = self.path(version)
        try:
            return replace(read(path), extra={}, arrays={})
        except FileNotFoundError:
            raise NoVersion(f"version {version} was deleted") from None

    def pin(self, entry: int, version: int) -> None:
        """Keep a version until a checkpoint contains the entry that rolls back to it."""
        with self._lock:
            self.path(version)
            self._pins[entry] = version

    def unpin(self, saved: int) -> None:
        """Release the versions of entries up to this one, which a checkpoint contains."""
        with self._lock:
            self._pins = {entry: version for entry, version in self._pins.items() if entry > saved}

    def _file(self, number: int) -> Path:
        return self._folder / f"{number:016d}.ts"

    def _prune(self) -> None:
        numbers = [record["version"] for record in self.listed() if record["version"]]
        stay = {*numbers[: self.keeping.most], *self._pins.values()}
        for path in self._folder.glob("[0-9]*.ts"):
            if int(path.stem) not in stay:
                with suppress(OSError):  # it is deleted the next time
                    path.with_suffix(".json").unlink(missing_ok=True)
                    path.unlink()
                self._listed = None


def as_replacement(model: Model, like: Model, title: str) -> Model:
    """Prepare a model to replace ``like``: it needs the same classes and features, and gets its reading options."""
    for attribute in ("classes", "feature_space"):
        one, two = getattr(model, attribute), getattr(like, attribute)
        if one != two:
            raise InvalidInputError(
                f"{title}: its {attribute.replace('_', ' ')} must be {two!r:.200}, got {one!r:.200}"
            )
    if model.learner.dtype != like.learner.dtype:
        raise InvalidInputError(f"{title}: its dtype must be {like.learner.dtype}, got {model.learner.dtype}")
    return replace(model, reading=like.reading, names=like.names, extra={}, arrays={}, report=None)


def numbers_of(records: Iterable[dict[str, Any]]) -> list[str]:
    """Return version numbers as the Open Inference Protocol needs them: strings, the oldest first."""
    return [str(number) for number in sorted({int(record["version"]) for record in records})]


_OWN, _CHAMPION = "own.", "champion."


@dataclass
class Challenger:
    """A model that learns side by side with the champion, and the progressive metrics of both since it began."""

    model: Model
    begun: int  # the journal entry at which it began to learn
    own: Progress
    champion: Progress  # progressive metrics of both on the same rows
    out: str | None = None  # why it has stopped learning

    @classmethod
    def begin(cls, model: Model, begun: int, threshold: float) -> "Challenger":
        """Create a challenger that has not learned yet. The threshold is the champion's."""
        n_classes = len(model.classes)
        return cls(model, begun, Progress(n_classes, model.threshold), Progress(n_classes, threshold))

    def take(self, rows: Batch, scores: NDArray[Any]) -> None:
        """Learn rows with the given scores of the champion. If that fails, the challenger stops learning."""
        if self.out is not None:
            return
        y = rows.require_labels()
        try:
            self.model, own = self.model.learn(rows, self.model.classes)
            self.own.update(own, y, rows.weights)
        except Exception as error:  # the champion continues
            self.out = str(error) if isinstance(error, ThinstreamError) else type(error).__name__
            return
        self.champion.update(scores, y, rows.weights)

    def report(self, name: str) -> dict[str, Any]:
        reports = [progress.report().as_dict() if progress.rows else {} for progress in (self.own, self.champion)]
        parameters = {key: str(value) for key, value in self.model.learner.parameters.items() if key != "portfolio"}
        return {
            "name": name,
            "algorithm": self.model.learner.algorithm.name,
            "parameters": parameters,
            "begun": self.begun,
            "out": self.out,
            "nnz": int(self.model.learner.nnz),
            "progressive": reports[0],
            "champion": reports[1],
        }


class Challengers:
    """All challengers of one model. They are saved with each of its checkpoints, under the number of its last entry."""

    def __init__(self, folder: Path) -> None:
        self._folder, self.each = folder, dict[str, Challenger]()

    def take(self, rows: Batch, scores: NDArray[Any]) -> None:
        """Let all challengers learn rows with the given scores of the champion."""
        for challenger in self.each.values():
            challenger.take(rows, scores)

    def report(self) -> list[dict[str, Any]]:
        return [challenger.report(name) for name, challenger in self.each.items()]

    def save(self, number: int) -> None:
        """Save all challengers. The champion's checkpoint, which is written next, makes them valid."""
        if self.each:
            self._folder.mkdir(exist_ok=True)
        for name, challenger in self.each.items():
            arrays = _under(_OWN, challenger.own.arrays()) | _under(_CHAMPION, challenger.champion.arrays())
            extra = {
                "challenger": {
                    "begun": challenger.begun,
                    "out": challenger.out,
                    "threshold": challenger.champion.threshold,
                }
            }
            model = replace(challenger.model, extra=extra, arrays=arrays, reading={}, report=None)
            write(self._folder / f"{name}@{number}.ts", model)

    def restore(self, number: int) -> None:
        self.each = {path.stem.partition("@")[0]: _read(path) for path in sorted(self._files(number))}

    def sweep(self, number: int) -> None:
        """Delete challengers that were saved with other checkpoints than this one."""
        stay = {*self._files(number)}
        for path in self._folder.glob("*@*.ts"):
            if path not in stay:
                path.unlink(missing_ok=True)

    def _files(self, number: int) -> Iterator[Path]:
        return self._folder.glob(f"*@{number}.ts")


def _read(path: Path) -> Challenger:
    model = read(path)
    about = model.extra["challenger"]
    own = Progress.from_arrays(_of(_OWN, model.arrays), model.threshold)
    champion = Progress.from_arrays(_of(_CHAMPION, model.arrays), about["threshold"])
    model = replace(model, extra={}, arrays={})
    model.learner.grow = True
    return Challenger(model, about["begun"], own, champion, about["out"])


def _under(prefix: str, arrays: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    return {prefix + name: array for name, array in arrays.items()}


def _of(prefix: str, arrays: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def warmed_up(model: Model) -> Model:
    """Load or compile the code of a model before it has to keep up; return the model."""
    nothing = model.classes.coded(np.empty(0))
    values = np.empty(0, model.learner.dtype)
    model.learner.learn(Batch(np.zeros(1, np.int64), np.empty(0, np.int32), values, 0, nothing))
    return model


KINDS = ("keep", "rollback", "challenge", "promote", "withdraw")
#: Changes before which the model is saved as a version, and the cause that the version records.
KEEPING = {"keep": "on request", "rollback": "before a rollback", "promote": "before a promotion"}
#: How the log describes each change; {} is a challenger or a version.
DONE = {
    "keep": "version saved",
    "rollback": "rolled back to version {}",
    "challenge": "challenger {} added",
    "promote": "challenger {} promoted",
    "withdraw": "challenger {} withdrawn",
}
#: The most challengers of a model at a time.
MOST = 16


class Changes:
    """The changes of one model: check and write them into the journal, and apply them at their position.

    The effect of a change depends only on the journal up to it, and on files that stay until a checkpoint contains it.
    So replaying the journal after a crash gives a bit-identical model.

    ``model`` is the model before the first entry of the journal.
    """

    def __init__(self, model: Model, versions: Versions, challengers: Challengers) -> None:
        self._model, self.versions, self.challengers = model, versions, challengers

    def work(self, raw: bytes, request: str | None, fingerprint: str = "") -> Callable[[Journal], dict[str, Any]]:
        """Return the work that writes a packed change into the journal; raise if the change is not possible."""
        unchecked = change_of(raw)
        assert unchecked is not None
        change = self._checked(unchecked)

        def work(journal: Journal) -> dict[str, Any]:
            return journal.once(request, lambda: self._append(change, journal), fingerprint)

        return work

    def _append(self, change: Change, journal: Journal) -> dict[str, Any]:
        what, name = change.what["what"], change.what.get("name", "")
        names, challenger = self._names(journal), self.challengers.each.get(name)
        if what == "challenge" and (name in names or len(names) >= MOST):
            reason = (
                f"there is already a challenger {name!r}"
                if name in names
                else f"a model may have at most {MOST} challengers"
            )
            raise InvalidInputError(f"{reason}. Withdraw one first")
        if what in ("promote", "withdraw") and name not in names:
            existing = f"challengers: {listed(sorted(names))}" if names else "the model has none"
            raise InvalidInputError(f"there is no challenger {name!r}; {existing}")
        if what == "promote" and challenger is not None and challenger.out is not None:
            raise InvalidInputError(f"{name!r} has stopped learning: {challenger.out}")
        if what == "rollback":
            self.versions.pin(journal.newest + 1, change.what["version"])
        number = journal.append(pack_change(change), 0)
        kept = {"kept": number - 1} if what in KEEPING else {}
        return {"entry": number, **kept} | {key: change.what[key] for key in ("name", "version") if key in change.what}

    def _names(self, journal: Journal) -> set[str]:
        """Return the names of the challengers after the whole journal is learned."""
        names = {*self.challengers.each}
        for change in filter(None, (change_of(entry.data) for entry in journal.changes())):
            if change.what["what"] == "challenge":
                names.add(change.what["name"])
            elif change.what["what"] in ("promote", "withdraw"):
                names.discard(change.what["name"])
        return names

    def _checked(self, change: Change) -> Change:
        what = change.what
        if what.get("what") not in KINDS:
            raise InvalidInputError(f"a change must be {listed(KINDS)}, got {what.get('what')!r:.40}")
        if what["what"] in ("rollback", "challenge") and self._model.classes.grow:
            raise InvalidParameterError(
                "a model that accepts new classes (grow_classes) cannot be rolled back and can have no challengers"
            )
        if what["what"] == "rollback":
            self.versions.path(what["version"])
            return Change(what | {"version": int(what["version"])})
        if what["what"] == "challenge":
            require_name(what["name"])
            warmed_up(self._challenger(change).copy())
        return change

    def pin(self, journal: Journal) -> None:
        """Keep the versions to which the journal rolls back."""
        for number, data in journal.changes():
            change = change_of(data)
            if change is not None and change.what["what"] == "rollback":
                with suppress(NoVersion):  # the rollback is already in a checkpoint
                    self.versions.pin(number, change.what["version"])

    def apply(self, change: Change, number: int, now: Model) -> Model:
        """Apply the change of an entry; return the model after it."""
        what, name = change.what["what"], change.what.get("name", "")
        if what == "rollback":
            return as_replacement(self.versions.read(change.what["version"]), self._model, "the version")
        if what == "challenge":
            begun = Challenger.begin(self._challenger(change), number, now.threshold)
            self.challengers.each[name] = begun
        elif what in ("promote", "withdraw") and name in self.challengers.each:
            if what == "promote" and self.challengers.each[name].out is not None:
                return now
            challenger = self.challengers.each.pop(name)
            if what == "promote":
                return as_replacement(challenger.model, self._model, name)
        return now

    def _challenger(self, change: Change) -> Model:
        """Read a challenger from a model file, or create one with the champion's classes and features."""
        name, like = change.what["name"], self._model
        if change.data:
            with tempfile.NamedTemporaryFile(suffix=".ts") as file:
                Path(file.name).write_bytes(change.data)
                try:
                    model = read(file.name)
                except ModelFileError as error:
                    raise InvalidInputError(str(error).replace(file.name, "the challenger's file")) from None
        else:
            algorithm, parameters = change.what.get("algorithm"), change.what.get("parameters") or {}
            if not isinstance(algorithm, str):
                raise InvalidParameterError("a challenger must be a model file or the name of an algorithm")
            if not isinstance(parameters, dict):
                raise InvalidParameterError(f"parameters must be an object of names and values, got {parameters!r:.40}")
            if find(algorithm).kind == "batch":
                raise InvalidParameterError(
                    f"{find(algorithm).name} needs all rows at once. Choose an algorithm that learns online"
                )
            model = Model.fresh(
                algorithm,
                like.classes,
                feature_space=like.feature_space,
                dtype=like.learner.dtype.name,
                grow=True,
                fit_intercept=bool(like.learner.offset),
                parameters=parameters,
                scale=change.what.get("scale"),
                normalize=change.what.get("normalize"),
            )
        if model.learner.weights_only or model.learner.reads != "once":
            raise InvalidInputError(
                f"{name}: it cannot learn, because it was saved with only its weights or needs all rows at once"
            )
        require_shareable(model)
        model = as_replacement(model, like, name)
        model.learner.grow = True
        return model


#: The most weights that a comparison lists.
_SHOWN = 20


def compare(one: Model, other: Model, top: int = _SHOWN) -> dict[str, Any]:
    """Compare the weights of two models with the same classes and features; list the ``top`` largest differences.

    Examples
    --------
    >>> from thinstream.data.labels import Classes
    >>> one = Model.fresh("perceptron", Classes(0, 1), n_features=3)
    >>> other = one.copy()
    >>> other.learner.outputs.one.memory.state[:] = [0.0, 3.0, -4.0]
    >>> differences = compare(one, other)
    >>> differences["distance"], differences["appeared"], differences["most"][0]
    (5.0, 2, {'feature': 'column 2', 'from': 0.0, 'to': -4.0})

    """
    keys, values = zip(*(_cells(model) for model in (one, other)), strict=True)
    all_keys = np.union1d(*keys)
    a, b = (_placed(all_keys, key, value) for key, value in zip(keys, values, strict=True))
    size = float(np.linalg.norm(a) * np.linalg.norm(b))
    order = np.argsort(-np.abs(b - a), kind="stable")[:top]
    return {
        "algorithms": [model.learner.algorithm.name for model in (one, other)],
        "non_zeros": [len(key) for key in keys],
        "changed": int(np.count_nonzero(a != b)),
        "appeared": int(np.count_nonzero(a == 0)),
        "gone": int(np.count_nonzero(b == 0)),
        "distance": float(np.linalg.norm(a - b)),
        "cosine": float(a @ b) / size if size else None,
        "intercepts": [[float(single.intercept) for single in model.learner.served().models] for model in (one, other)],
        "most": [
            {"feature": name_of(one, *_cell(int(all_keys[k]))), "from": float(a[k]), "to": float(b[k])}
            for k in order.tolist()
            if a[k] != b[k]
        ],
    }


#: Range of the keys of a class; larger than any model needs.
_WIDTH = 1 << 48


def _cells(model: Model) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the non-zero weights and their keys, which combine class, vector and feature."""
    learner = model.learner.served()
    parts, width = [one.sparse_weights() for one in learner.models], learner.n_columns
    if width == 0:
        return np.empty(0, np.int64), np.empty(0)
    keys = [k * _WIDTH + (positions // width << 40) + positions % width for k, (positions, _) in enumerate(parts)]
    return np.concatenate(keys), np.concatenate([weights for _, weights in parts]).astype(np.float64)


def _cell(key: int) -> tuple[int, int, int]:
    """Return class, vector and feature of a key."""
    return key // _WIDTH, key % _WIDTH >> 40, key % (1 << 40)


def _placed(all_keys: NDArray[np.int64], keys: NDArray[np.int64], values: NDArray[np.float64]) -> NDArray[np.float64]:
    placed = np.zeros(len(all_keys))
    placed[np.searchsorted(all_keys, keys)] = values
    return placed
