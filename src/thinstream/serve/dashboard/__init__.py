"""The dashboard: a page that shows a model while it learns. This module has its files and its data.

`live` serves the page for a training run, and `routes` for the models of a server.
"""

import base64
import hashlib
import json
import time
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

import numpy as np

from thinstream.models.model import Model, Names
from thinstream.training.metrics import Progress
from thinstream.training.monitors import DriftWatch
from thinstream.training.threshold import calibration

#: Files of the page, by request path.
PATHS = {
    "/": "index.html",
    "/dashboard/style.css": "style.css",
    "/dashboard/charts.js": "charts.js",
    "/dashboard/page.js": "page.js",
}
_KINDS = {"html": "text/html; charset=utf-8", "css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8"}
_POLICY = (
    "default-src 'none'; img-src data:; script-src {}; style-src {}; connect-src {}; base-uri 'none'; "
    "form-action 'none'"
)
#: Sent with each file.
HEADERS = {
    "Content-Security-Policy": _POLICY.format("'self'", "'self'", "'self'") + "; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}


class Asset(NamedTuple):
    content: bytes
    content_type: str


@cache
def asset(path: str) -> Asset:
    """Return the file for a path; raise `KeyError` if there is none.

    >>> asset("/").content_type, asset("/dashboard/page.js").content[:2]
    ('text/html; charset=utf-8', b'//')
    """
    name = PATHS[path]
    content = (files("thinstream.serve.dashboard") / "assets" / name).read_bytes()
    return Asset(content, _KINDS[name.rpartition(".")[2]])


def standalone(data: dict[str, Any], title: str) -> str:
    """Return the page as one file that shows the given data and may load nothing else."""
    text, style = asset("/").content.decode(), asset("/dashboard/style.css").content.decode()
    scripts = [asset(f"/dashboard/{name}.js").content.decode() for name in ("charts", "page")]
    text_of_data = json.dumps(data | {"title": title}, allow_nan=False).replace("<", "\\u003c")
    policy = _POLICY.format(" ".join(map(_hashed, scripts)), _hashed(style), "'none'")
    head = f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n<style>{style}</style>'
    tail = f'<script type="application/json" id="data">{text_of_data}</script>\n'
    tail += "\n".join(f"<script>{script}</script>" for script in scripts)
    for name, (old, new) in {
        "style.css": ('<link rel="stylesheet" href="/dashboard/style.css">', head),
        "charts.js": ('<script src="/dashboard/charts.js" defer></script>\n', ""),
        "page.js": ('<script src="/dashboard/page.js" defer></script>\n', ""),
        "the end": ("</body>", f"{tail}\n</body>"),
    }.items():
        assert text.count(old) == 1, name
        text = text.replace(old, new)
    return text


def _hashed(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


#: The most samples to keep. If there are more, every second one is dropped, and later ones are half as frequent.
MOST = 240


class Sample(NamedTuple):
    """A model at some moment."""

    number: int  # increases with each sample
    time: float  # seconds since 1970
    rows: int  # rows learned
    error: float | None  # progressive error since the start
    auc: float | None
    log_loss: float | None
    calibration: float | None  # mean of |observed − predicted|, if scores are log-odds
    nnz: int
    top: dict[str, float]  # the largest weights, by name


class History:
    """The samples of one model, evenly spread, and the newest one.

    If there are more than ``most`` samples, every second one is dropped. The first sample has the number ``first``.

    Examples
    --------
    >>> history = History(most=4)
    >>> for k in range(9):
    ...     history.add(float(k), 100 * k, {"error": 0.5}, 0.25, 7, {})
    >>> [sample.rows for sample in history.after()], history.after(7)[0].number
    ([0, 400, 800], 8)

    """

    def __init__(self, most: int = MOST, first: int = 0) -> None:
        self._most, self._samples, self._next = most, list[Sample](), first
        self._apart = 1  # distance between the numbers of two samples

    def add(
        self,
        time: float,
        rows: int,
        progressive: dict[str, Any],
        calibration: float | None,
        nnz: int,
        top: dict[str, float],
    ) -> None:
        """Add a sample; ``progressive`` is a `Report` as a dict."""
        error, auc, log_loss = (progressive.get(name) for name in ("error", "auc", "log_loss"))
        samples, self._next = [*self._samples], self._next + 1
        if len(samples) > 1 and samples[-1].number - samples[-2].number < self._apart:
            samples.pop()
        samples.append(Sample(self._next - 1, time, rows, error, auc, log_loss, calibration, nnz, top))
        if len(samples) > self._most:
            self._apart *= 2
            samples = [*samples[:-1:2], samples[-1]]
        self._samples = samples  # in one step, because other threads may be reading

    def after(self, number: int = -1) -> list[Sample]:
        """Return the samples after the one with this number."""
        return [sample for sample in self._samples if sample.number > number]


#: Weights that the dashboard shows.
TOP = 12


def top_weights(model: Model, names: Mapping[int, str] | None = None, top: int = TOP) -> dict[str, float]:
    """Return the largest weights by name, the largest first; ``names`` are names in addition to the model's.

    There is one weight per feature and class, see `Pipeline.feature_weights`. With more than two classes, the name is
    followed by the class.

    Examples
    --------
    >>> from thinstream.batch import Batch
    >>> from thinstream.data.labels import Classes
    >>> model = Model.fresh("perceptron", Classes("ham", "spam"), n_features=3, names=Names.of(["free"], [1]))
    >>> rows = Batch.of(np.array([0, 2]), np.array([1, 2], np.int32), np.array([2, -1], np.float32), 3, np.int8([1]))
    >>> _ = model.learner.learn(rows)
    >>> top_weights(model)
    {'free': 2.0, 'column 2': -1.0}

    """
    learner = model.learner.served()
    pairs = list[tuple[float, str]]()
    for k, (features, weights) in enumerate(learner.sparse_feature_weights()):
        size = np.abs(weights)
        largest = np.argpartition(size, -top)[-top:] if len(size) > top else np.arange(len(size))
        for k_ in largest.tolist():
            pairs.append((float(weights[k_]), name_of(model, k, 0, int(features[k_]), names)))
    pairs.sort(key=lambda pair: (-abs(pair[0]), pair[1]))
    return {name: weight for weight, name in pairs[:top]}


def name_of(model: Model, number: int, vector: int, feature: int, names: Mapping[int, str] | None = None) -> str:
    """Return the name of a weight: its feature, and its class and vector if there are several."""
    suffix = "" if model.classes.are_two else f" → {model.classes[number]}"
    return f"{(names or {}).get(feature) or _name(model, feature)}{suffix}{f' ({vector + 1})' if vector else ''}"


def _name(model: Model, feature: int) -> str:
    names: Names | None = model.names
    if feature >= model.learner.n_features and (products := model.learner.served().products) is not None:
        factors = [int(factor[0]) for factor in products.factors(np.array([feature]))]
        return products.names(np.array([feature]), {j: _name(model, j) for j in factors})[feature]
    if names is not None:
        position = int(np.searchsorted(names.indices, feature))
        if position < len(names.indices) and names.indices[position] == feature:
            return names.texts[position]
    return f"{'hash' if 'hashing' in model.feature_space else 'column'} {feature}"


#: The least seconds between two samples, and the share of time that sampling may take.
EVERY, SHARE = 1.0, 0.005
#: The most drift alarms that the page shows.
MARKS = 200


class DashboardSampler:
    """Samples one model in one thread, while other threads read the data for the dashboard."""

    def __init__(self) -> None:
        self.history = History(first=int(time.time()))  # above the numbers of an earlier process
        self._now: dict[str, Any] = {}
        self._rows, self._next = -1, 0.0

    def due(self, rows: int) -> bool:
        """Return whether to take a sample after ``rows`` learned rows."""
        return self.behind(rows) and time.monotonic() >= self._next

    def behind(self, rows: int) -> bool:
        """Return whether rows were learned since the last sample."""
        return rows != self._rows

    def hurry(self) -> None:
        """Make a sample due now."""
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
        """Take a sample; ``report`` has the progressive metrics as a dict, ``names`` are names of features."""
        began, rows = time.thread_time(), progress.rows
        counted, calibrated = progress.counted, dict[str, Any]()
        if counted.binary and rows:
            negatives, positives = counted.bins[:, 0]
            calibrated = calibration(negatives, positives, model.has_probabilities)
        self.history.add(time.time(), rows, report or {}, calibrated.get("error"), nnz, top_weights(model, names))
        curve = [] if drift is None else [list(stretch) for stretch in drift.curve.stretches()]
        detections = [] if drift is None else drift.detections[-MARKS:]
        marks = [[*detection.change, detection.monitor] for detection in detections]
        self._now = {
            "algorithm": model.learner.algorithm.name,
            "parameters": {name: str(value) for name, value in model.learner.parameters.items() if name != "portfolio"},
            "classes": [str(label) for label in model.classes],
            "probabilities": model.has_probabilities,
            "calibration": calibrated,
            "curve": curve,  # parts of the stream: rows until their end, rows, mistakes
            "drifts": marks,  # rows at the alarm, rows when the rise began, monitor
        }
        took = time.thread_time() - began
        self._rows, self._next = rows, time.monotonic() + max(EVERY, took / SHARE)

    def data(self, since: int = -1) -> dict[str, Any]:
        """Return the data for the dashboard, with the samples after the given number."""
        return self._now | {"samples": [sample._asdict() for sample in self.history.after(since)]}
