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

SETS = ("australian", "magic04", "mammography", "campaign", "kdd99", "census-income")
#: Those of the paper.
PAPERS = ("australian", "magic04")
PERMUTATIONS = 20
#: Rows of a permutation that are taken, where a set is long.
FIRST = {"kdd99": 20_000, "census-income": 20_000}


def cells(smoke: bool) -> list[Cell]:
    """One for each dataset and kind of algorithm, and again in the authors' reading."""
    many, rows = (2, SMOKE_ROWS) if smoke else (PERMUTATIONS, 0)
    again = [
        Cell(f"{name} {group} authors", detected, (name, group, many, rows, True), (name,))
        for name in PAPERS
        for group in p3.GROUPS
    ]
    return [*cells_for(detected, SETS, p3.GROUPS, many, rows), *again]


def detected(name: str, group: str, permutations: int, rows: int, authors: bool = False) -> list[Row]:
    """Every algorithm of the group on every permutation."""
    stop = 0 if rows else FIRST.get(name, 0)
    found = p3.runs_of(name, group, p3.SUM, permutations, rows, stop, authors)
    return [{"what": "authors" if authors else "run", "set": name, **row} for row in found]


def tables(rows: Sequence[Row]) -> Iterator[str]:
    """A column for each dataset, and one for the authors' reading of the paper's datasets."""
    names = distinct(rows)
    found = grouped(rows, "what", "set", "algorithm")
    columns = [(what, name) for name in names for what in ("run", *(["authors"] if name in PAPERS else []))]
    lines = [
        [algorithm, *(plus_minus((mean(of), spread(of))) for of in (found.get((*c, algorithm), ()) for c in columns))]
        for algorithm in p3.ALGORITHMS
    ]
    heads = [f"{name}, authors' reading" if what == "authors" else name for what, name in columns]
    yield markdown(["balanced accuracy", *heads], lines)


def means(rows: Sequence[Row]) -> dict[str, dict[str, float]]:
    """Dataset → algorithm → balanced accuracy."""
    rows = pick(rows, what="run")
    return {n: {a: mean(pick(rows, set=n, algorithm=a)) for a in p3.ALGORITHMS} for n in distinct(rows)}


def claims(rows: Sequence[Row]) -> Iterator[Claim]:
    """Check the statements of section V-B."""
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
    """Compare the datasets of the paper, in our reading and in the authors'."""
    printed = published("p3-table4")
    for name in PAPERS:
        for algorithm in p3.ALGORITHMS:
            of, again = (pick(rows, what=what, set=name, algorithm=algorithm) for what in ("run", "authors"))
            if of:
                paper = printed[name, algorithm, "balanced accuracy"].value
                yield Compared(f"{name}, {algorithm}", mean(of), spread(of), paper, "", mean(again))


def draw(rows: Sequence[Row], figure: Any) -> None:
    """A panel for each set."""
    names, printed = distinct(rows), published("p3-table4")
    for panel, name in zip(panels(figure, 1, len(names), 14, 3.4, "x")[0], names, strict=True):
        paper = {a: value.value for (dataset, a, _), value in printed.items() if dataset == name}
        p3.draw_means(panel, pick(rows, what="run", set=name), paper, named=name == names[0])
        panel.set_title(name, fontsize=10)
    figure.supxlabel("balanced accuracy (%), mean ± standard deviation", fontsize=10)


EXPERIMENT = Experiment.of(__name__, "p3-table4")
