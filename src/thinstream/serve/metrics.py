"""What a server tells Prometheus of itself; of several processes the sums."""

import os
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.multiprocess import MultiProcessCollector

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
#: Seconds.
_BUCKETS = (0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1.0, 5.0)
#: Names of what is told of a model, where that is found in its status, and whether it only ever rises.
_OF_MODELS = (
    ("rows_learned", ("rows",), True, "Rows learned"),
    ("rows_refused", ("refused",), True, "Rows that could not be learned"),
    ("drift_alarms", ("drift",), True, "Rises of the error that were found"),
    ("journal_lag", ("lag",), False, "Requests written and not yet learned"),
    ("rows_waiting", ("waiting",), False, "Rows that wait for their labels"),
    ("weights", ("nnz",), False, "Weights that are not zero"),
    ("features", ("features",), False, "Width of the model"),
    ("progressive_error", ("progressive", "error"), False, "Share of rows called wrong before they were learned"),
    ("progressive_log_loss", ("progressive", "log_loss"), False, "Mean logistic loss before rows were learned"),
    ("progressive_hinge", ("progressive", "hinge"), False, "Mean hinge loss before rows were learned"),
)


class Metrics:
    """Counts requests of this process, and tells what all have counted."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "thinstream_requests", "Requests answered", ("path", "status"), registry=self._registry
        )
        self._seconds = Histogram(
            "thinstream_request_seconds", "Seconds to answer", ("path",), buckets=_BUCKETS, registry=self._registry
        )
        self._children: dict[Any, Any] = {}

    def answered(self, path: str, status: int, seconds: float) -> None:
        """A request was answered."""
        known = self._children.get((path, status))
        if known is None:  # looking labels up takes longer than counting
            known = self._requests.labels(path, str(status)), self._seconds.labels(path)
            self._children[path, status] = known
        known[0].inc()
        known[1].observe(seconds)

    def text(self, models: dict[str, dict[str, Any]]) -> bytes:
        """All there is to tell; ``models`` are their statuses."""
        registry = self._registry
        if "PROMETHEUS_MULTIPROC_DIR" in os.environ:
            registry = CollectorRegistry()
            collector: Any = MultiProcessCollector
            collector(registry)
        told = CollectorRegistry()
        told.register(_Models(models))
        return generate_latest(registry) + generate_latest(told)


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
