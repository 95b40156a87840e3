"""Commands that train many models on one stream (tune, path and costs): the stream, grids and the search report."""

import math
import re
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from thinstream.algorithms.registry import find
from thinstream.cli.io import collect_garbage, open_data, require_model_file, require_outputs
from thinstream.cli.options import INTERCEPT, Output, Reading, Study, classes_of, parse_bytes, parse_value
from thinstream.cli.render import Bar, say, say_device, show_json, write_csv, write_table
from thinstream.data.options import how_read
from thinstream.errors import InvalidParameterError
from thinstream.lanes.devices import chosen_device
from thinstream.models.model import Model, Names
from thinstream.models.preparation import Preparation
from thinstream.training.observer import Observer, Step
from thinstream.tuning.figures import check_picture_path
from thinstream.tuning.measures import RankScoring, Scoring
from thinstream.tuning.passes import in_words
from thinstream.tuning.search import Outcome, Setting
from thinstream.tuning.study import StudyConfig

if TYPE_CHECKING:
    from thinstream.cli.commands.tune import Candidate, SearchPlan


def open_binary_stream(data: list[str], reading: Reading, dtype: str) -> Any:
    classes = classes_of(reading)
    if len(classes) > 2:
        raise InvalidParameterError(
            f"cost curves need two classes, got {len(classes)}: {', '.join(map(str, classes))}. Label one class "
            "against the rest"
        )
    return open_data(data, reading, dtype)


def require_online(algorithm: str) -> None:
    """Raise if the algorithm is not an online algorithm."""
    name, category = find(algorithm).name, find(algorithm).kind
    if name == "Auto":
        raise InvalidParameterError(
            "Auto has nothing to tune: it compares its members while it learns. Use 'thinstream train', then "
            "'thinstream thin' for a smaller model, or choose an algorithm with -a"
        )
    if category == "batch":
        raise InvalidParameterError(
            f"{name} is a batch method, and only online algorithms can be compared on a stream. Train it with "
            f"'thinstream train -a {name.lower()}'"
        )


def study_config(algorithm: str, study: Study, reading: Reading, stream: Any) -> StudyConfig:
    return StudyConfig(
        algorithm,
        n_features=getattr(stream, "n_features", None) or 0,
        dtype=study.dtype,
        threads=reading.threads or 1,
        memory=parse_bytes(study.memory),
        device=study.device,
        scale=study.scale,
        normalize=study.normalize,
        classes=len(classes_of(reading)),
    )


def study_model(learner: Any, reading: Reading, stream: Any, report: dict[str, Any] | None = None) -> Model:
    """Return the model of a learner of the study."""
    names, saved = Names.from_stream(stream), how_read(stream)
    return Model(learner, classes_of(reading), stream.feature_space, names, reading=saved, report=report)


def require_study_outputs(inputs: list[str], study: Study, model: Path | None) -> None:
    """Raise now if an option is invalid, or if an output could not be written at the end."""
    parse_bytes(study.memory)
    chosen_device(study.device, 1, 1)
    Preparation(study.scale, study.normalize)
    if study.plot is not None:
        check_picture_path(study.plot)
    require_outputs(inputs, model, study.plot, study.csv)
    require_model_file(model)


class _Passes(Observer):
    """Report why there are several passes, and show a bar on a terminal."""

    def __init__(self, stream: Any, quiet: bool) -> None:
        self._stream, self._quiet = stream, quiet
        self._bar: Bar | None = None
        self._of = self._number = self._rows = self._before = 0

    def split(self, passes: int, needed: int, limit: int) -> None:
        if not self._quiet:
            sizes = f"all models at once need {in_words(needed)}, and the limit is {in_words(limit)}"
            say(f"thinstream: training in {passes} passes, because {sizes}")

    def placed(self, device: str, lanes: int) -> None:
        if not self._quiet:
            say_device(device, lanes)

    def moved(self, step: Step) -> None:
        """Move the bar, or start another one if there are more passes than before."""
        if self._quiet or not sys.stderr.isatty():
            return
        rows, position, number, of, _ = step
        if self._bar is None or of != self._of:
            self.close()
            self._bar, self._of = Bar(self._stream, of), of
            self._number = self._rows = self._before = 0
        if number > self._number:
            self._number, self._before = number, self._before + self._rows
        self._rows = rows
        self._bar.move(self._before + rows, position, number)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()


@contextmanager
def show_progress(stream: Any, output: Output) -> Iterator[Observer]:
    """Show the progress in a block."""
    collect_garbage()
    watch = _Passes(stream, output.quiet)
    try:
        yield watch
    finally:
        watch.close()


def show_files(study: Study, model: Path | None) -> None:
    """Print the names of the output files."""
    for title, path in (("model", model), ("chart", study.plot), ("table", study.csv)):
        if path is not None:
            print(f"  {title:<8} {path} ({path.stat().st_size:,} bytes)")


# Grids on the command line: lists, ranges and distributions.

#: Parameters with another name on the command line.
PARAMETERS = {"intercept": "fit_intercept"}


def parse_grids(texts: list[str], algorithms: list[str]) -> dict[str, dict[str, Any]]:
    """Return the values (lists or distributions) of the options ``--grid`` by algorithm and parameter.

    A parameter such as arow.r is for one algorithm. An algorithm without values has no entry.

    >>> parse_grids(["eta=0.5,2^1..2^3", "arow.r=1,2", "intercept=yes,no"], ["fsol", "arow"])["arow"]
    {'r': [1, 2], 'fit_intercept': [True, False]}
    """
    grids: dict[str, dict[str, Any]] = {}
    names = {find(name).name: name for name in algorithms}
    for text in texts:
        algorithm, key, values = _parsed(text)
        if algorithm and find(algorithm).name not in names:
            raise InvalidParameterError(
                f"--grid {text}: {find(algorithm).name} is not among the algorithms, which are {', '.join(names)}"
            )
        owners = [names[find(algorithm).name]] if algorithm else _owners(key, algorithms)
        for owner in owners:
            if key in grids.setdefault(owner, {}):
                raise InvalidParameterError(f"--grid has {key} twice")
            grids[owner][key] = values
    return grids


def _owners(key: str, algorithms: list[str]) -> list[str]:
    """Return the algorithms with a parameter. If there are none, return all, so that the first one raises."""
    owners = [name for name in algorithms if key in [parameter.name for parameter in find(name).parameters]]
    return owners or algorithms


def _parsed(text: str) -> tuple[str, str, Any]:
    """Return the algorithm ("": all that have the parameter), the parameter and its values."""
    name, equals, values = text.partition("=")
    algorithm, _, name = name.strip().rpartition(".")
    if not equals or not name or not values.strip():
        raise InvalidParameterError(f"--grid must be NAME=VALUES such as eta=0.5,1,2 or r=2^-5..2^5, got {text!r}")
    key = name.replace("-", "_")
    key = PARAMETERS.get(key, key)
    return algorithm, key, _values(key, values.strip(), text)


def _values(key: str, values: str, whole: str) -> Any:
    if values.startswith("log:"):
        return _log(values.removeprefix("log:"), whole)
    parsed: list[Any] = []
    for item in values.split(","):
        item = item.strip()
        if not item:
            raise InvalidParameterError(f"--grid {whole}: a value between commas is missing")
        if key == "class_weight":
            parsed.append(_class_weight(item, whole))
        elif key == "fit_intercept":
            parsed.append(_truth(item, whole))
        elif ".." in item:
            parsed += _range(item, whole)
        else:
            parsed.append(_number(item))
    return parsed


def _number(text: str) -> Any:
    """Return a number, which may be a power such as 2^-5, or None, or the text itself."""
    power = re.fullmatch(r"([\d.]+)\^([+-]?[\d.]+)", text)
    if not power:
        return parse_value(text)
    try:
        return _plain(float(power[1]) ** float(power[2]))
    except (ValueError, OverflowError):
        return text


def _plain(number: float) -> int | float:
    return int(number) if number.is_integer() and abs(number) < 2**53 else number


def _ends(text: str, whole: str) -> tuple[float, float]:
    ends = [_number(end.strip()) for end in text.split("..")]
    if len(ends) != 2 or not all(_is_positive(end) for end in ends) or ends[0] > ends[1]:
        raise InvalidParameterError(f"--grid {whole}: a range must be LOW..HIGH, two numbers > 0, got {text!r}")
    return float(ends[0]), float(ends[1])


def _is_positive(value: Any) -> bool:
    return isinstance(value, int | float) and 0 < value < math.inf


def _range(item: str, whole: str) -> list[Any]:
    ends, _, by = item.partition("*")
    low, high = _ends(ends, whole)
    factor = _number(by) if by else 2
    if not _is_positive(factor) or factor <= 1:
        raise InvalidParameterError(f"--grid {whole}: the factor of a range must be a number > 1, got {by!r}")
    steps = math.floor(math.log(high / low, factor) + 1e-9)
    # powers of two are exact; other values are rounded to remove the errors of the multiplication
    exact = [low * factor**i for i in range(steps + 1)]
    return [_plain(x if factor == 2 else float(f"{x:.12g}")) for x in exact]


def _log(text: str, whole: str) -> Any:
    from thinstream.tuning.search import LogUniform

    ends, _, count = text.partition(":")
    low, high = _ends(ends, whole)
    if not count:
        return LogUniform(low, high)
    if not count.isdecimal() or int(count) < 2:
        raise InvalidParameterError(f"--grid {whole}: log:LOW..HIGH:N needs a whole number N ≥ 2, got {count!r}")
    last = int(count) - 1
    inner = [float(f"{low * (high / low) ** (i / last):.6g}") for i in range(1, last)]
    return [_plain(x) for x in (low, *inner, high)]


def _truth(item: str, whole: str) -> bool:
    answers = {"yes": True, "true": True, "no": False, "false": False}
    if item.lower() not in answers:
        raise InvalidParameterError(f"--grid {whole}: intercept must be yes or no, got {item!r}")
    return answers[item.lower()]


def _class_weight(item: str, whole: str) -> Any:
    """Return None, "balanced", or the cost of each class."""
    if item in ("none", "balanced"):
        return None if item == "none" else item
    costs = tuple(_number(part) for part in item.split(":"))
    if len(costs) < 2 or not all(_is_positive(cost) for cost in costs):
        raise InvalidParameterError(
            f"--grid {whole}: class-weight must be none, balanced or NEG:POS such as 1:20 (a cost per class), "
            f"got {item!r}"
        )
    return costs


# The report of a search: a table, CSV, JSON, and the command that trains the best candidate.


#: Scorings to show in percent.
SHARES = (
    "error", "accuracy", "balanced_accuracy", "weighted_sum", "f1", "precision", "recall", "jaccard", "auc", "roc_auc",
    "average_precision",
)  # fmt: skip


class SearchReport:
    """The candidates from the best to the worst. Errors and losses are positive."""

    def __init__(
        self, candidates: "list[Candidate]", outcome: Outcome, scoring: Scoring | RankScoring, plan: "SearchPlan"
    ) -> None:
        self.settings, self.outcome, self.scoring, self.plan = [c.setting for c in candidates], outcome, scoring, plan
        self.algorithms = [c.trial.algorithm for c in candidates]
        self.several = len(set(self.algorithms)) > 1
        self.names = list(dict.fromkeys(name for setting in self.settings for name in setting))
        self.order = sorted(range(len(candidates)), key=lambda c: (outcome.rank[c], c))

    def rows(self) -> list[dict[str, Any]]:
        """Return the results of each candidate, with None for NaN."""
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
        rows = self.rows()[:top]
        columns = {"rank": [str(row["rank"]) for row in rows]}
        if self.several:
            columns["algorithm"] = [row["algorithm"] for row in rows]
        for name in self.names:
            column = "intercept" if name == "fit_intercept" else name.replace("_", "-")
            columns[column] = [_text(row["parameters"].get(name, "")) for row in rows]
        title = f"{self.scoring.name.replace('_', ' ')}{' %' if self._is_share else ''}"
        columns[title] = [self._number(row[self.scoring.name]) for row in rows]
        columns["± se"] = [self._number(row["standard_error"]) for row in rows]
        if self.outcome.splits.shape[1] and np.isfinite(self.outcome.progressive).any():
            columns["progressive"] = [self._number(row["progressive"]) for row in rows]
        if self.outcome.dropped.any():
            columns["dropped at"] = ["–" if row["dropped_at"] is None else f"{row['dropped_at']:,}" for row in rows]
        write_table(tuple(columns), list(zip(*columns.values(), strict=True)), None)
        n_dropped = int((self.outcome.dropped > 0).sum())
        dropped = f", {n_dropped} eliminated early" if n_dropped else ""
        folds = self.outcome.splits.shape[1]
        how = f"{folds} folds" if folds else "progressive"
        passes = "" if self.outcome.passes == 1 else f" in {self.outcome.passes} passes"
        print(f"\n{len(self.settings)} candidates, {how}, {self.outcome.rows:,} rows{passes}{dropped}")
        if self.several:
            print("best per algorithm: " + ", ".join(f"{name} {score}" for name, score in self._best_of_each()))

    @property
    def _is_share(self) -> bool:
        return self.scoring.name in SHARES

    def _number(self, value: float | None) -> str:
        return "–" if value is None else f"{100 * value:.2f}" if self._is_share else f"{value:.4f}"

    def _best_of_each(self) -> list[tuple[str, str]]:
        """Return the score of the best candidate of each algorithm, the best algorithm first."""
        best: dict[str, str] = {}
        for row in self.rows():
            best.setdefault(row["algorithm"], self._number(row[self.scoring.name]))
        return list(best.items())

    def remarks(self) -> list[str]:
        """Return advice if the best value is at an end of its range, because values beyond may be better."""
        advice = []
        best = {} if self.plan.search.random is not None else self.settings[self.outcome.best]
        for name, value in best.items():
            rivals = zip(self.settings, self.algorithms, strict=True)
            alike = [setting for setting, algorithm in rivals if algorithm == self.algorithms[self.outcome.best]]
            tried = {setting[name] for setting in alike if _is_number(setting.get(name))}
            if _is_number(value) and len(tried) > 2 and value in (min(tried), max(tried)) and value != 0:
                end, other = ("smallest", "smaller") if value == min(tried) else ("largest", "larger")
                advice.append(f"the best {name}, {_text(value)}, is the {end} in the grid. Also try {other} values")
        return advice

    def print_json(self) -> None:
        for row in self.rows():
            show_json(row)

    def print_end(self, as_json: bool, more: dict[str, Any]) -> None:
        """Print the output files and the command that trains the best candidate."""
        best = {**self.settings[self.outcome.best], **more}
        algorithm = self.algorithms[self.outcome.best]
        command = train_command(self.plan, algorithm, best)
        if as_json:
            last = {
                "algorithm": algorithm,
                "best": {name: shown(value) for name, value in best.items()},
                "command": command,
                "model": str(self.plan.search.model) if self.plan.search.model else None,
                "rows": self.outcome.rows,
                "passes": self.outcome.passes,
            }
            show_json(last)
            return
        show_files(self.plan.study, self.plan.search.model)
        print(command)

    def draw(self, path: Path) -> None:
        """Draw the score of each candidate against its parameters."""
        from thinstream.tuning.figures import draw_search

        rows = self.rows()
        names = ", ".join(dict.fromkeys(row["algorithm"] for row in rows))
        note = f"{len(rows)} candidates over {self.outcome.rows:,} rows"
        draw_search(rows, self.scoring.name, self._is_share, f"{names}: {self.scoring.name}", note, path)

    def write_csv(self, path: Path) -> None:
        rows = self.rows()
        table = {name: [row[name] for row in rows] for name in ("rank", *(["algorithm"] if self.several else []))}
        table |= {name: [row["parameters"].get(name) for row in rows] for name in self.names}
        for name in (self.scoring.name, "standard_error", "progressive", "dropped_at"):
            table[name] = [row[name] for row in rows]
        table |= {f"fold{k}": [row["folds"][k] for row in rows] for k in range(self.outcome.splits.shape[1])}
        write_csv(path, table)


def train_command(plan: "SearchPlan", algorithm: str, best: Setting) -> str:
    """Return the command line that trains a candidate."""
    own = {parameter.name for parameter in find(algorithm).parameters}
    every = {**{name: value for name, value in plan.parameters.items() if name in own}, **best}
    words = ["thinstream", "train", *plan.data, "-a", algorithm.lower()]
    intercept, weight = (
        every.pop("fit_intercept", plan.study.fit_intercept),
        every.pop("class_weight", plan.search.class_weight),
    )
    for name, value in every.items():
        words += [f"--{name.replace('_', '-')}", _text(value)]
    if intercept != INTERCEPT:
        words.append("--intercept" if intercept else "--no-intercept")
    if weight is not None:
        words += ["--class-weight", weight if isinstance(weight, str) else shown(weight).replace(":", ",")]
    words += ["--dtype", plan.study.dtype] if plan.study.dtype != "float32" else []
    for name, choice in (("--scale", plan.study.scale), ("--normalize", plan.study.normalize)):
        words += [] if choice is None else [name, choice]
    words += plan.reading.arguments()
    words += ["-m", str(plan.search.model)] if plan.search.model is not None else []
    return shlex.join(words)


def shown(value: Any) -> Any:
    """Return a value for JSON, and class costs as NEG:POS."""
    return ":".join(map(_text, value.values())) if isinstance(value, dict) else value


def _text(value: Any) -> str:
    """Return a value for the command line."""
    if value is None or isinstance(value, bool):
        return {None: "none", True: "yes", False: "no"}[value]
    if isinstance(value, float):
        return f"{value:g}" if float(f"{value:g}") == value else repr(value)
    return str(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _finite(value: Any) -> float | None:
    return float(value) if math.isfinite(value) else None
