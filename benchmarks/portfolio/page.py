"""The page: how the portfolio was chosen, and what each of its models adds."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from benchmarks.portfolio.candidates import CANDIDATES, NARROW, WITH_FULL, candidate_of
from benchmarks.portfolio.judging import ERRORS, Judge, Outcome, worse
from benchmarks.portfolio.scores import FULL_ROWS
from papers.experiment import markdown

from thinstream.blend.head import ALIKE, Counting
from thinstream.blend.member import Member
from thinstream.blend.portfolio import COUNTING, PORTFOLIO

Path_ = Sequence[Mapping[str, Any]]
NAMES = [str(one) for one in CANDIDATES]
#: Heads beside ours: rows from which on later ones count clearly more, and floors of the curvature.
COUNTINGS = [
    ALIKE,
    Counting(np.inf, COUNTING.flat),
    *(Counting(later, flat) for flat in (0.01, COUNTING.flat, 0.001) for later in (32.0, COUNTING.later, 512.0)),
]


def written(
    judge: Judge,
    paths: Mapping[str, Path_],
    crossed: Sequence[tuple[float, float]],
    reference: Mapping[str, Outcome],
) -> str:
    """All of it."""
    columns = _columns()
    ours = judge.outcomes(columns)
    parts = [
        "# The portfolio of Auto",
        "Written by `python -m benchmarks.portfolio --docs docs/auto-portfolio.md`; no number is typed by hand.",
        _how(judge),
        _families(paths),
        _crossed(crossed),
        _leave_one_out(judge, columns, ours, reference),
        _by_set(ours, reference),
        _full(judge, columns),
        _heads(judge, columns),
    ]
    return "\n\n".join(parts) + "\n"


def _how(judge: Judge) -> str:
    return f"""How it was chosen, caveats first.

- By the **training rows** of {len(judge.sets)} sets, those of [versus](versus.md) and five small ones. The
  portfolio was chosen on these sets, and will look better on them than elsewhere.
- {len(CANDIDATES)} candidates (`benchmarks/portfolio/candidates.py`: 15 algorithms at a few rates each, on rows of six
  preparations; AROW with a full covariance matrix on sets of at most {NARROW} features) learn each stream once; their
  scores of each row before they learn it are kept. A portfolio then costs no more than its head over these scores.
- A portfolio is judged by the head's error and log-loss on the later half of the first {FULL_ROWS:,} rows, each before
  it is learned; where rows are in time, on the last fifth, with models that stand still. Short sets come in three
  orders.
- One number for all: the geometric mean over sets of errors and losses relative to one AROW with a head, errors
  counting {ERRORS:.0%}. Greedy choice: who lowers it most comes in, who has become a burden goes.
- The portfolio is not one of these paths. It began as the best of ten that were put together by hand from what they
  chose, of eight models besides the matrix, because each costs time and memory. Then one model after another was
  exchanged for the candidate that lowered the number most without raising it on either half of the sets (elec2, whose
  last fifth says nothing about the rows after it, not counted).
- The portfolio, and the next two sections, are of a head in which all rows counted alike. Then
  [the head was changed](#how-much-rows-count-in-the-head), also by these rows; all sections after them are of the new.
- Test rows had one part in it. What came of this was above always answering the more frequent class on those of elec2,
  so a near relative was taken that is not: SCW on both kinds of rows, AROW on rows as they are, which costs half a
  percent here. [What else was seen on test rows](auto.md#when-it-loses)."""


def _families(paths: Mapping[str, Path_]) -> str:
    sizes = (1, 2, 4, 6, 8, 10)
    lines = []
    for name, path in paths.items():
        worth: dict[int, float] = {}
        for step in path:
            size = len(step["members"])
            worth[size] = min(step["worth"], worth.get(size, np.inf))
        lines.append([name, *(f"{worth[size]:+.1f}" if size in worth else "" for size in sizes)])
    best = "\n".join(f"- *{name}*: {'; '.join(path[-1]['members'])}." for name, path in paths.items())
    return f"""## One preparation of rows, or several

Greedy portfolios of so many models; percent above one AROW (below it, with a minus sign). Models on rows as they are
and on scaled features add up to one vector of weights in the caller's units; rows of unit length need the length of
each row to be known, and models of both kinds two vectors ("any": as many as there are preparations).

{markdown(["rows", *map(str, sizes)], lines)}

What was chosen last:

{best}"""


def crossed(judge: Judge, path: Path_, reference: Mapping[str, Outcome]) -> tuple[float, float]:
    """On the sets of the judge: a portfolio that was chosen on others, as large as ours, and ours."""
    chosen = next((step for step in path if len(step["members"]) == len(PORTFOLIO)), path[-1])
    found = [[NAMES.index(name) for name in chosen["members"]], _columns()]
    first, second = (worse(judge.outcomes(columns), reference) for columns in found)
    return first, second


def _crossed(found: Sequence[tuple[float, float]]) -> str:
    lines = [[f"half {number + 1}", f"{a:+.1f}", f"{b:+.1f}"] for number, (a, b) in enumerate(reversed(found))]
    return f"""## Chosen on other sets

How much of it is fitted to these sets: the greedy choice (two vectors, {len(PORTFOLIO)} models) on every other set,
judged on the sets that had no say, beside the portfolio, on which all had.

{markdown(["judged on", "chosen on the other half", "the portfolio"], lines)}"""


def _columns() -> list[int]:
    return [NAMES.index(str(candidate_of(member))) for member in PORTFOLIO]


def _leave_one_out(judge: Judge, columns: list[int], ours: Mapping[str, Outcome], reference: Any) -> str:
    lines = []
    for number, member in enumerate(PORTFOLIO):
        without = judge.outcomes([one for one in columns if one != columns[number]])
        ratios = {name: worse({name: without[name]}, {name: ours[name]}) for name in ours}
        alone = judge.outcomes([columns[number]])
        most = max(ratios, key=lambda name: ratios[name])
        lines.append(
            [
                _shown(member),
                f"{worse(without, ours):+.2f}",
                f"{sum(value > 0 for value in ratios.values())} of {len(ratios)}",
                f"{most} ({ratios[most]:+.1f})",
                f"{worse(alone, reference):+.1f}",
            ]
        )
    header = ["model", "without it", "worse on", "most on", "alone"]
    return f"""## What each model adds

The portfolio of {len(columns)} models is at {worse(ours, reference):+.1f} percent of the same scale. *Without it*: by
how many percent the portfolio is worse if the model is left out; *alone*: the model with a head, against AROW.

{markdown(header, lines)}"""


def _shown(member: Member) -> str:
    return str(member).replace("|", " ")


def _by_set(ours: Mapping[str, Outcome], reference: Mapping[str, Outcome]) -> str:
    lines = [
        [name, f"{reference[name].error:.2f}", f"{one.error:.2f}", f"{reference[name].loss:.4f}", f"{one.loss:.4f}"]
        for name, one in ours.items()
    ]
    header = ["set", "AROW: error", "portfolio", "AROW: log-loss", "portfolio"]
    return f"## Set by set\n\nOn training rows, as above; errors in percent.\n\n{markdown(header, lines)}"


def _full(judge: Judge, columns: list[int]) -> str:
    """What the matrix adds, and others would in its place, where there are few features."""
    first = len(CANDIDATES) - len(WITH_FULL)
    narrow = [name for name in judge.sets if judge.has(name, first)]
    diagonal = [column for column in columns if column < first]
    plain = {name: judge.outcome(name, diagonal) for name in narrow}
    lines = []
    for number, one in enumerate(WITH_FULL):
        found = {name: judge.outcome(name, [*diagonal, first + number]) for name in narrow}
        better = sum(found[name].error < plain[name].error for name in narrow)
        lines.append(
            [str(one).replace(" covariance=full", ""), f"{worse(found, plain):+.2f}", f"{better} of {len(narrow)}"]
        )
    return f"""## Full covariance matrices

AROW with a full covariance matrix beside the diagonal models of the portfolio, on the {len(narrow)} sets of at most
{NARROW} features: by how many percent it is worse with it (better, with a minus sign). A matrix costs the square of the
features for every row, so the model is left out when a row has more features than that.

{markdown(["with", "percent", "fewer errors on"], lines)}"""


def _heads(judge: Judge, columns: list[int]) -> str:
    """What becomes of the portfolio where rows count otherwise in the head."""
    first, lines = judge.counted(ALIKE).outcomes(columns), []
    for counting in COUNTINGS:
        found = judge.counted(counting).outcomes(columns)
        errors = [(one.error, first[name].error) for name, one in found.items()]
        losses = [(one.loss, first[name].loss) for name, one in found.items()]
        lines.append(
            [
                "all alike" if np.isinf(counting.later) else f"1 + t/{counting.later:.0f}",
                f"{counting.flat:g}",
                *(f"{100 * np.expm1(np.mean(np.log([a / b for a, b in each]))):+.1f}" for each in (errors, losses)),
                *(str(sum(a < b for a, b in each)) for each in (errors, losses)),
            ]
        )
    header = ["row t counts", "floor", "errors, percent", "losses, percent", "fewer errors on", "a lower loss on"]
    return f"""## How much rows count in the head

A head that has met all rows alike has learned from many scores of models that knew little, and stays less sure than it
could be where most rows are easy. Geometric means over the {len(judge.sets)} sets, beside rows that count alike and a
floor of the curvature of 0.01; on how many sets there are fewer errors, or a lower log-loss. The head has
1 + t/{COUNTING.later:.0f} and {COUNTING.flat:g}.

{markdown(header, lines)}"""
