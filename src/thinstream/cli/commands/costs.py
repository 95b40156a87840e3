"""``thinstream costs``: compare cost-sensitive models with one that ignores costs, over all trade-offs."""

from typing import Annotated, Any

from thinstream.cli.options import Algorithm, Data, Output, Reading, Study, option
from thinstream.errors import InvalidParameterError


def costs(
    data: Data,
    reading: Reading,
    output: Output,
    study: Study,
    parameters: dict[str, Any],
    algorithm: Algorithm = "arow",
    weights: Annotated[
        str | None,
        option("Weights of the positives (α_p and c_p), such as 0.5,0.9,0.99 (default: 0.05,0.1,…,0.95).", "Sweep"),
    ] = None,
    ratio: Annotated[
        float | None,
        option("Negatives per positive, for ρ of the weighted sum (default: from the first 10,000 rows).", "Sweep"),
    ] = None,
) -> None:
    """Draw cost curves: compare models that know the costs with one that does not (paper P3, Figs 3 and 4).

    For each weight w, two models learn in the same pass. One has ρ = w/(1-w) times the negatives per positive. Its
    metric is w·sensitivity + (1-w)·specificity. The other has ρ = w/(1-w). Its metric is w·false negatives +
    (1-w)·false positives per 100 rows. All metrics are progressive: each row is predicted, then learned.
    "constant" is the better of always predicting positive and always predicting negative.
    """
    from thinstream.cli import studies
    from thinstream.cli.io import look_first
    from thinstream.cli.render import report_skipped, say, show_json_rows, warn_of_labels, write_csv, write_table
    from thinstream.tuning.cost_curves import WEIGHTS, study_costs
    from thinstream.tuning.figures import cost_table
    from thinstream.tuning.study import Trial

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
        table |= {f"{curve.metric}_{name}": column for name, column in curve.columns().items() if name != "weights"}
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
    flat = curves.weighted_sum.flat_from
    if flat is not None:
        reason = (
            "costs only raise the margin of positive rows, and no row reaches it. Pass -a arow or a larger --gamma"
            if curves.algorithm == "ARCSOGD"
            else "higher costs no longer change its predictions"
        )
        say(f"thinstream: {curves.algorithm} predicts the same at all weights from {flat:g} on: {reason}")
    studies.show_files(study, None)
    report_skipped(stream, output.quiet)
    warn_of_labels(curves.rows, curves.positives, curves.looks_sorted)


def _parse_weights(text: str | None) -> tuple[float, ...]:
    try:
        weights = () if text is None else tuple(float(part) for part in text.split(","))
    except ValueError:
        weights = (0.0,)
    if not all(0.0 < weight < 1.0 for weight in weights):
        raise InvalidParameterError(f"--weights must be numbers between 0 and 1, such as 0.5,0.9, got {text!r}")
    return weights
