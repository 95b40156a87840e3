"""P3, Figs 3 and 4: other weights of the two kinds of mistakes."""

from collections.abc import Iterator, Sequence
from typing import Any

from papers import p3_common as p3
from papers.experiment import Cell, Claim, Experiment, Row, markdown
from papers.p3_table2 import SETS, SMOKE_ROWS
from papers.presenting import distinct, legend, mean, pick

#: α_n or c_n; the full matrix, which is slow, takes every other one.
WEIGHTS = tuple(k / 10 for k in range(1, 10))
PERMUTATIONS = 5
#: Of the full matrix; without covtype, where a pass takes most of a minute.
FEWER = {"covtype": 0, "ijcnn1": 1, "w8a": 1, "a9a": 1}


def cells(smoke: bool) -> list[Cell]:
    """One for each set, measure and kind of algorithm."""
    found, rows = [], SMOKE_ROWS if smoke else 0
    for name in SETS:
        for kind in p3.MEASURES:
            for group in p3.GROUPS:
                many = FEWER.get(name, PERMUTATIONS) if group == "full" else PERMUTATIONS
                many = min(many, 1) if smoke else many
                if many:
                    key = f"{name} {kind} {group}"
                    found.append(Cell(key, weighted, (name, kind, group, many, rows), (name,)))
    return found


def weighted(name: str, kind: str, group: str, permutations: int, rows: int) -> list[Row]:
    """Every weight on every permutation."""
    found: list[Row] = []
    rates = {algorithm: p3.choose_rate(name, rows, algorithm, p3.MEASURES[kind]) for algorithm in p3.GROUPS[group]}
    for permutation in range(permutations):
        data = p3.permuted(name, rows, permutation)
        for weight in WEIGHTS[:: 2 if group == "full" else 1]:
            measure = p3.Measure(kind, weight)
            for algorithm, rate in rates.items():
                one = p3.one_pass(algorithm, measure.rho(data.y), rate, data).row(measure)
                start = {"set": name, "measure": kind, "algorithm": algorithm, "weight": weight}
                found.append({**start, "permutation": permutation, "rate": rate or 0.0, "value": one["value"]})
    return found


def values(rows: Sequence[Row], name: str, kind: str, algorithm: str) -> dict[float, float]:
    """Weight → mean over permutations."""
    of = pick(rows, set=name, measure=kind, algorithm=algorithm)
    return {weight: mean(pick(of, weight=weight)) for weight in sorted({row["weight"] for row in of})}


def tables(rows: Sequence[Row]) -> Iterator[str]:
    """A table for each measure."""
    for kind in p3.MEASURES:
        lines = []
        for name in distinct(rows):
            for algorithm in p3.ALGORITHMS:
                of = values(rows, name, kind, algorithm)
                if of:
                    lines.append([f"{name}, {algorithm}", *(f"{of[w]:.2f}" if w in of else "" for w in WEIGHTS)])
        header = ["α_n" if kind == "sum" else "c_n", *(f"{weight:g}" for weight in WEIGHTS)]
        yield f"### {kind}\n\n{markdown(header, lines)}"


def claims(rows: Sequence[Row]) -> Iterator[Claim]:
    """Whether each form leads the older algorithms at every weight."""
    for kind, measure in p3.MEASURES.items():
        for proposed in p3.PROPOSED:
            won, of, where = 0, 0, []
            for name in distinct(rows):
                ours = values(rows, name, kind, proposed)
                others = [values(rows, name, kind, a) for a in p3.ALGORITHMS if a not in p3.PROPOSED]
                best = {w: max(measure.sign * other[w] for other in others) for w in ours}
                lost = [f"{w:g}" for w in ours if measure.sign * ours[w] <= best[w]]
                won, of = won + len(ours) - len(lost), of + len(ours)
                where += [f"{name} at {', '.join(lost)}"] if lost else []
            said = f"at {won} of {of} pairs of set and weight" + (f"; not on {'; '.join(where)}" if where else "")
            yield Claim(f"{proposed} beats the others at all weights ({kind})", won == of, said)


def draw(rows: Sequence[Row], figure: Any) -> None:
    """Sum above, cost below, a column for each set."""
    for panel, kind, name in p3.panels_of(figure, distinct(rows)):
        for algorithm in p3.ALGORITHMS:
            of = values(rows, name, kind, algorithm)
            mark = "o" if algorithm in p3.PROPOSED else "."
            panel.plot(of.keys(), of.values(), mark, ls="-", ms=4, color=p3.COLOURS[algorithm], label=algorithm)
        panel.set_xlabel("α_n" if kind == "sum" else "c_n")
    legend(figure, figure.axes, place="upper")


EXPERIMENT = Experiment.of(__name__, "p3-fig3")
