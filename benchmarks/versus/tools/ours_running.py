"""Running thinstream: all candidates in one pass over the text, as lanes."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.versus.contest import Candidate, Contest, Scores

from thinstream.batch import Batch
from thinstream.data import open_stream
from thinstream.data.labels import Classes
from thinstream.engine.loop import Costs
from thinstream.engine.rows import unit_rows
from thinstream.lanes.lanes import Lanes
from thinstream.lanes.learner import Learner
from thinstream.models.file import write
from thinstream.models.model import Model as Saved
from thinstream.models.model import make_learner


def trials(contest: Contest, candidates: Sequence[Candidate]) -> list[Scores]:
    """Scores of the trial rows by each candidate."""
    groups: dict[Any, list[int]] = {}
    for number, one in enumerate(candidates):
        groups.setdefault((one.learner, one.unit, one.options.get("covariance")), []).append(number)
    runs = [(key, numbers, _lanes(contest, [candidates[k] for k in numbers])) for key, numbers in groups.items()]
    found: list[list[Scores]] = [[] for _ in candidates]
    seen = 0
    for batch in batches(contest, "train"):
        batch = batch.until(min(len(batch), contest.trial_rows - seen))
        units = unit_batch(batch)
        for (_, unit, _), numbers, lanes in runs:
            scores = _pass(lanes, units if unit else batch, contest.cut - seen)
            for column, number in enumerate(numbers):
                found[number].append(scores[:, column])
        seen += len(batch)
        if seen == contest.trial_rows:
            break
    return [np.concatenate(pieces) for pieces in found]


def learned(contest: Contest, candidate: Candidate, rows: int | None = None) -> Learner:
    """One pass, over all rows or the first."""
    options = dict(candidate.options)
    learner = make_learner(
        candidate.learner,
        n_features=0,
        grow=True,
        fit_intercept=options.pop("intercept", False),
        costs=_costs(contest),
        **options,
    )
    for batch in batches(contest, "train", candidate.unit, rows):
        learner.learn(batch, scores=False)
    return learner


def saved(learner: Learner, candidate: Candidate, out: Path) -> Learner:
    """The same learner, written to a file."""
    write(out, Saved(learner, Classes(-1, 1), feature_space={"normalize": "l2"} if candidate.unit else {}), "weights")
    return learner


def scores_of_test(contest: Contest, candidate: Candidate, learner: Learner) -> Scores:
    """Scores of the test rows."""
    return np.concatenate([learner.scores(batch) for batch in batches(contest, "test", candidate.unit)])


def batches(contest: Contest, part: str, unit: bool = False, rows: int | None = None) -> Iterator[Batch]:
    """The rows of a part, or the first of them."""
    left = rows
    for batch in open_stream(str(contest.files(part, False))).batches():
        if left is not None:
            batch = batch.until(min(len(batch), left))
            left -= len(batch)
        yield unit_batch(batch) if unit else batch
        if left == 0:
            return


def unit_batch(batch: Batch) -> Batch:
    """Its rows at length 1."""
    values = np.array(batch.values)
    unit_rows(np.asarray(batch.indptr, dtype=np.int64), values)
    return replace(batch, values=values)


def width(contest: Contest) -> int:
    """Features of the rows to learn from."""
    return max(batch.n_features for batch in batches(contest, "train"))


def _lanes(contest: Contest, candidates: Sequence[Candidate]) -> Lanes:
    options = [{key: value for key, value in one.options.items() if key != "intercept"} for one in candidates]
    return Lanes(
        candidates[0].learner,
        options,
        grow=True,
        fit_intercept=[one.options.get("intercept", False) for one in candidates],
        costs=[_costs(contest)] * len(candidates),
    )


def _costs(contest: Contest) -> Costs:
    return Costs(balanced=True) if contest.weight else Costs()


def _pass(lanes: Lanes, batch: Batch, cut: int) -> Scores:
    """Scores before learning; rows from the cut on are not learned."""
    if cut >= len(batch):
        return lanes.learn(batch)
    if cut <= 0:
        return lanes.scores(batch)
    return np.concatenate([lanes.learn(batch.until(cut)), lanes.scores(batch.after(cut))])
