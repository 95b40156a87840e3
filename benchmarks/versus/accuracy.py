"""What each tool learns: its defaults, tuned, tuned for balanced accuracy, and its sparse models."""

import base64
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from benchmarks.versus.contest import Candidate, Contest, Scores, Tool, balanced_accuracy, error, open_contest
from benchmarks.versus.sets import EARLY, SETS, SHARE, SMOKE_ROWS, TRIAL_ROWS
from benchmarks.versus.tools import TOOLS

Row = dict[str, Any]
SWEPT = ("ssol", "adarda", "ftrl", "l1 logistic")  # what sweeps start from
VERSION = 2  # raise it when what is kept no longer means the same


def state(set_name: str, tool_name: str, scratch: Path, smoke: bool) -> object:
    """What a cell depends on, but for the data and the tools' versions."""
    tool = TOOLS[tool_name]
    return VERSION, SETS[set_name], SHARE, TRIAL_ROWS, EARLY, SMOKE_ROWS if smoke else 0, tool.default, tool.settings


def measured(set_name: str, tool_name: str, scratch: Path, smoke: bool) -> list[Row]:
    """All rows of a tool on a set."""
    contest, tool = open_contest(set_name, scratch / "text", smoke), TOOLS[tool_name]
    if not tool.takes(contest):
        return []
    rows = [finished(contest, tool, tool.default, "defaults")]
    candidates = list(tool.candidates(contest))
    if smoke:  # a few candidates, and as few sparse models
        candidates = [one for k, one in enumerate(candidates) if k % 8 == 0 or one.learner in SWEPT][:6]
    if candidates:
        ranking, row = _tuned(contest, tool, candidates, "tuned")
        rows.append(row)
        if contest.set.text:
            rows += _sparse(contest, tool, ranking, every=6 if smoke else 1)
    weighted = contest._replace(weight=round(float((~contest.y).sum() / contest.y.sum()), 3))
    if contest.set.rare and candidates and tool.takes(weighted):
        rows.append(_tuned(weighted, tool, candidates, "balanced")[1])
    counts = {"rows": len(contest.y), "validation_rows": contest.validation_rows, "test_rows": len(contest.y_test)}
    return [{"set": set_name, "tool": tool_name, **row, **counts} for row in rows]


def _tuned(contest: Contest, tool: Tool, candidates: Sequence[Candidate], column: str) -> tuple[list[Candidate], Row]:
    """The candidates, best first (of equals the one that is listed first), and what became of the best."""
    start = time.process_time()
    trials = tool.trials(contest, candidates)
    seconds = time.process_time() - start
    errors = [contest.validation(scores, balanced=column == "balanced") for scores in trials]
    order = np.argsort(errors, kind="stable")
    best = candidates[order[0]]
    row = finished(contest, tool, best, column)
    found = {"candidates": len(candidates), "validation": errors[order[0]], "tuning_cpu_s": round(seconds, 2)}
    return [candidates[k] for k in order], row | found


def _sparse(contest: Contest, tool: Tool, ranking: Sequence[Candidate], every: int) -> Iterator[Row]:
    sweep = list(tool.sweep(ranking))[::every]
    for one, scores in zip(sweep, tool.trials(contest, sweep), strict=True):
        yield finished(contest, tool, one, "sparse") | {"validation": contest.validation(scores)}


def finished(contest: Contest, tool: Tool, candidate: Candidate, column: str) -> Row:
    """One pass over all rows, and the test."""
    with TemporaryDirectory() as folder:
        out = Path(folder) / "model"
        model = tool.model(contest, candidate, tool.learn(contest, candidate, out))
        size = out.stat().st_size
    row = outcome(contest, str(candidate), column, model.scores, model.nnz)
    return row | {"bytes": size, "plain": candidate.plain()}


def outcome(contest: Contest, candidate: str, column: str, scores: Scores, nnz: int) -> Row:
    """What the test says of a model."""
    return {
        "column": column,
        "candidate": candidate,
        "error": error(scores, contest.y_test),
        "balanced_accuracy": balanced_accuracy(scores, contest.y_test),
        "nnz": int(nnz),
        "wrong": _packed((scores > 0) != contest.y_test),
    }


def _packed(wrong: Any) -> str:
    return f"{len(wrong)}:{base64.b64encode(np.packbits(wrong).tobytes()).decode()}"


def wrong_rows(text: str) -> Any:
    """Which test rows a model got wrong, from what is kept of it.

    >>> wrong_rows(_packed(np.array([True, False, True])))
    array([ True, False,  True])
    """
    count, _, packed = text.partition(":")
    return np.unpackbits(np.frombuffer(base64.b64decode(packed), np.uint8))[: int(count)].astype(bool)
