"""A learner of no more features than its budget: those that matter least give way to new ones."""

import copy
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thinstream.batch import Batch
from thinstream.blend.importances import feature_importance
from thinstream.budget.sketch import MOST
from thinstream.budget.table import COUNTED, SHARE, BudgetTable
from thinstream.compact.learner import CompactLearner, CompactModel
from thinstream.compact.moving import moved, reset_features
from thinstream.compact.room import can_be_compact
from thinstream.compact.sizes import require_room
from thinstream.compact.table import SlotTable
from thinstream.errors import InvalidParameterError
from thinstream.growing import Growing
from thinstream.learners.protocol import AnyLearner, OneModel
from thinstream.preparing import plain_learner
from thinstream.spelling import KeptNames


class KeptLearner(CompactLearner):
    """One that takes rows by the features it has: others are no part of them, nor of their length."""

    may_be_whole = False

    @property
    def models(self) -> Iterable["KeptModel"]:
        """A model for each row of ``coef_``."""
        return (KeptModel(one, self.table, self.n_features, self.grow) for one in self.inner.models)

    def rows(self, batch: Batch) -> Batch:
        """The rows as the learner inside scores them."""
        known: Batch = self.table.known(self._checked(batch))
        return known

    def around(self, inner: Any, numbers: NDArray[np.int64] | None = None) -> CompactLearner:
        """One that predicts, around another learner, whose slots from 1 on are of these numbers, or of its own."""
        if numbers is not None:
            return kept_learner(inner, numbers, self.n_features, self.grow, names_of(self.table, numbers))
        kind = KeptModel if isinstance(inner, OneModel) else KeptLearner
        return kind(inner, self.table, self.n_features, self.grow)


class KeptModel(KeptLearner, CompactModel):
    """A `KeptLearner` of two classes, or of one against the rest."""


class BudgetLearner(KeptLearner):
    """An online learner on slots, of which there are no more than ``table`` has; it is taken over, not copied.

    A row for whose features there is no room waits until an eighth of the others has given way: those of the least
    importance, which is that of `thin`, of a feature the highest of its weights; of equal ones those admitted first.
    All rows before it are learned by then, so that it does not matter how rows are cut into batches.

    Examples
    --------
    >>> from thinstream.learners import Learner
    >>> rows = Batch.of(np.arange(4), np.array([7, 9, 7]), np.ones(3), 10, y=np.array([1, -1, 1], np.int8))
    >>> model = budgeted(Learner("fsol", n_features=0, grow=True), BudgetTable(max_features=1, admit=1))
    >>> _ = model.learn(rows)
    >>> model.table.numbers, model.weights()
    (array([7]), array([0., 0., 0., 0., 0., 0., 0., 1., 0., 0.], dtype=float32))

    """

    def learn(self, batch: Batch, scores: bool = True) -> NDArray[Any]:
        """Takes the examples in order; returns the score of each before its update."""
        batch, inner = self._checked(batch), plain_learner(self.inner)
        self._require_width(batch)
        found, start, fresh = list[NDArray[Any]](), 0, -1
        with inner.meeting(batch) if isinstance(inner, Growing) else nullcontext():
            while True:
                rows, reached = self.table.take(batch, start, fresh)
                if rows.n_features > self.inner.n_features:
                    require_room(self.inner, rows.n_features)
                found.append(self.inner.learn(rows, scores))
                if reached == len(batch):
                    break
                self._make_room()
                start = fresh = reached
        self.n_features = max(self.n_features, batch.n_features)
        return found[0] if len(found) == 1 else np.concatenate(found)

    def _make_room(self) -> None:
        used = self.table.used
        order = np.lexsort((self.table.born[used], feature_importance(self.inner)[used]))
        gone = used[order[: max(len(used) // SHARE, 1)]]
        reset_features(self.inner, gone)
        self.table.release(gone)


class BudgetModel(BudgetLearner, KeptModel):
    """A `BudgetLearner` of two classes."""


def budgeted(learner: AnyLearner, table: BudgetTable, n_features: int = 0, grow: bool = True) -> BudgetLearner:
    """The learner, on the slots of a table."""
    if not can_be_compact(learner):
        raise InvalidParameterError(
            f"{learner.algorithm.name}: max_features is for algorithms that learn online and move each weight by itself"
        )
    kind = BudgetModel if isinstance(learner, OneModel) else BudgetLearner
    return kind(learner, table, n_features, grow)


def kept_learner(
    inner: Any, numbers: NDArray[np.int64], n_features: int, grow: bool, names: KeptNames | None = None
) -> KeptLearner:
    """The learner around one whose slots from 1 on are of these numbers, and have these names."""
    kind = KeptModel if isinstance(inner, OneModel) else KeptLearner
    return kind(inner, SlotTable.of(numbers, names), n_features, grow)


def names_of(table: Any, numbers: NDArray[np.int64]) -> KeptNames:
    """Names that a table has of these numbers, all its own, for the slots from 1 on."""
    order = np.argsort(table.numbers)
    found: KeptNames = table.names.at(1 + order[np.searchsorted(table.numbers, numbers, sorter=order)])
    return found


def budget_of(learner: AnyLearner) -> dict[str, int | None]:
    """The most features a learner keeps, and at which sight one is admitted; None of one that keeps all."""
    kept = learner.table if isinstance(learner, BudgetLearner) else None
    return {name: None if kept is None else getattr(kept, name) for name in ("max_features", "admit")}


def require_all_features(learner: AnyLearner) -> None:
    """Raises where a learner has a budget of features: each worker would keep others."""
    if isinstance(learner, KeptLearner):
        raise InvalidParameterError(
            "max_features is for learning in one process: workers would keep different features"
        )


def merged(learners: Sequence[BudgetLearner], inner: Any, numbers: NDArray[np.int64]) -> BudgetLearner:
    """One out of several; ``inner`` has what they have learned, with the slots from 1 on of these numbers, sorted.

    Of more features than the budget allows the least important go. Sights add, as far as the sketch counts.
    """
    names = _common_names(learners, numbers)
    tables, first = [learner.table for learner in learners], learners[0].table
    born = np.full(len(numbers), np.iinfo(np.int64).max)
    for table in tables:
        places = np.searchsorted(numbers, table.numbers[table.used - 1])
        born[places] = np.minimum(born[places], table.born[table.used])
    born[np.lexsort((numbers, born))] = np.arange(len(numbers))
    least_first = np.lexsort((born, feature_importance(inner)[1:]))
    kept = np.sort(least_first[max(len(numbers) - first.max_features, 0) :])
    where = np.full(len(numbers) + 1, -1)
    where[1 + kept] = np.arange(1, len(kept) + 1)
    sights = np.sum([table.sketch for table in tables], axis=0, dtype=np.int64)
    counters = np.array([0, len(numbers), max(int(table.counters[COUNTED]) for table in tables)])
    sketch = np.minimum(sights, MOST).astype(np.uint8)
    left = None if names is None else KeptNames.of(*names.at(1 + kept).packed())
    table = BudgetTable.of(first.max_features, first.admit, numbers[kept], born[kept], sketch, counters, left)
    width = max(learner.n_features for learner in learners)
    return budgeted(moved(inner, where, len(kept) + 1), table, width, learners[0].grow)


def told_apart(learners: Sequence[BudgetLearner]) -> list[BudgetLearner]:
    """Learners to merge, without features whose number one before them has under another name."""
    known, found = dict[int, tuple[int, bytes]](), list[BudgetLearner]()
    for learner in learners:
        own = _names_by_number(learner.table)
        others = [number for number, name in own.items() if known.setdefault(number, name) != name]
        if others:
            learner = copy.deepcopy(learner)
            gone = 1 + np.flatnonzero(np.isin(learner.table.numbers, others))
            reset_features(learner.inner, gone)
            learner.table.release(gone)
        found.append(learner)
    return found


def _names_by_number(table: BudgetTable) -> dict[int, tuple[int, bytes]]:
    """Bytes of the head, and the name, by number."""
    text, slots = table.names.text.tobytes(), table.names.there
    places = table.names.places[slots].tolist()
    numbers = table.numbers[slots - 1].tolist()
    return {n: (middle - start, text[start:stop]) for n, (start, middle, stop) in zip(numbers, places, strict=True)}


def _common_names(learners: Sequence[BudgetLearner], numbers: NDArray[np.int64]) -> KeptNames | None:
    """Names of features of any learner, for the slots from 1 on; None where there are none."""
    known: dict[int, tuple[int, bytes]] = {}
    for learner in learners:
        known = _names_by_number(learner.table) | known
    if not known:
        return None
    each = [known.get(number, (-1, b"")) for number in numbers.tolist()]
    text = np.frombuffer(bytearray(b"".join(name for _, name in each)), np.uint8)
    ends = np.cumsum([len(name) for _, name in each], dtype=np.int64)
    return KeptNames.of(text, ends, np.array([head for head, _ in each], np.int64))
