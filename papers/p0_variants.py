"""Variants of FSOL and SSOL that P0 leaves open: the schedule of the threshold, what enters A, which diagonal."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from papers import p0_common as p0
from papers.data import batch_of
from papers.experiment import Cell, Claim, Experiment, Row, markdown
from papers.presenting import distinct, panels, plus_minus

SETS = ("reuters21578-acq", "farm-ads", "spamassassin")
SCHEDULES = ("inv_t", "eta", "sqrt", "linear")
ORDERS = 3
#: The variant that the paper prints.
PRINTED = {"FSOL": "FSOL eta", "SSOL": "SSOL inv_t every drop"}
SHOWN = (90.0, 99.0, 99.5)
#: Panels: a name for the figure, the variants in it.
PANELS = {
    "FSOL: l1_schedule": [f"FSOL {schedule}" for schedule in SCHEDULES],
    "SSOL: l1_schedule": [f"SSOL {schedule} every drop" for schedule in SCHEDULES],
    "SSOL: update_on, diagonal": [
        f"SSOL inv_t {on} {which}" for on in ("every", "loss") for which in ("drop", "exact")
    ],
}
COLOURS = ("tab:blue", "tab:orange", "tab:green", "tab:red")


def work(name: str, algorithm: str, update_on: str, diagonal: str, smoke: bool) -> list[Row]:
    """All schedules of one kind on a set."""
    train, test = p0.task(name, smoke)
    rows = batch_of(p0.permuted(train, 0))
    kind = {} if algorithm == "FSOL" else {"update_on": update_on, "diagonal": diagonal}
    parameters = p0.choose_parameters(p0.Contestant(algorithm.lower(), kind), rows, smoke=smoke)
    found: list[Row] = []
    for schedule in SCHEDULES[:2] if smoke else SCHEDULES:
        contestant, own = p0.Contestant(algorithm.lower()), {**parameters, "l1_schedule": schedule}
        l1 = p0.l1_values(contestant, own, rows, smoke=smoke)
        runs = p0.runs_of(contestant, own, l1, train, test, 1 if smoke else ORDERS)
        about: Row = {"set": name, "algorithm": " ".join([algorithm, schedule, *kind.values()])}
        found.append({**about, "kind": "chosen", "parameters": p0.in_words(parameters)})
        found += p0.curve_rows(about, l1, runs, train.X.shape[1], "error")
    return found


def cells(smoke: bool) -> list[Cell]:
    """A cell for each set and kind."""
    kinds, sets = [("FSOL", "", ""), ("SSOL", "every", "drop")], SETS[:1] if smoke else SETS
    if not smoke:
        kinds += [("SSOL", "every", "exact"), ("SSOL", "loss", "drop"), ("SSOL", "loss", "exact")]
    return [
        Cell(" ".join([name, *kind]).strip(), work, (name, *kind, smoke), (name,)) for name in sets for kind in kinds
    ]


def tables(rows: Sequence[Row]) -> Iterator[str]:
    """Errors of each variant, and its mean rank among those of its algorithm."""
    values, sets, labels = p0.level_values(rows, "error"), distinct(rows, "set"), distinct(rows, "algorithm")
    yield (
        "Test error in percent; rank: the mean over the sets, among the variants of the same "
        "algorithm, last where a variant does not get so sparse."
    )
    for level in SHOWN:
        lines = []
        for label in labels:
            rank = mean_rank(rows, label, level)
            shown = f"**{label}**" if label in PRINTED.values() else label
            texts = [plus_minus(values.get((name, label, level))) for name in sets]
            lines.append([shown, *texts, f"{rank:.1f}"])
        yield markdown([f"{level:g} % sparse (as printed: bold)", *sets, "rank"], lines)


def mean_rank(rows: Sequence[Row], label: str, level: float) -> float:
    """1 is best; a variant that does not get so sparse is last."""
    values = {key: value[0] for key, value in p0.level_values(rows, "error").items()}
    rivals = [other for other in distinct(rows, "algorithm") if other.split()[0] == label.split()[0]]
    ranks = []
    for name in distinct(rows, "set"):
        own = values.get((name, label, level), np.inf)
        ranks.append(1 + sum(values.get((name, other, level), np.inf) < own for other in rivals))
    return float(np.mean(ranks))


def claims(rows: Sequence[Row]) -> Iterator[Claim]:
    """Not the paper's: whether what it prints is the best choice."""
    values, sets, labels = p0.level_values(rows, "error"), distinct(rows, "set"), distinct(rows, "algorithm")
    for algorithm, printed in PRINTED.items():
        rivals = [label for label in labels if label.split()[0] == algorithm]
        best = {level: min(rivals, key=lambda label: mean_rank(rows, label, level)) for level in SHOWN}
        texts = []
        for level in SHOWN:
            gaps = [
                values[name, printed, level][0] - values[name, best[level], level][0]
                for name in sets
                if (name, printed, level) in values and (name, best[level], level) in values
            ]
            loss = f"{np.mean(gaps):+.2f} points on average" if gaps else "not as sparse"
            texts.append(f"at {level:g} % best by rank: {best[level]} (as printed: {loss})")
        holds = all(label == printed for label in best.values())
        yield Claim(f"(a question of ours) the printed form of {algorithm} is the best", holds, "; ".join(texts))


def draw(rows: Sequence[Row], figure: Any) -> None:
    """Sets × what is varied."""
    sets = distinct(rows, "set")
    axes = panels(figure, len(PANELS), len(sets), 3.3 * len(sets), 2.6 * len(PANELS) + 0.7)
    for number, (line, (title, labels)) in enumerate(zip(axes, PANELS.items(), strict=True)):
        for axis, name in zip(line, sets, strict=True):
            curves = p0.curves_of(rows, name, "error")
            points = [point for label in labels for point in curves.get(label, ())]
            sparsest = max((share for share, _ in points), default=0.0)
            for label, colour in zip(labels, COLOURS, strict=True):
                own = {label.split(" ", 1)[1]: curves.get(label, [])}
                p0.draw_curves(axis, own, "" if number else name, sparsest=sparsest, color=colour)
            if points:
                lowest = min(error for _, error in points)
                axis.set_ylim(0.8 * lowest, max(4.0 * lowest, lowest + 2.0))
        line[0].set_ylabel(f"{title}\n\ntest error (%)", fontsize=9)
        line[-1].legend(fontsize=8, loc="center left", bbox_to_anchor=(1.02, 0.5))


EXPERIMENT = Experiment.of(__name__, "p0-variants")
