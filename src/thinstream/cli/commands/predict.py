"""``thinstream predict``: labels, scores or probabilities of new examples."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from thinstream.cli.declared import option
from thinstream.cli.options import Data, ModelFile, Output, Reading

ANSWERS = "Answers"


def predict(
    data: Data,
    reading: Reading,
    output: Output,
    model: ModelFile,
    out: Annotated[
        str,
        option("Where the predictions go; compressed as its ending says.", None, "--out", "-o", show_default=True),
    ] = "-",
    scores: Annotated[
        bool,
        option(
            "Write scores instead of labels: of two classes that of the positive one, of more one for each.",
            ANSWERS,
            "--scores",
        ),
    ] = False,
    proba: Annotated[
        bool,
        option("Write probabilities instead of labels; for models learned with the logistic loss.", ANSWERS, "--proba"),
    ] = False,
    top: Annotated[
        int | None,
        option("Write this many classes, the best first, with their --scores or --proba if asked for.", ANSWERS, min=1),
    ] = None,
    row_id: Annotated[
        str | None,
        option("Begin each line with this column (of VW: tag) of its row.", ANSWERS, "--id", metavar="COLUMN"),
    ] = None,
) -> None:
    """Write one prediction a line for each example: its label, its score or its probability.

    Features are read as in training: hashing, text columns and normalisation come from the model file; so does the
    threshold above which a row is positive. Rows that come through a pipe are answered as they come. With --json each
    line is an object with label and score. Several numbers or classes of a row have tabs between them.
    """
    from thinstream.cli.answers import Answers
    from thinstream.cli.io import require_not_input, require_outputs, score_data
    from thinstream.cli.render import report_skipped, report_unknown, say
    from thinstream.cli.terminal import printable
    from thinstream.streams.lines.outputs import open_outputs

    require_outputs(data, out)
    require_not_input(out, model)
    found, stream, scored = score_data(data, replace(reading, id=row_id), model, labels=False)
    answers = Answers(found, [str(label) for label in found.classes], scores, proba, top, output.json)
    answers.check(str(model))
    if answers.columns and not output.quiet:
        say(f"columns: {', '.join(answers.columns)}")
    on_terminal, waited_for = out == "-" and sys.stdout.isatty(), out == "-" or Path(out).is_fifo()
    rows = bad = 0
    with open_outputs([out]) as (file,):
        for batch, s in scored:
            rows += len(batch)
            ids = None if row_id is None else batch.ids or [""] * len(batch)
            lines = answers.lines(s, ids)
            if stream.skipped is not None:  # a bad record, which comes after the rows of its batch, has no answer
                lines += [answers.nothing(called) for called in stream.skipped.ids[bad : stream.skipped.count]]
                bad = stream.skipped.count
            if on_terminal:
                lines = [printable(line, keep="\t") for line in lines]
            file.write("".join(line + "\n" for line in lines).encode())
            if waited_for:
                file.flush()  # the next row of a pipe may wait for this answer
    report_skipped(stream, output.quiet)
    report_unknown(stream, output.quiet)
    if out != "-" and not output.quiet:
        say(f"{rows:,} predictions in {out}")
