"""thinstream: all candidates in one pass over the text, as lanes."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.versus.contest import Candidate, Contest, Model, Scores

from thinstream.batch import Batch
from thinstream.engine.loop import Costs
from thinstream.lanes import Lanes
from thinstream.learners import Classes, Learner
from thinstream.learners.making import make_learner
from thinstream.models.file import write
from thinstream.models.model import Model as Saved
from thinstream.streams import open_stream
from thinstream.streams.normalise import unit_rows

ADAPTIVE = {"delta": 0.001, "loss": "logistic", "intercept": True}
SHORT = {"delta": 0.1, "loss": "logistic", "intercept": True}
WIDE = [
    Candidate("arow", {"r": 1.0}),
    Candidate("arow", {"r": 10.0, "intercept": True}),
    Candidate("arow", {"r": 0.1}, unit=True),
    Candidate("arow", {"r": 0.1, "intercept": True}, unit=True),
    Candidate("arow", {"r": 1.0, "intercept": True}, unit=True),
    Candidate("narow", {"b": 20.0, "intercept": True}, unit=True),
    Candidate("cw", {"intercept": True}),
    Candidate("scw", {"C": 1.0, "intercept": True}),
    Candidate("scw", {"C": 1.0}, unit=True),
    Candidate("scw", {"C": 10.0, "variant": "II", "intercept": True}, unit=True),
    Candidate("pa", {"C": 1.0}, unit=True),
    Candidate("arcsogd", {"eta": 0.3, "gamma": 10.0, "intercept": True}),
    Candidate("arcsogd", {"eta": 3.0, "gamma": 1.0}, unit=True),
    Candidate("ssol", {"eta": 1.0, "r": 0.1, "update_on": "loss"}, unit=True),
    Candidate("adarda", {"eta": 0.02, **ADAPTIVE}),
    Candidate("adarda", {"eta": 0.1, **ADAPTIVE}),
    Candidate("adarda", {"eta": 0.5, **ADAPTIVE}),
    Candidate("adarda", {"eta": 0.5, **ADAPTIVE}, unit=True),
    Candidate("adarda", {"eta": 2.0, **ADAPTIVE}, unit=True),
    Candidate("adafobos", {"eta": 0.02, **ADAPTIVE}),
    Candidate("adafobos", {"eta": 0.5, **SHORT}),
    Candidate("adafobos", {"eta": 0.5, **ADAPTIVE}, unit=True),
    Candidate("adafobos", {"eta": 2.0, **ADAPTIVE}, unit=True),
    Candidate("adafobos", {"eta": 2.0, **SHORT}, unit=True),
]
FULL = {"covariance": "full", "intercept": True}
NARROW = [
    *(Candidate("arow", {"r": r, "intercept": True}) for r in (0.01, 0.1, 1.0, 10.0)),
    Candidate("arow", {"r": 0.1, "intercept": True}, unit=True),
    Candidate("arow", {"r": 1.0, **FULL}),
    Candidate("arow", {"r": 0.1, **FULL}, unit=True),
    *(Candidate("scw", {"C": C, "intercept": True}, unit) for C in (0.1, 1.0, 10.0) for unit in (False, True)),
    *(Candidate("scw", {"C": 1.0, **FULL}, unit) for unit in (False, True)),
    *(Candidate("arcsogd", {"eta": e, "gamma": 10.0, "intercept": True}) for e in (0.1, 1.0, 3.0)),
    *(Candidate("arcsogd", {"eta": e, "gamma": 10.0, "intercept": True}, unit=True) for e in (1.0, 3.0)),
    *(Candidate("adafobos", {"eta": e, **ADAPTIVE}) for e in (0.02, 0.1, 2.0)),
    Candidate("adafobos", {"eta": 0.5, **ADAPTIVE}, unit=True),
]
NARROW_WIDTH = 1000  # a full covariance matrix costs the square of it


class Thinstream:
    """Ours."""

    name, package, one_pass = "thinstream", "thinstream", True
    default = Candidate("arow", {})

    def missing(self) -> str:
        """Never."""
        return ""

    def takes(self, contest: Contest) -> bool:
        """All."""
        return True

    def candidates(self, contest: Contest) -> Sequence[Candidate]:
        """24; full covariance matrices only where there are few features."""
        return NARROW if not contest.set.text and _width(contest) <= NARROW_WIDTH else WIDE

    def sweep(self, ranking: Sequence[Candidate]) -> Sequence[Candidate]:
        """l1 for the best AdaRDA and for SSOL."""
        adarda = next(one for one in ranking if one.learner == "adarda")
        ssol = next(one for one in ranking if one.learner == "ssol")
        return [
            *(adarda._replace(options={**adarda.options, "l1": _three(l1)}) for l1 in np.geomspace(1e-6, 1e-2, 12)),
            *(ssol._replace(options={**ssol.options, "l1": _three(l1)}) for l1 in np.geomspace(1, 3e4, 12)),
        ]

    def trials(self, contest: Contest, candidates: Sequence[Candidate]) -> list[Scores]:
        """All in one pass: candidates of an algorithm are lanes, and the algorithms take turns with each batch."""
        groups: dict[Any, list[int]] = {}
        for number, one in enumerate(candidates):
            groups.setdefault((one.learner, one.unit, one.options.get("covariance")), []).append(number)
        runs = [
            (key, numbers, self._lanes(contest, [candidates[k] for k in numbers])) for key, numbers in groups.items()
        ]
        found: list[list[Scores]] = [[] for _ in candidates]
        seen = 0
        for batch in _batches(contest, "train"):
            batch = batch.until(min(len(batch), contest.trial_rows - seen))
            units = _unit(batch)
            for (_, unit, _), numbers, lanes in runs:
                scores = _pass(lanes, units if unit else batch, contest.cut - seen)
                for column, number in enumerate(numbers):
                    found[number].append(scores[:, column])
            seen += len(batch)
            if seen == contest.trial_rows:
                break
        return [np.concatenate(pieces) for pieces in found]

    def learn(self, contest: Contest, candidate: Candidate, out: Path) -> Learner:
        """One pass."""
        options = dict(candidate.options)
        learner = make_learner(
            candidate.learner,
            n_features=0,
            grow=True,
            fit_intercept=options.pop("intercept", False),
            costs=_costs(contest),
            **options,
        )
        for batch in _batches(contest, "train"):
            learner.learn(_unit(batch) if candidate.unit else batch, scores=False)
        write(out, Saved(learner, Classes(-1, 1), space={"normalize": "l2"} if candidate.unit else {}), "weights")
        return learner

    def model(self, contest: Contest, candidate: Candidate, learned: Learner) -> Model:
        """Test scores and size."""
        batches = _batches(contest, "test")
        scores = [learned.scores(_unit(batch) if candidate.unit else batch) for batch in batches]
        return Model(np.concatenate(scores), learned.nnz)

    @staticmethod
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


def _batches(contest: Contest, part: str) -> Iterator[Batch]:
    return iter(open_stream(str(contest.files(part, False))).batches())


def _unit(batch: Batch) -> Batch:
    values = np.array(batch.values)
    unit_rows(np.asarray(batch.indptr, dtype=np.int64), values)
    return replace(batch, values=values)


def _pass(lanes: Lanes, batch: Batch, cut: int) -> Scores:
    """Scores before learning; rows from the cut on are not learned."""
    if cut >= len(batch):
        return lanes.learn(batch)
    if cut <= 0:
        return lanes.scores(batch)
    return np.concatenate([lanes.learn(batch.until(cut)), lanes.scores(batch.after(cut))])


def _width(contest: Contest) -> int:
    return max(batch.n_features for batch in _batches(contest, "train"))


def _three(value: float) -> float:
    return float(f"{value:.3g}")
