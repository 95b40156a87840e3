"""``thinstream predict``, ``evaluate``, ``explain`` and ``diagnose``: use a model on rows, without learning."""

import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from thinstream.cli.options import (
    OUTPUT,
    Data,
    Judging,
    Metrics,
    ModelFile,
    Output,
    Reading,
    Specified,
    option,
    parse_metrics,
)

if TYPE_CHECKING:
    from thinstream.batch import Batch

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
        ),
    ] = "-",
    scores: Annotated[
        bool,
        option(
            "Write scores instead of labels: the score of the positive class, or with more than two classes one each.",
            PREDICTIONS,
        ),
    ] = False,
    proba: Annotated[
        bool, option("Write probabilities instead of labels, if the model is calibrated.", PREDICTIONS)
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


def evaluate(
    specified: Specified,
    data: Data,
    reading: Reading,
    output: Output,
    model: ModelFile,
    judging: Judging,
    metrics: Metrics = None,
    plot: Annotated[
        Path | None, option("Draw precision, recall, ROC and calibration curves to this file (.png or .svg).", OUTPUT)
    ] = None,
) -> None:
    """Measure a model on labeled rows without learning from them.

    A row is predicted positive if its score is above the model's threshold. --json also prints the curves that --plot
    draws.
    """
    import numpy as np

    from thinstream.cli.io import require_not_input, require_outputs, score_data
    from thinstream.cli.render import describe_threshold, report_skipped, report_unknown, show_json
    from thinstream.cli.terminal import printable
    from thinstream.data.labels import GrowingClasses
    from thinstream.errors import InvalidInputError
    from thinstream.training.formatting import describe
    from thinstream.training.metrics import KnownProgress, progress_for
    from thinstream.training.threshold import curves_of

    if plot is not None:
        from thinstream.plotting import check_picture

        check_picture(plot)
        require_outputs(data, plot)
        require_not_input(plot, model)
    fitted, stream, scored = score_data(data, reading, model, labels=True)
    classes = fitted.classes
    asked = parse_metrics(metrics, classes)
    asked += [name for name, by in (("sum", "alpha_p"), ("cost", "cost_p")) if by in specified]
    progress = progress_for(classes, fitted.threshold, fitted.has_probabilities)
    progress = KnownProgress(len(classes)) if classes.grow else progress
    for batch, scores in scored:
        y = batch.require_labels("evaluate on")
        if isinstance(classes, GrowingClasses):  # a class that the model does not know is never predicted
            classes, y = classes.numbered(stream.classes, y)
            more = len(classes) - scores.shape[1]
            scores = np.pad(scores, ((0, 0), (0, more)), constant_values=np.finfo(scores.dtype).min)
        progress.update(scores, y, batch.weights)
    if not progress.rows:
        raise InvalidInputError(f"{', '.join(data)}: the data has no rows")
    report_skipped(stream, output.quiet)
    report_unknown(stream, output.quiet)
    report = progress.report(judging.tradeoff())
    labels = [printable(str(label)) for label in classes]
    if plot is not None:
        from thinstream.training.picture import draw_curves

        title = f"{fitted.learner.algorithm.name} on {', '.join(data)}"
        draw_curves(progress, labels, title, plot, probabilities=fitted.has_probabilities)
    if output.json:
        curves = curves_of(progress, classes, probabilities=fitted.has_probabilities)
        show_json({**report.as_dict(), "threshold": fitted.threshold, "confusion": report.confusion, "curves": curves})
    else:
        print(describe(report, labels, asked))
        if fitted.threshold:
            print(f"{'threshold':<18} {describe_threshold(fitted)}")
        if plot is not None:
            print(f"{'chart':<18} {plot}")


#: The maximum number of feature names to remember.
NAMES = 1_000_000


def explain(
    data: Data,
    reading: Reading,
    output: Output,
    model: ModelFile,
    top: Annotated[int, option("Features per row, the largest contributions first.", None, "--top", "-n", min=1)] = 10,
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
    model_names, number = known_names(fitted), 0
    for batch, _ in scored:
        names = model_names if stream.names is None else {**model_names, **stream.names}
        ids = batch.ids or [None] * len(batch)
        for name_of_row, row in zip(ids, explanations(fitted, batch, top, names), strict=True):
            number += 1
            if output.json:
                show_json({"row": number} | ({} if name_of_row is None else {"id": name_of_row}) | row._asdict())
                continue
            title = f"row {number}" + ("" if name_of_row is None else f", {name_of_row}")
            probability = "" if row.probability is None else f", probability of {row.explained} {row.probability:.4g}"
            print(printable(f"{title}: {row.label} (score of {row.explained} {row.score:.6g}{probability})"))
            for name, contribution in row.contributions.items():
                print(printable(f"  {contribution:>+12.6g}  {name}"))
            if row.others:
                print(f"  {row.others:>+12.6g}  all other features")
            print(f"  {row.intercept:>+12.6g}  intercept\n")
    report_skipped(stream, output.quiet)
    report_unknown(stream, output.quiet)


def diagnose(
    data: Data,
    reading: Reading,
    output: Output,
    model: ModelFile,
    rows: Annotated[int, option("The number of rows to use, from the start.", min=1)] = 20_000,
) -> None:
    """Find numerical problems of a model, on labeled rows like its training data.

    It reports weights that are too small to matter, models that grow without improving, and scores that diverge, with
    advice for each.
    """
    from thinstream import diagnostics
    from thinstream.cli.io import score_data
    from thinstream.cli.render import show_json

    fitted, stream, _ = score_data(data, reading, model, labels=True)
    batch = first(stream.batches(), rows)
    diagnosis = diagnostics.diagnose(fitted.learner, batch, batch.y)
    if output.json:
        show_json({"model": diagnosis.name, "findings": [finding._asdict() for finding in diagnosis.findings]})
    else:
        print(diagnosis)


def first(batches: Iterable["Batch"], rows: int) -> "Batch":
    """Return the first rows of a stream as one batch."""
    from thinstream.batch import Batch
    from thinstream.errors import InvalidInputError

    parts: list[Batch] = []
    for batch in batches:
        batch.require_labels("look at")
        parts.append(batch.check().until(min(rows, len(batch))))
        rows -= len(parts[-1])
        if rows <= 0:
            break
    if not sum(map(len, parts)):
        raise InvalidInputError("the data has no rows")
    return Batch.concatenate(parts)
