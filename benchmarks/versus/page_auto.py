"""The part of the page about Auto, which nobody tunes."""

from collections.abc import Sequence
from typing import Any

from benchmarks.versus.judging import OURS, by_tool, verdict
from benchmarks.versus.sets import SETS
from papers.experiment import markdown

Row = dict[str, Any]


def errors(rows: Sequence[Row]) -> str:
    """Auto beside the best peer, and beside its own logistic models."""
    found = {row["set"]: row for row in rows if row["column"] == "auto difference"}
    autos = {row["set"]: row for row in rows if row["column"] == "auto"}
    names = [name for name in SETS if name in found]
    if not names:
        return ""
    lines = [_line(rows, found[name], autos[name]) for name in names]
    good = sum(found[name]["difference"] <= 0 for name in names)
    worse = sum(found[name]["difference"] > 2 * found[name]["difference_se"] for name in names)
    calibrated = sum(autos[name]["log_loss"] <= autos[name]["lane_log_loss"] for name in names)
    header = [
        "set",
        "best tool, tuned",
        "ours, tuned",
        "Auto",
        "minus the tool's",
        "Auto is",
        "log-loss",
        "best member's",
    ]
    seen = "[some variants were scored on test rows](auto-portfolio.md#variants-that-were-scored-on-test-rows)"
    return f"""## Auto, not tuned

`ts.Auto()` with default settings, one pass. Its portfolio was chosen on training rows of these datasets,
and {seen}, so other data
may be harder. It is at or below the best tuned tool on {good} of {len(names)} datasets, and above by more than two
standard errors on {worse}.

The last columns compare the log-loss on test rows with that of its best logistic member, chosen by these rows. It is
at or
below it on {calibrated} of {len(names)}.

{markdown(header, lines)}"""


def _line(rows: Sequence[Row], row: Row, auto: Row) -> list[str]:
    error = f"{row['error']:.2f}"
    return [
        row["set"],
        f"{row['peer']}: {row['peer_error']:.2f}",
        f"{by_tool(rows, row['set'], 'tuned')[OURS]['error']:.2f}",
        f"**{error}**" if row["difference"] <= 0 else error,
        f"{row['difference']:+.2f} ± {row['difference_se']:.2f}",
        verdict(row),
        f"{auto['log_loss']:.4f}",
        f"{auto['lane_log_loss']:.4f}",
    ]
