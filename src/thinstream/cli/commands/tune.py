"""``thinstream tune``: find the best parameters in one pass."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from thinstream.cli.options import (
    DEFAULT_ALGORITHM,
    DEFAULT_SEARCH,
    JUDGING,
    MODEL,
    OUTPUT,
    Algorithms,
    ClassWeight,
    Data,
    Judging,
    Output,
    Reading,
    Study,
    classes_of,
    option,
    parse_class_weight,
)
from thinstream.errors import InvalidInputError, InvalidParameterError

if TYPE_CHECKING:
    from thinstream.data.labels import Classes
    from thinstream.tuning.measures import AnyScoring
    from thinstream.tuning.search import Outcome, Setting
    from thinstream.tuning.study import StudyConfig, Trial

SEARCH = "Search"


@dataclass(frozen=True)
class Search:
    """The candidates, how to compare them, and the file of the best model."""

    model: Annotated[Path | None, option("Save the best model in this file.", MODEL, "--model", "-m")] = None
    class_weight: ClassWeight = None
    grid: Annotated[
        list[str] | None,
        option(
            "Values of a parameter: 0.5,1,2 · 2^-5..2^5 (doubling) · 1e-6..1*10 (by a factor) · log:1e-6..1:20 (20 "
            "values on a log scale) · log:1e-6..1 (random values, with --random). Also intercept=yes,no and "
            "class-weight=none,balanced,1:20. It holds for every algorithm with this parameter, or for one: "
            "arow.r=1,10. Repeatable. Default: the grids of the papers.",
            SEARCH,
            "--grid",
            "-g",
            metavar="NAME=VALUES",
        ),
    ] = None
    random: Annotated[
        int | None, option("Try N random candidates per algorithm instead of all.", SEARCH, metavar="N", min=1)
    ] = None
    seed: Annotated[int, option("The random seed for --random (default 0).", SEARCH, min=0)] = 0
    eliminate: Annotated[
        bool, option("Drop candidates early if they are significantly worse than the best.", SEARCH)
    ] = False
    paper: Annotated[
        bool,
        option(
            "Use the protocol of the papers: their grid at l1 = 0 with 5 folds, then a sweep of l1 for the best.",
            SEARCH,
        ),
    ] = False
    folds: Annotated[
        int, option("The number of folds. Row i is held out from fold i mod FOLDS (default 5).", JUDGING, min=2)
    ] = 5
    progressive: Annotated[
        bool, option("Train one model per candidate without folds, and compare progressive scores.", JUDGING)
    ] = False
    final: Annotated[bool, option("Score held-out rows with the final models, in a second pass.", JUDGING)] = False
    scoring: Annotated[
        str,
        option(
            "The metric: error (default), accuracy, balanced_accuracy, f1, precision, recall, auc, average_precision, "
            "log_loss, jaccard, matthews_corrcoef, and with two classes weighted_sum and cost (per row).",
            JUDGING,
        ),
    ] = "error"
    top: Annotated[int, option("The number of candidates to show (default 10).", OUTPUT, min=1)] = 10


@dataclass(frozen=True)
class SearchPlan:
    """A command line of ``tune``."""

    data: list[str]
    reading: Reading
    study: Study
    judging: Judging
    search: Search
    algorithms: list[str]  # as the user has typed them
    named: bool  # whether the user has named them
    parameters: dict[str, Any]  # values for all candidates with these parameters

    @property
    def folds(self) -> int:
        """The number of folds; 0: progressive scores."""
        return 0 if self.search.progressive else self.search.folds

    def check(self) -> None:
        """Raise if options cannot be used together."""
        from thinstream.algorithms.registry import find
        from thinstream.tuning.search import FOLDS

        available = {parameter.name for name in self.algorithms for parameter in find(name).parameters}
        for name in self.parameters:
            if name not in available:
                raise InvalidParameterError(f"--{name.replace('_', '-')}: {', '.join(self.algorithms)} has no {name}")
        if self.search.final and not self.folds:
            raise InvalidParameterError("--final needs folds, and cannot be used with --progressive")
        if not self.search.paper:
            return
        for name in self.algorithms:
            if "l1" not in [parameter.name for parameter in find(name).parameters]:
                raise InvalidParameterError(f"--paper needs algorithms with the parameter l1, got {find(name).name}")
        for name_of_option, clashes in {
            "--grid": self.search.grid,
            "--l1": "l1" in self.parameters,
            "--random": self.search.random,
            "--progressive": not self.folds,
            "--folds": self.folds not in (0, FOLDS),
        }.items():
            if clashes:
                raise InvalidParameterError(f"--paper sets the candidates, and cannot be used with {name_of_option}")

    def candidates(self, classes: "Classes") -> "list[Candidate]":
        """Return all candidates, grouped by algorithm."""
        from thinstream.cli.studies import parse_grids

        grids = parse_grids(self.search.grid or [], self.algorithms)
        return [candidate for name in self.algorithms for candidate in self._candidates(name, grids.get(name), classes)]

    def _candidates(self, name: str, space: dict[str, Any] | None, classes: "Classes") -> "list[Candidate]":
        import numpy as np

        from thinstream.algorithms.registry import find
        from thinstream.tuning.search import USUAL, grid, make_trials, paper_grid, sample

        if space is None:
            space = paper_grid(name) if self.named or self.search.paper else dict(USUAL[name])
            space = {parameter: values for parameter, values in space.items() if parameter not in self.parameters}
        for parameter in space:
            if parameter in self.parameters:
                raise InvalidParameterError(
                    f"{parameter} has a value for all candidates and a --grid. Pass only one of both"
                )
        if self.search.random is None:
            settings = grid(space)
        else:
            settings = sample(space, self.search.random, np.random.default_rng(self.search.seed))
        own = [parameter.name for parameter in find(name).parameters]
        base = {parameter: value for parameter, value in self.parameters.items() if parameter in own}
        base |= {"fit_intercept": self.study.fit_intercept}
        base |= {"class_weight": parse_class_weight(self.search.class_weight, classes)}
        settings = [_with_labels(setting, classes) for setting in settings]
        return list(map(Candidate, settings, make_trials(name, settings, base, classes)))


class Candidate(NamedTuple):
    """A candidate: the values that distinguish it from the others, and its model."""

    setting: "Setting"
    trial: "Trial"


def _with_labels(setting: "Setting", classes: "Classes") -> "Setting":
    """Replace a tuple of class costs by a dictionary."""
    costs = setting.get("class_weight")
    if not isinstance(costs, tuple):
        return setting
    if len(costs) != len(classes):
        raise InvalidParameterError(
            f"--grid class-weight needs a cost for each of the {len(classes)} classes, got {':'.join(map(str, costs))}"
        )
    return {**setting, "class_weight": dict(zip(classes, costs, strict=True))}


def tune(
    data: Data,
    reading: Reading,
    output: Output,
    study: Study,
    judging: Judging,
    search: Search,
    parameters: dict[str, Any],
    algorithm: Algorithms = None,
) -> None:
    """Find the best parameters by cross-validation in one pass over the data.

    There is a model for every candidate and fold, and all models learn side by side. Candidates can have different
    algorithms. Options of an algorithm hold for all its candidates. The last line of the output is the command that
    trains the best candidate.
    """
    from thinstream.cli import studies
    from thinstream.cli.io import look_first, open_data
    from thinstream.cli.options import split_names
    from thinstream.cli.render import report_skipped, say, warn_of_labels
    from thinstream.cli.studies import SearchReport
    from thinstream.cli.terminal import keep_going
    from thinstream.tuning.measures import scoring_of
    from thinstream.tuning.passes import is_repeatable, rewind
    from thinstream.tuning.search import search as search_stream

    usual = [DEFAULT_ALGORITHM] if search.paper else list(DEFAULT_SEARCH)
    names = split_names(algorithm or []) or usual
    plan = SearchPlan(data, reading, study, judging, search, names, bool(algorithm), parameters)
    for name in names:
        studies.require_online(name)
    plan.check()
    studies.require_study_outputs(data, study, search.model)
    if search.model is not None:
        keep_going()
    reading = look_first(data, reading, quiet=output.quiet)
    plan = replace(plan, reading=reading)
    classes = classes_of(reading)
    scoring = scoring_of(search.scoring, judging.tradeoff(), len(classes))
    candidates = plan.candidates(classes)
    trials = [candidate.trial for candidate in candidates]
    stream = open_data(data, reading, study.dtype)
    again = is_repeatable(stream)
    if search.paper and not again:
        raise InvalidInputError("--paper needs files, because it reads the data twice. Got a pipe")
    config = studies.study_config(names[0], study, reading, stream)._replace(folds=plan.folds, final=search.final)
    with studies.show_progress(stream, output) as watch:
        outcome = search_stream(
            stream,
            config,
            trials,
            scoring,
            eliminate=search.eliminate,
            models=search.model is not None and not search.paper and (not again or not plan.folds),
            watch=watch,
        )
    report_skipped(stream, output.quiet)
    report = SearchReport(candidates, outcome, scoring, plan)
    if study.csv is not None:
        report.write_csv(study.csv)
    if study.plot is not None and not search.paper:
        report.draw(study.plot)
    if not output.quiet:
        report.print_json() if output.json else report.print_table(search.top)
    extra: dict[str, Any] = {}
    if search.paper:
        extra = _sweep_l1(plan, output, stream, config, trials[outcome.best], scoring)
    elif search.model is not None:
        rewind(stream)
        _save_best(plan, stream, candidates[outcome.best], outcome, search.model)
    if not output.quiet:
        report.print_end(output.json, extra)
        warn_of_labels(outcome.rows, outcome.positives, outcome.looks_sorted)
        for text in report.remarks():
            say(f"thinstream: {text}")


def _save_best(plan: SearchPlan, stream: Any, candidate: Candidate, outcome: "Outcome", path: Path) -> None:
    """Write the best candidate's model of all rows: that of its lane, or a new one as in ``thinstream train``."""
    from thinstream.cli.studies import study_model
    from thinstream.models.file import write
    from thinstream.training.job import Job, ModelSpec, OpenSource, OutputFiles

    if outcome.best in outcome.models:
        write(path, study_model(outcome.models[outcome.best], plan.reading, stream))
        return
    classes, best = classes_of(plan.reading), candidate.trial
    weight = candidate.setting.get("class_weight", parse_class_weight(plan.search.class_weight, classes))
    spec = ModelSpec(
        best.algorithm,
        classes,
        weight,
        best.parameters,
        dtype=plan.study.dtype,
        fit_intercept=best.fit_intercept,
        scale=plan.study.scale,
        normalize=plan.study.normalize,
    )
    Job(OpenSource(stream), spec, OutputFiles(path)).run()


def _sweep_l1(
    plan: SearchPlan, output: Output, stream: Any, config: "StudyConfig", best: "Trial", scoring: "AnyScoring"
) -> dict[str, Any]:
    """Sweep l1 with the best parameters, the second half of the papers' protocol."""
    from thinstream.cli.render import show_json_rows, write_table
    from thinstream.cli.studies import show_progress, study_model
    from thinstream.models.file import write
    from thinstream.tuning.figures import draw_path, path_table
    from thinstream.tuning.measures import judges_paths
    from thinstream.tuning.passes import rewind
    from thinstream.tuning.sparsity_path import sweep_stream

    rewind(stream)
    terms, tradeoff = config._replace(final=False), plan.judging.tradeoff()
    with show_progress(stream, output) as watch:
        path = sweep_stream(stream, terms, best, watch=watch, tradeoff=tradeoff, scoring=scoring)
    metric = scoring.name if judges_paths(scoring.name) else "error"
    chosen = path.pick(metric)
    if plan.study.plot is not None:
        draw_path(path, metric, chosen, plan.study.plot)
    if output.json and not output.quiet:
        show_json_rows(path.columns())
    elif not output.quiet:
        print()
        write_table(*path_table(path, metric), chosen)
        print("\n* the sparsest within one standard error of the best")
    if plan.search.model is not None:
        learner = path.model(chosen)
        model = study_model(learner, plan.reading, stream)
        write(plan.search.model, model, "weights" if learner.weights_only else "full")
    return {"l1": float(path.l1[chosen])}
