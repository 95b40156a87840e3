"""``thinstream explain``: show the contribution of each feature to a prediction."""

from dataclasses import replace
from typing import Annotated

from thinstream.cli.options import Data, ModelFile, Output, Reading, option

#: The maximum number of feature names to remember.
NAMES = 1_000_000


def explain(
    data: Data,
    reading: Reading,
    output: Output,
    model: ModelFile,
    top: Annotated[
        int,
        option(
            "Features per row, the largest contributions first.",
            None,
            "--top",
            "-n",
            min=1,
            show_default=True,
        ),
    ] = 10,
    row_id: Annotated[
        str | None, option("Show this column of each row (VW: tag).", None, "--id", metavar="COLUMN")
    ] = None,
) -> None:
    """Explain each prediction: show the contribution of each feature to the score.

    The intercept and the contributions add up to the score of the positive class or, with more than two classes, of the
    predicted class. For Auto, calibrated models and the logistic loss, the score is the log-odds.
    """
    from thinstream.cli.io import score_data
    from thinstream.cli.render import report_skipped, report_unknown, show_json
    from thinstream.cli.terminal import printable
    from thinstream.models.explain import explain as explanations
    from thinstream.models.explain import known_names

    fitted, stream, scored = score_data(data, replace(reading, id=row_id), model, labels=False, names=NAMES)
    known, number = known_names(fitted), 0
    for batch, _ in scored:
        names = known if stream.names is None else {**known, **stream.names}
        ids = batch.ids or [None] * len(batch)
        for name_of_row, row in zip(ids, explanations(fitted, batch, top, names), strict=True):
            number += 1
            if output.json:
                show_json({"row": number} | ({} if name_of_row is None else {"id": name_of_row}) | row._asdict())
                continue
            title = f"row {number}" + ("" if name_of_row is None else f", {name_of_row}")
            probability = "" if row.probability is None else f", probability {row.probability:.4g}"
            print(printable(f"{title}: {row.label} (score of {row.explained} {row.score:.6g}{probability})"))
            for name, contribution in row.contributions.items():
                print(printable(f"  {contribution:>+12.6g}  {name}"))
            if row.others:
                print(f"  {row.others:>+12.6g}  all other features")
            print(f"  {row.intercept:>+12.6g}  intercept\n")
    report_skipped(stream, output.quiet)
    report_unknown(stream, output.quiet)
