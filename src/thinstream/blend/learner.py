"""A blend: models of a portfolio learn the same rows in one pass, and a head learns what they are worth together.

Specification §15. A row is scored by all models before any of them learns it; the head makes one score of theirs, z,
learns too, and the models go on. At any time the blend is one linear model, v = Σ (w_k/m_k)·v_k.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from thinstream.batch import Batch
from thinstream.blend.building import stations_of
from thinstream.blend.group import Group
from thinstream.blend.head import ALIKE, Head
from thinstream.blend.linear import parts_of
from thinstream.blend.member import Member, members_of
from thinstream.blend.merging import changed, merged, moved, reset
from thinstream.blend.pools import Pools, can_leave
from thinstream.blend.portfolio import COUNTING, PORTFOLIO
from thinstream.blend.reading import Readable
from thinstream.blend.record import FIRST_NOTE, Record
from thinstream.engine.loop import FALSE_NEGATIVES, FALSE_POSITIVES, POSITIVES, UPDATES, Costs, T
from thinstream.errors import InvalidInputError
from thinstream.lanes.devices import chosen_device
from thinstream.learners import find
from thinstream.learners.learner import EQUAL_COSTS, dtype_of, require_range, require_signs
from thinstream.learners.limits import physical_memory
from thinstream.learners.protocol import ReadsOnce
from thinstream.learners.registry import rule_of

#: Rows after which a model that is worth nothing may be left out for the first time; then whenever they have doubled.
FIRST_LOOK = 1 << 12
#: A share of the blend that is worth nothing, found at two looks in a row.
WORTH = 0.005
#: Non-zeros all models learn before the head does: they are still in the cache, and scores take little room.
BLOCK = 1 << 18
_NAME = "Auto"


class Blend(ReadsOnce, Readable):
    """Models that learn along, and their head.

    Parameters
    ----------
    portfolio : sequence of Member (or of estimators), or None
        The models; None: ours, with a head in which later rows count more.
    n_features, costs, dtype, grow, fit_intercept
        As of a `Learner`, for all models; the head has the costs, too.
    drop : bool
        Whether models without a share of the blend are left out as the stream goes on.
    max_nnz, max_density : int or None, float or None
        Most weights of the linear model it is, and their share of all; the models themselves stay as they are.
    threads : int
        Threads a call may use.

    Examples
    --------
    >>> from thinstream.blend.member import Member, members_of
    >>> rows = Batch.of(np.arange(5), np.array([0, 1, 0, 1]), np.ones(4), 2, y=np.array([-1, 1, -1, 1], np.int8))
    >>> model = Blend([Member("fsol", {}), Member("arow", {})], n_features=2, dtype="float64")
    >>> model.learn(rows).round(2)
    array([0., 0., 0., 6.])
    >>> model.weights()[0] < 0 < model.weights()[1]
    np.True_

    """

    weights_only = has_variance = False
    #: Where the models may learn: "cpu", "cuda" or "auto". Blends of several classes leave that to `OneVsRest`.
    device = "cpu"
    _pools: Pools | None = None

    def __init__(
        self,
        portfolio: Sequence[Any] | None = None,
        *,
        n_features: int,
        costs: Costs = EQUAL_COSTS,
        dtype: str = "float32",
        grow: bool = False,
        fit_intercept: bool = False,
        drop: bool = True,
        max_nnz: int | None = None,
        max_density: float | None = None,
        threads: int = 1,
    ) -> None:
        self.algorithm = find(_NAME)
        given = {"portfolio": portfolio, "max_nnz": max_nnz, "max_density": max_density, "drop": drop}
        self.rule: Any = rule_of(self.algorithm, given)
        members = None if portfolio is None else members_of(self.rule.portfolio)
        named = None if members is None else [member.described for member in members]
        self.parameters: dict[str, Any] = given | {"portfolio": named, "drop": self.rule.drop}
        self.dtype, self.costs, self.offset = dtype_of(dtype, _NAME), costs, int(fit_intercept)
        self.grow, self.threads, self.n_features = grow, threads, n_features
        self.counting = COUNTING if members is None else ALIKE
        self._begin(PORTFOLIO if members is None else members)

    def _begin(self, portfolio: Sequence[Member]) -> None:
        """Fresh models, those of one preparation and algorithm together."""
        self._pools = None
        options = {"n_features": self.n_features, "dtype": self.dtype.name, "grow": self.grow}
        self.stations, ordered = stations_of(portfolio, self.costs, fit_intercept=bool(self.offset), **options)
        self.parts, self.record = parts_of(self.stations), Record(ordered)
        self.require_room(self.n_features)
        self._make_room(self.n_features)
        self.head = Head(len(self.record.members), self.costs, self.counting)
        self.counts = np.zeros(5, np.int64)
        self.weak = np.zeros(len(self.head), np.bool_)  # which were worth nothing at the last look
        self.news: list[str] = []  # what there is to tell since somebody looked
        self.version, self._linear, self._read = 0, (-1, None, None), (-1, 0)

    def like(self, portfolio: Sequence[Member], n_features: int) -> Self:
        """A fresh one of these models, alike in all else."""
        made = copy(self)
        made.n_features = n_features
        made._begin(portfolio)
        return made

    def merge(self, others: Sequence[Self], average: bool = False) -> "Blend":
        """One blend out of several that saw disjoint rows; they are left as they are."""
        return merged([self, *others], average)

    def changed(self, change: Callable[[Any], Any], ratio: NDArray[np.float64]) -> "Blend":
        """A copy whose models are changed, as their rows were divided by ``ratio``."""
        return changed(self, change, ratio)

    def moved(self, move: Callable[[Any], Any], where: NDArray[np.int64], width: int) -> "Blend":
        """A copy of ``width`` features, whose feature j is ``where[j]`` there; ``move`` does so with a model."""
        return moved(self, move, where, width)

    def reset(self, forget: Callable[[Any], None], features: NDArray[np.int64]) -> None:
        """These features become what one is that nobody has learned; ``forget`` does so with a block of models."""
        reset(self, forget, features)

    def leave_rows(self) -> None:
        """Its models, which have seen nothing, take rows as they come: somebody else prepares them for all."""
        plain = [member._replace(scale=None, normalize=None) for member in self.record.members]
        self._begin([member for k, member in enumerate(plain) if member not in plain[:k]])

    # Learning and predicting ------------------------------------------------------------------------------------------

    def learn(self, batch: Batch, scores: bool = True) -> NDArray[Any]:
        """Takes the examples in order; returns the blend's score of each before its update.

        A model that cannot go on (its numbers would not be finite) is out of the blend from there on.
        """
        batch = batch.check()
        require_signs(batch)
        require_range(batch, self.dtype)
        self.version += 1
        try:
            self._widen(batch.n_features)
            self._leave()
            learned = [self._learn(rows) for wide in self._by_width(batch) for rows in self._pieces(wide)]
        finally:
            self.version += 1  # weights that another thread computed meanwhile are out of date
        return np.concatenate(learned).astype(self.dtype) if scores else np.empty(0, self.dtype)

    def _learn(self, rows: Batch) -> NDArray[np.float64]:
        y, before, gone = require_signs(rows), self.t, self.head.gone.copy()
        ready = self._prepared(rows)
        each = self._each(lambda group, own: group.learn(own), ready)
        for part in self.parts:
            part.add(ready[self.stations.index(part.stations[0])] if part.preparation else rows)
        z = self.head.learn(each, y, rows.weights)
        counts = np.ones(len(rows), np.bool_) if rows.weights is None else rows.weights != 0.0
        positive, called = y[counts] > 0, z[counts] > 0.0
        self.counts[T] += len(positive)
        self.counts[UPDATES] += len(positive)
        self.counts[POSITIVES] += np.count_nonzero(positive)
        self.counts[FALSE_NEGATIVES] += np.count_nonzero(positive & ~called)
        self.counts[FALSE_POSITIVES] += np.count_nonzero(called & ~positive)
        self.record.count(each[counts], positive)
        for k in np.flatnonzero(self.head.gone & ~gone).tolist():
            self.news.append(f"{self.members[k]} is out of the blend: its numbers would not be finite")
        if self.t > before and self.t == _doubling(self.t):
            self.record.note(self.t, self.n_mistakes, self.head.share())
            if self.rule.drop and self.t >= FIRST_LOOK:
                self._look()
        return z

    def _prepared(self, rows: Batch) -> list[Batch]:
        """The rows as each station learns them; where one cannot, nothing was learned of them."""
        found: list[tuple[Batch, Any]] = []
        try:
            for station in self.stations:
                each = station.preparation.learn(rows, self.dtype) if station.preparation else (rows, None)
                found.append(each)
        except BaseException:
            for station, (_, before) in zip(self.stations, found, strict=False):
                if before is not None:
                    station.preparation.take_back(rows, before)
            raise
        return [ready for ready, _ in found]

    def _each(self, run: Callable[[Group, Batch], NDArray[Any]], rows: Sequence[Batch]) -> NDArray[Any]:
        """Scores of every model, rows × models."""
        work = [(group, own) for station, own in zip(self.stations, rows, strict=True) for group in station.groups]
        if self.threads == 1 or len(work) == 1:
            found = [run(*one) for one in work]
        else:
            with ThreadPoolExecutor(self.threads) as pool:
                found = list(pool.map(lambda one: run(*one), work))
        return np.concatenate(found, axis=1)

    def _pieces(self, batch: Batch) -> Iterator[Batch]:
        """The rows in pieces that end where models may be left out."""
        seen = np.arange(len(batch) + 1) if batch.weights is None else np.append(0, np.cumsum(batch.weights != 0.0))
        start, first = 0, self.t
        while True:
            stop = max(int(np.searchsorted(batch.indptr, batch.indptr[start] + BLOCK, side="right")) - 1, start + 1)
            stop = min(stop, int(np.searchsorted(seen, _doubling(first + int(seen[start]) + 1) - first)), len(batch))
            yield batch.until(stop).after(start)
            if stop == len(batch):
                return
            start = stop

    def _by_width(self, batch: Batch) -> Iterator[Batch]:
        """The rows in pieces, before each of which models for few features get room, or are left out."""
        while batch.n_features > (room := min((group.n_features for group in self._narrow()), default=np.inf)):
            beyond = np.flatnonzero(batch.indices[: batch.nnz] >= room)
            if not len(beyond):
                break
            row = int(np.searchsorted(batch.indptr, beyond[0], side="right")) - 1
            if row:
                yield batch.until(row)
            batch = batch.after(row)
            self.make_narrow_room(int(batch.indices[: batch.indptr[1]].max()) + 1)
        yield batch

    def _narrow(self) -> Iterator[Group]:
        return (group for group in self.groups if group.max_features is not None)

    def make_narrow_room(self, n_features: int) -> None:
        """Models for few features get room for so many, or are left out."""
        for group in self._narrow():
            if n_features <= (group.max_features or 0):
                group.make_room(n_features)
        limits = [member.max_features or n_features for member in self.members]
        if min(limits) < n_features:
            self.keep(np.flatnonzero(np.array(limits) >= n_features), too_wide=True)

    def _look(self) -> None:
        """Leaves out who is worth nothing, and was when the stream was half as long; one model stays in any case."""
        share = self.head.share()
        worthless = (share < WORTH) | self.head.gone
        going = worthless & self.weak
        going[np.argmax(share)] = False
        self.weak = worthless
        if going.any():
            self.keep(np.flatnonzero(~going))

    def keep(self, models: NDArray[np.intp], too_wide: bool = False) -> None:
        """Goes on with these models alone; the memory of others is returned.

        ``too_wide``: they are left out because a row has more features than they may have.
        """
        self.version += 1
        first = 0
        for station in self.stations:
            for group in list(station.groups):
                here = [int(k) - first for k in models if first <= k < first + len(group)]
                first += len(group)
                if not here:
                    station.groups.remove(group)
                elif len(here) < len(group):
                    group.keep(here)
        self.stations = [station for station in self.stations if station.groups]
        for part in self.parts:
            part.stations = [station for station in part.stations if station.groups]
        self.parts = [part for part in self.parts if part.stations]
        self.head, self.weak = self.head.keep(models), self.weak[models]
        self.record.keep(models, self.t, too_wide)
        self.version += 1

    def _counts(self) -> NDArray[np.int64]:
        return self.counts

    # On a GPU ---------------------------------------------------------------------------------------------------------

    def lanes_for(self, device: str) -> int:
        """Models that could be on a GPU, where the device is asked for."""
        return sum(len(group) for group in self.groups if can_leave(group, device))

    @property
    def lanes_away(self) -> int:
        """Those that are there."""
        return 0 if self._pools is None else self._pools.lanes_away

    @staticmethod
    def pooled(blends: Sequence["Blend"], device: str) -> Pools:
        """Puts the models of blends that learn the same rows, each with labels of its own, on a GPU together."""
        return Pools([list(blend.stations) for blend in blends], device)

    def _leave(self) -> None:
        """Puts the models on a GPU, if they are to be there and are at home."""
        lanes = 0 if self.device == "cpu" or self._pools is not None else self.lanes_for(self.device)
        if lanes and chosen_device(self.device, lanes, self.threads) == "cuda":
            self._pools = self.pooled([self], self.device)

    def come_home(self) -> None:
        """Whatever is on a GPU is on the CPU from here on."""
        if self._pools is not None:
            self._pools.come_home()
            self._pools = None

    # Room -------------------------------------------------------------------------------------------------------------

    def needed(self, n_features: int) -> int:
        """Bytes of one this wide."""
        return sum(part.needed(n_features) for part in self.parts)

    def require_room(self, n_features: int, models: int = 1) -> None:
        """Raises if so many blends this wide would not fit into the machine."""
        needed = models * self.needed(n_features)
        if needed > 0.7 * physical_memory():
            of = f" of {models} classes" if models > 1 else ""
            raise InvalidInputError(
                f"{_NAME}{of} with {sum(map(len, self.groups))} models and {n_features:,} features needs "
                f"{needed / 1e9:,.1f} GB, this machine has {physical_memory() / 1e9:,.1f} GB; a smaller portfolio, "
                "features numbered more densely or hashed into fewer need less"
            )

    def _widen(self, n_features: int) -> None:
        if n_features <= self.n_features:
            return
        if not self.grow:
            raise InvalidInputError(
                f"X has {n_features} features, but the model has {self.n_features}; grow=True would extend it"
            )
        self.require_room(n_features)
        self._make_room(n_features)
        self.n_features = n_features

    def _make_room(self, n_features: int) -> None:
        for station in self.stations:
            station.preparation.widen(n_features)
            for group in station.groups:
                group.widen(n_features)
        for part in self.parts:
            part.widen(n_features)

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__ | {"_linear": (-1, None, None)}
        for name in ("algorithm", "device", "_pools"):  # classes of a rule are found by name
            state.pop(name, None)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.algorithm = find(_NAME)
        for each in (self, self.head, self.record, *self.parts):
            for name, held in vars(each).items():
                if isinstance(held, np.ndarray) and not held.flags.writeable:  # mapped from a file
                    setattr(each, name, np.array(held))


def _doubling(t: int) -> int:
    """The first row at or after t at which shares are noted.

    >>> [_doubling(t) for t in (1, 64, 65, 9000)]
    [64, 64, 128, 16384]
    """
    return max(FIRST_NOTE, 1 << (t - 1).bit_length()) if t > 0 else FIRST_NOTE
