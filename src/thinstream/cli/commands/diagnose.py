"""``thinstream diagnose``: what is numerically wrong with a model."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer

from thinstream.cli.options import Data, ModelFile, Output, Reading

if TYPE_CHECKING:
    from thinstream.batch import Batch


def diagnose(
    data: Data,
    reading: Reading,
    output: Output,
    model: ModelFile,
    rows: Annotated[int, typer.Option(help="Examples looked at, the first ones.", min=1)] = 20_000,
) -> None:
    """Look for numerical trouble of a model on labelled examples like those it learned from.

    Weights too small to count beside others, a model that grows without getting better, scores that run away: what was
    found, and what can be done.
    """
    from thinstream import stability
    from thinstream.cli.io import score_data
    from thinstream.cli.render import show_json

    found, stream, _ = score_data(data, reading, model, labels=True)
    batch = first(stream.batches(), rows)
    said = stability.diagnose(found.learner, batch, batch.y)
    if output.json:
        show_json({"model": said.name, "findings": [finding._asdict() for finding in said.findings]})
    else:
        print(said)


def first(batches: Iterable["Batch"], rows: int) -> "Batch":
    """The first rows of a stream as one batch."""
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
        raise InvalidInputError("there is no example in the data")
    return Batch.concatenate(parts)
