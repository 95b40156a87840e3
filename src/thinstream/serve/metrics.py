"""What a server tells Prometheus of itself; of several processes the sums."""

import asyncio
import os
import secrets
from bisect import bisect_left
from contextlib import suppress
from itertools import accumulate
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry, Gauge, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

from thinstream.serve.ends import ends_told
from thinstream.serve.wire import from_json, to_json

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
#: Seconds.
_BUCKETS = (0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1.0, 5.0)
_BOUNDS = (*map(str, _BUCKETS), "+Inf")
#: Seconds after which others know what a process has counted.
_TOLD = 1.0
#: Names of what is told of a model, where that is found in its status, and whether it only ever rises.
_OF_MODELS = (
    ("rows_learned", ("rows",), True, "Rows learned"),
    ("rows_refused", ("refused",), True, "Rows that could not be learned"),
    ("drift_alarms", ("drift",), True, "Rises of the error that were found"),
    ("journal_lag", ("lag",), False, "Requests written and not yet learned"),
    ("rows_waiting", ("waiting",), False, "Rows that wait for their labels"),
    ("learning", ("learning",), False, "1 while the model learns, 0 if it cannot"),
    ("source_up", ("source", "up"), False, "1 while the source can be read, else 0"),
    ("source_lag", ("source", "lag"), False, "Messages of the source that were not read yet"),
    ("source_set_aside", ("source", "set_aside"), True, "Messages of the source that could not be read"),
    ("source_lost", ("source", "lost"), True, "Messages that the broker removed before they were read"),
    ("weights", ("nnz",), False, "Weights that are not zero"),
    ("features", ("features",), False, "Width of the model"),
    ("progressive_error", ("progressive", "error"), False, "Share of rows called wrong before they were learned"),
    ("progressive_log_loss", ("progressive", "log_loss"), False, "Mean logistic loss before rows were learned"),
    ("progressive_auc", ("progressive", "auc"), False, "Area under the ROC curve of scores before rows were learned"),
    ("progressive_hinge", ("progressive", "hinge"), False, "Mean hinge loss before rows were learned"),
)


class Metrics:
    """Counts requests of this process, and tells what all have counted.

    Parameters
    ----------
    folder : path
        Where each process leaves what it has counted, now and then: counting itself is to cost next to nothing.

    """

    def __init__(self, folder: Path) -> None:
        self._folder, self._file = folder, folder / f"{os.getpid()}-{secrets.token_hex(4)}.json"
        #: Of each path and status: the sum of all seconds, and how many requests took as long as each bucket.
        self._tallies: dict[tuple[str, int], list[float]] = {}
        self._changed = False

    def answered(self, path: str, status: int, seconds: float) -> None:
        """A request was answered."""
        tally = self._tallies.get((path, status))
        if tally is None:
            tally = self._tallies[path, status] = [0.0] * (len(_BUCKETS) + 2)
        tally[0] += seconds
        tally[1 + bisect_left(_BUCKETS, seconds)] += 1
        self._changed = True

    async def keep_telling(self) -> None:
        """Leaves what was counted to others, as long as it is not cancelled."""
        while True:
            await asyncio.sleep(_TOLD)
            self.leave()

    def leave(self) -> None:
        """Leaves what was counted to others; it stays there when this process has ended."""
        if not self._changed:
            return
        self._changed, draft = False, self._file.with_suffix(".tmp")
        with suppress(OSError):  # the server ends
            draft.write_bytes(to_json([[*key, tally] for key, tally in self._tallies.items()]))
            draft.replace(self._file)

    def _all(self) -> dict[tuple[str, int], list[float]]:
        """The tallies of all processes."""
        self._changed = True
        self.leave()
        found: dict[tuple[str, int], list[float]] = {}
        for file in self._folder.glob("*.json"):
            for path, status, tally in from_json(file.read_bytes()):
                known = found.setdefault((path, status), [0.0] * len(tally))
                found[path, status] = [one + other for one, other in zip(known, tally, strict=True)]
        return found

    def text(self, models: dict[str, dict[str, Any]] | None) -> bytes:
        """All there is to tell; ``models`` are their statuses, None if the learning process does not answer."""
        told = CollectorRegistry()
        told.register(_Requests(self._all()))
        Gauge("thinstream_learner_up", "1 if the learning process answers, else 0", registry=told).set(
            models is not None
        )
        told.register(_Models(models or {}))
        told.register(_Processes(ends_told(self._folder)))
        return generate_latest(told)

    def requests(self) -> dict[str, dict[str, Any]]:
        """Of each path: requests by status, seconds of all together, and how many took no longer than each bound."""
        found: dict[str, dict[str, Any]] = {}
        for (path, status), (seconds, *counts) in sorted(self._all().items()):
            of = found.setdefault(path, {"statuses": {}, "seconds": 0.0, "within": dict.fromkeys(_BOUNDS, 0)})
            of["statuses"][str(status)] = int(sum(counts))
            of["seconds"] += seconds
            for bound, many in zip(_BOUNDS, accumulate(counts), strict=True):
                of["within"][bound] += int(many)
        return found


class _Requests:
    """Requests as Prometheus has them."""

    def __init__(self, tallies: dict[tuple[str, int], list[float]]) -> None:
        self._tallies = tallies

    def collect(self) -> Any:
        """Families of metrics."""
        counted = CounterMetricFamily("thinstream_requests", "Requests answered", labels=["path", "status"])
        for (path, status), (_, *many) in sorted(self._tallies.items()):
            counted.add_metric([path, str(status)], sum(many))
        yield counted
        took = HistogramMetricFamily("thinstream_request_seconds", "Seconds to answer", labels=["path"])
        for path in sorted({path for path, _ in self._tallies}):
            alike = (tally for (its, _), tally in self._tallies.items() if its == path)
            total, *counts = map(sum, zip(*alike, strict=True))
            took.add_metric([path], list(zip(_BOUNDS, accumulate(counts), strict=True)), total)
        yield took


class _Models:
    """The statuses of models as Prometheus has them."""

    def __init__(self, models: dict[str, dict[str, Any]]) -> None:
        self._models = models

    def collect(self) -> Any:
        """Families of metrics."""
        for name, path, rises, what in _OF_MODELS:
            kind: Any = CounterMetricFamily if rises else GaugeMetricFamily
            family = kind(f"thinstream_{name}", what, labels=["model"])
            for model, status in self._models.items():
                value: Any = status
                for key in path:
                    value = value.get(key) if isinstance(value, dict) else None
                if value is not None:
                    family.add_metric([model], float(value))
            yield family
        labels = CounterMetricFamily(
            "thinstream_labels", "Labels that came, by what became of them", labels=["model", "fate"]
        )
        for model, status in self._models.items():
            for fate, count in (status.get("labels") or {}).items():
                labels.add_metric([model, fate], float(count))
        yield labels


class _Processes:
    """Processes that were started again, as Prometheus has them."""

    def __init__(self, ends: dict[str, int]) -> None:
        self._ends = ends

    def collect(self) -> Any:
        """One family of metrics."""
        family = CounterMetricFamily(
            "thinstream_process_ends", "Processes that ended and were started again", labels=["kind"]
        )
        for kind, many in self._ends.items():
            family.add_metric([kind], float(many))
        yield family
