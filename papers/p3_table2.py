"""P3, Table II: sum and cost of seven algorithms on six sets."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from papers import p3_common as p3
from papers.experiment import Cell, Claim, Compared, Experiment, Row, markdown
from papers.p3_checks import checked, checks_table
from papers.presenting import distinct, listed, mean, pick, plus_minus, published, spread

SETS = ("covtype", "spambase", "svmguide3", "a9a", "ijcnn1", "w8a")
PERMUTATIONS = 20
#: Permutations of the full matrix in the authors' reading.
FULL_AGAIN = 2
#: Rows after which the curves of Figs 1 and 2 have points.
POINTS = 25
SMOKE_ROWS = 300


def cells(smoke: bool) -> list[Cell]:
    """One for each set, measure and kind of algorithm, and one for each set's checks."""
    rows, found = SMOKE_ROWS if smoke else 0, []
    for name in SETS:
        for measure in p3.MEASURES:
            for group in p3.GROUPS:
                many, key = 2 if smoke else PERMUTATIONS, f"{name} {measure} {group}"
                found.append(Cell(key, compared, (name, measure, group, many, rows), (name,)))
                again = many if group == "fast" else FULL_AGAIN
                if (name, group) != ("covtype", "full"):  # to save time
                    found.append(Cell(f"{key} authors", compared_again, (name, measure, group, again, rows), (name,)))
        found.append(Cell(f"{name} readings", checked, (name, rows), (name,)))
    return found


def compared(name: str, kind: str, group: str, permutations: int, rows: int) -> list[Row]:
    """Every algorithm of the group on every permutation; the curves are means over them."""
    measure, found = p3.MEASURES[kind], []
    rates = {algorithm: p3.choose_rate(name, rows, algorithm, measure) for algorithm in p3.GROUPS[group]}
    curves: dict[str, list[Any]] = {algorithm: [] for algorithm in p3.GROUPS[group]}
    stops: list[int] = []
    for permutation in range(permutations):
        data = p3.permuted(name, rows, permutation)
        rho, stops = measure.rho(data.y), points(len(data.y))
        for algorithm, rate in rates.items():
            one = p3.one_pass(algorithm, rho, rate, data)
            start: Row = {"what": "run", "set": name, "measure": kind, "algorithm": algorithm}
            found.append({**start, "permutation": permutation, "rate": rate or 0.0, **one.row(measure)})
            curves[algorithm].append(measure.value(*one.counts(stops)))
    for algorithm, values in curves.items():
        start = {"what": "curve", "set": name, "measure": kind, "algorithm": algorithm}
        pairs = zip(stops, np.mean(values, axis=0), strict=True)
        found += [{**start, "rows": stop, "value": float(value)} for stop, value in pairs if np.isfinite(value)]
    return found


def compared_again(name: str, kind: str, group: str, permutations: int, rows: int) -> list[Row]:
    """Run every algorithm of the group in the authors' reading."""
    measure = p3.MEASURES[kind]
    found = p3.runs_of(name, group, measure, permutations, rows, authors=True)
    return [{"what": "authors", "set": name, "measure": kind, **row} for row in found]


def points(rows: int) -> list[int]:
    """Numbers of rows from 100 (a tenth of a small set) to all, evenly on a log scale."""
    found = np.geomspace(min(100, max(rows // 3, 1)), rows, POINTS)
    return [int(stop) for stop in np.unique(found.round().astype(np.int64))]


def tables(rows: Sequence[Row]) -> Iterator[str]:
    """Yield a table for each dataset, with the paper's numbers next to ours, and the checks."""
    printed = published("p3-table2")
    for name in distinct(pick(rows, what="run")):
        lines = []
        for algorithm in p3.ALGORITHMS:
            line = [algorithm]
            for kind in p3.MEASURES:
                of, again = (
                    pick(rows, what=what, set=name, measure=kind, algorithm=algorithm) for what in ("run", "authors")
                )
                line += [plus_minus((mean(of), spread(of))), plus_minus((mean(again), spread(again)))]
                line += [f"{printed[name, algorithm, kind].value:.2f}"]
                line += [f"{mean(of, 'sensitivity'):.1f}", f"{mean(of, 'specificity'):.1f}"]
                line += [f"{of[0]['rate']:g}" if of and of[0]["rate"] else "", f"{mean(of, 'seconds'):.3f}"]
            lines.append(line)
        always = [f"{always_cost(rows, name):.2f}", *[""] * 6]
        lines.append(["the same answer always", "50.00", *[""] * 6, *always])
        more = ["authors' reading", "paper", "sens.", "spec.", "rate", "s"]
        header = ["", "sum", *more, "cost", *more]
        yield f"### {name}\n\n{markdown(header, lines)}"
    yield checks_table(rows)


def always_cost(rows: Sequence[Row], name: str) -> float:
    """Return the cost of 100 rows if the cheaper class is always predicted."""
    of = pick(rows, what="run", set=name)
    share = mean(of, "positives") / mean(of, "rows")
    return min(10 * (1 - share), 90 * share)


def claims(rows: Sequence[Row]) -> Iterator[Claim]:
    """Check the statements of section IV-B."""
    runs = pick(rows, what="run")
    value = {
        (name, kind, algorithm): mean(pick(runs, set=name, measure=kind, algorithm=algorithm))
        for name in distinct(runs)
        for kind in p3.MEASURES
        for algorithm in p3.ALGORITHMS
    }
    for kind, measure in p3.MEASURES.items():
        lead = {}
        for name in distinct(runs):
            others = [measure.sign * value[name, kind, a] for a in p3.ALGORITHMS if a not in p3.PROPOSED]
            lead[name] = min(measure.sign * value[name, kind, a] for a in p3.PROPOSED) - max(others)
        text = f"Both forms of ARCSOGD beat all other algorithms on every set ({kind})"
        yield Claim(text, all(ahead > 0 for ahead in lead.values()), f"the weaker form's lead: {listed(lead, '+.2f')}")
    cheaper = {name: always_cost(rows, name) for name in distinct(runs)}
    dear = {name: min(value[name, "cost", a] for a in p3.ALGORITHMS) for name in cheaper}
    worse = [f"{name} ({cheaper[name]:.2f} against {dear[name]:.2f})" for name in cheaper if cheaper[name] < dear[name]]
    text, said = "(not in the paper) the best algorithm costs less than always giving the same answer", "on every set"
    yield Claim(text, not worse, f"not on {', '.join(worse)}" if worse else said)
    best = {}
    for name in distinct(runs):
        for kind in p3.MEASURES:
            marks = {a: mean(pick(runs, set=name, measure=kind, algorithm=a), "sensitivity") for a in p3.ALGORITHMS}
            best[name, kind] = max(marks, key=lambda a: marks[a])
    won = sum(winner in p3.PROPOSED for winner in best.values())
    others_won = ", ".join(f"{n} ({k}): {w}" for (n, k), w in best.items() if w not in p3.PROPOSED)
    yield Claim(
        "The proposed algorithms usually have the best sensitivity",
        won > len(best) / 2,
        f"in {won} of {len(best)} cases" + (f"; not in {others_won}" if others_won else ""),
    )
    for kind, measure in p3.MEASURES.items():
        gap = {n: measure.sign * (value[n, kind, p3.FULL] - value[n, kind, p3.DIAGONAL]) for n in distinct(runs)}
        said = listed(gap, "+.2f")
        ahead = sum(one > 0 for one in gap.values())
        text = f"The diagonal form is marginally worse than the full one ({kind})"
        yield Claim(text, ahead > len(gap) / 2, f"the full one is better on {ahead} of {len(gap)} sets: {said}")
    seconds = {a: {n: mean(pick(runs, set=n, algorithm=a), "seconds") for n in distinct(runs)} for a in p3.ALGORITHMS}
    ratios = {a: [seconds[a][n] / max(seconds["CSOGD-I"][n], 1e-9) for n in distinct(runs)] for a in p3.PROPOSED}
    yield Claim(
        "The diagonal form takes about the time of the first-order algorithms, the full one more",
        float(np.median(ratios[p3.DIAGONAL])) < 3 < float(np.median(ratios[p3.FULL])),
        f"in passes of CSOGD-I (median over sets): diagonal {np.median(ratios[p3.DIAGONAL]):.1f}, "
        f"full {np.median(ratios[p3.FULL]):.0f}",
    )


def compare(rows: Sequence[Row]) -> Iterator[Compared]:
    """Compare all seven algorithms, in our reading and in the authors'."""
    printed = published("p3-table2")
    for kind in p3.MEASURES:
        for name in distinct(pick(rows, what="run")):
            for algorithm in p3.ALGORITHMS:
                of, again = (
                    pick(rows, what=what, set=name, measure=kind, algorithm=algorithm) for what in ("run", "authors")
                )
                paper = printed[name, algorithm, kind]
                what = f"{name}, {kind}, {algorithm}"
                why = _why(rows, name, kind) if algorithm in p3.PROPOSED else ""
                yield Compared(what, mean(of), spread(of), paper.value, why, mean(again))


def _why(rows: Sequence[Row], name: str, kind: str) -> str:
    """Return the reason of a difference, from the checks."""
    costs = [row["value"] for row in pick(rows, what="check", set=name, measure="cost")]
    if kind == "cost" and costs:
        return (
            f"The cost depends on the rate, which the paper does not give: the diagonal form has {min(costs):.2f} to "
            f"{max(costs):.2f} at rates of 10 to 10⁴."
        )
    return ""


def draw(rows: Sequence[Row], figure: Any) -> None:
    """Ours as dots with deviations, the paper's as rings; a panel for each set and measure."""
    printed, runs = published("p3-table2"), pick(rows, what="run")
    names = distinct(runs)
    for panel, kind, name in p3.panels_of(figure, names, 13, 6.2, "x"):
        paper = {algorithm: printed[name, algorithm, kind].value for algorithm in p3.ALGORITHMS}
        p3.draw_means(panel, pick(runs, set=name, measure=kind), paper, named=name == names[0])
    figure.supxlabel("dots: ours, mean ± standard deviation; rings: the paper's", fontsize=10)


EXPERIMENT = Experiment.of(
    __name__,
    "p3-table2",
    rows=lambda rows: [row for row in rows if row["what"] != "curve"],  # those are for Figs 1 and 2
)
