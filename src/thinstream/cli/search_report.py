"""How the candidates of a search did: as a table, CSV, JSON, and the command that trains the best."""

import math
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from thinstream.cli.options import INTERCEPT
from thinstream.cli.render import show_json, write_csv, write_table
from thinstream.cli.studies import say_places
from thinstream.learners import find
from thinstream.tune.candidates import Setting
from thinstream.tune.scoring import RankScoring, Scoring
from thinstream.tune.search import Outcome

if TYPE_CHECKING:
    from thinstream.cli.commands.tune import Candidate, Job

#: Scorings that are shares, shown in percent.
SHARES = (
    "error", "accuracy", "balanced_accuracy", "weighted_sum", "f1", "precision", "recall", "jaccard", "auc", "roc_auc",
    "average_precision",
)  # fmt: skip
#: What options are called that are not called as parameters are.
CALLED = {"fit_intercept": "intercept", "class_weight": "class-weight"}


class SearchReport:
    """Candidates from the best to the worst. Numbers are those people know: an error is positive."""

    def __init__(
        self, candidates: "list[Candidate]", outcome: Outcome, scoring: Scoring | RankScoring, job: "Job"
    ) -> None:
        self.settings, self.outcome, self.scoring, self.job = [c.setting for c in candidates], outcome, scoring, job
        self.algorithms = [c.trial.algorithm for c in candidates]
        self.several = len(set(self.algorithms)) > 1
        self.names = list(dict.fromkeys(name for setting in self.settings for name in setting))
        self.order = sorted(range(len(candidates)), key=lambda c: (outcome.rank[c], c))

    def rows(self) -> list[dict[str, Any]]:
        """What is known of each, NaN as None."""
        outcome, natural = self.outcome, self.scoring.natural
        return [
            {
                "rank": int(outcome.rank[c]),
                "algorithm": self.algorithms[c],
                "parameters": {name: shown(value) for name, value in self.settings[c].items()},
                self.scoring.name: _finite(natural(outcome.mean[c])),
                "standard_error": _finite(outcome.standard_error[c]),
                "folds": [_finite(natural(score)) for score in outcome.splits[c]],
                "progressive": _finite(natural(outcome.progressive[c])),
                "dropped_at": int(outcome.dropped[c]) or None,
            }
            for c in self.order
        ]

    def print_table(self, top: int) -> None:
        """The best few."""
        rows = self.rows()[:top]
        columns = {"rank": [str(row["rank"]) for row in rows]}
        if self.several:
            columns["algorithm"] = [row["algorithm"] for row in rows]
        for name in self.names:
            column = CALLED.get(name, name).replace("_", "-")
            columns[column] = [_text(row["parameters"].get(name, "")) for row in rows]
        title = f"{self.scoring.name.replace('_', ' ')}{' %' if self._is_share else ''}"
        columns[title] = [self._number(row[self.scoring.name]) for row in rows]
        columns["± s.e."] = [self._number(row["standard_error"]) for row in rows]
        if self.outcome.splits.shape[1] and np.isfinite(self.outcome.progressive).any():
            columns["progressive"] = [self._number(row["progressive"]) for row in rows]
        if self.outcome.dropped.any():
            columns["dropped at"] = ["–" if row["dropped_at"] is None else f"{row['dropped_at']:,}" for row in rows]
        write_table(tuple(columns), list(zip(*columns.values(), strict=True)), None)
        gone = int((self.outcome.dropped > 0).sum())
        left = f", {gone} dropped on the way" if gone else ""
        folds = self.outcome.splits.shape[1]
        how = f"{folds} folds" if folds else "progressive"
        passes = "" if self.outcome.passes == 1 else f" in {self.outcome.passes} passes"
        print(f"\n{len(self.settings)} candidates, {how}, {self.outcome.rows:,} rows{passes}{left}")
        if self.several:
            print("best of each: " + ", ".join(f"{name} {score}" for name, score in self._best_of_each()))

    @property
    def _is_share(self) -> bool:
        return self.scoring.name in SHARES

    def _number(self, value: float | None) -> str:
        return "–" if value is None else f"{100 * value:.2f}" if self._is_share else f"{value:.4f}"

    def _best_of_each(self) -> list[tuple[str, str]]:
        """The score of the best candidate of each algorithm, the best of all first."""
        found: dict[str, str] = {}
        for row in self.rows():
            found.setdefault(row["algorithm"], self._number(row[self.scoring.name]))
        return list(found.items())

    def remarks(self) -> list[str]:
        """Where the best value lies at an end of what was tried: more may be gained beyond."""
        found = []
        best = {} if self.job.search.random is not None else self.settings[self.outcome.best]
        for name, value in best.items():
            rivals = zip(self.settings, self.algorithms, strict=True)
            alike = [setting for setting, algorithm in rivals if algorithm == self.algorithms[self.outcome.best]]
            tried = {setting[name] for setting in alike if _is_number(setting.get(name))}
            if _is_number(value) and len(tried) > 2 and value in (min(tried), max(tried)) and value != 0:
                which, other = ("smallest", "smaller") if value == min(tried) else ("largest", "larger")
                found.append(f"the best {name}, {_text(value)}, is the {which} that was tried: try {other} ones, too")
        return found

    def print_json(self) -> None:
        """An object per candidate."""
        for row in self.rows():
            show_json(row)

    def print_end(self, as_json: bool, more: dict[str, Any]) -> None:
        """The best, as a command to go on with."""
        best = {**self.settings[self.outcome.best], **more}
        algorithm = self.algorithms[self.outcome.best]
        command = train_command(self.job, algorithm, best)
        if as_json:
            last = {
                "algorithm": algorithm,
                "best": {name: shown(value) for name, value in best.items()},
                "command": command,
                "model": str(self.job.search.model) if self.job.search.model else None,
                "rows": self.outcome.rows,
                "passes": self.outcome.passes,
            }
            show_json(last)
            return
        say_places(self.job.study, self.job.search.model)
        print(command)

    def write_csv(self, path: Path) -> None:
        """All candidates."""
        rows = self.rows()
        table = {name: [row[name] for row in rows] for name in ("rank", *(["algorithm"] if self.several else []))}
        table |= {name: [row["parameters"].get(name) for row in rows] for name in self.names}
        for name in (self.scoring.name, "standard_error", "progressive", "dropped_at"):
            table[name] = [row[name] for row in rows]
        table |= {f"fold{k}": [row["folds"][k] for row in rows] for k in range(self.outcome.splits.shape[1])}
        write_csv(path, table)


def train_command(job: "Job", algorithm: str, best: Setting) -> str:
    """The command line that trains a candidate."""
    own = {parameter.name for parameter in find(algorithm).parameters}
    every = {**{name: value for name, value in job.parameters.items() if name in own}, **best}
    words = ["thinstream", "train", *job.data, "-a", algorithm.lower()]
    intercept, weight = (
        every.pop("fit_intercept", job.study.fit_intercept),
        every.pop("class_weight", job.search.class_weight),
    )
    for name, value in every.items():
        words += [f"--{name.replace('_', '-')}", _text(value)]
    if intercept != INTERCEPT:
        words.append("--intercept" if intercept else "--no-intercept")
    if weight is not None:
        words += ["--class-weight", weight if isinstance(weight, str) else shown(weight).replace(":", ",")]
    words += ["--dtype", job.study.dtype] if job.study.dtype != "float32" else []
    for name, kind in (("--scale", job.study.scale), ("--normalize", job.study.normalize)):
        words += [] if kind is None else [name, kind]
    words += job.reading.arguments()
    words += ["-m", str(job.search.model)] if job.search.model is not None else []
    return shlex.join(words)


def shown(value: Any) -> Any:
    """A value as JSON has it; class costs as NEG:POS, or those of all classes."""
    return ":".join(map(_text, value.values())) if isinstance(value, dict) else value


def _text(value: Any) -> str:
    """A value as the command line has it."""
    if value is None or isinstance(value, bool):
        return {None: "none", True: "yes", False: "no"}[value]
    if isinstance(value, float):
        return f"{value:g}" if float(f"{value:g}") == value else repr(value)
    return str(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _finite(value: Any) -> float | None:
    return float(value) if math.isfinite(value) else None
