"""Studies of named features: their models are as wide as what occurs, not as the numbers that names are hashed into."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from thinstream.batch import Batch
from thinstream.compact import SlotTable, compact_learner, settled
from thinstream.compact.room import is_plain
from thinstream.learners import find
from thinstream.learners.registry import rule_of
from thinstream.streams.stream import START
from thinstream.tune.trials import StudyConfig, Trial


class Numbering:
    """Slots for the feature numbers of a stream, in the order in which they occur."""

    def __init__(self, n_features: int = 0) -> None:
        self._table, self.n_features = SlotTable(), n_features

    @property
    def n_met(self) -> int:
        """Features that occurred."""
        return len(self._table) - 1

    def admit(self, batch: Batch) -> Batch:
        """The rows with slots for numbers; new numbers get one."""
        self.n_features = max(self.n_features, batch.n_features)
        return self._table.admit(batch.check())

    def find(self, batches: Iterable[Batch]) -> Iterator[Batch]:
        """Rows to score, with slots for numbers: one that never occurred has the slot that nobody learns in."""
        return (self._table.find(batch.check(), self.n_features) for batch in batches)

    def model(self, learner: Any) -> Any:
        """A learner on slots as one on numbers."""
        return settled(compact_learner(learner, self._table.numbers.copy(), self.n_features, grow=True))


class OccurringStream:
    """A stream whose features are renumbered as they occur; each time it is read they have the same slots.

    >>> import numpy as np
    >>> from thinstream.streams.tables.memory import from_memory
    >>> stream = OccurringStream(from_memory(np.eye(5)[[3, 1, 3]], np.array([1, -1, 1])))
    >>> [(batch.indices.tolist(), batch.n_features) for batch in stream.batches()], stream.numbering.n_met
    ([([1, 2, 1], 3)], 2)
    """

    def __init__(self, stream: Any, n_features: int = 0) -> None:
        self._stream, self.numbering = stream, Numbering(n_features)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def batches(self, start: Any = START) -> Iterator[Batch]:
        """Those of the stream."""
        return map(self.numbering.admit, self._stream.batches(start))


def narrowed(source: Any, config: StudyConfig, trials: Sequence[Trial]) -> tuple[Any, StudyConfig, Numbering | None]:
    """The source of a study and how it is made; of named features by what occurs, where no rule asks for the width."""
    if "hashing" not in getattr(source, "feature_space", {}) or not all(_is_plain(config, trial) for trial in trials):
        return source, config, None
    stream = OccurringStream(source, config.n_features)
    return stream, config._replace(n_features=0), stream.numbering


def _is_plain(config: StudyConfig, trial: Trial) -> bool:
    return is_plain(rule_of(find(trial.algorithm or config.algorithm), dict(trial.parameters)))
