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
    from thinstream.cli.io import score_data
    from thinstream.cli.render import report_skipped, show_json
    from thinstream.cli.terminal import printable
    from thinstream.errors import InvalidInputError
    from thinstream.evaluate.progress import Progress

    found, stream, scored = score_data(data, reading, model, labels=True)
    progress = Progress(len(found.classes))
    for batch, scores in scored:
        progress.update(scores, batch.require_labels("evaluate on"), batch.weights)
    if not progress.rows:
        raise InvalidInputError(f"{', '.join(data)}: there is no example in it")
    report_skipped(stream, output.quiet)
    report = progress.report(judging.tradeoff())
    if output.json:
        show_json(report.as_dict())
    else:
        print(report.describe([printable(str(label)) for label in found.classes]))
