"""P0, Fig. 1: test error against sparsity on synthetic data whose informative features are known."""

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from papers import p0_common as p0
from papers.data import Data, batch_of
from papers.experiment import Cell, Claim, Experiment, Row, markdown
from papers.presenting import distinct, legend, listed, panels, pick, plot_rows, plus_minus
from thinstream.datasets import sparse_gaussian

FEATURES, INFORMATIVE = 1000, 100
#: Rows that parameters are tuned on, orders of the rows.
TUNED, ORDERS = 10_000, 3
LEVELS = (0.0, 50.0, 80.0, 90.0, 95.0, 99.0)


@lru_cache(maxsize=1)
def synthetic(smoke: bool) -> tuple[Data, Data]:
    """The paper's two streams."""
    train, test = sparse_gaussian(*((400, 200) if smoke else (100_000, 10_000)), n_features=FEATURES)
    return tuple(Data(part.X.astype(np.float64), part.y) for part in (train, test))  # type: ignore[return-value]


def work(label: str, smoke: bool) -> list[Row]:
    """An algorithm."""
    train, test = synthetic(smoke)
    contestant, rows = p0.SPARSE[label], batch_of(train)
    parameters = p0.choose_parameters(contestant, rows.until(min(TUNED, len(rows))), smoke=smoke)
    l1 = p0.l1_values(contestant, parameters, rows, smoke=smoke)
    nnz, errors, found = [], [], []
    for order in range(1 if smoke else ORDERS):
        lanes = p0.learned(contestant, parameters, l1, batch_of(p0.permuted(train, order)))
        result = p0.measured(lanes, test)
        nnz.append(result.nnz)
        errors.append(result.error)
        found.append((p0.weights_of(lanes)[:INFORMATIVE] != 0.0).sum(axis=0).astype(np.float64))
    about: Row = {"algorithm": label}
    rows_found: list[Row] = [{**about, "kind": "chosen", "parameters": p0.in_words(parameters)}]
    (count, _), (error, spread), (hits, _) = p0.summary(nnz), p0.summary(errors), p0.summary(found)
    for k, value in enumerate(l1):
        curve = {"l1": value, "sparsity": float(p0.sparsity(count[k], FEATURES)), "error": float(error[k])}
        rows_found.append(
            {**about, "kind": "curve", **curve, "spread": float(spread[k]), "informative": float(hits[k])}
        )
    for level in LEVELS:
        errors_here = [p0.at_sparsity(n, e, FEATURES, level) for n, e in zip(nnz, errors, strict=True)]
        hits_here = [p0.at_sparsity(n, h, FEATURES, level) for n, h in zip(nnz, found, strict=True)]
        row: Row = {**about, "kind": "level", "level": level}
        for measure, values in (("error", errors_here), ("informative", hits_here)):
            mean, deviation = p0.summary(values)
            row |= {measure: float(mean), f"{measure} spread": float(deviation)}
        rows_found.append(row)
    return rows_found


def cells(smoke: bool) -> list[Cell]:
    """A cell for each algorithm."""
    return [Cell(label, work, (label, smoke)) for label in (p0.SMOKE if smoke else p0.SPARSE)]


def tables(rows: Sequence[Row]) -> Iterator[str]:
    """Errors, and informative features found, at each level."""
    labels = distinct(rows, "algorithm")
    chosen = {row["algorithm"]: row["parameters"] for row in pick(rows, kind="chosen")}
    for title, measure in (("Test error (%) at sparsity", "error"), ("Of the 100 informative, used", "informative")):
        lines = []
        for label in labels:
            here = [pick(rows, kind="level", algorithm=label, level=level)[0] for level in LEVELS]
            texts = [plus_minus((row[measure], row[f"{measure} spread"])) for row in here]
            lines.append([f"{label} ({chosen[label]})", *texts])
        header = [f"{level:g} %" for level in LEVELS]
        yield markdown([title, *header], lines)


@p0.for_both_readings
def claims(rows: Sequence[Row]) -> Iterator[Claim]:
    """The paper's observations."""
    error = {(row["algorithm"], row["level"]): row["error"] for row in pick(rows, kind="level")}
    labels = distinct(rows, "algorithm")

    def rises(group: Sequence[str], start: float, end: float) -> dict[str, float]:
        found = {label: error[label, end] - error[label, start] for label in group}
        return {label: change for label, change in found.items() if math.isfinite(change)}

    truncating = [label for label in labels if label in p0.TRUNCATING]
    averaging = [label for label in labels if label not in p0.TRUNCATING]
    fall, stable, beyond = rises(truncating, 0.0, 90.0), rises(averaging, 0.0, 90.0), rises(averaging, 90.0, 99.0)
    best = {
        level: min(labels, key=lambda label: (math.isnan(error[label, level]), error[label, level]))
        for level in LEVELS[2:]
    }
    yield Claim(
        "the error of truncation (STG, FOBOS, Ada-FOBOS) gets significantly worse with sparsity",
        all(change > 1.0 for change in fall.values()),
        f"points from 0 to 90 %: {listed(fall, '+.1f')}",
    )
    yield Claim(
        "that of dual averaging (FSOL, Ada-RDA, SSOL) keeps stable or falls, up to the true sparsity of 90 %",
        all(change <= 1.0 for change in stable.values()),
        f"points from 0 to 90 %: {listed(stable, '+.1f')}",
    )
    yield Claim(
        "beyond 90 % it rises dramatically",
        all(change > 5.0 for change in beyond.values()),
        f"points from 90 to 99 %: {listed(beyond, '+.1f')}",
    )
    yield Claim(
        "SSOL has the lowest error of all, especially at high sparsity",
        all(label == "SSOL" for label in best.values()),
        ", ".join(f"best at {level:g} %: {label} ({error[label, level]:.1f})" for level, label in best.items()),
    )


def draw(rows: Sequence[Row], figure: Any) -> None:
    """All sparsities, the upper ones, and what was found."""
    axes = panels(figure, 1, 3, 13.0, 4.4)[0]
    for axis, low, measure in zip(axes, (0, 80, 0), ("error", "error", "informative"), strict=True):
        for label in distinct(rows, "algorithm"):
            curve = [row for row in pick(rows, kind="curve", algorithm=label) if low <= row["sparsity"] < 100.0]
            plot_rows(axis, curve, "sparsity", measure, **p0.look_of(label))
        axis.axvline(90, color="0.8", lw=1, zorder=0)
        axis.set(xlabel="sparsity (%)", xlim=(low - 1, 101))
    axes[0].set(ylabel="test error (%)", ylim=(0, 52), title="one pass, one point per l1")
    axes[1].set(ylabel="test error (%)", ylim=(0, 52), title="the sparse end")
    axes[2].set(ylabel="informative features used, of 100", ylim=(0, 102), title="what is found")
    legend(figure, axes, fontsize=9)


EXPERIMENT = Experiment.of(__name__, "p0-fig1")
