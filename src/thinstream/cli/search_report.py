"""How the candidates of a search did: as a table, CSV, JSON, and the command that trains the best."""

import math
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from thinstream.cli.options import INTERCEPT
from thinstream.cli.render import show_json, write_csv, write_table
from thinstream.cli.studies import say_places
from thinstream.learners import find
from thinstream.tune.candidates import Setting
from thinstream.tune.scoring import Scoring
from thinstream.tune.search import Outcome

if TYPE_CHECKING:
    from thinstream.cli.commands.tune import Job

#: Scorings that are shares, shown in percent.
SHARES = ("error", "accuracy", "balanced_accuracy", "weighted_sum", "f1", "precision", "recall", "jaccard")
#: What options are called that are not called as parameters are.
CALLED = {"fit_intercept": "intercept", "class_weight": "class-weight"}


class SearchReport:
    """Candidates from the best to the worst. Numbers are those people know: an error is positive."""

    def __init__(self, settings: list[Setting], outcome: Outcome, scoring: Scoring, job: "Job") -> None:
        self.settings, self.outcome, self.scoring, self.job = settings, outcome, scoring, job
        self.names = list(dict.fromkeys(name for setting in settings for name in setting))
        self.order = sorted(range(len(settings)), key=lambda c: (outcome.rank[c], c))

    def rows(self) -> list[dict[str, Any]]:
        """What is known of each, NaN as None."""
        outcome, natural = self.outcome, self.scoring.natural
        return [
            {
                "rank": int(outcome.rank[c]),
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
        share = self.scoring.name in SHARES
        title = f"{self.scoring.name.replace('_', ' ')}{' %' if share else ''}"
        head = ["rank", *(CALLED.get(name, name).replace("_", "-") for name in self.names), title, "± s.e."]
        columns = [*head, *(["progressive"] if self.outcome.splits.shape[1] else []), "dropped at"]
        lines = []
        for row in self.rows()[:top]:
            values = [_text(row["parameters"].get(name, "")) for name in self.names]
            scores = [row[self.scoring.name], row["standard_error"], row["progressive"]]
            numbers = ["–" if x is None else f"{100 * x:.2f}" if share else f"{x:.4f}" for x in scores]
            dropped = "–" if row["dropped_at"] is None else f"{row['dropped_at']:,}"
            lines.append([str(row["rank"]), *values, *numbers[: len(columns) - len(head) + 1], dropped])
        if not self.outcome.dropped.any():
            columns, lines = columns[:-1], [line[:-1] for line in lines]
        write_table(columns, lines, None)
        gone = int((self.outcome.dropped > 0).sum())
        left = f", {gone} dropped on the way" if gone else ""
        folds = self.outcome.splits.shape[1]
        how = f"{folds} folds" if folds else "progressive"
        passes = "" if self.outcome.passes == 1 else f" in {self.outcome.passes} passes"
        print(f"\n{len(self.settings)} candidates, {how}, {self.outcome.rows:,} rows{passes}{left}")

    def remarks(self) -> list[str]:
        """Where the best value lies at an end of what was tried: more may be gained beyond."""
        found = []
        best = {} if self.job.search.random is not None else self.settings[self.outcome.best]
        for name, value in best.items():
            tried = {setting[name] for setting in self.settings if _is_number(setting.get(name))}
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
        command = train_command(self.job, best)
        if as_json:
            last = {
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
        table = {"rank": [row["rank"] for row in rows]}
        table |= {name: [row["parameters"].get(name) for row in rows] for name in self.names}
        for name in (self.scoring.name, "standard_error", "progressive", "dropped_at"):
            table[name] = [row[name] for row in rows]
        table |= {f"fold{k}": [row["folds"][k] for row in rows] for k in range(self.outcome.splits.shape[1])}
        write_csv(path, table)


def train_command(job: "Job", best: Setting) -> str:
    """The command line that trains a candidate."""
    every = {**job.parameters, **best}
    words = ["thinstream", "train", *job.data, "-a", find(job.algorithm).name.lower()]
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
    """A value as JSON has it; class costs as NEG:POS."""
    return f"{_text(value[-1])}:{_text(value[1])}" if isinstance(value, dict) else value


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
