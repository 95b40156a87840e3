"""``thinstream evaluate``: measure a model on labeled rows."""

from pathlib import Path
from typing import Annotated

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
    found, stream, scored = score_data(data, reading, model, labels=True)
    classes = found.classes
    asked = parse_metrics(metrics, classes)
    asked += [name for name, by in (("sum", "alpha_p"), ("cost", "cost_p")) if by in specified]
    progress = progress_for(classes, found.threshold, found.has_probabilities)
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

        title = f"{found.learner.algorithm.name} on {', '.join(data)}"
        draw_curves(progress, labels, title, plot, probabilities=found.has_probabilities)
    if output.json:
        curves = curves_of(progress, classes, probabilities=found.has_probabilities)
        show_json({**report.as_dict(), "threshold": found.threshold, "confusion": report.confusion, "curves": curves})
    else:
        print(describe(report, labels, asked))
        if found.threshold:
            print(f"{'threshold':<18} {describe_threshold(found)}")
        if plot is not None:
            print(f"{'chart':<18} {plot}")
