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
    import json

    from thinstream import stability
    from thinstream.cli.io import score_data

    found, stream, _ = score_data(data, reading, model, labels=True)
    batch = first(stream.batches(), rows)
    said = stability.diagnose(found.learner, batch, batch.y)
    if output.json:
        typer.echo(json.dumps({"model": said.name, "findings": [finding._asdict() for finding in said.findings]}))
    else:
        typer.echo(str(said))


def first(batches: Iterable["Batch"], rows: int) -> "Batch":
    """The first rows of a stream as one batch."""
    import numpy as np

    from thinstream.batch import Batch
    from thinstream.errors import InvalidInputError

    parts: list[Batch] = []
    for batch in batches:
        if batch.y is None:
            raise InvalidInputError(f"the rows to look at need labels, row {batch.first_row} has none")
        parts.append(batch.check().until(min(rows, len(batch))))
        rows -= len(parts[-1])
        if rows <= 0:
            break
    if not sum(map(len, parts)):
        raise InvalidInputError("there is no example in the data")
    lengths = np.concatenate([np.diff(part.indptr) for part in parts])
    indices, values = (
        np.concatenate([getattr(part, name)[: part.nnz] for part in parts]) for name in ("indices", "values")
    )
    indptr, width = np.concatenate([[0], np.cumsum(lengths)]), max(part.n_features for part in parts)
    labels = np.concatenate([np.asarray(part.y) for part in parts])
    return Batch.of(indptr, indices, values, width, y=labels)
