"""What ``thinstream costs`` does: open, sweep, show, draw."""

from collections.abc import Sequence
from typing import Any

from thinstream.cli.groups import Output, Reading
from thinstream.cli.predicting import told
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
from thinstream.tune.cost_curves import study_costs
from thinstream.tune.study import Trial
from thinstream.tune.text_tables import cost_table


def compare_costs(
    data: list[str],
    reading: Reading,
    output: Output,
    studying: Studying,
    algorithm: str,
    parameters: dict[str, Any],
    weights: Sequence[float],
    ratio: float | None,
) -> None:
    """Sweeps the trade-off between the classes."""
    require_places(data, studying, None)
    stream, lane = two_sided(data, reading, studying.dtype), Trial(parameters, fit_intercept=studying.intercept)
    with watching(stream, output) as watch:
        curves = study_costs(stream, terms(algorithm, studying, stream), lane, weights, ratio=ratio, watch=watch)
    table: dict[str, Any] = {"weight": curves.cost.weights}
    for curve in (curves.weighted_sum, curves.cost):
        table |= {f"{curve.metric}_{name}": each for name, each in curve.columns().items() if name != "weights"}
    if studying.csv is not None:
        write_csv(studying.csv, table)
    if studying.plot is not None:
        curves.plot(studying.plot)
    if output.quiet:
        return
    if output.json:
        write_json(table)
        return
    write_table(*cost_table(curves), None)
    say_places(studying, None)
    told(stream, output.quiet)
    remark(curves.rows, curves.positives, curves.looks_sorted)
