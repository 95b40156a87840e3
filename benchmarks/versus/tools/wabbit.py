"""Vowpal Wabbit, through its Python package; it reads its own text format and keeps its own cache between trials."""

import re
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from benchmarks.versus.contest import Candidate, Contest, Model, Scores

WEIGHT = re.compile(r"^\d+:(\S+)", re.MULTILINE)  # in a readable model
BITS = {"-b": 20}  # room for every feature without collisions; 18 is the default
LOGISTIC = {"--loss_function": "logistic"}
HINGE = {"--loss_function": "hinge"}
BOTH = (False, True)
CANDIDATES = [
    *(Candidate("gd", {**LOGISTIC, "-l": rate}, unit) for unit in BOTH for rate in (0.5, 0.1, 2.0, 8.0)),
    *(Candidate("gd", {**HINGE, "-l": rate}, unit) for unit in BOTH for rate in (0.5, 2.0, 8.0)),
    *(Candidate("ftrl", {**LOGISTIC, "--ftrl_alpha": alpha}) for alpha in (0.05, 0.5, 5.0)),
    *(Candidate("ftrl", {**LOGISTIC, "--ftrl_alpha": alpha}, unit=True) for alpha in (0.5, 5.0)),
    *(Candidate(learner, dict(LOGISTIC), unit) for learner in ("coin", "pistol") for unit in BOTH),
    Candidate("sgd", {**LOGISTIC, "-l": 0.1, "--power_t": 0}),
]
L1 = {"gd": (1e-8, 1e-3, 12), "ftrl": (1e-3, 30.0, 12)}  # from, to, how many


class Wabbit:
    """Gradient descent with its three adaptations, FTRL, and learners without a rate."""

    name, package, one_pass = "Vowpal Wabbit", "vowpalwabbit", True
    default = Candidate("gd", {})
    settings = (CANDIDATES, BITS, L1)

    def missing(self) -> str:
        """If the package is not installed."""
        return "" if find_spec("vowpalwabbit") else "pip install vowpalwabbit"

    def takes(self, contest: Contest) -> bool:
        """All."""
        return True

    def candidates(self, contest: Contest) -> Sequence[Candidate]:
        """24."""
        return CANDIDATES

    def sweep(self, ranking: Sequence[Candidate]) -> Sequence[Candidate]:
        """--l1 for the best gradient descent and the best FTRL."""
        best = [next(one for one in ranking if one.learner == name) for name in L1]
        return [
            one._replace(options={**one.options, "--l1": float(f"{l1:.3g}")})
            for one in best
            for l1 in np.geomspace(*L1[one.learner])
        ]

    def trials(self, contest: Contest, candidates: Sequence[Candidate]) -> list[Scores]:
        """One run after the other, from the cache but for the first."""
        return [self._trial(contest, one) for one in candidates]

    def _trial(self, contest: Contest, candidate: Candidate) -> Scores:
        text, out = _text(contest, "trial", candidate.unit), contest.files.folder / "trial.predictions"
        _run("-d", text, "--cache_file", text.with_suffix(".cache"), "-p", out, *_arguments(candidate))
        return _numbers(out)

    def learn(self, contest: Contest, candidate: Candidate, out: Path) -> Path:
        """One pass over the text; the model is without what only further learning needs."""
        text = _text(contest, "train", candidate.unit)
        _run("-d", text, "-f", out, "--predict_only_model", *_arguments(candidate))
        return out

    def model(self, contest: Contest, candidate: Candidate, learned: Path) -> Model:
        """Test scores, and non-zeros as the readable model has them."""
        out, readable = contest.files.folder / "test.predictions", contest.files.folder / "readable"
        test = contest.files("test", candidate.unit, "vw")
        _run("-t", "-i", learned, "-d", test, "-p", out, "--readable_model", readable)
        weights = WEIGHT.findall(readable.read_text())
        return Model(_numbers(out), sum(float(weight) != 0 for weight in weights))


def _arguments(candidate: Candidate) -> list[object]:
    """As its command line takes them; the default is given none at all."""
    if candidate == Wabbit.default:
        return []
    learner = [] if candidate.learner == "gd" else [f"--{candidate.learner}"]
    return [*learner, *(part for pair in (BITS | candidate.options).items() for part in pair)]


def _run(*arguments: object) -> None:
    import vowpalwabbit

    vowpalwabbit.Workspace(arg_list=["--quiet", *map(str, arguments)]).finish()


def _text(contest: Contest, part: str, unit: bool) -> Path:
    """The file of a part; with the weight of positives, if they have one."""
    plain = contest.files(part, unit, "vw")
    if not contest.weight:
        return plain
    weighted = plain.with_name(f"weighted.{plain.name}")
    if not weighted.exists():
        text = (b"\n" + plain.read_bytes()).replace(b"\n+1 |", b"\n+1 %g |" % contest.weight)
        weighted.write_bytes(text[1:])
    return weighted


def _numbers(path: Path) -> Scores:
    return np.array(path.read_bytes().split(), dtype=float)
