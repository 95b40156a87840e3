"""What the page is told of a model that learns: sampled now and then, never for more than a small share of the time."""

import time
from collections.abc import Mapping
from typing import Any

from thinstream.dashboard.history import History
from thinstream.dashboard.weights import top_weights
from thinstream.evaluate.curves import calibration
from thinstream.evaluate.progress import Progress
from thinstream.evaluate.tally import Tally
from thinstream.models.model import Model
from thinstream.training.drift import DriftWatch

#: Seconds between two samples at least, and the share of time that taking them may need.
EVERY, SHARE = 1.0, 0.005
#: Drift marks that are told, the last ones.
MARKS = 200


class Telling:
    """Follows one model: one thread samples it, others may ask what there is to tell."""

    def __init__(self) -> None:
        self.history = History(first=int(time.time()))  # above those of a process that was here before
        self._now: dict[str, Any] = {}
        self._rows, self._next = -1, 0.0

    def due(self, rows: int) -> bool:
        """Whether a sample is to be taken, so many rows having been learned."""
        return self.behind(rows) and time.monotonic() >= self._next

    def behind(self, rows: int) -> bool:
        """Whether there is anything new."""
        return rows != self._rows

    def hurry(self) -> None:
        """Something has happened: a sample is due now."""
        self._rows, self._next = -1, 0.0

    def sample(
        self,
        model: Model,
        progress: Progress,
        drift: DriftWatch | None,
        report: Any,
        nnz: int,
        names: Mapping[int, str] | None = None,
    ) -> None:
        """The model of now; ``report`` is the progressive metrics as JSON has them, ``names`` are of features."""
        began, rows = time.thread_time(), progress.rows
        counted, calibrated = progress.counted, dict[str, Any]()
        if isinstance(counted, Tally) and rows:
            negatives, positives = counted.bins
            calibrated = calibration(negatives, positives, model.has_probabilities)
        self.history.add(time.time(), rows, report or {}, calibrated.get("error"), nnz, top_weights(model, names))
        curve = [] if drift is None else [list(stretch) for stretch in drift.curve.stretches()]
        marks = [] if drift is None else [[*told.change, told.monitor] for told in drift.told[-MARKS:]]
        self._now = {
            "algorithm": model.learner.algorithm.name,
            "parameters": {name: str(value) for name, value in model.learner.parameters.items() if name != "portfolio"},
            "classes": [str(label) for label in model.classes],
            "probabilities": model.has_probabilities,
            "calibration": calibrated,
            "curve": curve,  # of stretches of the stream: rows to their end, rows, how many were called wrong
            "drifts": marks,  # rows when a rise was found, rows when it began, who found it
        }
        took = time.thread_time() - began
        self._rows, self._next = rows, time.monotonic() + max(EVERY, took / SHARE)

    def told(self, since: int = -1) -> dict[str, Any]:
        """All there is to tell; of samples those after the one of a number."""
        return self._now | {"samples": [sample._asdict() for sample in self.history.after(since)]}
