"""Weights that processes share: one writes a version after another, others map the one they find.

A version is a file in memory (tmpfs where there is one) that takes its name in one step, when it is whole. Whoever has
mapped a version holds its lock as long as it is looked at, and nobody writes to a file that is locked: whoever looks
for a newer one finds the old file or the new, never a mix, whatever becomes of the writer (`publishing`).
"""

import fcntl
import json
import mmap
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinstream.blend.serving import served
from thinstream.budget.learner import KeptLearner, kept_learner
from thinstream.compact import CompactLearner, compact_learner, narrow_learner
from thinstream.errors import InvalidParameterError
from thinstream.growing import Growing
from thinstream.learners import Classes, Frozen
from thinstream.learners.growing_classes import GrowingClasses
from thinstream.learners.learner import EQUAL_COSTS
from thinstream.learners.protocol import AnyLearner
from thinstream.models.container import plain
from thinstream.models.model import Model
from thinstream.one_vs_rest import learner_of
from thinstream.preparing import described_by, plain_learner, preparation_of, prepared
from thinstream.preparing.scales import Scales
from thinstream.spelling import KeptNames

_ALIGNED = 64
#: Bytes that what is said of a version may still grow by, so that its file can have the next.
_ROOM = 1024
#: Seconds between two looks for a newer version.
_LOOK = 0.001


def require_shareable(model: Model) -> None:
    """Raises on a model that is no vectors of weights for each class."""
    if model.learner.algorithm.kind == "batch":
        raise InvalidParameterError(
            f"{model.learner.algorithm.name} takes many rows at once; models that are served take one after another"
        )


class Parts(NamedTuple):
    """What a model predicts with."""

    classes: Classes
    whole: Any  # the learner, and what it is inside
    learner: Any
    models: list[Any]
    scales: list[Scales]
    slots: list[NDArray[Any]]
    threshold: float

    @classmethod
    def of(cls, model: Model) -> "Parts":
        """Of a model as it is now."""
        whole = served(model.learner)
        learner = narrow_learner(whole)
        scales = [one.scales for one in preparation_of(learner).each if one.scales is not None]
        slots = [whole.table.numbers] if isinstance(whole, CompactLearner) else []
        if isinstance(whole, KeptLearner) and len(whole.table.names.there):
            names: KeptNames = whole.table.names
            slots += names.at(np.arange(1, len(whole.table))).packed()
        models = list(plain_learner(learner).models)
        return cls(model.classes, whole, learner, models, scales, slots, model.threshold)

    @property
    def shapes(self) -> list[list[Any]]:
        """Type and length of each array; weights have room for a few more features."""
        width = int(plain_learner(self.learner).n_features) + self.learner.offset
        step = 1 << max(width.bit_length() - 4, 0)
        states = [[self.learner.dtype.name, -(-width // step) * step]] * len(self.models)
        return states + [[each.dtype.name, len(each)] for each in (*(one.state for one in self.scales), *self.slots)]

    def arrays(self) -> list[NDArray[Any]]:
        """All of them: weights of each class, scales, which features slots are of."""
        states = [_state(one, length) for one, (_, length) in zip(self.models, self.shapes, strict=False)]
        return [*states, *(np.asarray(one.state) for one in self.scales), *self.slots]

    def head(self, about: dict[str, Any]) -> bytes:
        """What is said of them, as JSON; ``about`` is for readers."""
        learner = self.learner
        head = {
            "algorithm": learner.algorithm.name,
            "parameters": plain(learner.parameters, "parameters"),
            "n_features": int(plain_learner(learner).n_features),
            "numbers": int(self.whole.n_features),
            "kept_only": isinstance(self.whole, KeptLearner),
            "intercept": bool(learner.offset),
            "preparation": preparation_of(learner).described,
            "t": int(learner.t),
            "threshold": self.threshold,
            "models": len(self.models),
            "classes": list(self.classes) if self.classes.grow else None,
            "arrays": self.shapes,
            "about": about,
        }
        return json.dumps(head).encode()

    def nnz(self, states: list[NDArray[Any]]) -> int:
        """Weights that are not zero, intercepts not counted."""
        return sum(int(np.count_nonzero(state[self.learner.offset :])) for state in states[: len(self.models)])


def _state(one: Any, length: int) -> NDArray[Any]:
    """The weights as a `Frozen` has them, the constant's first; zeros are of features to come."""
    found, weights = np.zeros(length, one.dtype), one.weights()
    found[: one.offset] = one.intercept
    found[one.offset : one.offset + len(weights)] = weights
    return found


def publish(path: Path, model: Model, **about: Any) -> int:
    """The model as it predicts now, and how many weights it has, all at once; ``about`` is for readers."""
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
    """All of a version."""
    start = _aligned(16 + len(head) + _ROOM)
    with draft.open("wb") as file:
        file.write(said(head, start).ljust(start))
        for array in arrays:
            file.seek(_aligned(file.tell()))
            file.write(array.data.cast("B") if len(array) else b"")
        file.truncate(_aligned(max(file.tell(), 1)))


def said(head: bytes, start: int) -> bytes:
    """The beginning of a file: how long what is said is, where arrays begin, what is said."""
    return len(head).to_bytes(8, "little") + start.to_bytes(8, "little") + head


def _aligned(place: int) -> int:
    return -(-place // _ALIGNED) * _ALIGNED


def arrays_in(data: mmap.mmap, shapes: list[list[Any]]) -> list[NDArray[Any]]:
    """The arrays of a file."""
    place, found = int.from_bytes(data[8:16], "little"), list[NDArray[Any]]()
    for dtype, length in shapes:
        place = _aligned(place)
        found.append(np.frombuffer(data, dtype, length, place))
        place += found[-1].nbytes
    return found


def bare(model: Model) -> Model:
    """What does not change as a model learns: classes, threshold, feature space, how its rows are read; no weights."""
    learner = model.learner
    about = {
        "algorithm": learner.algorithm.name,
        "parameters": learner.parameters,
        "n_features": 0,
        "intercept": bool(learner.offset),
        "t": 0,
    }
    none = [_frozen(about, np.zeros(learner.offset, learner.dtype)) for _ in range(model.classes.n_models)]
    return replace(model, learner=_together(none, model.classes), names=None, arrays={}, report=None)


class Snapshot(NamedTuple):
    """A model as it was at some moment, in memory that is shared."""

    model: Model
    about: dict[str, Any]


class Shared:
    """The newest version of a model, mapped.

    Parameters
    ----------
    path : path
        Where versions are published.
    like : Model
        What does not change as it learns, see `bare`.

    """

    def __init__(self, path: Path, like: Model) -> None:
        self._path, self._like = path, like
        self._inode, self._looked = -1, 0.0
        self._snapshot: Snapshot | None = None

    def __call__(self) -> Snapshot:
        """The version of now, or of a millisecond ago; `FileNotFoundError` before the first."""
        now = time.monotonic()
        if self._snapshot is not None and now - self._looked < _LOOK:
            return self._snapshot
        inode, self._looked = os.stat(self._path).st_ino, now
        while self._snapshot is None or inode != self._inode:
            found = _looked_at(self._path)
            if found is not None:
                self._inode, data = found
                self._snapshot = _mapped(data, self._like)
            inode = os.stat(self._path).st_ino
        return self._snapshot


def version_of(path: Path, like: Model) -> int:
    """The version that is published there; 0 if there is none."""
    try:
        return int(Shared(path, bare(like))().about["version"])
    except FileNotFoundError:
        return 0


def _looked_at(path: Path) -> tuple[int, mmap.mmap] | None:
    """The file that has the name now, and its memory; None if it lost the name before it was locked.

    The lock is that of the open file, which the mapping keeps open: it goes when nobody looks at the memory any more.
    """
    with path.open("rb") as file:
        inode = os.fstat(file.fileno()).st_ino
        try:
            fcntl.flock(file.fileno(), fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:  # the next version but one is being written there
            return None
        if os.stat(path).st_ino != inode:
            return None
        # private: pages are those of all readers as long as nobody writes, and compiled code may not tell
        return inode, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)


def _mapped(data: mmap.mmap, like: Model) -> Snapshot:
    head = json.loads(data[16 : 16 + int.from_bytes(data[:8], "little")])
    arrays = arrays_in(data, head["arrays"])
    many, used = head["models"], head["n_features"] + head["intercept"]
    models = [_frozen(head, state[:used]) for state in arrays[:many]]
    classes = like.classes
    if isinstance(classes, GrowingClasses):
        classes = GrowingClasses(*head["classes"], class_weight=classes.class_weight)
    preparation = described_by(head["preparation"], head["n_features"])
    scaled = [one.scales for one in preparation.each if one.scales is not None]
    for scales, state in zip(scaled, arrays[many:], strict=False):  # slots may follow
        scales.state = state
    learner = prepared(_together(models, classes), preparation)
    if slots := arrays[many + len(scaled) :]:
        numbers, *names = slots
        around: Any = kept_learner if head["kept_only"] else compact_learner
        learner = around(learner, numbers, head["numbers"], True, *([KeptNames.of(*names)] if names else []))
    return Snapshot(
        replace(like, learner=learner, classes=classes, threshold=head["threshold"]), head["about"] | {"t": head["t"]}
    )


def _together(models: list[Frozen], classes: Classes) -> AnyLearner:
    """The models of all classes as one."""
    return Growing(models, [], 0, [EQUAL_COSTS]) if classes.grow else learner_of(models, 0)


def _frozen(head: dict[str, Any], state: NDArray[Any]) -> Frozen:
    found = Frozen(
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
    found.n_features, found.memory = head["n_features"], found.memory._replace(state=state)
    return found
