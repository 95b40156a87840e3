"""Weights that processes share: one writes a version after another, others map the one they find.

A version is a file in memory (tmpfs where there is one) that is written beside its place and takes its name in one
step. Whoever has mapped a version keeps it as long as it is looked at; whoever looks for a newer one finds the old file
or the new, never a mix, whatever becomes of the writer.
"""

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
from thinstream.learners import Frozen
from thinstream.learners.learner import EQUAL_COSTS
from thinstream.models.container import plain
from thinstream.models.model import Model
from thinstream.one_vs_rest import learner_of
from thinstream.preparing import described_by, plain_learner, preparation_of, prepared

_ALIGNED = 64
#: Seconds between two looks for a newer version.
_LOOK = 0.001


def require_shareable(model: Model) -> None:
    """Raises on a model that is no vectors of weights for each class."""
    if model.learner.algorithm.kind == "batch":
        raise InvalidParameterError(
            f"{model.learner.algorithm.name} takes many rows at once; models that are served take one after another"
        )
    if model.classes.grow:
        raise InvalidParameterError("models whose classes come later (grow_classes) are not served")


def publish(path: Path, model: Model, **about: Any) -> int:
    """The model as it predicts now, and how many weights it has; ``about`` is for readers, as JSON has it."""
    whole = served(model.learner)
    learner = narrow_learner(whole)
    preparation = preparation_of(learner)
    states = [_state(one) for one in plain_learner(learner).models]
    scales = [np.asarray(one.scales.state) for one in preparation.each if one.scales is not None]
    slots = [whole.table.numbers] if isinstance(whole, CompactLearner) else []
    head = {
        "algorithm": learner.algorithm.name,
        "parameters": plain(learner.parameters, "parameters"),
        "n_features": int(plain_learner(learner).n_features),
        "numbers": int(whole.n_features),
        "kept_only": isinstance(whole, KeptLearner),
        "intercept": bool(learner.offset),
        "preparation": preparation.described,
        "t": int(learner.t),
        "arrays": [[array.dtype.name, len(array)] for array in (*states, *scales, *slots)],
        "about": about,
    }
    raw = json.dumps(head).encode()
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        _write(draft, raw, [*states, *scales, *slots])
        draft.replace(path)
    except OSError:
        draft.unlink(missing_ok=True)
        raise
    return sum(int(np.count_nonzero(state[learner.offset :])) for state in states)


def _write(draft: Path, raw: bytes, arrays: list[Any]) -> None:
    with draft.open("wb") as file:
        file.write(len(raw).to_bytes(8, "little") + raw)
        for array in arrays:
            file.seek(-(-file.tell() // _ALIGNED) * _ALIGNED)
            file.write(array.data.cast("B") if len(array) else b"")
        file.truncate(-(-max(file.tell(), 1) // _ALIGNED) * _ALIGNED)


def _state(one: Any) -> NDArray[Any]:
    """The weights as a `Frozen` has them, the constant's first."""
    weights = one.weights()
    return np.concatenate([np.array([one.intercept], weights.dtype), weights]) if one.offset else weights


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
    return replace(model, learner=learner_of(none, 0), names=None, arrays={}, report=None)


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
        if self._snapshot is None or inode != self._inode:
            with self._path.open("rb") as file:
                self._inode = os.fstat(file.fileno()).st_ino  # of the file that is mapped, whatever comes meanwhile
                # private: pages are those of all readers as long as nobody writes, and compiled code may not tell
                mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
            self._snapshot = _mapped(mapped, self._like)
        return self._snapshot


def _mapped(data: mmap.mmap, like: Model) -> Snapshot:
    size = int.from_bytes(data[:8], "little")
    head, place, arrays = json.loads(data[8 : 8 + size]), 8 + size, list[NDArray[Any]]()
    for dtype, length in head["arrays"]:
        place = -(-place // _ALIGNED) * _ALIGNED
        arrays.append(np.frombuffer(data, dtype, length, place))
        place += arrays[-1].nbytes
    many = like.classes.n_models
    models = [_frozen(head, state) for state in arrays[:many]]
    preparation = described_by(head["preparation"], head["n_features"])
    scaled = [one.scales for one in preparation.each if one.scales is not None]
    for scales, state in zip(scaled, arrays[many:], strict=False):  # slots may follow
        scales.state = state
    learner = prepared(learner_of(models, 0), preparation)
    if len(arrays) > many + len(scaled):
        around = kept_learner if head["kept_only"] else compact_learner
        learner = around(learner, arrays[-1], head["numbers"], True)
    return Snapshot(replace(like, learner=learner), head["about"] | {"t": head["t"]})


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
