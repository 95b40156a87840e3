"""What ``thinstream path`` does: open, sweep, show, draw, save."""

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from thinstream.cli.groups import Output, Reading
from thinstream.cli.learning import costs_of
from thinstream.cli.opening import classes_of
from thinstream.cli.predicting import told
from thinstream.cli.show import say
from thinstream.cli.studies import Studying
from thinstream.cli.tables import (
    remark,
    require_places,
    say_places,
    terms,
    two_sided,
    watching,
    write_csv,
    write_json,
    write_table,
)
from thinstream.errors import InvalidInputError, InvalidParameterError
from thinstream.evaluate.report import Tradeoff
from thinstream.evaluate.tally import POSITIVES
from thinstream.learners import Frozen, find
from thinstream.models.file import write
from thinstream.models.model import Model, Names
from thinstream.streams.options import remembered
from thinstream.streams.sources import STDIN
from thinstream.tune import charts, drawing
from thinstream.tune.path import Path as Swept
from thinstream.tune.path import Sweep, sweep_stream
from thinstream.tune.picks import Limits, checked_metric, checked_rule
from thinstream.tune.study import Lane


@dataclass(frozen=True)
class Sweeping:
    """A command line of ``path``."""

    data: list[str]
    reading: Reading
    output: Output
    studying: Studying
    algorithm: str
    class_weight: str | None
    parameters: dict[str, Any]
    sweep: Sweep
    test: list[str]
    pick: str
    scoring: str
    tradeoff: Tradeoff
    limits: Limits
    model: Path | None
    weights_only: bool


def sweep(asked: Sweeping) -> None:
    """Sweeps l1 and picks a model."""
    output, studying = asked.output, asked.studying
    checked_metric(asked.scoring)
    checked_rule(asked.pick, asked.limits)
    asked.sweep.checked()
    if "l1" not in {parameter.name for parameter in find(asked.algorithm).parameters}:
        raise InvalidParameterError(f"{find(asked.algorithm).name} has no l1 to sweep")
    if str(asked.model) == STDIN:
        raise InvalidParameterError("a model goes to a file, not to standard output: --model NAME")
    require_places([*asked.data, *asked.test], studying, asked.model)
    stream = two_sided(asked.data, asked.reading, studying.dtype)
    test = two_sided(asked.test, asked.reading, studying.dtype) if asked.test else None
    lane = Lane(asked.parameters, costs_of(asked.class_weight), studying.intercept)
    with watching(stream, output) as watch:
        how = terms(asked.algorithm, studying, stream)
        path = sweep_stream(stream, how, lane, asked.sweep, test=test, watch=watch, tradeoff=asked.tradeoff)
    chosen, trouble = None, None
    try:
        chosen = path.pick(asked.scoring, asked.pick, asked.limits)
    except InvalidInputError as error:  # the table may tell what to ask for instead
        trouble = error
    if chosen is not None and asked.model is not None:
        _save(asked, path, chosen, stream)
    _show_path(asked, path, chosen)
    if not output.quiet:
        told(stream, output.quiet)
        remark(path.rows, int(path.learned.counts[POSITIVES, 0]), path.looks_sorted)
    if trouble is not None:
        raise trouble


def _save(asked: Sweeping, path: Swept, chosen: int, stream: Any) -> None:
    assert asked.model is not None
    learner = path.model(chosen)
    whole = not asked.weights_only and not isinstance(learner, Frozen)
    found = {} if stream.names is None else dict(stream.names.items())
    names = Names.of(list(found.values()), list(found)) if found else None
    extra = {"progressive": path.learned.report(chosen, asked.tradeoff).as_dict(), "reading": remembered(asked.reading)}
    model = Model(learner, classes_of(asked.reading), stream.feature_space, names, extra)
    write(asked.model, model, "full" if whole else "weights")
    if not whole and not asked.weights_only and not asked.output.quiet:
        say(f"thinstream: {asked.model} has weights only, as the models took {path.passes} passes; it cannot go on")


def _show_path(asked: Sweeping, path: Swept, chosen: int | None) -> None:
    """The table on standard output, and the files asked for."""
    output, studying = asked.output, asked.studying
    table = path.columns()
    if studying.csv is not None:
        write_csv(studying.csv, table)
    if studying.plot is not None:
        drawing.draw(charts.path_chart(path, asked.scoring, chosen), studying.plot)
    if output.quiet:
        return
    if output.json:
        write_json(table)
        last = {"picked": chosen, "by": asked.scoring, "held_out": path.judged_on_held_out, "rows": path.rows}
        more = {"features": path.n_features, "passes": path.passes, "model": asked.model and str(asked.model)}
        sys.stdout.write(json.dumps({**last, **more}) + "\n")
        return
    write_table(*charts.path_table(path, asked.scoring), chosen)
    if chosen is None:
        return
    on = "the test rows" if path.tested else "held-out rows"
    on = on if path.judged_on_held_out else "rows before learning them"
    rule = "the sparsest within a standard error of the best" if asked.pick == "one_se" else "the best"
    name = charts.NAMES[asked.scoring]
    print(f"\n* l1 = {charts.short(path.l1[chosen])}, {path.nnz[chosen]:,} of {path.n_features:,} weights: {rule}")
    print(f"  by {name} on {on}{_within(asked.limits)}; to train it alone: --l1 {float(path.l1[chosen])!r}")
    say_places(studying, asked.model)


def _within(limits: Limits) -> str:
    parts = [f"{limits.max_nnz:,} weights"] if limits.max_nnz is not None else []
    parts += [f"{100.0 * limits.max_density:g} % of all"] if limits.max_density is not None else []
    return f", of those with at most {' and '.join(parts)}" if parts else ""
