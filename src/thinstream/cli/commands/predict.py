"""``thinstream predict``: labels or scores of new examples."""

import sys
from typing import Annotated

from thinstream.cli.declared import option
from thinstream.cli.options import Data, ModelFile, Output, Reading


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
            "Write scores instead of labels: positive means the positive class; of more, one for each.",
            None,
            "--scores",
        ),
    ] = False,
) -> None:
    """Write one prediction a line for each example: its label, or its score.

    Features are read as in training: hashing, text columns and normalisation come from the model file. With --json each
    line is an object with label and score. Scores of more than two classes are in their order, with tabs between them.
    """
    import json

    from thinstream.cli.io import require_not_input, require_outputs, score_data
    from thinstream.cli.render import report_skipped, say
    from thinstream.cli.terminal import printable
    from thinstream.streams.lines.outputs import open_outputs

    require_outputs(data, out)
    require_not_input(out, model)
    found, stream, scored = score_data(data, reading, model, labels=False)
    classes = found.classes
    on_terminal = out == "-" and sys.stdout.isatty()
    shown = [printable(str(label)) if on_terminal else str(label) for label in classes]
    many = classes.n_models > 1 or classes.grow
    rows = bad = 0
    with open_outputs([out]) as (file,):
        for batch, s in scored:
            rows += len(batch)
            chosen = classes.chosen(s).tolist()
            if output.json:
                key = "scores" if many else "score"
                lines = [json.dumps({"label": classes[k], key: v}) for k, v in zip(chosen, s.tolist(), strict=True)]
            elif scores:  # the shortest that reads back to the same bits
                lines = ["\t".join(map(str, row)) for row in s] if many else [str(v) for v in s]
            else:
                lines = [shown[k] for k in chosen]
            if stream.skipped is not None:  # a bad record, which comes after the rows of its batch, has an empty line
                lines += [""] * (stream.skipped.count - bad)
                bad = stream.skipped.count
            file.write("".join(line + "\n" for line in lines).encode())
    report_skipped(stream, output.quiet)
    if out != "-" and not output.quiet:
        say(f"{rows:,} predictions in {out}")
