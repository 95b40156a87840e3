"""``thinstream evaluate``: how good a model is on labelled examples."""

from thinstream.cli.options import Data, Judging, ModelFile, Output, Reading


def evaluate(
    data: Data,
    reading: Reading,
    output: Output,
    model: ModelFile,
    judging: Judging,
) -> None:
    """Measure a model on labelled examples, without learning from them."""
    import numpy as np

    from thinstream.cli.io import score_data
    from thinstream.cli.render import report_skipped, show_json
    from thinstream.cli.terminal import printable
    from thinstream.errors import InvalidInputError
    from thinstream.evaluate.growing import progress_for
    from thinstream.learners.growing_classes import GrowingClasses

    found, stream, scored = score_data(data, reading, model, labels=True)
    classes = found.classes
    progress = progress_for(classes)
    for batch, scores in scored:
        y = batch.require_labels("evaluate on")
        if isinstance(classes, GrowingClasses):  # a class the model has not met is never called
            classes, y = classes.numbered(stream.classes, y)
            more = len(classes) - scores.shape[1]
            scores = np.pad(scores, ((0, 0), (0, more)), constant_values=np.finfo(scores.dtype).min)
        progress.update(scores, y, batch.weights)
    if not progress.rows:
        raise InvalidInputError(f"{', '.join(data)}: there is no example in it")
    report_skipped(stream, output.quiet)
    report = progress.report(judging.tradeoff())
    if output.json:
        show_json(report.as_dict())
    else:
        print(report.describe([printable(str(label)) for label in classes]))
