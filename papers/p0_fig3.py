"""P0, Fig. 3: time to learn against sparsity."""

import time
from collections.abc import Callable, Iterator, Sequence
from statistics import median
from typing import Any

import numpy as np
from sklearn.svm import l1_min_c

from papers import p0_common as p0
from papers.data import batch_of
from papers.experiment import Cell, Claim, Experiment, Row, cells_for, markdown
from papers.p0_fig2 import FACTORS, liblinear_model
from papers.presenting import distinct, grouped, legend, listed, panels_for, pick
from thinstream.models.model import make_learner

SETS = ("reuters21578-acq", "phish-url-pdd", "debian-science", "trec07p")
SECOND_ORDER = ("AdaFOBOS", "AdaRDA", "SSOL")
#: Runs of each model (the fastest counts), every how many-th l1 of a sweep, and of liblinear's C.
RUNS, EACH, EACH_C = 3, 6, 3
#: Rows that parameters are tuned on.
TUNED = 5000


def work(name: str, label: str, smoke: bool) -> list[Row]:
    """An algorithm on a set."""
    train, _ = p0.task(name, smoke)
    d, about = train.X.shape[1], {"kind": "curve", "set": name, "algorithm": label}
    if label == p0.LIBLINEAR:
        smallest = l1_min_c(train.X, train.y, loss="squared_hinge", fit_intercept=False)
        found: list[Row] = []
        for factor in FACTORS[:: 8 if smoke else EACH_C]:
            model = liblinear_model(smallest * factor)
            seconds = timed(lambda model=model: model.fit(train.X, train.y))  # type: ignore[misc]
            nnz = int(np.count_nonzero(model.coef_))
            found.append({**about, "l1": float(1.0 / factor), "sparsity": p0.sparsity(nnz, d), "seconds": seconds})
        return found
    contestant = p0.SPARSE[label]
    rows = p0.whole_periods(contestant, batch_of(p0.permuted(train, 0)))
    parameters = p0.choose_parameters(contestant, rows.until(min(TUNED, len(rows))), smoke=smoke)
    values = p0.l1_values(contestant, parameters, rows, smoke=smoke)
    l1 = [0.0, *values[1::EACH]]
    best, found = [float("inf")] * len(l1), []
    for run in range(RUNS):  # all models once, then again: what disturbs one run is over in the next
        for k, value in enumerate(l1):
            model = make_learner(
                contestant.algorithm, n_features=d, dtype="float64", fit_intercept=False, **parameters, l1=value
            )
            best[k] = min(best[k], timed(lambda model=model: model.learn(rows)))  # type: ignore[misc]
            if run == RUNS - 1:
                result = {"sparsity": p0.sparsity(model.nnz, d), "seconds": best[k], "updates": model.n_updates}
                found.append({**about, "l1": value, **result, "rows": len(rows)})
    chosen: Row = {**about, "kind": "chosen", "parameters": p0.in_words(parameters), "nonzeros": rows.nnz}
    return [chosen, *found]


def timed(action: Callable[[], Any]) -> float:
    """Seconds of this thread."""
    start = time.thread_time()
    action()
    return time.thread_time() - start


def cells(smoke: bool) -> list[Cell]:
    """A cell for each set and algorithm."""
    labels = p0.SMOKE[:2] if smoke else p0.PRINTED
    return cells_for(work, SETS[:2] if smoke else SETS, (*labels, p0.LIBLINEAR), smoke)


def dense_and_sparse(curve: Sequence[Row]) -> tuple[Row, Row]:
    """The model of l1 = 0 and the sparsest that has a weight."""
    return curve[0], max((row for row in curve if row["sparsity"] < 100.0), key=lambda row: row["sparsity"])


def tables(rows: Sequence[Row]) -> Iterator[str]:
    """Milliseconds of a pass."""
    found, labels = grouped(pick(rows, kind="curve"), "set", "algorithm"), distinct(rows, "algorithm")
    for title, what in (
        ("ms, median over l1", "median"),
        ("sparsest against l1 = 0: time", "seconds"),
        ("updates", "updates"),
    ):
        lines = []
        for name in distinct(rows, "set"):
            texts = []
            for label in labels:
                curve = found[name, label]
                first, last = dense_and_sparse(curve)
                if what == "median":
                    texts.append(f"{1000.0 * median(row['seconds'] for row in curve):.1f}")
                else:
                    texts.append(f"{last[what] / first[what]:.2f}×" if label != p0.LIBLINEAR else "–")
            lines.append([name, *texts])
        yield markdown([title, *labels], lines)


def claims(rows: Sequence[Row]) -> Iterator[Claim]:
    """The paper's observations."""
    found, sets = grouped(pick(rows, kind="curve"), "set", "algorithm"), distinct(rows, "set")
    middle = {key: median(row["seconds"] for row in curve) for key, curve in found.items()}
    rises = {}
    for (name, label), curve in found.items():
        if label in SECOND_ORDER:
            first, last = dense_and_sparse(curve)
            rises[name, label] = last["seconds"] / first["seconds"], last["updates"] / first["updates"]
    grown = [key for key, (seconds, _) in rises.items() if seconds > 1.1]
    times = [
        f"{label} on {name}: time {rises[name, label][0]:.2f}×, updates {rises[name, label][1]:.1f}×"
        for name, label in grown
    ]
    both = [label for label in ("AdaRDA", "AdaFOBOS") if label in distinct(rows, "algorithm")]
    faster = {(name, label): middle[name, label] / middle[name, "SSOL"] for name in sets for label in both}
    slower = {name: middle[name, "SSOL"] / middle[name, "FSOL"] for name in sets}
    batch = {name: middle[name, p0.LIBLINEAR] / middle[name, "SSOL"] for name in sets if (name, p0.LIBLINEAR) in middle}
    yield Claim(
        "at high sparsity the time of second-order algorithms sometimes increases, as updates do",
        bool(grown) and all(rises[key][1] > 1.0 for key in grown),
        f"the sparsest model takes over 1.1 times as long as that of l1 = 0 in {len(grown)} of {len(rises)} cases: "
        + ("; ".join(times) or "none"),
    )
    yield Claim(
        "SSOL is faster than the other second-order algorithms (Ada-RDA, Ada-FOBOS)",
        bool(faster) and all(ratio > 1.0 for ratio in faster.values()),
        f"time over SSOL's: {listed(faster)}",
    )
    yield Claim(
        "FSOL is consistently faster than SSOL",
        all(ratio > 1.0 for ratio in slower.values()),
        f"SSOL's time over FSOL's: {listed(slower)}",
    )
    yield Claim(
        "(not in the paper) one pass is faster than liblinear's batch solution",
        all(ratio > 1.0 for ratio in batch.values()),
        f"liblinear's time over SSOL's: {listed(batch, '.0f')}",
    )


def draw(rows: Sequence[Row], figure: Any) -> None:
    """A panel for each set."""
    sets = distinct(rows, "set")
    axes = panels_for(figure, sets, len(sets), 3.3, 3.4)
    for axis, name in axes:
        curves = p0.curves_of(rows, name, "seconds")
        in_ms = {label: [(share, 1000.0 * seconds) for share, seconds in points] for label, points in curves.items()}
        p0.draw_curves(axis, in_ms, name, marker="o", ms=3)
        axis.set_yscale("log")
        axis.yaxis.set_major_formatter("{x:g}")
        axis.yaxis.set_minor_formatter("")  # they would be of the form 6 × 10⁰
    figure.supylabel("milliseconds to learn", fontsize=10)
    legend(figure, (axis for axis, _ in axes), fontsize=9)


EXPERIMENT = Experiment.of(__name__, "p0-fig3")
