"""``thinstream path``: train models from dense to sparse in one pass."""

from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

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
    option,
    parse_costs,
)
from thinstream.errors import InvalidInputError, InvalidParameterError

if TYPE_CHECKING:
    from thinstream.models.model import Model
    from thinstream.tuning.sparsity_path import Limits, PathResult

SWEEP, PICK = "Sweep", "Pick"


@dataclass(frozen=True)
class Choice:
    """How to select a model, and its file."""

    pick: Annotated[
        str,
        option(
            "The model to select: one_se (the sparsest within one standard error of the best; default) or best.", PICK
        ),
    ] = "one_se"
    scoring: Annotated[
        str,
        option(
            "The metric: log_loss (default with --loss logistic), average_precision (default otherwise), auc, error, "
            "balanced_accuracy, f1, precision, recall, jaccard, and with two classes weighted_sum and cost.",
            PICK,
        ),
    ] = ""
    max_nnz: Annotated[int | None, option("The maximum number of non-zero weights.", PICK, min=0)] = None
    max_density: Annotated[float | None, option("The maximum share of non-zero weights.", PICK, min=0.0, max=1.0)] = (
        None
    )
    model: Annotated[Path | None, option("Save the selected model in this file.", PICK, "--model", "-m")] = None
    weights_only: Annotated[bool, option("Save non-zero weights only. The model cannot continue to learn.", PICK)] = (
        False
    )

    def scored(self, algorithm: str, parameters: dict[str, Any]) -> "Choice":
        """Return the choice with a metric, by default that of the loss."""
        from thinstream.algorithms.registry import find
        from thinstream.tuning.measures import default_metric

        defaults = {parameter.name: parameter.default for parameter in find(algorithm).parameters}
        loss = parameters.get("loss", defaults.get("loss"))
        return replace(self, scoring=self.scoring or default_metric(loss == "logistic"))

    def limits(self) -> "Limits":
        from thinstream.tuning.sparsity_path import Limits

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
            "The range, such as 1e-6..1. A missing end is estimated from the first 4000 rows.",
            SWEEP,
            metavar="LOW..HIGH",
        ),
    ] = None,
    n: Annotated[int, option("The number of models (default 20).", SWEEP, "-n", min=2)] = 20,
    test: Annotated[
        list[str] | None, option("Score the models on this file instead of --holdout rows. Repeatable.", SWEEP)
    ] = None,
    holdout: Annotated[
        int,
        option(
            "Hold out every Nth row from a copy of each model, and score the copy on these rows. 0: none (default 10).",
            SWEEP,
            min=0,
        ),
    ] = 10,
) -> None:
    """Train models with increasing l1 in one pass, show their errors and select one.

    The table has a line per model with its progressive metrics (each row is predicted, then learned) and the
    error of the final model on held-out rows. An asterisk marks the selected model.
    """
    from thinstream.algorithms.registry import find
    from thinstream.cli import studies
    from thinstream.cli.io import look_first, open_data
    from thinstream.cli.render import report_skipped, say, warn_of_labels
    from thinstream.cli.terminal import keep_going
    from thinstream.training.metrics import EXAMPLES
    from thinstream.tuning.measures import check_metric, scoring_of
    from thinstream.tuning.sparsity_path import Sweep, check_rule, sweep_stream
    from thinstream.tuning.study import Trial

    studies.require_online(algorithm)
    choice = choice.scored(algorithm, parameters)
    check_metric(choice.scoring, 2 if reading.classes is None else len(reading.classes))
    check_rule(choice.pick, choice.limits())
    sweep = Sweep(n, *_parse_ends(l1), holdout).check()
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
    except InvalidInputError as error:  # the table helps to choose other limits, so it is printed first
        trouble = error
    if chosen is not None and choice.model is not None:
        progressive = swept.learned.report(chosen, tradeoff).as_dict()
        model = studies.study_model(swept.model(chosen), reading, stream, progressive)
        _save(model, choice, swept.passes, output.quiet)
    _show(swept, chosen, choice, study, output)
    if not output.quiet:
        if chosen is not None:
            _remark_on_edge(swept, choice)
            if swept.is_constant(chosen, choice.scoring):
                say(
                    "thinstream: the selected model is not better than a constant prediction, by "
                    f"{choice.scoring.replace('_', ' ')}"
                )
        report_skipped(stream, output.quiet)
        positives = int(swept.learned.counts[EXAMPLES, 1, 0]) if swept.classes == 2 else None
        warn_of_labels(swept.rows, positives, swept.looks_sorted)
    if trouble is not None:
        raise trouble


def _parse_ends(text: str | None) -> tuple[float | None, float | None]:
    """Parse LOW..HIGH, where either end may be missing.

    >>> _parse_ends("1e-6..1"), _parse_ends("..10")
    ((1e-06, 1.0), (None, 10.0))
    """
    if text is None:
        return None, None
    try:
        low, high = (float(part) if part else None for part in text.split(".."))
    except ValueError:
        low = high = -1.0
    if any(end is not None and not 0.0 < end < inf for end in (low, high)) or (low and high and low >= high):
        raise InvalidParameterError(
            f"--l1 must be LOW..HIGH such as 1e-6..1, > 0 and with LOW below HIGH, got {text!r}"
        )
    return low, high


def _save(model: "Model", choice: Choice, passes: int, quiet: bool) -> None:
    from thinstream.cli.render import say
    from thinstream.models.file import write

    assert choice.model is not None
    is_full = not choice.weights_only and not model.learner.weights_only
    write(choice.model, model, "full" if is_full else "weights")
    if not is_full and not choice.weights_only and not quiet:
        say(
            f"thinstream: {choice.model} has weights only and cannot continue to learn, because the models needed "
            f"{passes} passes"
        )


def _show(swept: "PathResult", chosen: int | None, choice: Choice, study: Study, output: Output) -> None:
    from thinstream.cli.render import show_json, show_json_rows, write_csv, write_table
    from thinstream.cli.studies import show_files
    from thinstream.tuning.figures import draw_path, path_table, scoring_name, short

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
    rows = "on the test rows" if swept.tested else "on held-out rows"
    rows = rows if swept.judged_on_held_out else "(progressive)"
    rule = "the sparsest within one standard error of the best" if choice.pick == "one_se" else "the best"
    name = scoring_name(choice.scoring)
    print(f"\n* l1 = {short(swept.l1[chosen])}, {swept.nnz[chosen]:,} of {swept.n_weights:,} weights: {rule}")
    print(f"  by {name} {rows}{_within(choice.limits())}; to train only this model: --l1 {float(swept.l1[chosen])!r}")
    show_files(study, choice.model)


def _remark_on_edge(swept: "PathResult", choice: Choice) -> None:
    """Warn if the best model is at an end of the range."""
    from thinstream.cli.render import say

    edge = swept.edge(choice.scoring, choice.limits())
    if edge is not None:
        say(f"thinstream: {edge}, --l1 {edge.beyond.low:g}..{edge.beyond.high:g}")


def _within(limits: "Limits") -> str:
    parts = [f"{limits.max_nnz:,} weights"] if limits.max_nnz is not None else []
    parts += [f"{100.0 * limits.max_density:g}% of the weights"] if limits.max_density is not None else []
    return f", among models with at most {' and '.join(parts)}" if parts else ""
