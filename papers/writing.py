"""Pages: one for each experiment, and the summary of all. They are made of kept results and of nothing else."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from papers.experiment import Claim, Compared, Experiment, markdown
from papers.keeping import Result, kept
from papers.presenting import plus_minus
from thinstream.files import replacing
from thinstream.plotting import matplotlib

#: From this difference on, in the paper's unit, the summary gives a reason.
CLOSE = 1.0
INTRODUCTION = """# Reproduction of the papers' experiments

`python -m papers` writes this page; no number in it is typed by hand. Each experiment has a separate page with
all its tables, and its rows as CSV. Differences are our number minus the paper's, in the paper's unit. {time}

To run the experiments, clone the repository and install it with `pip install -e '.[plot]'`. In its root folder,
`python -m papers` lists them, `python -m papers p0-fig2` runs one, and `make reproduce` runs all of them.
`python -m papers --help` shows the options. If a run stops, repeat the command to resume it.
"""


def write_page(experiment: Experiment, result: Result, folder: Path) -> None:
    """NAME.md with all tables and NAME.png."""
    figure = matplotlib().figure.Figure(layout="constrained")
    experiment.draw(result.rows, figure)
    with replacing(folder / f"{experiment.name}.png") as file:
        figure.savefig(file, dpi=110, format="png", metadata={"Software": None})
    write_text(experiment, result, folder)


def write_text(experiment: Experiment, result: Result, folder: Path) -> None:
    """NAME.md alone."""
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
    """The page of all experiments that are kept in a folder, beside the folder."""
    page = folder.with_name(f"{folder.name}.md")
    results = {experiment.name: kept(folder, experiment.name) for experiment in experiments}
    once = [experiment.name for experiment in experiments if experiment.cells_of not in results]
    seconds = sum(result.seconds for name, result in results.items() if result and name in once)
    done = sum(result is not None for result in results.values())
    time = f"{done} of {len(results)} have been run, which took {_time(seconds)} of one core."
    parts = [INTRODUCTION.format(time=time).strip()]
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
    lines = []
    for one in found:
        difference = one.ours - one.paper
        why = one.why if abs(difference) > CLOSE else ""
        lines.append([one.what, plus_minus((one.ours, one.spread)), f"{one.paper:.2f}", f"{difference:+.2f}", why])
    table = markdown(["", "ours", "paper", "difference", "why"], lines)
    return table.replace("--:|\n", "---|\n", 1) if lines else ""


def _time(seconds: float) -> str:
    """A duration in words.

    >>> _time(4.2), _time(600.0)
    ('4 s', '10.0 min')
    """
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.1f} min"
