"""Metrics for Prometheus: summed counts of all processes of a server, and the state of its models and processes."""

import asyncio
import os
import platform
import secrets
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from contextlib import suppress
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

from thinstream._version import __version__
from thinstream.serve.log import WARNING, log
from thinstream.serve.supervisor import restarts_in
from thinstream.serve.wire import from_json, to_json

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
#: Upper bounds of the buckets of request times, in seconds, and of scores.
_BUCKETS = (0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1.0, 5.0)
_SCORES = (-8.0, -4.0, -2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, 4.0, 8.0)
_BOUNDS = (*map(str, _BUCKETS), "+Inf")
_SCORE_BOUNDS = (*map(str, _SCORES), "+Inf")
#: Seconds between two writes of the counts for other processes.
_SHARED_EVERY = 1.0
#: The most predicted labels of a model that are counted separately, and the name for all others.
_MOST_LABELS, _OTHER_LABELS = 100, "(other)"
#: The most missing or unknown columns of a model that are logged.
_LOGGED = 20
#: The path of requests that match no route, and of requests that the connection refuses.
UNMATCHED, CONNECTION = "(unmatched)", "(connection)"
#: Metrics in the status of a model: (name, keys in the status, whether it is a counter, help).
_OF_MODELS = (
    ("rows_learned", ("rows",), True, "Rows learned; absent while the journal is replayed after a start"),
    ("rows_refused", ("refused",), True, "Rows that could not be learned"),
    ("drift_alarms", ("drift",), True, "Rises of the error that ADWIN detected"),
    ("journal_lag", ("lag",), False, "Journal entries that the served model has not learned"),
    ("rows_waiting", ("waiting",), False, "Predicted rows that wait for their labels"),
    ("learning", ("learning",), False, "1 while the model learns, 0 if it cannot"),
    ("checkpoint_age_seconds", ("checkpoint_age",), False, "Seconds since the last checkpoint was written"),
    ("rows_since_checkpoint", ("unsaved",), False, "Rows learned since the last checkpoint"),
    ("source_up", ("source", "up"), False, "1 while the source can be read, else 0"),
    ("source_lag", ("source", "lag"), False, "Messages of the source that are not read yet"),
    ("source_dead_letters", ("source", "dead_letters"), True, "Messages of the source that could not be read"),
    ("source_lost", ("source", "lost"), True, "Messages that the broker removed before they were read"),
    ("weights", ("nnz",), False, "Weights that are not zero"),
    ("features", ("features",), False, "Width of the model"),
    ("progressive_error", ("progressive", "error"), False, "Progressive error since the first row"),
    ("progressive_log_loss", ("progressive", "log_loss"), False, "Progressive logistic loss since the first row"),
    ("progressive_auc", ("progressive", "auc"), False, "Progressive area under the ROC curve since the first row"),
    ("progressive_hinge", ("progressive", "hinge"), False, "Progressive hinge loss since the first row"),
    (
        "recent_error",
        ("recent", "error"),
        False,
        "Progressive error of the most recent rows, see thinstream_recent_rows",
    ),
    ("recent_rows", ("recent", "rows"), False, "Rows that thinstream_recent_error covers"),
)
#: Counters of the learner that start at the checkpoint and are complete once the journal has been replayed.
_AFTER_REPLAY = ("rows_learned", "rows_refused", "drift_alarms")

Tallies = dict[tuple[str, ...], list[float]]


class Metrics:
    """Count events of this process, and sum the counts of all processes of the server.

    Each process writes its counts to ``folder`` once a second, so that counting itself costs next to nothing. ``root``
    is the supervisor's process id; None: this process is the whole server.
    """

    def __init__(self, folder: Path, root: int | None = None) -> None:
        self._folder, self._file = folder, folder / f"{os.getpid()}-{secrets.token_hex(4)}.json"
        self._root = root or os.getpid()
        #: Name and labels → a count, or the sum of values and the number of values in each bucket.
        self._tallies: Tallies = {}
        self._label_keys: dict[tuple[str, Any], tuple[str, ...]] = {}
        self._logged: dict[tuple[str, str], set[str]] = {}  # columns that were logged
        self._changed = False

    def count(self, name: str, *labels: str, by: float = 1) -> None:
        self._tally((name, *labels), 1)[0] += by

    def answered(self, path: str, status: int, seconds: float) -> None:
        tally = self._tally(("requests", path, str(status)), len(_BUCKETS) + 2)
        tally[0] += seconds
        tally[1 + bisect_left(_BUCKETS, seconds)] += 1

    def predicted(self, model: str, labels: Sequence[Any], scores: NDArray[Any]) -> None:
        """Count predicted rows: their labels, and their scores (with more than two classes the highest of each row)."""
        tally = self._tally(("scores", model), len(_SCORES) + 2)
        if len(labels) == 1:
            score = float(scores[0] if scores.ndim == 1 else scores[0].max())
            tally[0] += score
            tally[1 + bisect_left(_SCORES, score)] += 1
            self._tally(self._label_key(model, labels[0]), 1)[0] += 1
            return
        best = scores if scores.ndim == 1 else scores.max(axis=1)
        tally[0] += float(best.sum())
        counts = np.bincount(np.searchsorted(_SCORES, best), minlength=len(_SCORES) + 1)
        tally[1:] = [before + count for before, count in zip(tally[1:], counts.tolist(), strict=True)]
        for label, count in Counter(labels).items():
            self._tally(self._label_key(model, label), 1)[0] += count

    def columns(self, model: str, missing: Set[str], unknown: Set[str]) -> None:
        """Count the missing and the unknown columns of a row. Log columns that appear for the first time."""
        for name, columns, text in (
            ("missing_columns", missing, "rows lack columns that the model was trained with"),
            ("unknown_columns", unknown, "rows have columns that the model was not trained with"),
        ):
            self.count(name, model, by=len(columns))
            logged = self._logged.setdefault((name, model), set())
            if len(logged) < _LOGGED and (new := sorted(columns - logged)[: _LOGGED - len(logged)]):
                logged.update(new)
                log(text, WARNING, model=model, columns=", ".join(new))

    def _label_key(self, model: str, label: Any) -> tuple[str, ...]:
        key = self._label_keys.get((model, label))
        if key is None:
            is_other = sum(known_model == model for known_model, _ in self._label_keys) >= _MOST_LABELS
            key = self._label_keys[model, label] = "predictions", model, _OTHER_LABELS if is_other else str(label)
        return key

    def _tally(self, key: tuple[str, ...], size: int) -> list[float]:
        self._changed = True
        tally = self._tallies.get(key)
        if tally is None:
            tally = self._tallies[key] = [0.0] * size
        return tally

    async def keep_sharing(self) -> None:
        """Write the counts for other processes once a second, until cancelled."""
        while True:
            await asyncio.sleep(_SHARED_EVERY)
            self.share()

    def share(self) -> None:
        """Write the counts for other processes. The file stays after this process has ended."""
        if not self._changed:
            return
        self._changed, draft = False, self._file.with_suffix(".tmp")
        with suppress(OSError):  # the server is stopping
            draft.write_bytes(to_json([[key, tally] for key, tally in self._tallies.items()]))
            draft.replace(self._file)

    def _all(self) -> Tallies:
        self._changed = True
        self.share()
        sums: Tallies = {}
        for file in self._folder.glob("*.json"):
            for words, tally in from_json(file.read_bytes()):
                total = sums.setdefault(tuple(words), [0.0] * len(tally))
                total[:] = [one + other for one, other in zip(total, tally, strict=True)]
        return sums

    def text(self, models: Mapping[str, dict[str, Any]] | None, versions: Mapping[str, int]) -> bytes:
        """Return all metrics as text.

        ``models`` are the statuses of the models, None if the learner does not answer; ``versions`` are those that
        this process predicts with.
        """
        registry, build = CollectorRegistry(), (__version__, platform.python_version())
        families = [
            _gauge("build_info", "Versions of thinstream and Python", ["version", "python"], {build: 1}),
            _gauge("learner_up", "1 if the learner answers, else 0", [], {(): models is not None}),
            _gauge("serving_version", "Version of the model that predicts", ["model"], versions),
            *_counted(self._all()),
            *_of_models(models or {}),
            _counter("process_restarts", "Restarts of processes", ["process"], restarts_in(self._folder)),
            *_processes(self._root),
        ]
        registry.register(_Families(families))
        return generate_latest(registry)

    def requests(self) -> dict[str, dict[str, Any]]:
        """Return by path: requests by status, seconds of all together, and how many took no longer than each bound."""
        requests: dict[str, dict[str, Any]] = {}
        for (name, *labels), (seconds, *counts) in sorted(self._all().items()):
            if name != "requests":
                continue
            path, status = labels
            report = requests.setdefault(path, {"statuses": {}, "seconds": 0.0, "within": dict.fromkeys(_BOUNDS, 0)})
            report["statuses"][status] = int(sum(counts))
            report["seconds"] += seconds
            for bound, count in zip(_BOUNDS, accumulate(counts), strict=True):
                report["within"][bound] += int(count)
        return requests


class _Families:
    """Families of metrics, in the form that the client library collects."""

    def __init__(self, families: Iterable[Any]) -> None:
        self._families = [family for family in families if family.samples]

    def collect(self) -> Any:
        return self._families


def _gauge(name: str, text: str, labels: list[str], values: Mapping[Any, float]) -> Any:
    return _filled(GaugeMetricFamily(f"thinstream_{name}", text, labels=labels), values)


def _counter(name: str, text: str, labels: list[str], values: Mapping[Any, float]) -> Any:
    return _filled(CounterMetricFamily(f"thinstream_{name}", text, labels=labels), values)


def _filled(family: Any, values: Mapping[Any, float]) -> Any:
    for labels, value in values.items():
        family.add_metric([labels] if isinstance(labels, str) else list(labels), float(value))
    return family


def _counted(tallies: Tallies) -> Iterable[Any]:
    def of(name: str) -> dict[tuple[str, ...], list[float]]:
        return {key[1:]: tally for key, tally in sorted(tallies.items()) if key[0] == name}

    requests, scores = of("requests"), of("scores")
    statuses: dict[Any, float] = {key: sum(counts) for key, (_, *counts) in requests.items()}
    yield _counter("requests", "Requests answered", ["path", "status"], statuses)
    latency = HistogramMetricFamily("thinstream_request_seconds", "Seconds until the reply", labels=["path"])
    for path in sorted({path for path, _ in requests}):
        same_path = (tally for (other, _), tally in requests.items() if other == path)
        total, *counts = map(sum, zip(*same_path, strict=True))
        latency.add_metric([path], list(zip(_BOUNDS, accumulate(counts), strict=True)), total)
    yield latency
    rows = {key: sum(counts) for key, (_, *counts) in scores.items()}
    yield _counter("rows_predicted", "Rows predicted", ["model"], rows)
    family = HistogramMetricFamily(
        "thinstream_score", "Scores of predicted rows (with several classes the highest)", labels=["model"]
    )
    for key, (sum_of_scores, *numbers) in scores.items():
        family.add_metric(list(key), list(zip(_SCORE_BOUNDS, accumulate(numbers), strict=True)), sum_of_scores)
    yield family
    for name, text, labels in (
        ("predictions", "Rows predicted, by label", ["model", "label"]),
        ("labels", "Labels received, and rows that wait for one, by outcome", ["model", "outcome"]),
        ("missing_columns", "Columns that were missing from rows", ["model"]),
        ("unknown_columns", "Columns of rows that the model was not trained with", ["model"]),
    ):
        yield _counter(name, text, labels, {key: count for key, (count,) in of(name).items()})


def _of_models(models: Mapping[str, dict[str, Any]]) -> Iterable[Any]:
    for name, keys, is_counter, text in _OF_MODELS:
        values: dict[str, float] = {}
        for model, status in models.items():
            value: Any = status
            for key in keys:
                value = value.get(key) if isinstance(value, dict) else None
            if value is not None and (status.get("caught_up") or name not in _AFTER_REPLAY):
                values[model] = value
        yield (_counter if is_counter else _gauge)(name, text, ["model"], values)
    challengers = {model: status["challengers"] for model, status in models.items() if "challengers" in status}
    yield _gauge("challengers", "Challengers", ["model"], {model: len(some) for model, some in challengers.items()})
    for name, report, text in (
        ("challenger_error", "progressive", "Progressive error of a challenger"),
        ("challenger_champion_error", "champion", "Progressive error of the champion on the challenger's rows"),
    ):
        errors = {(model, one["name"]): one[report].get("error") for model, some in challengers.items() for one in some}
        known_errors = {key: error for key, error in errors.items() if error is not None}
        yield _gauge(name, text, ["model", "challenger"], known_errors)


def _processes(root: int) -> list[Any]:
    """Return the usual ``process_*`` metrics, summed over the processes of the server.

    Processor time includes that of children that have ended. It is read again if a child ends meanwhile.
    """
    while True:
        before = _reaped(root)
        collected = [
            family
            for pid in (root, *_children(root))
            for family in ProcessCollector(pid=lambda pid=pid: pid, registry=None).collect()  # type: ignore[misc]
        ]
        if before == _reaped(root):
            break
    families: dict[str, Any] = {}
    for family in collected:
        (sample,) = family.samples
        total = families.setdefault(family.name, family)
        if total is not family and family.name != "process_start_time_seconds":
            total.samples[0] = sample._replace(value=total.samples[0].value + sample.value)
    if "process_cpu_seconds" in families:
        (sample,) = families["process_cpu_seconds"].samples
        families["process_cpu_seconds"].samples[0] = sample._replace(value=round(sample.value + before, 6))
    return list(families.values())


def _reaped(pid: int) -> float:
    """Return the processor time of ended children, in seconds."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:  # no /proc
        return 0.0
    return (int(fields[13]) + int(fields[14])) / os.sysconf("SC_CLK_TCK")


def _children(pid: int) -> list[int]:
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:  # a kernel without this file
        return [] if pid == os.getpid() else [os.getpid()]
