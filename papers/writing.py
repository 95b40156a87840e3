"""Pages: one for each experiment, and the summary of all. They depend on the saved results only."""

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from papers.experiment import Claim, Compared, Experiment, markdown
from papers.keeping import Result, kept
from papers.presenting import plus_minus
from thinstream.files import replacing
from thinstream.plotting import matplotlib

#: From this difference on, in the paper's unit, the summary gives a reason.
CLOSE = 1.0
UNEXPLAINED = "unexplained"
#: The papers by name.
PAPERS = {
    "P0": "the framework for sparse online learning (Wang et al., 2015)",
    "P1": "the sparse confidence-weighted classifier (Tan et al., 2016)",
    "P2": "numerically stable sparse learning (Xie et al., 2010)",
    "P3": "cost-sensitive online classification (Zhao et al., 2015)",
}
INTRODUCTION = """# Reproduction of the papers' experiments

`python -m papers` writes this page; no number in it is typed by hand. Each experiment has a separate page with
all its tables, and its rows as CSV. Differences are our number minus the paper's, in the paper's unit. {time}

To run the experiments, clone the repository and install it with `pip install -e '.[plot]'`. In its root folder,
`python -m papers` lists them, `python -m papers p0-fig2` runs one, and `make reproduce` runs all of them.
`python -m papers --help` shows the options. If a run stops, repeat the command to resume it.
"""


def write_page(experiment: Experiment, result: Result, folder: Path) -> None:
    """Write NAME.md with all tables, and NAME.png."""
    figure = matplotlib().figure.Figure(layout="constrained")
    experiment.draw(result.rows, figure)
    with replacing(folder / f"{experiment.name}.png") as file:
        figure.savefig(file, dpi=110, format="png", metadata={"Software": None})
    write_text(experiment, result, folder)


def write_text(experiment: Experiment, result: Result, folder: Path) -> None:
    """Write NAME.md only."""
    parts = [
        f"# {experiment.title}\n\n{experiment.source}; `python -m papers {experiment.name}`.",
        *_warnings(experiment, result),
        experiment.about.strip(),
        _claims(experiment.claims(result.rows)),
        *experiment.tables(result.rows),
        _compared(experiment.compare(result.rows)),
        f"![{experiment.title}]({experiment.name}.png)",
        f"All cells together took {_time(result.seconds)} of one core ({result.machine}; {result.versions}). "
        f"Rows: [{experiment.name}.csv]({experiment.name}.csv).",
    ]
    _write(folder / f"{experiment.name}.md", parts)


def write_summary(experiments: Sequence[Experiment], folder: Path) -> Path:
    """Write the page of all experiments in a folder, next to the folder."""
    page = folder.with_name(f"{folder.name}.md")
    results = {experiment.name: kept(folder, experiment.name) for experiment in experiments}
    once = [experiment.name for experiment in experiments if experiment.cells_of not in results]
    seconds = sum(result.seconds for name, result in results.items() if result and name in once)
    done = sum(result is not None for result in results.values())
    time = f"{done} of {len(results)} have been run, which took {_time(seconds)} of one core."
    parts = [INTRODUCTION.format(time=time).strip()]
    parts += [count_claims(experiments, results), unexplained(experiments, results), reduced(experiments)]
    for experiment in experiments:
        result = results[experiment.name]
        parts.append(f"## {experiment.source}: {experiment.title}")
        if result is None:
            parts.append(f"Not run yet: `python -m papers {experiment.name}`.")
            continue
        parts += [
            *_warnings(experiment, result),
            f"![{experiment.title}]({folder.name}/{experiment.name}.png)",
            _claims(experiment.claims(result.rows)),
            _compared(experiment.compare(result.rows)),
            f"[What was done, and all tables]({folder.name}/{experiment.name}.md) · "
            f"[rows]({folder.name}/{experiment.name}.csv) · {_time(result.seconds)}",
        ]
    _write(page, parts)
    return page


def count_claims(experiments: Sequence[Experiment], results: Mapping[str, Result | None]) -> str:
    """Return a table of the papers' claims: how many are confirmed, not confirmed, and not testable here."""
    papers: dict[str, list[bool | None]] = {}
    for experiment in experiments:
        result, own = results[experiment.name], papers.setdefault(experiment.source.split(",")[0], [])
        if result is not None:
            own += [claim.holds for claim in experiment.claims(result.rows) if not claim.text.startswith("(")]
            own += [None] * len(experiment.not_testable)
    lines = [
        [f"{paper}: {PAPERS.get(paper, paper)}", *(str(own.count(answer)) for answer in (True, False, None))]
        for paper, own in papers.items()
    ]
    total = [answer for own in papers.values() for answer in own]
    lines.append(["all", *(str(total.count(answer)) for answer in (True, False, None))])
    table = markdown(["paper", "confirmed", "not confirmed", "not testable here"], lines)
    text = (
        "A claim tested with two readings of a paper counts twice. Without their data, these claims are not testable:"
    )
    missing = [f"- {experiment.source}: {claim}" for experiment in experiments for claim in experiment.not_testable]
    return "\n\n".join(["## The papers' claims", table, *([text, "\n".join(missing)] if missing else [])])


def unexplained(experiments: Sequence[Experiment], results: Mapping[str, Result | None]) -> str:
    """Return the list of the deviations that no tested reason explains."""
    lines, total, far = [], 0, 0
    for experiment in experiments:
        result = results[experiment.name]
        for one in experiment.compare(result.rows) if result else ():
            total, far = total + 1, far + (abs(one.ours - one.paper) > CLOSE)
            if reason(one) == UNEXPLAINED:
                found = f"- {experiment.source}, {one.what}: {one.ours - one.paper:+.2f}"
                if not math.isnan(one.reading):
                    found += f" (authors' reading: {one.reading - one.paper:+.2f})"
                lines.append(found)
    text = f"We compare {total} numbers with a paper's. {far} of them differ by more than {CLOSE:g}. "
    text += f"For {far - len(lines)} of those, a tested reason explains the difference. These remain unexplained:"
    return "\n\n".join(["## Deviations", text, "\n".join(lines) or "none"]) if total else ""


def reduced(experiments: Sequence[Experiment]) -> str:
    """Return the list of the protocols that are smaller than the papers'."""
    lines = [f"- {experiment.source}: {text}" for experiment in experiments for text in experiment.reduced]
    text = "To save time, parts of these protocols are smaller than in the papers:"
    return "\n\n".join(["## Reduced protocols", text, "\n".join(lines)]) if lines else ""


def reason(one: Compared) -> str:
    """Return the tested reason of a difference; empty if the numbers are close."""
    if not abs(one.ours - one.paper) > CLOSE:
        return ""
    if abs(one.reading - one.paper) <= CLOSE:
        return "explained by the authors' reading"
    return one.why or UNEXPLAINED


def _write(place: Path, parts: Sequence[str]) -> None:
    with replacing(place) as file:
        file.write_text("\n\n".join(part for part in parts if part) + "\n", encoding="utf-8")


def _warnings(experiment: Experiment, result: Result) -> list[str]:
    found = []
    if result.smoke:
        found.append("**A smoke run on tiny pieces of the data: its numbers mean nothing.**")
    if result.missing:
        found.append(f"Data sets that were not there: {', '.join(result.missing)}.")
    if experiment.stand_ins:
        lines = [f"- {name}: {text}" for name, text in experiment.stand_ins.items()]
        found.append("\n".join(["Stand-ins for the paper's data:", "", *lines]))
    return found


def _claims(claims: Iterable[Claim]) -> str:
    lines = [[claim.text, "yes" if claim.holds else "**no**", claim.evidence] for claim in claims]
    table = markdown(["the paper says", "here", "what we saw"], lines)
    return table.replace("|---|--:|--:|", "|---|---|---|", 1) if lines else ""


def _compared(found: Iterable[Compared]) -> str:
    rows = list(found)
    again = any(not math.isnan(one.reading) for one in rows)
    lines = []
    for one in rows:
        numbers = [plus_minus((one.ours, one.spread)), f"{one.paper:.2f}", f"{one.ours - one.paper:+.2f}"]
        if again:
            near = not math.isnan(one.reading)
            numbers += [f"{one.reading:.2f}", f"{one.reading - one.paper:+.2f}"] if near else ["–", "–"]
        lines.append([one.what, *numbers, reason(one)])
    head = ["", "ours", "paper", "difference", *(["authors' reading", "difference"] if again else []), "reason"]
    table = markdown(head, lines)
    return table.replace("--:|\n", "---|\n", 1) if lines else ""


def _time(seconds: float) -> str:
    """Return a duration as text.

    >>> _time(4.2), _time(600.0)
    ('4 s', '10.0 min')
    """
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.1f} min"
