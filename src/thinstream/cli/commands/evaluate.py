"""``thinstream evaluate``: how good a model is on labelled examples."""

import typer

from thinstream.cli.options import Data, Judging, ModelFile, Output, Reading


def evaluate(
    data: Data,
    reading: Reading,
    output: Output,
    model: ModelFile,
    judging: Judging,
) -> None:
    """Measure a model on labelled examples, without learning from them."""
    import json

    from thinstream.cli.io import score_data
    from thinstream.cli.render import report_skipped
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
    typer.echo(json.dumps(report.as_dict()) if output.json else report.describe(found.classes))
