"""Portfolios by greedy choice: the candidate that helps most is added, and one that has become a burden goes."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from benchmarks.portfolio.judging import Judge, Outcome, worse

#: Below so many members nobody is sent away.
FIRST = 3
#: From the second step on only so many are asked, those that looked best at the one before.
ASKED = 30


class Step(NamedTuple):
    """A portfolio on the way, and by how many percent it is above the reference."""

    columns: list[int]
    worth: float


def greedy(judge: Judge, pool: Sequence[int], steps: int, reference: Mapping[str, Outcome]) -> list[Step]:
    """The portfolios of a greedy choice from a pool, judged on the sets of the judge."""

    def worth(columns: Sequence[int]) -> float:
        return worse(judge.outcomes(columns), reference)

    found: list[Step] = []
    chosen: list[int] = []
    asked = list(pool)
    for _ in range(steps):
        with_one = {one: worth([*chosen, one]) for one in asked if one not in chosen}
        asked = sorted(with_one, key=lambda one: with_one[one])[:ASKED]
        chosen, value = [*chosen, asked[0]], with_one[asked[0]]
        if len(chosen) > FIRST:
            without = {one: worth([other for other in chosen if other != one]) for one in chosen[:-1]}
            burden = min(without, key=lambda one: without[one])
            if without[burden] < value:
                chosen, value = [one for one in chosen if one != burden], without[burden]
        found.append(Step(chosen, value))
    return found
