"""Auto with default parameters in one pass, each of its logistic members alone, and the best tuned peer once more."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from benchmarks.pages import digest
from benchmarks.versus.accuracy import finished, outcome
from benchmarks.versus.contest import Candidate, Contest, Scores, open_contest
from benchmarks.versus.judging import AUTO_PEER, OURS, best_peer
from benchmarks.versus.keeping import load
from benchmarks.versus.tools import TOOLS, ours_running
from numpy.typing import NDArray

from thinstream.algorithms.auto import Member
from thinstream.algorithms.registry import described_by, find
from thinstream.batch import Batch
from thinstream.data.labels import Classes
from thinstream.models.blend import FEW_FEATURES, INTERACTIONS, PORTFOLIO
from thinstream.models.file import write
from thinstream.models.model import Model as Saved
from thinstream.models.model import make_learner
from thinstream.models.pipeline import Pipeline
from thinstream.models.preparation import Preparation
from thinstream.models.products import expanded
from thinstream.models.slots import FewFeatures

Row = dict[str, Any]
VERSION = 3  # raise it when what is kept no longer means the same
#: The results that name the best tuned peer of each set.
TABLE = Path("docs/versus.csv")


def state(set_name: str, tool_name: str, scratch: Path, smoke: bool) -> object:
    """What a cell depends on."""
    return VERSION, set_name, smoke, [str(member) for member in (*PORTFOLIO, *INTERACTIONS)]


def measured(set_name: str, tool_name: str, scratch: Path, smoke: bool) -> list[Row]:
    """Return the test results of Auto, the log-loss of its best logistic member, and the results of the best peer."""
    contest = open_contest(set_name, scratch / "text", smoke)
    model = _learned(contest, make_learner("auto", n_features=0, grow=True, fit_intercept=True))
    with TemporaryDirectory() as folder:
        out = Path(folder) / "model"
        write(out, Saved(model, Classes(-1, 1)), "weights")
        size = out.stat().st_size
    scores = _test_scores(contest, model)
    members = [*PORTFOLIO, *(INTERACTIONS if model.products is not None else ())]
    alone = {str(member): log_loss(_alone(contest, member), contest.y_test) for member in members if _logistic(member)}
    best = min(alone, key=lambda name: alone[name])
    row = outcome(contest, "auto", "auto", scores, model.nnz) | {"bytes": size}
    found = {"log_loss": log_loss(scores, contest.y_test), "lane": best, "lane_log_loss": alone[best]}
    counts = {"rows": len(contest.y), "test_rows": len(contest.y_test)}
    peers = [] if smoke else _best_peer(contest)
    ours = {"tool": OURS, **row, **found, "code": digest("Auto")}
    return [{"set": set_name, **each, **counts} for each in [ours, *peers]]


def _best_peer(contest: Contest) -> list[Row]:
    """Train the best tuned peer once more. Its test rows are compared with those of Auto one by one."""
    peer = best_peer(load(TABLE), contest.set.name)
    if peer is None:
        return []
    tool = TOOLS[peer["tool"]]
    return [{"tool": tool.name, **finished(contest, tool, Candidate.of(peer["plain"]), AUTO_PEER)}]


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
    model = Pipeline.of(plain, Preparation(member.scale, member.normalize))
    few = FewFeatures(FEW_FEATURES) if member.products else None
    return _test_scores(contest, _learned(contest, model, few), few)


def _learned(contest: Contest, model: Any, few: FewFeatures | None = None) -> Any:
    for batch in _batches(contest, "train", few):
        model.learn(batch, scores=False)
    return model


def _test_scores(contest: Contest, model: Any, few: FewFeatures | None = None) -> Scores:
    return np.concatenate([model.scores(batch) for batch in _batches(contest, "test", few)])


def _batches(contest: Contest, part: str, few: FewFeatures | None) -> Iterator[Batch]:
    """The rows of a part, with the products of few features."""
    for batch in ours_running.batches(contest, part):
        if few is not None and part == "train":
            few.admit(batch, few.most)
        yield batch if few is None else expanded(batch, few, np.dtype(np.float32))
