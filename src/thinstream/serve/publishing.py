"""Version after version of a model that learns: of a wide one only what has changed is written.

There are a few files. One has the name that readers look for; the next version goes into another one that no reader
holds (`sharing`), which lacks what was learned since its own. So writing takes as long as the rows learned meanwhile
ask for, however wide the model is, and nobody waits for it.
"""

import fcntl
import itertools
import mmap
import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinstream.compact.room import is_plain
from thinstream.engine.hooks import begin
from thinstream.engine.rule import Nothing
from thinstream.learners.memory import touched_coordinates
from thinstream.locks import try_lock
from thinstream.models.model import Model
from thinstream.one_vs_rest import OneVsRest
from thinstream.preparing import plain_learner, preparation_of
from thinstream.serve.sharing import Parts, arrays_in, said, write_version

#: A share of the features above which all are written.
_MANY = 1 / 8

Features = NDArray[np.int64]


class Changed(NamedTuple):
    """Features whose weights are others than before."""

    features: Features
    all_that_ever: bool  # whether those that changed before are among them


def _moves_alone(parts: Parts) -> bool:
    """Whether an example changes nothing but the features it has, and these are the places of the arrays."""
    inner = plain_learner(parts.learner)
    if parts.slots or parts.learner.weights_only or inner.algorithm.kind == "blend":
        return False
    together = isinstance(inner, OneVsRest) and not isinstance(inner._held, list)  # lanes: each would be copied
    return not together and preparation_of(parts.learner).vectors == 1 and is_plain(parts.models[0].rule)


def _stands_still(one: Any) -> bool:
    """Whether weights of features that do not occur stay as they are: nothing depends on the round."""
    return type(begin(one.rule, 1, one.algorithm.totals())) is Nothing


class Marks:
    """Features that were learned, since they were asked for last and ever."""

    def __init__(self) -> None:
        self._since, self._ever = np.zeros(0, np.bool_), np.zeros(0, np.bool_)
        self._known = False  # whether what was learned before is marked, too
        self._of_use = False

    def add(self, features: NDArray[Any], width: int) -> None:
        """Some were learned, of so many there are."""
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
        """The model is another one."""
        self._known = False
        self._since[:] = self._ever[:] = False

    def changed(self, parts: Parts) -> Changed | None:
        """Features whose weights are others than when this was asked last; None if there is no telling."""
        before, self._of_use = self._of_use, _moves_alone(parts)
        if not before or not self._of_use:
            self.forget()
            return None
        since = np.flatnonzero(self._since)
        self._since[since] = False
        if _stands_still(parts.models[0]):
            return Changed(since, False)
        if not self._known:
            for one in parts.models:
                met = touched_coordinates(one.algorithm, one.rule, one.memory, one.n_features + one.offset)
                self.add(met[met >= one.offset] - one.offset, one.n_features)
            self._since[:], self._known = False, True
        return Changed(np.flatnonzero(self._ever), True)


class _File:
    """One of the files, as this process writes it."""

    def __init__(self, path: Path, parts: Parts, about: dict[str, Any]) -> None:
        self.path, self.shapes = path, parts.shapes
        arrays = parts.arrays()
        try:
            write_version(path, parts.head(about), arrays)
        except OSError:
            path.unlink(missing_ok=True)
            raise
        self.nnz = parts.nnz(arrays)
        self.missed: list[Features] | None = []  # features changed since; None: all may be
        self._handle = os.open(path, os.O_RDWR)
        self._data = mmap.mmap(self._handle, 0)

    def miss(self, changed: Changed | None) -> None:
        """Features have changed that it does not know of yet."""
        if changed is None or self.missed is None:
            self.missed = None
        else:
            self.missed = [*(() if changed.all_that_ever else self.missed), changed.features]

    def is_free(self) -> bool:
        """Whether no reader holds it, nor will from now on."""
        return try_lock(self._handle)

    def fits(self, parts: Parts, about: dict[str, Any]) -> bool:
        """Whether this version can be made of its own by writing a few features."""
        if self.missed is None or self.shapes != parts.shapes:
            return False
        room = int.from_bytes(self._data[8:16], "little") - 16
        many = sum(map(len, self.missed))
        return many <= _MANY * parts.learner.n_features and len(parts.head(about)) <= room

    def bring_up_to_date(self, parts: Parts, about: dict[str, Any]) -> None:
        """Writes what it lacks; locked before, and free for readers after it."""
        features = np.unique(np.concatenate([np.empty(0, np.int64), *(self.missed or [])]))
        self.missed = None  # until all is there
        arrays, offset = arrays_in(self._data, self.shapes), parts.learner.offset
        places = np.concatenate([np.arange(offset), features + offset])
        for one, array in zip(parts.models, arrays, strict=False):
            weights = one.weights_at(places)
            self.nnz += int(np.count_nonzero(weights[offset:])) - int(np.count_nonzero(array[places[offset:]]))
            array[places] = weights
        for scales, array in zip(parts.scales, arrays[len(parts.models) :], strict=False):
            shared = len(scales.shared)
            array[:shared] = scales.state[:shared]
            array[shared:].reshape(-1, scales.width)[features] = scales.rows[features]
        head, start = parts.head(about), int.from_bytes(self._data[8:16], "little")
        self._data[: 16 + len(head)] = said(head, start)
        self.missed = []
        fcntl.flock(self._handle, fcntl.LOCK_UN)

    def close(self) -> None:
        """Lets go of it; readers that have it keep it."""
        self.path.unlink(missing_ok=True)
        self._data.close()
        os.close(self._handle)


class Publisher:
    """Publishes the versions of one model.

    Parameters
    ----------
    path : path
        Where readers find the newest.

    """

    def __init__(self, path: Path) -> None:
        self._path, self._numbers = path, itertools.count()
        self._files: list[_File] = []  # the one that readers find last
        self.marks = Marks()
        for left in path.parent.glob(f".{path.name}.*"):  # by a process that was killed
            left.unlink()

    def forget(self) -> None:
        """The model is another one: all of it is written next time."""
        self.marks.forget()
        for file in self._files:
            file.miss(None)

    def __call__(self, model: Model, **about: Any) -> int:
        """The model as it predicts now, and how many weights it has; ``about`` is for readers, as JSON has it."""
        parts = Parts.of(model)
        changed = self.marks.changed(parts)
        for file in self._files:
            file.miss(changed)
        file = self._spare(parts, about)
        link = self._path.with_name(f".{self._path.name}.link")
        os.link(file.path, link)
        link.replace(self._path)
        self._files = [*(each for each in self._files if each is not file), file]
        return file.nnz

    def _spare(self, parts: Parts, about: dict[str, Any]) -> _File:
        """A file that has this version and that nobody looks at; those that are of no use any more go."""
        for file in self._files[:-1]:
            if not file.fits(parts, about):
                file.close()
                self._files.remove(file)
            elif file.is_free():
                file.bring_up_to_date(parts, about)
                return file
        place = self._path.with_name(f".{self._path.name}.{next(self._numbers)}")
        return _File(place, parts, about)

    def close(self) -> None:
        """Nothing is published any more."""
        self._path.unlink(missing_ok=True)
        for file in self._files:
            file.close()
        self._files = []
