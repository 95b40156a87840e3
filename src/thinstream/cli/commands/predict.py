"""``thinstream predict``: predict labels, scores or probabilities of new examples."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from thinstream.cli.options import Data, ModelFile, Output, Reading, option

PREDICTIONS = "Predictions"


def predict(
    data: Data,
    reading: Reading,
    output: Output,
    model: ModelFile,
    out: Annotated[
        str,
        option(
            "The output file. Its extension can select compression (.gz …) or CSV with a header (.csv).",
            None,
            "--out",
            "-o",
            show_default=True,
        ),
    ] = "-",
    scores: Annotated[
        bool,
        option(
            "Write scores instead of labels: the score of the positive class, or with more than two classes one each.",
            PREDICTIONS,
            "--scores",
        ),
    ] = False,
    proba: Annotated[
        bool,
        option("Write probabilities instead of labels, if the model is calibrated.", PREDICTIONS, "--proba"),
    ] = False,
    top: Annotated[
        int | None,
        option("Write the best N classes, with --scores or --proba if set.", PREDICTIONS, metavar="N", min=1),
    ] = None,
    row_id: Annotated[
        str | None,
        option("Begin each line with this column of its row (VW: tag).", PREDICTIONS, "--id", metavar="COLUMN"),
    ] = None,
) -> None:
    """Write one line per row: its predicted label, score or probability.

    Rows are read as in training: the model file stores hashing, text columns, normalization and the threshold.
    Predictions for rows from a pipe are written immediately. With --json, each line is an object with label and score.
    Without it, tabs separate several numbers or classes of a row.
    """
    from thinstream.cli.io import require_not_input, require_outputs, score_data
    from thinstream.cli.render import Predictions, report_skipped, report_unknown, say
    from thinstream.cli.terminal import printable
    from thinstream.data.shuffle import open_outputs

    require_outputs(data, out)
    require_not_input(out, model)
    fitted, stream, scored = score_data(data, replace(reading, id=row_id), model, labels=False)
    as_csv = ".csv" in Path(out).suffixes[-2:]
    labels = [str(label) for label in fitted.classes]
    predictions = Predictions(fitted, labels, scores, proba, top, output.json, as_csv)
    predictions.check(str(model))
    if not as_csv and predictions.columns and not output.quiet:
        say(f"columns: {', '.join(predictions.columns)}")
    on_terminal, waited_for = out == "-" and sys.stdout.isatty(), out == "-" or Path(out).is_fifo()
    rows = bad = 0
    with open_outputs([out]) as (file,):
        if as_csv:
            file.write(f"{predictions.header(row_id)}\n".encode())
        for batch, s in scored:
            rows += len(batch)
            ids = None if row_id is None else batch.ids or [""] * len(batch)
            lines = predictions.lines(s, ids)
            if stream.skipped is not None:  # an invalid record ends its batch, and has no prediction
                lines += [predictions.nothing(name) for name in stream.skipped.ids[bad : stream.skipped.count]]
                bad = stream.skipped.count
            if on_terminal:
                lines = [printable(line, keep="\t") for line in lines]
            file.write("".join(line + "\n" for line in lines).encode())
            if waited_for:
                file.flush()  # the writer of a pipe may wait for this prediction before it sends the next row
    report_skipped(stream, output.quiet)
    report_unknown(stream, output.quiet)
    if out != "-" and not output.quiet:
        say(f"wrote {rows:,} predictions to {out}")
