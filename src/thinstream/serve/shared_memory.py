"""Model weights in shared memory: written by the learner, mapped by predictors."""

import fcntl
import itertools
import json
import mmap
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinstream.batch import KeptNames
from thinstream.data.labels import Classes, GrowingClasses
from thinstream.engine.hooks import begin
from thinstream.engine.loop import EQUAL_COSTS
from thinstream.engine.memory import is_plain, touched_coordinates
from thinstream.engine.rule import Nothing
from thinstream.errors import InvalidParameterError
from thinstream.files import try_lock
from thinstream.lanes.learner import Frozen
from thinstream.models.container import plain
from thinstream.models.model import Model
from thinstream.models.outputs import Outputs
from thinstream.models.pipeline import Pipeline
from thinstream.models.preparation import Scales, described_by
from thinstream.models.products import Products, n_products
from thinstream.models.slots import SlotTable

# The learner writes one version of the weights after another, and predictors map the newest one.
#
# A version is a file in memory (tmpfs, if available), which gets its name in one step when it is complete. A predictor
# that has mapped a version holds its lock, and a locked file is never written. So readers find the old file or the new
# one, never a mixture, even if the writer crashes (see `Publisher`).

_ALIGNED = 64
#: Bytes by which the head of a version may grow, so that the next version fits into its file.
_ROOM = 1024
#: Seconds between checks for a newer version.
_LOOK = 0.001


def require_shareable(model: Model) -> None:
    """Raise if the model is not served as vectors of weights."""
    if model.learner.algorithm.kind == "batch":
        raise InvalidParameterError(
            f"{model.learner.algorithm.name} needs all rows at once. Serve a model that learns online"
        )


class Parts(NamedTuple):
    """The parts of a model that are needed to predict."""

    classes: Classes
    learner: Pipeline
    models: list[Any]  # the learner of each output
    scales: list[Scales]
    slots: list[NDArray[Any]]
    threshold: float

    @classmethod
    def of(cls, model: Model) -> "Parts":
        learner = model.learner.served()
        scales = [one.scales for one in learner.preparation.each if one.scales is not None]
        slots: list[NDArray[Any]] = []
        if learner.encoder is not None:
            table, names = learner.encoder, learner.encoder.names
            slots.append(table.numbers)
            if len(names.there):
                slots += names.at(np.arange(1, len(table))).packed()
        return cls(model.classes, learner, list(learner.outputs), scales, slots, model.threshold)

    @property
    def shapes(self) -> list[list[Any]]:
        """Dtype and length of each array. Weights have room for a few more features."""
        width = self.learner.outputs.n_features + self.learner.offset
        step = 1 << max(width.bit_length() - 4, 0)
        states = [[self.learner.dtype.name, -(-width // step) * step]] * len(self.models)
        return states + [[array.dtype.name, len(array)] for array in (*(one.state for one in self.scales), *self.slots)]

    def arrays(self) -> list[NDArray[Any]]:
        """Return the weights of each class, the scales, and the features of the slots."""
        states = [_state(one, length) for one, (_, length) in zip(self.models, self.shapes, strict=False)]
        return [*states, *(np.asarray(one.state) for one in self.scales), *self.slots]

    def head(self, about: dict[str, Any]) -> bytes:
        """Encode the rest as JSON; ``about`` is for readers."""
        learner = self.learner
        head = {
            "algorithm": learner.algorithm.name,
            "parameters": plain(learner.parameters, "parameters"),
            "n_features": learner.outputs.n_features,
            "numbers": int(learner.n_columns),
            "products": None if learner.products is None else learner.products.numbers.tolist(),
            "kept_only": learner.drops_unknown,
            "intercept": bool(learner.offset),
            "preparation": learner.preparation.described,
            "t": int(learner.t),
            "threshold": self.threshold,
            "models": len(self.models),
            "classes": list(self.classes) if self.classes.grow else None,
            "arrays": self.shapes,
            "about": about,
        }
        return json.dumps(head).encode()

    def nnz(self, states: list[NDArray[Any]]) -> int:
        """Count non-zero weights, without intercepts."""
        return sum(int(np.count_nonzero(state[self.learner.offset :])) for state in states[: len(self.models)])


def _state(one: Any, length: int) -> NDArray[Any]:
    """Return the weights in the layout of `Frozen`, the intercept first. The rest is zero, for features to come."""
    state, weights = np.zeros(length, one.dtype), one.weights()
    state[: one.offset] = one.intercept
    state[one.offset : one.offset + len(weights)] = weights
    return state


def publish(path: Path, model: Model, **about: Any) -> int:
    """Publish a model for predictions in one step; return its number of non-zero weights. ``about`` is for readers."""
    parts, draft = Parts.of(model), path.with_name(f".{path.name}.{os.getpid()}")
    arrays = parts.arrays()
    try:
        write_version(draft, parts.head(about), arrays)
        draft.replace(path)
    except OSError:
        draft.unlink(missing_ok=True)
        raise
    return parts.nnz(arrays)


def write_version(draft: Path, head: bytes, arrays: list[Any]) -> None:
    start = _aligned(16 + len(head) + _ROOM)
    with draft.open("wb") as file:
        file.write(encode_head(head, start).ljust(start))
        for array in arrays:
            file.seek(_aligned(file.tell()))
            file.write(array.data.cast("B") if len(array) else b"")
        file.truncate(_aligned(max(file.tell(), 1)))


def encode_head(head: bytes, start: int) -> bytes:
    """Encode the start of a file: the length of the head, the start of the arrays, and the head."""
    return len(head).to_bytes(8, "little") + start.to_bytes(8, "little") + head


def _aligned(position: int) -> int:
    return -(-position // _ALIGNED) * _ALIGNED


def arrays_in(data: mmap.mmap, shapes: list[list[Any]]) -> list[NDArray[Any]]:
    position, arrays = int.from_bytes(data[8:16], "little"), list[NDArray[Any]]()
    for dtype, length in shapes:
        position = _aligned(position)
        arrays.append(np.frombuffer(data, dtype, length, position))
        position += arrays[-1].nbytes
    return arrays


def without_weights(model: Model) -> Model:
    """Return the parts of a model that do not change while it learns: everything except weights."""
    learner = model.learner
    head = {
        "algorithm": learner.algorithm.name,
        "parameters": learner.parameters,
        "n_features": 0,
        "intercept": bool(learner.offset),
        "t": 0,
    }
    empty = [_frozen(head, np.zeros(learner.offset, learner.dtype)) for _ in range(model.classes.n_models)]
    return replace(model, learner=Pipeline(_together(empty, model.classes)), names=None, arrays={}, report=None)


class Snapshot(NamedTuple):
    """A model at some moment, in shared memory."""

    model: Model
    about: dict[str, Any]


class Shared:
    """The newest version of a model, mapped into memory.

    ``path`` always is the newest version. ``like`` has the parts that do not change, see `without_weights`.
    """

    def __init__(self, path: Path, like: Model) -> None:
        self._path, self._like = path, like
        self._inode, self._looked = -1, 0.0
        self._snapshot: Snapshot | None = None

    def __call__(self) -> Snapshot:
        """Return the newest version, at most a millisecond old; raise `FileNotFoundError` before the first."""
        now = time.monotonic()
        if self._snapshot is not None and now - self._looked < _LOOK:
            return self._snapshot
        inode, self._looked = os.stat(self._path).st_ino, now
        while self._snapshot is None or inode != self._inode:
            mapped = _map_newest(self._path)
            if mapped is not None:
                self._inode, data = mapped
                self._snapshot = _mapped(data, self._like)
            inode = os.stat(self._path).st_ino
        return self._snapshot


def version_of(path: Path, like: Model) -> int:
    """Return the published version; 0 if there is none."""
    try:
        return int(Shared(path, without_weights(like))().about["version"])
    except FileNotFoundError:
        return 0


def _map_newest(path: Path) -> tuple[int, mmap.mmap] | None:
    """Map the newest file and return it with its inode; None if it was replaced before it was locked.

    The mapping keeps the file open, and so keeps its lock until no reader uses the memory.
    """
    with path.open("rb") as file:
        inode = os.fstat(file.fileno()).st_ino
        try:
            fcntl.flock(file.fileno(), fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:  # the learner is writing a version there
            return None
        if os.stat(path).st_ino != inode:
            return None
        # copy-on-write: readers share the pages, and compiled code gets a writable array
        return inode, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)


def _mapped(data: mmap.mmap, like: Model) -> Snapshot:
    head = json.loads(data[16 : 16 + int.from_bytes(data[:8], "little")])
    arrays = arrays_in(data, head["arrays"])
    n_models, used = head["models"], head["n_features"] + head["intercept"]
    models = [_frozen(head, state[:used]) for state in arrays[:n_models]]
    classes = like.classes
    if isinstance(classes, GrowingClasses):
        classes = GrowingClasses(*head["classes"], class_weight=classes.class_weight)
    preparation = described_by(head["preparation"], head["n_features"])
    scaled = [one.scales for one in preparation.each if one.scales is not None]
    for scales, state in zip(scaled, arrays[n_models:], strict=False):  # slots may follow
        scales.state = state
    learner = Pipeline(_together(models, classes), preparation)
    if slots := arrays[n_models + len(scaled) :]:
        numbers, *names = slots
        table = SlotTable.of(numbers, KeptNames.of(*names) if names else None, head["kept_only"])
        learner = learner.encoded(table, head["numbers"], True)
    if head["products"] is not None:
        products = np.array(head["products"], np.int64)
        learner = learner.with_products(Products(products, head["numbers"] - n_products(len(products))))
    return Snapshot(
        replace(like, learner=learner, classes=classes, threshold=head["threshold"]), head["about"] | {"t": head["t"]}
    )


def _together(models: list[Frozen], classes: Classes) -> Outputs:
    return Outputs(models, spares=[], spare_costs=[EQUAL_COSTS]) if classes.grow else Outputs(models)


def _frozen(head: dict[str, Any], state: NDArray[Any]) -> Frozen:
    frozen = Frozen(
        head["algorithm"],
        head["parameters"],
        n_features=0,
        where=np.empty(0, np.int64),
        values=np.empty(0, state.dtype),
        counts=np.array([head["t"], 0, 0, 0, 0], np.int64),
        costs=EQUAL_COSTS,
        dtype=state.dtype.name,
        fit_intercept=head["intercept"],
    )
    frozen.n_features, frozen.memory = head["n_features"], frozen.memory._replace(state=state)
    return frozen


# For a wide model, only the changes are written.
#
# There are a few files. One has the name that readers open. The next version goes into another file that no reader
# holds, and only the features learned since the version of that file are written. So the time to write depends on the
# rows learned meanwhile, not on the width of the model, and readers never wait.

#: Above this share of changed features, all are written.
_MANY = 1 / 8

Features = NDArray[np.int64]


class Changed(NamedTuple):
    features: Features
    all_that_ever: bool  # whether they include all features that changed before


def _changes_own_features_only(parts: Parts) -> bool:
    """Return whether a row changes no weights but those of its features, and features are positions in the arrays."""
    learner = parts.learner
    if parts.slots or learner.weights_only or learner.algorithm.kind == "blend":
        return False
    if learner.outputs.are_lanes:  # each would be copied
        return False
    return learner.preparation.vectors == 1 and is_plain(learner.outputs.rule)


def _keeps_other_weights(one: Any) -> bool:
    """Return whether weights of features that do not occur stay unchanged, because nothing depends on the round."""
    return type(begin(one.rule, 1, one.algorithm.totals())) is Nothing


class ChangedFeatures:
    """The features that were learned: since the last call of `changed`, and ever."""

    def __init__(self) -> None:
        self._since, self._ever = np.zeros(0, np.bool_), np.zeros(0, np.bool_)
        self._known = False  # whether features learned before are also marked
        self._of_use = False

    def add(self, features: NDArray[Any], width: int) -> None:
        """Mark features as learned; ``width`` is the current number of features."""
        if not self._of_use:
            return
        for name in ("_since", "_ever"):
            marks = getattr(self, name)
            if len(marks) < width:
                setattr(
                    self, name, np.concatenate([marks, np.zeros(max(width, 3 * len(marks) // 2) - len(marks), bool)])
                )
        self._since[features] = self._ever[features] = True

    def forget(self) -> None:
        """Start again, because the model was replaced."""
        self._known = False
        self._since[:] = self._ever[:] = False

    def changed(self, parts: Parts) -> Changed | None:
        """Return the features whose weights have changed since the last call; None if that is unknown."""
        before, self._of_use = self._of_use, _changes_own_features_only(parts)
        if not before or not self._of_use:
            self.forget()
            return None
        since = np.flatnonzero(self._since)
        self._since[since] = False
        if _keeps_other_weights(parts.models[0]):
            return Changed(since, False)
        if not self._known:
            for one in parts.models:
                touched = touched_coordinates(one.algorithm, one.rule, one.memory, one.n_features + one.offset)
                self.add(touched[touched >= one.offset] - one.offset, one.n_features)
            self._since[:], self._known = False, True
        return Changed(np.flatnonzero(self._ever), True)


class _File:
    """One of the files of versions, open for writing."""

    def __init__(self, path: Path, parts: Parts, about: dict[str, Any]) -> None:
        self.path, self.shapes = path, parts.shapes
        arrays = parts.arrays()
        try:
            write_version(path, parts.head(about), arrays)
        except OSError:
            path.unlink(missing_ok=True)
            raise
        self.nnz = parts.nnz(arrays)
        self.missed: list[Features] | None = []  # features changed since; None: all may have changed
        self._handle = os.open(path, os.O_RDWR)
        self._data = mmap.mmap(self._handle, 0)

    def miss(self, changed: Changed | None) -> None:
        """Note changed features that this file does not have yet."""
        if changed is None or self.missed is None:
            self.missed = None
        else:
            self.missed = [*(() if changed.all_that_ever else self.missed), changed.features]

    def is_free(self) -> bool:
        """Lock the file; return whether no reader holds it."""
        return try_lock(self._handle)

    def fits(self, parts: Parts, about: dict[str, Any]) -> bool:
        """Return whether this file can become the new version by writing a few features."""
        if self.missed is None or self.shapes != parts.shapes:
            return False
        room = int.from_bytes(self._data[8:16], "little") - 16
        n_missed = sum(map(len, self.missed))
        return n_missed <= _MANY * parts.learner.n_features and len(parts.head(about)) <= room

    def bring_up_to_date(self, parts: Parts, about: dict[str, Any]) -> None:
        """Write the missing features into the locked file, then unlock it for readers."""
        features = np.unique(np.concatenate([np.empty(0, np.int64), *(self.missed or [])]))
        self.missed = None  # until everything is written
        arrays, offset = arrays_in(self._data, self.shapes), parts.learner.offset
        positions = np.concatenate([np.arange(offset), features + offset])
        for one, array in zip(parts.models, arrays, strict=False):
            weights = one.weights_at(positions)
            self.nnz += int(np.count_nonzero(weights[offset:])) - int(np.count_nonzero(array[positions[offset:]]))
            array[positions] = weights
        for scales, array in zip(parts.scales, arrays[len(parts.models) :], strict=False):
            shared = len(scales.shared)
            array[:shared] = scales.state[:shared]
            array[shared:].reshape(-1, scales.width)[features] = scales.rows[features]
        head, start = parts.head(about), int.from_bytes(self._data[8:16], "little")
        self._data[: 16 + len(head)] = encode_head(head, start)
        self.missed = []
        fcntl.flock(self._handle, fcntl.LOCK_UN)

    def close(self) -> None:
        """Delete the file. Readers that have mapped it keep it."""
        self.path.unlink(missing_ok=True)
        self._data.close()
        os.close(self._handle)


class Publisher:
    """Publishes the versions of one model.

    ``path`` always is the newest version.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._numbers = path, itertools.count()
        self._files: list[_File] = []  # the last one is the current version
        self.marks = ChangedFeatures()
        for leftover in path.parent.glob(f".{path.name}.*"):  # left by a process that was killed
            leftover.unlink()

    def forget(self) -> None:
        """Write the whole model next time, because it was replaced."""
        self.marks.forget()
        for file in self._files:
            file.miss(None)

    def __call__(self, model: Model, **about: Any) -> int:
        """Publish a model; return its number of non-zero weights. ``about`` is a JSON object for readers."""
        parts = Parts.of(model)
        changed = self.marks.changed(parts)
        for file in self._files:
            file.miss(changed)
        file = self._spare(parts, about)
        link = self._path.with_name(f".{self._path.name}.link")
        os.link(file.path, link)
        link.replace(self._path)
        self._files = [*(other for other in self._files if other is not file), file]
        return file.nnz

    def _spare(self, parts: Parts, about: dict[str, Any]) -> _File:
        """Return a file with this version that no reader holds; delete files that are no longer useful."""
        for file in self._files[:-1]:
            if not file.fits(parts, about):
                file.close()
                self._files.remove(file)
            elif file.is_free():
                file.bring_up_to_date(parts, about)
                return file
        path = self._path.with_name(f".{self._path.name}.{next(self._numbers)}")
        return _File(path, parts, about)

    def close(self) -> None:
        self._path.unlink(missing_ok=True)
        for file in self._files:
            file.close()
        self._files = []
