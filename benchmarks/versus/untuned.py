"""Auto: its portfolio as it comes, one pass, nothing tuned; and each of its logistic models alone, for the log-loss."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from benchmarks.versus.accuracy import outcome
from benchmarks.versus.contest import Contest, Scores, open_contest
from benchmarks.versus.judging import OURS
from benchmarks.versus.tools import ours_running
from numpy.typing import NDArray

from thinstream.blend.member import Member
from thinstream.blend.portfolio import PORTFOLIO
from thinstream.learners import Classes, find
from thinstream.learners.registry import described_by, make_learner
from thinstream.models.file import write
from thinstream.models.model import Model as Saved
from thinstream.preparing import Preparation, prepared

Row = dict[str, Any]
VERSION = 2  # raise it when what is kept no longer means the same


def state(set_name: str, tool_name: str, scratch: Path, smoke: bool) -> object:
    """What a cell depends on."""
    return VERSION, set_name, smoke, [str(member) for member in PORTFOLIO]


def measured(set_name: str, tool_name: str, scratch: Path, smoke: bool) -> list[Row]:
    """What the test says of Auto, and the log-loss of the best of its logistic models."""
    contest = open_contest(set_name, scratch / "text", smoke)
    model = _learned(contest, make_learner("auto", n_features=0, grow=True, fit_intercept=True))
    with TemporaryDirectory() as folder:
        out = Path(folder) / "model"
        write(out, Saved(model, Classes(-1, 1)), "weights")
        size = out.stat().st_size
    scores = _test_scores(contest, model)
    alone = {
        str(member): log_loss(_alone(contest, member), contest.y_test) for member in PORTFOLIO if _logistic(member)
    }
    best = min(alone, key=lambda name: alone[name])
    row = outcome(contest, "auto", "auto", scores, model.nnz) | {"bytes": size}
    found = {"log_loss": log_loss(scores, contest.y_test), "lane": best, "lane_log_loss": alone[best]}
    return [{"set": set_name, "tool": OURS, **row, **found, "rows": len(contest.y), "test_rows": len(contest.y_test)}]


def log_loss(scores: Scores, y: NDArray[np.bool_]) -> float:
    """The mean of the logarithmic loss, of scores that are log-odds.

    >>> round(log_loss(np.array([0.0, 2.0]), np.array([True, True])), 3)
    0.41
    """
    z = np.asarray(scores, np.float64)
    return float(np.logaddexp(0.0, np.where(y, -z, z)).mean())


def _logistic(member: Member) -> bool:
    return described_by(find(member.algorithm), member.parameters).get("loss") == "logistic"


def _alone(contest: Contest, member: Member) -> Scores:
    plain = make_learner(member.algorithm, n_features=0, grow=True, fit_intercept=True, **member.parameters)
    return _test_scores(contest, _learned(contest, prepared(plain, Preparation(member.scale, member.normalize))))


def _learned(contest: Contest, model: Any) -> Any:
    for batch in ours_running.batches(contest, "train"):
        model.learn(batch, scores=False)
    return model


def _test_scores(contest: Contest, model: Any) -> Scores:
    return np.concatenate([model.scores(batch) for batch in ours_running.batches(contest, "test")])
