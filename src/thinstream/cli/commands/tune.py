"""``thinstream tune``: which parameters are best, in one pass."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from thinstream.cli.declared import option
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
    parse_class_weight,
)
from thinstream.errors import InvalidInputError, InvalidParameterError

if TYPE_CHECKING:
    from thinstream.learners import Classes
    from thinstream.models.model import Model
    from thinstream.tune.candidates import Setting
    from thinstream.tune.scoring import AnyScoring
    from thinstream.tune.search import Outcome
    from thinstream.tune.trials import StudyConfig, Trial

SEARCH = "Search"


@dataclass(frozen=True)
class Search:
    """Which candidates there are, how they are judged, and where the best goes."""

    model: Annotated[Path | None, option("Where the best model goes.", MODEL, "--model", "-m")] = None
    class_weight: ClassWeight = None
    grid: Annotated[
        list[str] | None,
        option(
            "NAME=VALUES, repeatable. Values: 0.5,1,2 · 2^-5..2^5 (doubling) · 1e-6..1*10 (by a factor) · "
            "log:1e-6..1:20 (20 of them, evenly on a log scale) · log:1e-6..1 (drawn, with --random). Also "
            "intercept=yes,no and class-weight=none,balanced,1:20. For every algorithm that has such a parameter, or "
            "for one: arow.r=1,10. Without any: what the papers try.",
            SEARCH,
            "--grid",
            "-g",
            metavar="NAME=VALUES",
        ),
    ] = None
    random: Annotated[int | None, option("Try that many of each algorithm at random, not all.", SEARCH, min=1)] = None
    seed: Annotated[int, option("Of --random (default 0).", SEARCH, min=0)] = 0
    eliminate: Annotated[bool, option("Drop hopeless candidates on the way.", SEARCH, "--eliminate")] = False
    paper: Annotated[
        bool,
        option(
            "The papers' protocol: their grid at l1 = 0 with 5 folds, then a sweep of l1 with the best.",
            SEARCH,
            "--paper",
        ),
    ] = False
    folds: Annotated[
        int, option("Row i is held out from the models of fold i mod FOLDS (default 5).", JUDGING, min=2)
    ] = 5
    progressive: Annotated[
        bool,
        option("No folds: one model per candidate, judged by each row before it learns it.", JUDGING, "--progressive"),
    ] = False
    final: Annotated[
        bool,
        option("Score held-out rows with the final models, in a second pass, not as they pass.", JUDGING, "--final"),
    ] = False
    scoring: Annotated[
        str,
        option(
            "error (default), accuracy, balanced_accuracy, f1, precision, recall, auc, average_precision, log_loss, "
            "jaccard, matthews_corrcoef; of two classes also weighted_sum and cost (per row).",
            JUDGING,
        ),
    ] = "error"
    top: Annotated[int, option("Lines of the table (default 10).", OUTPUT, min=1)] = 10


@dataclass(frozen=True)
class Job:
    """A command line of ``tune``."""

    data: list[str]
    reading: Reading
    study: Study
    judging: Judging
    search: Search
    algorithms: list[str]  # as they are typed
    named: bool  # whether they stand on the line
    parameters: dict[str, Any]  # of all candidates that have them

    @property
    def folds(self) -> int:
        """How many; 0: progressive."""
        return 0 if self.search.progressive else self.search.folds

    def check(self) -> None:
        """Raises where options do not go together."""
        from thinstream.learners import find
        from thinstream.tune.candidates import FOLDS

        known = {parameter.name for name in self.algorithms for parameter in find(name).parameters}
        for name in self.parameters:
            if name not in known:
                raise InvalidParameterError(f"--{name.replace('_', '-')}: {', '.join(self.algorithms)} has no {name}")
        if self.search.final and not self.folds:
            raise InvalidParameterError("--final is about held-out rows: it does not go with --progressive")
        if self.study.plot is not None and not self.search.paper:
            raise InvalidParameterError("--plot draws the sweep of l1: it goes with --paper")
        if not self.search.paper:
            return
        for name in self.algorithms:
            if "l1" not in [parameter.name for parameter in find(name).parameters]:
                raise InvalidParameterError(f"{find(name).name} has no l1 to sweep: --paper is for sparse learners")
        for name_of_option, clashes in {
            "--grid": self.search.grid,
            "--l1": "l1" in self.parameters,
            "--random": self.search.random,
            "--progressive": not self.folds,
            "--folds": self.folds not in (0, FOLDS),
        }.items():
            if clashes:
                raise InvalidParameterError(f"--paper says what to try and how: it does not go with {name_of_option}")

    def candidates(self, classes: "Classes") -> "list[Candidate]":
        """All that are tried, those of an algorithm one after the other."""
        from thinstream.cli.grids import parse_grids

        grids = parse_grids(self.search.grid or [], self.algorithms)
        return [each for name in self.algorithms for each in self._candidates(name, grids.get(name), classes)]

    def _candidates(self, name: str, space: dict[str, Any] | None, classes: "Classes") -> "list[Candidate]":
        import numpy as np

        from thinstream.learners import find
        from thinstream.tune.candidates import USUAL, grid, make_trials, paper_grid, sample

        if space is None:
            space = paper_grid(name) if self.named or self.search.paper else dict(USUAL[name])
            space = {parameter: values for parameter, values in space.items() if parameter not in self.parameters}
        for parameter in space:
            if parameter in self.parameters:
                raise InvalidParameterError(f"{parameter} has one value for all candidates, and a --grid of its own")
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
    """What is tried: the values it has of its own, and the model."""

    setting: "Setting"
    trial: "Trial"


def _with_labels(setting: "Setting", classes: "Classes") -> "Setting":
    """A setting whose costs have the labels of their classes."""
    costs = setting.get("class_weight")
    if not isinstance(costs, tuple):
        return setting
    if len(costs) != len(classes):
        raise InvalidParameterError(
            f"--grid class-weight: a cost for each of {len(classes)} classes is needed, got {':'.join(map(str, costs))}"
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

    Every candidate and fold is a model, of one algorithm or of several; all learn side by side while the data is read
    once. Options of the algorithms hold for all candidates. The last line is the command that trains the best.
    """
    from thinstream.cli import studies
    from thinstream.cli.algorithm_options import split_names
    from thinstream.cli.io import look_first, open_data
    from thinstream.cli.render import remark_on_labels, report_skipped, say
    from thinstream.cli.search_report import SearchReport
    from thinstream.cli.terminal import keep_going
    from thinstream.models.file import write
    from thinstream.tune.scoring import scoring_of
    from thinstream.tune.search import search as search_stream
    from thinstream.tune.sources import is_repeatable, rewind

    usual = [DEFAULT_ALGORITHM] if search.paper else list(DEFAULT_SEARCH)
    names = split_names(algorithm or []) or usual
    job = Job(data, reading, study, judging, search, names, bool(algorithm), parameters)
    for name in names:
        studies.require_online(name)
    job.check()
    studies.require_study_outputs(data, study, search.model)
    if search.model is not None:
        keep_going()
    reading = look_first(data, reading, quiet=output.quiet)
    job = replace(job, reading=reading)
    classes = classes_of(reading)
    scoring = scoring_of(search.scoring, judging.tradeoff(), len(classes))
    candidates = job.candidates(classes)
    trials = [candidate.trial for candidate in candidates]
    stream = open_data(data, reading, study.dtype)
    again = is_repeatable(stream)
    if search.paper and not again:
        raise InvalidInputError("--paper goes over the data twice: it needs files, not a pipe")
    config = studies.study_config(names[0], study, reading, stream)._replace(folds=job.folds, final=search.final)
    with studies.show_progress(stream, output) as watch:
        outcome = search_stream(
            stream,
            config,
            trials,
            scoring,
            eliminate=search.eliminate,
            models=search.model is not None and not search.paper and (not again or not job.folds),
            watch=watch,
        )
    report_skipped(stream, output.quiet)
    report = SearchReport(candidates, outcome, scoring, job)
    if study.csv is not None:
        report.write_csv(study.csv)
    if not output.quiet:
        report.print_json() if output.json else report.print_table(search.top)
    extra: dict[str, Any] = {}
    if search.paper:
        extra = _sweep_l1(job, output, stream, config, trials[outcome.best], scoring)
    elif search.model is not None:
        rewind(stream)
        write(search.model, _best_model(job, stream, trials[outcome.best], outcome))
    if not output.quiet:
        report.print_end(output.json, extra)
        remark_on_labels(outcome.rows, outcome.positives, outcome.looks_sorted)
        for text in report.remarks():
            say(f"thinstream: {text}")


def _best_model(job: Job, stream: Any, best: "Trial", outcome: "Outcome") -> "Model":
    """The best candidate's model of all rows: the lane's, or the one that ``train`` would make."""
    from thinstream.cli.studies import study_model
    from thinstream.learners import make_learner
    from thinstream.models.model import Model
    from thinstream.one_vs_rest import learner_of
    from thinstream.preparing import Preparation, prepared
    from thinstream.training import NullObserver, Run

    if outcome.best in outcome.models:
        return study_model(outcome.models[outcome.best], job.reading, stream)
    options = {"dtype": job.study.dtype, "grow": True, "fit_intercept": best.fit_intercept, **best.parameters}
    models = [make_learner(best.algorithm, n_features=0, costs=costs, **options) for costs in best.costs]
    learner = prepared(learner_of(models, 0), Preparation(job.study.scale, job.study.normalize))
    run = Run(stream, Model(learner, classes_of(job.reading), stream.feature_space), watch=NullObserver())
    model = run.run()
    return study_model(model.learner, job.reading, stream, run.report())


def _sweep_l1(
    job: Job, output: Output, stream: Any, config: "StudyConfig", best: "Trial", scoring: "AnyScoring"
) -> dict[str, Any]:
    """Does the second half of the papers' protocol: sweeps l1 with the best parameters."""
    from thinstream.cli.render import show_json_rows, write_table
    from thinstream.cli.studies import show_progress, study_model
    from thinstream.models.file import write
    from thinstream.tune.figures import draw_path
    from thinstream.tune.scoring import judges_paths
    from thinstream.tune.sources import rewind
    from thinstream.tune.sparsity_path import sweep_stream
    from thinstream.tune.text_tables import path_table

    rewind(stream)
    terms, tradeoff = config._replace(final=False), job.judging.tradeoff()
    with show_progress(stream, output) as watch:
        path = sweep_stream(stream, terms, best, watch=watch, tradeoff=tradeoff, scoring=scoring)
    metric = scoring.name if judges_paths(scoring.name) else "error"
    chosen = path.pick(metric)
    if job.study.plot is not None:
        draw_path(path, metric, chosen, job.study.plot)
    if output.json and not output.quiet:
        show_json_rows(path.columns())
    elif not output.quiet:
        print()
        write_table(*path_table(path, metric), chosen)
        print("\n* the sparsest within a standard error of the best")
    if job.search.model is not None:
        learner = path.model(chosen)
        model = study_model(learner, job.reading, stream)
        write(job.search.model, model, "weights" if learner.weights_only else "full")
    return {"l1": float(path.l1[chosen])}
