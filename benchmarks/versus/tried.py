"""What was tried after the test errors were known, on every set: more candidates, means of models, fewer features.

What is chosen is chosen by training rows. None of it enters the first tables.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.versus.accuracy import outcome
from benchmarks.versus.cells import gathered
from benchmarks.versus.contest import Candidate, Contest, Scores, error, open_contest
from benchmarks.versus.judging import OURS, TENTH, best_peer
from benchmarks.versus.tools import TOOLS, ours, ours_more

Row = dict[str, Any]
VERSION = 1  # raise it when what is kept no longer means the same
FIVE = 5
HELD_OUT = 0.2  # of the training rows, to choose how to prune
GAUSSIAN = ("arow", "narow", "scw", "cw")


def state(set_name: str, tool_name: str, scratch: Path, smoke: bool) -> object:
    """What a cell depends on."""
    more = ours_more.MORE_WIDE, ours_more.MORE_NARROW, ours_more.MORE_L1, ours_more.SLOW_SSOL, ours_more.FSOL
    return VERSION, set_name, ours.Thinstream.settings, more, _allowed(set_name, scratch, smoke)


def measured(set_name: str, tool_name: str, scratch: Path, smoke: bool) -> list[Row]:
    """All rows of a set."""
    contest, tool = open_contest(set_name, scratch / "text", smoke), TOOLS[OURS]
    first = list(tool.candidates(contest))
    more = ours_more.MORE_NARROW if ours.is_narrow(contest) else ours_more.MORE_WIDE
    trials = tool.trials(contest, [*first, *more])
    errors = [contest.validation(scores) for scores in trials]
    both = [*first, *more]
    ranked, all_ranked = _ranked(errors[: len(first)]), _ranked(errors)
    best = both[all_ranked[0]]
    tested = Tested(contest)
    rows = [tested.single(best, "tried 48") | {"validation": errors[all_ranked[0]], "candidates": len(both)}]
    for column, order in (("tried mean of 24", ranked), ("tried mean of 48", all_ranked)):
        rows.append(tested.mean(column, [(both[k], trials[k]) for k in order]))
    if contest.set.text:
        ranking = [first[k] for k in ranked]
        sweep = ours_more.more_sparse(ranking)[:: 6 if smoke else 1]
        for one, scores in zip(sweep, tool.trials(contest, sweep), strict=True):
            rows.append(tested.single(one, "tried sparse") | {"validation": contest.validation(scores)})
        allowed = _allowed(set_name, scratch, smoke)
        if allowed:
            dense = next(one for one in ranking if one.learner in GAUSSIAN)
            rows.append(_pruned(contest, dense, allowed))
    counts = {"rows": len(contest.y), "validation_rows": contest.validation_rows, "test_rows": len(contest.y_test)}
    return [{"set": set_name, "tool": OURS, **row, **counts} for row in rows]


def _ranked(errors: Sequence[float]) -> list[int]:
    return [int(k) for k in np.argsort(errors, kind="stable")]


def _allowed(set_name: str, scratch: Path, smoke: bool) -> int:
    """A tenth of the best peer's non-zeros."""
    peer = best_peer(gathered(scratch / ("smoke" if smoke else "cells")).get("accuracy", []), set_name)
    return int(TENTH * peer["nnz"]) if peer else 0


class Tested:
    """Models after one pass over all rows, each learned once, and what the test says of them."""

    def __init__(self, contest: Contest) -> None:
        self.contest = contest
        self._done: dict[str, tuple[Scores, Scores]] = {}

    def single(self, candidate: Candidate, column: str) -> Row:
        """Of one."""
        scores, weights = self._model(candidate)
        return outcome(self.contest, str(candidate), column, scores, np.count_nonzero(weights))

    def mean(self, column: str, ranked: Sequence[tuple[Candidate, Scores]]) -> Row:
        """Of the mean of the five best whose rows are as the best one's, each divided by its mean |score|.

        A mean of linear models is one again, but not if some want rows of unit length and some do not.
        """
        five = [pair for pair in ranked if pair[0].unit == ranked[0][0].unit][:FIVE]
        first = self.contest.trial_rows - self.contest.validation_rows
        scales = np.array([scale(trial[first:]) for _, trial in five])
        models = [self._model(one) for one, _ in five]
        trial, scores, weights = (
            scales @ np.array(parts, np.float64)
            for parts in ([trial for _, trial in five], [model[0] for model in models], [model[1] for model in models])
        )
        names = " + ".join(str(one) for one, _ in five)
        return outcome(self.contest, names, column, scores, np.count_nonzero(weights)) | {
            "validation": self.contest.validation(trial),
            "candidates": len(ranked),
        }

    def _model(self, candidate: Candidate) -> tuple[Scores, Scores]:
        """Its test scores and weights."""
        from benchmarks.versus.tools import ours_running

        key = candidate.plain()
        if key not in self._done:
            learner = ours_running.learned(self.contest, candidate)
            scores = ours_running.scores_of_test(self.contest, candidate, learner)
            self._done[key] = scores, learner.weights()
        return self._done[key]


def scale(scores: Scores) -> float:
    """What makes the mean |score| 1; 0 for a model that says nothing.

    >>> scale(np.array([1.0, -3.0])), scale(np.zeros(2))
    (0.5, 0.0)
    """
    mean = float(np.abs(scores).mean())
    return 1 / mean if mean else 0.0


def _pruned(contest: Contest, candidate: Candidate, allowed: int) -> Row:
    """The best Gaussian learner's most important features; a fifth of the rows decides what is important."""
    cut = round((1 - HELD_OUT) * len(contest.y))
    part, y = _importances(contest, candidate, cut), contest.y[cut:]
    errors = {}
    for kind, importance in part.importance.items():
        scores = _linear(contest, "train", candidate, pruned(part.weights, importance, allowed), part.intercept)[cut:]
        errors[kind] = error(scores, y)
    kind = min(errors, key=lambda kind: errors[kind])
    whole = _importances(contest, candidate, len(contest.y))
    weights = pruned(whole.weights, whole.importance[kind], allowed)
    scores = _linear(contest, "test", candidate, weights, whole.intercept)
    row = outcome(contest, f"{candidate}, {kind}", "tried pruned", scores, np.count_nonzero(weights))
    return row | {"validation": errors[kind]}


class _Weights:
    """A model's weights, and how important each is."""

    def __init__(self, weights: Scores, intercept: float, squares: Scores, variance: Scores) -> None:
        self.weights, self.intercept = weights, intercept
        size = np.abs(weights)
        self.importance = {"|μ|·√Σx²": size * np.sqrt(squares), "|μ|/σ": size / np.sqrt(np.maximum(variance, 1e-30))}


def _importances(contest: Contest, candidate: Candidate, rows: int) -> _Weights:
    from benchmarks.versus.tools import ours_running

    learner = ours_running.learned(contest, candidate, rows)
    squares = np.zeros(learner.n_features)
    for batch in ours_running.batches(contest, "train", candidate.unit, rows):
        found = np.bincount(batch.indices, np.asarray(batch.values, np.float64) ** 2)
        squares[: len(found)] += found
    weights = np.asarray(learner.weights(), np.float64)
    return _Weights(weights, learner.intercept, squares, np.asarray(learner.variance(), np.float64))


def pruned(weights: Scores, importance: Scores, count: int) -> Scores:
    """The weights of the most important features, the others 0; of equals the first.

    >>> pruned(np.array([3.0, -1.0, 2.0]), np.array([0.5, 2.0, 1.0]), 2)
    array([ 0., -1.,  2.])
    """
    kept = np.argsort(-importance, kind="stable")[:count]
    result = np.zeros_like(weights)
    result[kept] = weights[kept]
    return result


def _linear(contest: Contest, part: str, candidate: Candidate, weights: Scores, intercept: float) -> Scores:
    """Scores of a part by weights alone; features they do not know count nothing."""
    from benchmarks.versus.tools import ours_running
    from scipy.sparse import csr_matrix

    found = []
    for batch in ours_running.batches(contest, part, candidate.unit):
        width = max(batch.n_features, len(weights))
        X = csr_matrix((batch.values, batch.indices, batch.indptr), (len(batch), width))
        found.append(X @ np.pad(weights, (0, width - len(weights))) + intercept)
    return np.concatenate(found)
