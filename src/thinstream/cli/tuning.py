"""What ``thinstream tune`` does: candidates, a study of the stream, the best as a table, a command and a model."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from thinstream.cli.grids import grid_of
from thinstream.cli.groups import Output, Reading
from thinstream.cli.learning import SIGNS, costs_of
from thinstream.cli.opening import classes_of
from thinstream.cli.predicting import told
from thinstream.cli.show import say
from thinstream.cli.standings import Standings
from thinstream.cli.studies import Studying
from thinstream.cli.tables import remark, require_places, terms, two_sided, watching, write_json, write_table
from thinstream.errors import InvalidInputError, InvalidParameterError
from thinstream.evaluate.report import Tradeoff
from thinstream.learners import Frozen, find, make_learner
from thinstream.models.file import write
from thinstream.models.model import Model, Names
from thinstream.streams.options import remembered
from thinstream.streams.sources import STDIN
from thinstream.training import NullObserver, Run
from thinstream.tune.candidates import Setting, grid, lanes_of, sample
from thinstream.tune.paper import FOLDS, paper_grid
from thinstream.tune.passes import Terms, is_repeatable
from thinstream.tune.scoring import Scoring, scoring_of
from thinstream.tune.search import Outcome, search
from thinstream.tune.sources import rewind
from thinstream.tune.study import Lane


@dataclass(frozen=True)
class Job:
    """A command line of ``tune``."""

    data: list[str]
    reading: Reading
    algorithm: str
    parameters: dict[str, Any]  # of all candidates
    model: Path | None
    class_weight: str | None
    studying: Studying
    grid: list[str]
    random: int | None
    seed: int
    eliminate: bool
    paper: bool
    folds: int  # 0: progressive
    final: bool
    scoring: str
    tradeoff: Tradeoff
    top: int

    def checked(self) -> "Job":
        """The job, if its options agree with one another."""
        if str(self.model) == STDIN:
            raise InvalidParameterError("a model goes to a file, not to standard output: --model NAME")
        if self.final and not self.folds:
            raise InvalidParameterError("--final is about held-out rows: it does not go with --progressive")
        if self.studying.plot is not None and not self.paper:
            raise InvalidParameterError("--plot draws the sweep of l1: it goes with --paper")
        if not self.paper:
            return self
        name = find(self.algorithm).name
        if "l1" not in [parameter.name for parameter in find(self.algorithm).parameters]:
            raise InvalidParameterError(f"{name} has no l1 to sweep: --paper is for sparse learners")
        for option, clashes in {
            "--grid": self.grid,
            "--l1": "l1" in self.parameters,
            "--random": self.random,
            "--progressive": not self.folds,
            "--folds": self.folds not in (0, FOLDS),
        }.items():
            if clashes:
                raise InvalidParameterError(f"--paper says what to try and how: it does not go with {option}")
        return self

    def settings(self) -> list[Setting]:
        """The candidates."""
        if self.paper or not self.grid:
            space: dict[str, Any] = paper_grid(self.algorithm)
            space = {name: values for name, values in space.items() if name not in self.parameters}
        else:
            space = grid_of(self.grid)
        for name in space:
            if name in self.parameters:
                raise InvalidParameterError(f"{name} has one value for all candidates, and a --grid of its own")
        if self.random is None:
            return grid(space)
        return sample(space, self.random, np.random.default_rng(self.seed))


def tuned(job: Job, output: Output) -> None:
    """Does the job."""
    job.checked()
    require_places(job.data, job.studying, job.model)
    settings, scoring = job.settings(), scoring_of(job.scoring, job.tradeoff)
    candidates = _candidates(job, settings)
    stream = two_sided(job.data, job.reading, job.studying.dtype)
    again = is_repeatable(stream)
    if job.paper and not again:
        raise InvalidInputError("--paper goes over the data twice: it needs files, not a pipe")
    how = terms(find(job.algorithm).name, job.studying, stream)._replace(folds=job.folds, final=job.final)
    with watching(stream, output) as watch:
        outcome = search(
            stream,
            how,
            candidates,
            scoring,
            eliminate=job.eliminate,
            models=job.model is not None and not job.paper and (not again or not job.folds),
            watch=watch,
        )
    told(stream, output.quiet)
    standings = Standings(settings, outcome, scoring, job)
    if job.studying.csv is not None:
        standings.write_csv(job.studying.csv)
    if not output.quiet:
        standings.print_json() if output.json else standings.print_table(job.top)
    extra: dict[str, Any] = {}
    if job.paper:
        extra = _swept(job, output, stream, how, candidates[outcome.best], scoring)
    elif job.model is not None:
        rewind(stream)
        write(job.model, _model(job, stream, candidates[outcome.best], outcome))
    if not output.quiet:
        standings.print_end(output.json, extra)
        remark(outcome.rows, outcome.positives, outcome.looks_sorted)
        for text in standings.remarks():
            say(f"thinstream: {text}")


def _candidates(job: Job, settings: list[Setting]) -> list[Lane]:
    """A lane each; the costs of all, where a candidate has none of its own."""
    lanes = lanes_of(job.algorithm, settings, {**job.parameters, "fit_intercept": job.studying.intercept}, SIGNS)
    common = costs_of(job.class_weight)
    return [
        lane if "class_weight" in setting else lane._replace(costs=common)
        for lane, setting in zip(lanes, settings, strict=True)
    ]


def _model(job: Job, stream: Any, best: Lane, outcome: Outcome) -> Model:
    """The best candidate's model of all rows: the lane's, or the one that ``train`` would make."""
    if outcome.best in outcome.models:
        model = Model(outcome.models[outcome.best], classes_of(job.reading), stream.feature_space)
        return _kept(job, model, _names(stream), {})
    learner = make_learner(
        job.algorithm,
        n_features=0,
        costs=best.costs,
        dtype=job.studying.dtype,
        grow=True,
        fit_intercept=best.fit_intercept,
        **best.parameters,
    )
    run = Run(stream, Model(learner, classes_of(job.reading), stream.feature_space), watch=NullObserver())
    return _kept(job, run.run(), run.names(), {"progressive": run.state.progress.report().as_dict()})


def _kept(job: Job, model: Model, names: Names | None, extra: dict[str, Any]) -> Model:
    return Model(
        model.learner, model.classes, model.feature_space, names, {**extra, "reading": remembered(job.reading)}
    )


def _names(stream: Any) -> Names | None:
    if stream.names is None:
        return None
    found = dict(stream.names.items())
    return Names.of(list(found.values()), list(found))


def _swept(job: Job, output: Output, stream: Any, how: Terms, best: Lane, scoring: Scoring) -> dict[str, Any]:
    """The second half of the papers' protocol: l1 swept with the best parameters."""
    from thinstream.tune import charts, drawing
    from thinstream.tune.path import sweep_stream
    from thinstream.tune.picks import METRICS

    rewind(stream)
    with watching(stream, output) as watch:
        path = sweep_stream(stream, how._replace(final=False), best, watch=watch, tradeoff=job.tradeoff)
    metric = scoring.name if scoring.name in METRICS else "error"
    chosen = path.pick(metric)
    if job.studying.plot is not None:
        drawing.draw(charts.path_chart(path, metric, chosen), job.studying.plot)
    if output.json and not output.quiet:
        write_json(path.columns())
    elif not output.quiet:
        print()
        write_table(*charts.path_table(path, metric), chosen)
        print("\n* the sparsest within a standard error of the best")
    if job.model is not None:
        learner = path.model(chosen)
        model = _kept(job, Model(learner, classes_of(job.reading), stream.feature_space), _names(stream), {})
        write(job.model, model, "weights" if isinstance(learner, Frozen) else "full")
    return {"l1": float(path.l1[chosen])}
