"""P3, Figs 1 and 2: sum and cost while the stream passes."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from papers.experiment import Claim, Experiment, Row, markdown
from papers.p3_common import ALGORITHMS, COLOURS, MEASURES, PROPOSED, panels_of
from papers.p3_table2 import cells
from papers.presenting import distinct, legend, pick

#: Shares of the stream the table shows.
SHARES = (0.01, 0.1, 0.3, 1.0)
#: The claim is looked at from this share on; before it, few positives were seen.
FROM = 0.1


def curve(rows: Sequence[Row], name: str, kind: str, algorithm: str) -> dict[int, float]:
    """Rows → value."""
    return {row["rows"]: row["value"] for row in pick(rows, set=name, measure=kind, algorithm=algorithm)}


def nearest(points: dict[int, float], share: float) -> float:
    """The value at the point nearest to a share of the stream.

    >>> nearest({1: 5.0, 9: 6.0, 10: 7.0}, 0.8)
    6.0
    """
    wanted = share * max(points)
    return points[min(points, key=lambda stop: abs(stop - wanted))]


def tables(rows: Sequence[Row]) -> Iterator[str]:
    """Values at a few shares of each stream."""
    for kind in MEASURES:
        lines = []
        for name in distinct(rows):
            for algorithm in ALGORITHMS:
                points = curve(rows, name, kind, algorithm)
                if points:
                    lines.append([f"{name}, {algorithm}", *(f"{nearest(points, share):.2f}" for share in SHARES)])
        header = ["", *(f"after {100 * share:g} %" for share in SHARES)]
        yield f"### {kind}\n\n{markdown(header, lines)}"


def claims(rows: Sequence[Row]) -> Iterator[Claim]:
    """Whether both forms of ARCSOGD lead all along the stream."""
    for kind, measure in MEASURES.items():
        ahead, of, where = 0, 0, []
        for name in distinct(rows):
            curves = {algorithm: curve(rows, name, kind, algorithm) for algorithm in ALGORITHMS}
            stops = [stop for stop in curves["CSOGD-I"] if stop >= FROM * max(curves["CSOGD-I"])]
            shared = [stop for stop in stops if all(stop in points for points in curves.values())]
            leads = [
                min(measure.sign * curves[a][stop] for a in PROPOSED)
                > max(measure.sign * curves[a][stop] for a in ALGORITHMS if a not in PROPOSED)
                for stop in shared
            ]
            ahead, of = ahead + sum(leads), of + len(leads)
            if not all(leads):
                where.append(f"{name} ({sum(leads)} of {len(leads)})")
        said = f"at {ahead} of {of} points from {FROM:.0%} of the stream on"
        said += f"; not everywhere on {', '.join(where)}" if where else ""
        yield Claim(f"Both forms of ARCSOGD lead all along the stream ({kind})", ahead == of, said)


def draw(rows: Sequence[Row], figure: Any) -> None:
    """Sum above, cost below, a column for each set."""
    for panel, kind, name in panels_of(figure, distinct(rows)):
        for algorithm in ALGORITHMS:
            points = curve(rows, name, kind, algorithm)
            width = 2.0 if algorithm in PROPOSED else 1.2
            panel.plot(points.keys(), points.values(), color=COLOURS[algorithm], label=algorithm, lw=width)
        panel.set_xscale("log")
    figure.supxlabel("rows so far", fontsize=10)
    legend(figure, figure.axes, place="upper")


EXPERIMENT = Experiment.of(__name__, "p3-fig1", cells=cells, rows=partial(pick, what="curve"))
