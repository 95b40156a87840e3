"""Many models on one stream, each with the rows it may learn from and those held out from it."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thinstream.batch import Batch
from thinstream.errors import InvalidInputError
from thinstream.evaluate.label_order import LabelOrder
from thinstream.one_vs_rest import class_numbers
from thinstream.preparing import Preparation, prepared
from thinstream.tune.class_counts import tallies_of
from thinstream.tune.lane_counts import ABSENT, HELD_OUT, LEARNED
from thinstream.tune.lane_ranks import LaneRanks
from thinstream.tune.trial_lanes import TrialLanes
from thinstream.tune.trials import StudyConfig as StudyConfig
from thinstream.tune.trials import Trial as Trial

#: Rows × lanes taken at a time, so that scores and masks stay small; a GPU has work for many more.
CELLS, CELLS_ON_GPU = 1 << 20, 1 << 26


class Study:
    """Lanes that learn from one stream, with what they got right and wrong on learned and on held-out rows.

    Each trial is a lane, of more than two classes a lane for each class, whose highest score decides. Rows of weight 0
    are counted by nobody. Scales are those of all other rows, whatever lane they are held out from, as they tell
    nothing of labels. Without roles of its own, row i of the stream is held out from the lanes of split i mod
    ``folds``.

    Parameters
    ----------
    config : StudyConfig
    trials : sequence of Trial
        Models, in this order.

    Examples
    --------
    >>> rows = Batch.of(np.array([0, 1, 2]), np.array([0, 0]), np.array([1.0, 1.0]), 1, y=np.array([1, 1], np.int8))
    >>> study = Study(StudyConfig("fsol", folds=2), [Trial({}, split=0), Trial({})])
    >>> study.take(rows)
    >>> study.tallies.held_out.counts[0], study.tallies.learned.counts[0]
    (array([1, 0]), array([1, 2]))

    """

    def __init__(self, config: StudyConfig, trials: Sequence[Trial]) -> None:
        config = config.placed(len(trials))
        self.folds, self.rows = config.folds, 0
        self.classes, self._n_lanes, self.lanes = config.classes, config.n_lanes, TrialLanes(config, trials)
        self.tallies, self.order = tallies_of(len(trials), config.losses, config.classes), LabelOrder()
        self.ranks = None if config.ranks is None else LaneRanks(len(trials), config.classes, config.ranks)
        self.preparation = Preparation(config.scale, config.normalize)
        self._again = False
        self._kept: list[tuple[int, NDArray[Any], NDArray[np.int8], NDArray[np.int8]]] | None = None
        if config.predictions:
            self._kept = []  # of each piece: rows before it, scores, labels, roles
        self._splits = np.array([trial.split for trial in trials])

    def take(self, batch: Batch, roles: NDArray[np.int8] | None = None) -> None:
        """The next rows. ``roles`` (see `tallies`) has a column per split; by default row number mod ``folds``."""
        if self._counts_on_device:
            self._take_on_device(batch, roles)
            return
        for rows, each in self._pieces(batch, roles):
            assert rows.y is not None
            weights = (each == LEARNED).astype(np.float64)
            if rows.weights is not None:
                weights *= rows.weights[:, np.newaxis]
            scores = self.lanes.learn(self._prepared(rows), weights)
            if self._again:
                each[each == LEARNED] = ABSENT
            else:
                self.order.update(rows.y)
            self._count(scores, rows.y, each)

    @property
    def _counts_on_device(self) -> bool:
        """Whether scores need not be fetched: counts are all that is asked for."""
        return self.lanes.device == "cuda" and self._kept is None

    def _take_on_device(self, batch: Batch, given: NDArray[np.int8] | None) -> None:
        batch = self._checked(batch)
        y, roles, role_of = batch.require_labels(), self._split_roles(batch, given), self._splits.astype(np.int32)
        role_of[role_of < 0] += roles.shape[1]
        weights = (roles == LEARNED).astype(np.float64)
        if batch.weights is not None:
            weights *= batch.weights[:, np.newaxis]
        if self._again:
            roles[roles == LEARNED] = ABSENT
        else:
            self.order.update(y)

        def count(*seen: Any) -> None:
            self.tallies.update_on_device(*seen)
            if self.ranks is not None:
                self.ranks.update_on_device(*seen)

        self.lanes.learn_counted(self._prepared(batch), weights, role_of, roles, count)
        self.rows += len(batch)

    def again(self) -> None:
        """The same rows come once more: held-out rows are counted anew, those learned before no more."""
        self.rows, self._again = 0, True
        self.tallies.forget(HELD_OUT)
        if self.ranks is not None and self.ranks.role == HELD_OUT:
            self.ranks.forget()
        for _, _, _, roles in self._kept or ():
            roles[roles == HELD_OUT] = ABSENT

    def score(self, batch: Batch, roles: NDArray[np.int8] | None = None) -> None:
        """Counts rows as held out that are (by the roles), learning nothing: for a second pass over the same rows."""
        for rows, each in self._pieces(batch, roles):
            assert rows.y is not None
            each[each == LEARNED] = ABSENT
            self._count(self.scores(rows), rows.y, each)

    def scores(self, rows: Batch) -> NDArray[Any]:
        """Of all lanes, as they are."""
        if self.preparation:
            rows = self.preparation.apply(rows.check(), self.lanes.dtype)
        return self.lanes.scores(rows)

    def model(self, lane: int) -> Any:
        """The model of a lane, as it would be had it learned alone (a copy)."""
        return prepared(self.lanes[lane], self.preparation.copy())

    def _prepared(self, rows: Batch) -> Batch:
        if not self.preparation:
            return rows
        if rows.n_features > self.lanes.n_features:  # refused, where it is, before the scales get room
            self.lanes.learn(replace(rows.until(0), largest=0.0))
        self.preparation.widen(self.lanes.n_features)
        return self.preparation.learn(rows.check(), self.lanes.dtype)[0]

    def predictions(self, lane: int, role: int, first: int = 0) -> tuple[NDArray[Any], NDArray[np.int8]]:
        """Scores and labels of the rows that have a role for a lane, from row number ``first`` on."""
        scores, labels = [], []
        for start, of, y, roles in self._kept or ():
            chosen = (roles[:, lane] == role) & (np.arange(start, start + len(y)) >= first)
            scores.append(of[chosen, lane])
            labels.append(y[chosen])
        return np.concatenate(scores), np.concatenate(labels)

    def _count(self, scores: NDArray[Any], y: NDArray[np.int8], roles: NDArray[np.int8]) -> None:
        self.tallies.update(scores, y, roles)
        if self.ranks is not None:
            self.ranks.update(scores, y, roles)
        if self._kept is not None:
            self._kept.append((self.rows, np.array(scores), np.array(y), roles))
        self.rows += len(y)

    def keep(self, lanes: Sequence[int]) -> None:
        """Drops all other lanes and returns their memory."""
        self.lanes.keep(lanes)
        self.tallies.keep(lanes)
        if self.ranks is not None:
            self.ranks.keep(lanes)
        self._splits = self._splits[list(lanes)]

    def _checked(self, batch: Batch) -> Batch:
        if self.classes > 2:
            class_numbers(batch, self.classes)
        elif batch.require_labels().dtype != np.int8:
            raise InvalidInputError("models of two classes are compared, these labels are numbers of classes")
        return batch.check()

    def _pieces(self, batch: Batch, roles: NDArray[np.int8] | None) -> Any:
        """The rows in pieces, with the role of each row for each lane."""
        batch = self._checked(batch)
        cells = CELLS_ON_GPU if self.lanes.device == "cuda" else CELLS
        size = max(cells // (len(self._splits) * self._n_lanes), 1)
        for start in range(0, len(batch), size):
            stop = min(start + size, len(batch))
            rows = batch if stop - start == len(batch) else batch.until(stop).after(start)
            by_split = self._split_roles(rows, None if roles is None else roles[start:stop])
            yield rows, np.take(by_split, self._splits, axis=1)

    def _split_roles(self, rows: Batch, given: NDArray[np.int8] | None) -> NDArray[np.int8]:
        """The role of each row for each split, and last (number -1) for models that learn from all."""
        if given is None:
            fold = np.arange(self.rows, self.rows + len(rows)) % max(self.folds, 1)
            splits = max(self.folds, int(self._splits.max()) + 1)
            given = np.where(fold[:, np.newaxis] == np.arange(splits), HELD_OUT, LEARNED)
        each = np.column_stack([given, np.full(len(rows), LEARNED)]).astype(np.int8)
        if rows.weights is not None:
            each[rows.weights == 0] = ABSENT
        return each
