"""P3, Table IV: balanced accuracy of online anomaly detection."""

from collections.abc import Iterator, Sequence
from typing import Any

from papers import p3_common as p3
from papers.experiment import Cell, Claim, Compared, Experiment, Row, cells_for, markdown
from papers.p3_table2 import SMOKE_ROWS
from papers.presenting import (
    distinct,
    grouped,
    listed,
    mean,
    panels,
    pick,
    plus_minus,
    published,
    spread,
)

SETS = ("australian", "mammography", "campaign", "kdd99", "census-income")
PERMUTATIONS = 20
#: Rows of a permutation that are taken, where a set is long.
FIRST = {"kdd99": 20_000, "census-income": 20_000}


def cells(smoke: bool) -> list[Cell]:
    """One for each set and kind of algorithm."""
    many, rows = (2, SMOKE_ROWS) if smoke else (PERMUTATIONS, 0)
    return cells_for(detected, SETS, p3.GROUPS, many, rows)


def detected(name: str, group: str, permutations: int, rows: int) -> list[Row]:
    """Every algorithm of the group on every permutation."""
    found, stop = [], 0 if rows else FIRST.get(name, 0)
    rates = {algorithm: p3.choose_rate(name, rows, algorithm, p3.SUM, stop) for algorithm in p3.GROUPS[group]}
    for permutation in range(permutations):
        data = p3.permuted(name, rows, permutation, stop)
        for algorithm, rate in rates.items():
            one = p3.one_pass(algorithm, p3.SUM.rho(data.y), rate, data).row(p3.SUM)
            start: Row = {"set": name, "algorithm": algorithm, "permutation": permutation, "rate": rate or 0.0}
            found.append({**start, **one})
    return found


def tables(rows: Sequence[Row]) -> Iterator[str]:
    """A column for each set."""
    names = distinct(rows)
    found = grouped(rows, "set", "algorithm")
    lines = [
        [algorithm, *(plus_minus((mean(of), spread(of))) for of in (found.get((n, algorithm), ()) for n in names))]
        for algorithm in p3.ALGORITHMS
    ]
    yield markdown(["balanced accuracy", *names], lines)


def means(rows: Sequence[Row]) -> dict[str, dict[str, float]]:
    """Set → algorithm → balanced accuracy."""
    return {n: {a: mean(pick(rows, set=n, algorithm=a)) for a in p3.ALGORITHMS} for n in distinct(rows)}


def claims(rows: Sequence[Row]) -> Iterator[Claim]:
    """What section V-B says."""
    by_set = means(rows)
    for told, plain in (("PAUM", "Perceptron"), ("CPA", "PA-I")):
        gain = {name: of[told] - of[plain] for name, of in by_set.items()}
        text = f"{told}, which knows the costs, generally does better than {plain}"
        yield Claim(text, sum(g > 0 for g in gain.values()) > len(gain) / 2, _said(gain))
    first_four = ("Perceptron", "PA-I", "PAUM", "CPA")
    gain = {name: of["CSOGD-I"] - max(of[a] for a in first_four) for name, of in by_set.items()}
    text = "CSOGD-I does better than the four before it on most sets"
    yield Claim(text, sum(g > 0 for g in gain.values()) > len(gain) / 2, _said(gain))
    for proposed in p3.PROPOSED:
        gain = {
            name: of[proposed] - max(of[a] for a in p3.ALGORITHMS if a not in p3.PROPOSED)
            for name, of in by_set.items()
        }
        yield Claim(f"{proposed} beats all others on every set", all(g > 0 for g in gain.values()), _said(gain))


def _said(gain: dict[str, float]) -> str:
    return "difference in points: " + listed(gain, "+.2f")


def compare(rows: Sequence[Row]) -> Iterator[Compared]:
    """The one set that is the paper's."""
    printed = published("p3-table4")
    for algorithm in p3.ALGORITHMS:
        of = pick(rows, set="australian", algorithm=algorithm)
        if of:
            paper = printed["australian", algorithm, "balanced accuracy"].value
            yield Compared(f"australian, {algorithm}", mean(of), spread(of), paper)


def draw(rows: Sequence[Row], figure: Any) -> None:
    """A panel for each set."""
    names = distinct(rows)
    for panel, name in zip(panels(figure, 1, len(names), 13, 3.4, "x")[0], names, strict=True):
        p3.draw_means(panel, pick(rows, set=name), {}, named=name == names[0])
        panel.set_title(name, fontsize=10)
    figure.supxlabel("balanced accuracy (%), mean ± standard deviation", fontsize=10)


EXPERIMENT = Experiment.of(__name__, "p3-table4")
