"""``thinstream costs``: what telling a learner the costs is worth, over all trade-offs, in one pass."""

from typing import Annotated, Any

import typer

from thinstream.cli.declared import option
from thinstream.cli.options import Algorithm, Data, Output, Reading, Study


def costs(
    data: Data,
    reading: Reading,
    output: Output,
    study: Study,
    parameters: dict[str, Any],
    algorithm: Algorithm = "arcsogd",
    weights: Annotated[
        str | None,
        option("Weights of the positives, α_p and c_p, as in 0.5,0.9,0.99 (default 0.05, 0.1 … 0.95).", "Sweep"),
    ] = None,
    ratio: Annotated[
        float | None,
        option("Negatives per positive, for ρ of the sum (default: of the first 10,000 rows).", "Sweep"),
    ] = None,
) -> None:
    """Draw cost curves: how models told the weights they are judged by compare with one that is not told.

    Paper P3, Figs 3 and 4. At weight w a model learns with ρ = w/(1-w) times the negatives per positive, and is judged
    by w·sensitivity + (1-w)·specificity; another with ρ = w/(1-w), judged by w·false negatives + (1-w)·false positives,
    here per 100 rows. All are progressive: each row is scored before it is learned.
    """
    from thinstream.cli import studies
    from thinstream.cli.io import look_first
    from thinstream.cli.render import remark_on_labels, report_skipped, show_json_rows, write_csv, write_table
    from thinstream.tune.cost_curves import WEIGHTS, study_costs
    from thinstream.tune.text_tables import cost_table
    from thinstream.tune.trials import Trial

    studies.require_online(algorithm)
    tried = _parse_weights(weights) or WEIGHTS
    studies.require_study_outputs(data, study, None)
    reading = look_first(data, reading, quiet=output.quiet)
    stream, trial = (
        studies.open_binary_stream(data, reading, study.dtype),
        Trial(parameters, fit_intercept=study.fit_intercept),
    )
    with studies.show_progress(stream, output) as watch:
        curves = study_costs(
            stream, studies.study_config(algorithm, study, reading, stream), trial, tried, ratio=ratio, watch=watch
        )
    table: dict[str, Any] = {"weight": curves.cost.weights}
    for curve in (curves.weighted_sum, curves.cost):
        table |= {f"{curve.metric}_{name}": each for name, each in curve.columns().items() if name != "weights"}
    if study.csv is not None:
        write_csv(study.csv, table)
    if study.plot is not None:
        curves.plot(study.plot)
    if output.quiet:
        return
    if output.json:
        show_json_rows(table)
        return
    write_table(*cost_table(curves), None)
    studies.say_places(study, None)
    report_skipped(stream, output.quiet)
    remark_on_labels(curves.rows, curves.positives, curves.looks_sorted)


def _parse_weights(text: str | None) -> tuple[float, ...]:
    try:
        return () if text is None else tuple(float(part) for part in text.split(","))
    except ValueError:
        raise typer.BadParameter(f"--weights must be numbers between 0 and 1 as in 0.5,0.9, got {text!r}") from None
