"""``thinstream path``: models from dense to sparse in one pass."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from thinstream.cli.declared import option
from thinstream.cli.options import (
    DEFAULT_ALGORITHM,
    Algorithm,
    ClassWeight,
    Data,
    Judging,
    Output,
    Reading,
    Study,
    classes_of,
    parse_costs,
)
from thinstream.errors import InvalidInputError, InvalidParameterError

if TYPE_CHECKING:
    from thinstream.models.model import Model
    from thinstream.tune.path_result import PathResult
    from thinstream.tune.selection import Limits

SWEEP, PICK = "Sweep", "Pick"


@dataclass(frozen=True)
class Choice:
    """Which model to take, and where it goes."""

    pick: Annotated[
        str,
        option(
            "Which model to take: one_se (the sparsest within a standard error of the best; default) or best.", PICK
        ),
    ] = "one_se"
    scoring: Annotated[
        str,
        option(
            "error (default), balanced_accuracy, f1, precision, recall, jaccard, auc, average_precision, log_loss; of "
            "two classes also weighted_sum and cost.",
            PICK,
        ),
    ] = "error"
    max_nnz: Annotated[int | None, option("Most non-zero weights.", PICK, min=0)] = None
    max_density: Annotated[float | None, option("Most, as a share of all.", PICK, min=0.0, max=1.0)] = None
    model: Annotated[Path | None, option("Where that model goes.", PICK, "--model", "-m")] = None
    weights_only: Annotated[bool, option("Save its non-zero weights only.", PICK, "--weights-only")] = False

    def limits(self) -> "Limits":
        """How large the model may be."""
        from thinstream.tune.selection import Limits

        return Limits(self.max_nnz, self.max_density)


def path(
    data: Data,
    reading: Reading,
    output: Output,
    study: Study,
    judging: Judging,
    choice: Choice,
    parameters: dict[str, Any],
    algorithm: Algorithm = DEFAULT_ALGORITHM,
    class_weight: ClassWeight = None,
    l1: Annotated[
        str | None,
        option(
            "The ends, as in 1e-6..1; an end left out is found by a look at the first 4000 rows.",
            SWEEP,
            "--l1",
            metavar="LOW..HIGH",
        ),
    ] = None,
    n: Annotated[int, option("Models (default 20).", SWEEP, "-n", min=2)] = 20,
    test: Annotated[list[str] | None, option("A file to score the models on, in place of --holdout.", SWEEP)] = None,
    holdout: Annotated[
        int,
        option(
            "Every so many-th row is left out by a twin of each model, to score it on; 0: none (default 10).",
            SWEEP,
            min=0,
        ),
    ] = 10,
) -> None:
    """Learn models from dense to sparse, a value of l1 each, in one pass; show their errors and pick one.

    The table has a line per model: its progressive metrics (each row scored before it is learned), and the error of the
    final models on rows that were held out. An asterisk marks the model that is picked.
    """
    from thinstream.cli import studies
    from thinstream.cli.io import look_first, open_data
    from thinstream.cli.render import remark_on_labels, report_skipped
    from thinstream.cli.terminal import keep_going
    from thinstream.evaluate.tally import POSITIVES
    from thinstream.learners import find
    from thinstream.tune.scoring import check_metric, scoring_of
    from thinstream.tune.selection import check_rule
    from thinstream.tune.sparsity_path import Sweep, sweep_stream
    from thinstream.tune.trials import Trial

    studies.require_online(algorithm)
    check_metric(choice.scoring, 2 if reading.classes is None else len(reading.classes))
    check_rule(choice.pick, choice.limits())
    sweep = Sweep(n, *_parse_ends(l1), holdout)
    sweep.check()
    if "l1" not in {parameter.name for parameter in find(algorithm).parameters}:
        raise InvalidParameterError(f"{find(algorithm).name} has no l1 to sweep")
    studies.require_study_outputs([*data, *(test or [])], study, choice.model)
    if choice.model is not None:
        keep_going()
    reading = look_first(data, reading, quiet=output.quiet)
    classes = classes_of(reading)
    check_metric(choice.scoring, len(classes))
    stream = open_data(data, reading, study.dtype)
    test_stream = open_data(test, reading, study.dtype) if test else None
    trial, tradeoff = Trial(parameters, parse_costs(class_weight, classes), study.fit_intercept), judging.tradeoff()
    scoring = scoring_of(choice.scoring, tradeoff, len(classes))
    with studies.show_progress(stream, output) as watch:
        config = studies.study_config(algorithm, study, reading, stream)
        swept = sweep_stream(
            stream, config, trial, sweep, test=test_stream, watch=watch, tradeoff=tradeoff, scoring=scoring
        )
    chosen, trouble = None, None
    try:
        chosen = swept.pick(choice.scoring, choice.pick, choice.limits())
    except InvalidInputError as error:  # the table may tell what to ask for instead
        trouble = error
    if chosen is not None and choice.model is not None:
        progressive = swept.learned.report(chosen, tradeoff).as_dict()
        model = studies.study_model(swept.model(chosen), reading, stream, progressive)
        _save(model, choice, swept.passes, output.quiet)
    _show(swept, chosen, choice, study, output)
    if not output.quiet:
        if chosen is not None:
            _remark_on_edge(swept, choice)
        report_skipped(stream, output.quiet)
        positives = int(swept.learned.counts[POSITIVES, 0]) if swept.classes == 2 else None
        remark_on_labels(swept.rows, positives, swept.looks_sorted)
    if trouble is not None:
        raise trouble


def _parse_ends(text: str | None) -> tuple[float | None, float | None]:
    """LOW..HIGH, either of which may be missing.

    >>> _parse_ends("1e-6..1"), _parse_ends("..10")
    ((1e-06, 1.0), (None, 10.0))
    """
    if text is None:
        return None, None
    try:
        low, high = (float(part) if part else None for part in text.split(".."))
    except ValueError:
        raise typer.BadParameter(f"--l1 must be two numbers > 0 as in 1e-6..1, got {text!r}") from None
    return low, high


def _save(model: "Model", choice: Choice, passes: int, quiet: bool) -> None:
    """Writes the model that was chosen."""
    from thinstream.cli.render import say
    from thinstream.models.file import write

    assert choice.model is not None
    whole = not choice.weights_only and not model.learner.weights_only
    write(choice.model, model, "full" if whole else "weights")
    if not whole and not choice.weights_only and not quiet:
        say(f"thinstream: {choice.model} has weights only, as the models took {passes} passes; it cannot go on")


def _show(swept: "PathResult", chosen: int | None, choice: Choice, study: Study, output: Output) -> None:
    """Writes the table to standard output, and the files asked for."""
    from thinstream.cli.render import show_json, show_json_rows, write_csv, write_table
    from thinstream.cli.studies import say_places
    from thinstream.tune.figures import draw_path
    from thinstream.tune.text_tables import path_table, scoring_name, short

    table = swept.columns()
    if study.csv is not None:
        write_csv(study.csv, table)
    if study.plot is not None:
        draw_path(swept, choice.scoring, chosen, study.plot)
    if output.quiet:
        return
    if output.json:
        show_json_rows(table)
        last = {"picked": chosen, "by": choice.scoring, "held_out": swept.judged_on_held_out, "rows": swept.rows}
        more = {"features": swept.n_met, "passes": swept.passes, "model": choice.model and str(choice.model)}
        show_json({**last, **more})
        return
    write_table(*path_table(swept, choice.scoring), chosen)
    if chosen is None:
        return
    on = "the test rows" if swept.tested else "held-out rows"
    on = on if swept.judged_on_held_out else "rows before learning them"
    rule = "the sparsest within a standard error of the best" if choice.pick == "one_se" else "the best"
    name = scoring_name(choice.scoring)
    print(f"\n* l1 = {short(swept.l1[chosen])}, {swept.nnz[chosen]:,} of {swept.n_weights:,} weights: {rule}")
    print(f"  by {name} on {on}{_within(choice.limits())}; to train it alone: --l1 {float(swept.l1[chosen])!r}")
    say_places(study, choice.model)


def _remark_on_edge(swept: "PathResult", choice: Choice) -> None:
    """Says so if the best model is at an end of the range."""
    from thinstream.cli.render import say

    edge = swept.edge(choice.scoring, choice.limits())
    if edge is not None:
        say(f"thinstream: {edge}, --l1 {edge.beyond.low:g}..{edge.beyond.high:g}")


def _within(limits: "Limits") -> str:
    parts = [f"{limits.max_nnz:,} weights"] if limits.max_nnz is not None else []
    parts += [f"{100.0 * limits.max_density:g} % of all"] if limits.max_density is not None else []
    return f", of those with at most {' and '.join(parts)}" if parts else ""
