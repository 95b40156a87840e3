"""``thinstream diagnose``: find numerical problems of a model."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

from thinstream.cli.options import Data, ModelFile, Output, Reading, option

if TYPE_CHECKING:
    from thinstream.batch import Batch


def diagnose(
    data: Data,
    reading: Reading,
    output: Output,
    model: ModelFile,
    rows: Annotated[int, option("The number of rows to use, from the start.", min=1, show_default=True)] = 20_000,
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
