"""The command: ``python -m benchmarks.portfolio [--scratch build/portfolio] [--docs docs/auto-portfolio.md]``."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.portfolio import page
from benchmarks.portfolio.candidates import CANDIDATES, FAMILIES, WITH_FULL, candidate_of
from benchmarks.portfolio.judging import Judge
from benchmarks.portfolio.scores import Kept, Stream, kept, streams
from benchmarks.portfolio.selecting import greedy
from benchmarks.versus.cells import kept as kept_cell

from thinstream.models.blend import PORTFOLIO
from thinstream.models.head import ALIKE

VERSION = 2  # raise it when what is kept no longer means the same
STEPS = 10
#: What all are compared with: one AROW as it comes.
REFERENCE = "arow r=1.0, plain"
#: The family that the portfolio is of.
OURS = "both: two vectors"


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser("python -m benchmarks.portfolio", description="Which models Auto should blend.")
    parser.add_argument("--scratch", type=Path, default=Path("build/portfolio"), help="for what is computed once")
    parser.add_argument("--docs", type=Path, help="writes the page (default: prints it)")
    parser.add_argument("--families", default=",".join(FAMILIES), help="which are searched (default: all)")
    parser.add_argument(
        "--members", action="store_true", help="only the sections on the members, in a page that exists"
    )
    options = parser.parse_args(arguments)
    if options.members:
        judge = _members(options.scratch)
        before = options.docs.read_text(encoding="utf-8").partition(page.MEMBERS)[0]
        options.docs.write_text(before + page.members(judge, reference(judge)), encoding="utf-8")
        return
    scores = {stream: kept(options.scratch, stream) for stream in streams()}
    judge = Judge(scores)
    paths = {
        name: _path(options.scratch, judge.counted(ALIKE), name)
        for name in FAMILIES
        if name in options.families.split(",")
    }
    halves = [Judge({stream: scores[stream] for stream in half}, ALIKE) for half in _halves(scores, judge.sets)]
    found = [_path(options.scratch, half, OURS, f" half {number}") for number, half in enumerate(halves)]
    crossed = [page.crossed(other, mine, reference(other)) for mine, other in zip(found, reversed(halves), strict=True)]
    text = page.written(judge, paths, crossed, reference(judge))
    if options.docs:
        options.docs.write_text(text, encoding="utf-8")
    else:
        print(text)


def _members(scratch: Path) -> Judge:
    """Score the members of the portfolio, the reference and full covariances only."""
    members = [candidate_of(member) for member in PORTFOLIO]
    diagonal = [one for one in CANDIDATES if (one in members or str(one) == REFERENCE) and one not in WITH_FULL]
    scores = {stream: kept(scratch / "members", stream, diagonal) for stream in streams()}
    return Judge(scores, candidates=[*diagonal, *WITH_FULL])


def reference(judge: Judge) -> Any:
    """Outcomes of the reference."""
    return judge.outcomes(judge.columns([REFERENCE]))


def _halves(scores: dict[Stream, Kept], sets: Sequence[str]) -> list[list[Stream]]:
    """Every other set, so that kinds of sets, which follow each other, are in both."""
    return [[stream for stream in scores if sets.index(stream.set) % 2 == number] for number in range(2)]


def _path(scratch: Path, judge: Judge, family: str, part: str = "") -> list[dict[str, Any]]:
    """The greedy portfolios of a family, kept once they are found."""
    names = [str(one) for one in CANDIDATES]
    pool = [k for k, one in enumerate(CANDIDATES) if one.preparation in FAMILIES[family]]

    def work() -> list[dict[str, Any]]:
        steps = greedy(judge, pool, STEPS, reference(judge))
        return [{"members": [names[k] for k in step.columns], "worth": step.worth} for step in steps]

    state = VERSION, STEPS, REFERENCE, [names[k] for k in pool]
    found = kept_cell(scratch / "paths", family + part, state, work)
    print(f"{family}{part}: {found[-1]['worth']:.2f}", flush=True)
    return found


if __name__ == "__main__":
    main()
