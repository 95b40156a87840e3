"""LIBSOL, if its commands are on the path. Never run here: it was not at hand, and this is as its manual has it."""

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from benchmarks.versus.contest import Candidate, Contest, Model, Scores


class Sol:
    """Its defaults only; never run here."""

    name, package, one_pass = "LIBSOL", "", True
    default = Candidate("arow", {})
    settings = ()

    def missing(self) -> str:
        """If its commands are not on the path."""
        return "" if shutil.which("sol_train") and shutil.which("sol_test") else "sol_train is not on the path"

    def takes(self, contest: Contest) -> bool:
        """All, without weights."""
        return not contest.weight

    def candidates(self, contest: Contest) -> Sequence[Candidate]:
        """None: its trials give no scores."""
        return []

    def sweep(self, ranking: Sequence[Candidate]) -> Sequence[Candidate]:
        """None."""
        return []

    def trials(self, contest: Contest, candidates: Sequence[Candidate]) -> list[Scores]:
        """None."""
        return []

    def learn(self, contest: Contest, candidate: Candidate, out: Path) -> Path:
        """One pass."""
        train = contest.files("train", candidate.unit)
        subprocess.run(["sol_train", "-a", candidate.learner, str(train), str(out)], check=True, capture_output=True)
        return out

    def model(self, contest: Contest, candidate: Candidate, learned: Path) -> Model:
        """Its predictions; non-zeros are not told."""
        test, out = contest.files("test", candidate.unit), contest.files.folder / "sol.predictions"
        subprocess.run(["sol_test", str(learned), str(test), str(out)], check=True, capture_output=True)
        said = [line.split()[-1] for line in out.read_text().splitlines() if line]
        return Model(np.array(said, dtype=float), 0)
