"""Models of blends on a GPU: those of one algorithm on the same rows together, of all classes that there are.

A blend has few models of an algorithm; a thousand classes have thousands, which learn from the same rows, each with the
labels of its class. They are the lanes of a pool, and what a blend has in their place is a share of it: a group that
reads from the pool. Heads, scales and models that stay on the CPU are where they were.
"""

from collections.abc import Iterator, Sequence
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thinstream.batch import Batch
from thinstream.blend.group import Group
from thinstream.lanes.block import Block
from thinstream.lanes.devices import may_leave
from thinstream.lanes.lane import Lane
from thinstream.learners import Learner

#: Groups of a blend may learn in threads of their own; the GPU is taken by one at a time.
_gpu = Lock()


def can_leave(group: Group, device: str) -> bool:
    """Whether the models of a group can be on a GPU, where the device is asked for."""
    return group.max_features is None and all(may_leave(lane.rule, device) for lane in group._lanes)


class Pool:
    """Lanes of several owners; those of each have labels of their own.

    Owners come by one after another with the same rows. The first makes all lanes learn them, the others find scores.
    """

    def __init__(self, groups: Sequence[Group], owners: Sequence[int]) -> None:
        self.lanes = Group.of([model for group in groups for model in group], device="cuda")
        self.owners = np.repeat(np.array(owners), [len(group) for group in groups])
        self._alone = len(groups) == 1
        self._signs: NDArray[np.int8] | None = None
        self._scores = np.empty((0, len(self.lanes)), self.lanes.dtype)
        self._reached = 0  # rows of those announced that are learned
        lane = 0
        for group in groups:
            for k in np.flatnonzero(group.out()).tolist():
                self.lanes.fail(lane + k, group.failed.get(k, 0))
            lane += len(group)

    def begin(self, signs: NDArray[np.int8], shares: Sequence["Share"]) -> None:
        """Rows will come by with these labels, rows × owners; lanes that no share has any more go."""
        kept = [number for share in shares for number in share.numbers]
        if len(kept) < len(self.lanes):
            self._keep(kept)
            first = 0
            for share in shares:
                share.numbers, first = list(range(first, first + len(share))), first + len(share)
        self._signs, self._reached = signs, 0
        self._scores = np.empty((len(signs), len(self.lanes)), self.lanes.dtype)

    def kept(self, numbers: list[int]) -> list[int]:
        """Which lanes these are, once others have gone; those of several owners go when rows are announced."""
        if not self._alone or self._signs is not None:
            return numbers
        self._keep(numbers)
        return list(range(len(numbers)))

    def _keep(self, numbers: list[int]) -> None:
        self.lanes.keep(numbers)
        self.owners = self.owners[numbers]

    def learn(self, batch: Batch, start: int) -> NDArray[Any]:
        """Scores that all lanes gave these rows, before which so many others of those announced came by."""
        with _gpu:
            return self._learn(batch, start)

    def _learn(self, batch: Batch, start: int) -> NDArray[Any]:
        if self._signs is None:
            if not self._alone:
                raise RuntimeError("labels of all classes have to be announced")
            return self.lanes.learn(batch)
        stop = start + len(batch)
        if stop > self._reached:
            new = slice(self._reached, stop)
            self._scores[new] = self.lanes.learn(batch.after(self._reached - start), self._signs[new, self.owners])
            self._reached = stop
        return self._scores[start:stop]


class Share(Group):
    """The lanes of a pool that are of one blend, as the group they were. Copied or pickled it is that group again."""

    def __init__(self, pool: Pool, numbers: Sequence[int], threads: int) -> None:
        self.pool, self.numbers, self.position = pool, list(numbers), 0
        self.algorithm, self.dtype, self.threads, self.device = pool.lanes.algorithm, pool.lanes.dtype, threads, "cuda"

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, lane: int) -> Learner:
        return self.pool.lanes[self.numbers[lane]]

    def learn(self, batch: Batch, *more: Any) -> NDArray[Any]:
        """As of `Lanes`."""
        found = self.pool.learn(batch, self.position)[:, self.numbers]
        self.position += len(batch)
        return found

    def keep(self, lanes: Sequence[int]) -> None:
        """Keeps these models, in the order given."""
        self.numbers = self.pool.kept([self.numbers[k] for k in lanes])

    def put(self, memories: Sequence[Any]) -> None:
        """Raises: who changes models takes a copy of them."""
        raise RuntimeError("models on a GPU are to be read, not to be changed")

    def out(self) -> NDArray[np.bool_]:
        """Which of them have come to a row they cannot learn, and learn no more."""
        return self.pool.lanes.out()[self.numbers]

    def fail(self, lane: int, row: int = 0) -> None:
        """A model learns no more, from that row on."""
        self.pool.lanes.fail(self.numbers[lane], row)

    def weights_at(self, coordinates: NDArray[Any]) -> NDArray[Any]:
        """`Learner.weights_at` of every model, coordinates × models; NaN of those that are out. Nothing changes."""
        found = np.full((len(coordinates), len(self)), np.nan, self.dtype)
        for k in np.flatnonzero(~self.out()).tolist():
            found[:, k] = self[k].weights_at(coordinates)
        return found

    def widen(self, n_features: int) -> None:
        """Room for so many features."""
        self.pool.lanes.widen(n_features)

    def make_room(self, n_features: int) -> None:
        """Room for so many features."""
        self.widen(n_features)

    def needed(self, n_features: int) -> int:
        """Bytes of models this wide, at home."""
        return Block.estimate_nbytes(self._lanes, n_features + 1, self.dtype)

    @property
    def nbytes(self) -> int:
        """Bytes of the pool."""
        return self.pool.lanes.nbytes

    def home(self) -> Group:
        """The group that it was, as it is now."""
        group = Group.of(list(self), self.threads)
        for lane in np.flatnonzero(self.out()).tolist():
            group.fail(lane, self.failed.get(lane, 0))
        return group

    def __reduce__(self) -> Any:
        return _itself, (self.home(),)

    def copy(self) -> Any:
        """The group that it was."""
        return self.home()

    @property
    def _lanes(self) -> list[Lane]:  # type: ignore[override]
        return [self.pool.lanes._lanes[k] for k in self.numbers]

    @property
    def n_features(self) -> int:  # type: ignore[override]
        """Width of the models."""
        return self.pool.lanes.n_features

    @property
    def grow(self) -> bool:  # type: ignore[override]
        """Whether a wider batch extends them."""
        return self.pool.lanes.grow

    @property
    def failed(self) -> dict[int, int]:
        """Rows at which models ended."""
        rows = self.pool.lanes.failed
        return {k: rows[number] for k, number in enumerate(self.numbers) if number in rows}


class Pools:
    """The pools of blends, each given by its stations, in which shares take the place of groups."""

    def __init__(self, blends: Sequence[Sequence[Any]], device: str) -> None:
        self._blends = blends
        places: dict[Any, list[tuple[int, list[Group], int]]] = {}
        for owner, stations in enumerate(blends):
            for station in stations:
                kind = station.preparation.kinds
                for k, group in enumerate(station.groups):
                    if can_leave(group, device):
                        key = (group.algorithm.name, group.n_features, *kind.values())
                        places.setdefault(key, []).append((owner, station.groups, k))
        pools = [Pool([held[k] for _, held, k in found], [o for o, _, _ in found]) for found in places.values()]
        for pool, found in zip(pools, places.values(), strict=True):  # once all have found room
            first = 0
            for _, held, k in found:
                size = len(held[k])
                held[k] = Share(pool, range(first, first + size), held[k].threads)
                first += size

    @property
    def shares(self) -> Iterator[Share]:
        """Those that blends still have."""
        groups = (group for stations in self._blends for station in stations for group in station.groups)
        return (group for group in groups if isinstance(group, Share))

    @property
    def lanes_away(self) -> int:
        """Models on the GPU."""
        return sum(map(len, self.shares))

    def begin(self, signs: NDArray[np.int8]) -> None:
        """Rows will come by with these labels, rows × blends."""
        of_pool: dict[int, list[Share]] = {}
        for share in self.shares:
            share.position = 0
            of_pool.setdefault(id(share.pool), []).append(share)
        for shares in of_pool.values():
            shares[0].pool.begin(signs, shares)

    def widen(self, n_features: int) -> None:
        """Room for so many features."""
        for pool in {id(share.pool): share.pool for share in self.shares}.values():
            pool.lanes.widen(n_features)

    def come_home(self) -> None:
        """Groups take the place of shares."""
        for stations in self._blends:
            for station in stations:
                station.groups[:] = [group.home() if isinstance(group, Share) else group for group in station.groups]


def _itself(group: Group) -> Group:
    return group
