"""What ``predict`` and ``evaluate`` do: a model file goes over a stream."""

import gc
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from thinstream.batch import Batch
from thinstream.cli.groups import Reading
from thinstream.cli.opening import opened, require_apart, require_place
from thinstream.cli.show import say
from thinstream.errors import InvalidInputError
from thinstream.evaluate.progress import Progress
from thinstream.evaluate.report import Report, Tradeoff
from thinstream.models.file import read
from thinstream.models.model import Model
from thinstream.streams import options
from thinstream.streams.formats import format_of
from thinstream.streams.lines.outputs import Outputs
from thinstream.streams.sources import resolve


def scored(data: list[str], reading: Reading, path: Path, *, labels: bool) -> tuple[Model, Any, Iterator[Any]]:
    """The model, the stream, and (batch, scores) of all of it."""
    model = read(path)
    reading = replace(as_learned(data, reading, model, path), names=0)
    stream = opened(data, reading, model.learner.dtype.name, labels=labels, strict=False)
    if stream.feature_space != model.feature_space:
        raise InvalidInputError(
            f"{path}: its features were read as {model.feature_space or 'column numbers'}, the data's are "
            f"{stream.feature_space or 'column numbers'}; they would not mean the same"
        )

    def scores() -> Iterator[tuple[Batch, NDArray[Any]]]:
        gc.enable()
        for batch in stream.batches():
            yield batch, model.learner.scores(batch)

    return model, stream, scores()


def as_learned(data: list[str], reading: Reading, model: Model, path: Path) -> Reading:
    """The options with what the model was trained with; a different one on the command line raises."""
    return options.as_learned(
        reading,
        reading.format or format_of(data[0]),
        model.feature_space,
        tuple(model.classes),
        model.extra.get("reading", {}),
        str(path),
    )


def write_predictions(
    data: list[str], reading: Reading, path: Path, out: str, *, scores: bool, as_json: bool, quiet: bool
) -> None:
    """A line per example."""
    require_place(out)
    require_apart(out, path, *resolve(data))
    model, stream, found = scored(data, reading, path, labels=False)
    shown = [str(label) for label in model.classes]
    many = len(model.classes) > 2
    rows = bad = 0
    with Outputs([out]) as (file,):
        for batch, s in found:
            rows += len(batch)
            chosen = model.classes.chosen(s).tolist()
            if as_json:
                key = "scores" if many else "score"
                lines = [
                    json.dumps({"label": model.classes[k], key: v}) for k, v in zip(chosen, s.tolist(), strict=True)
                ]
            elif scores:  # the shortest that reads back to the same bits
                lines = ["\t".join(map(str, row)) for row in s] if many else [str(v) for v in s]
            else:
                lines = [shown[k] for k in chosen]
            if stream.skipped is not None:  # a bad record, which comes after the rows of its batch, has an empty line
                lines += [""] * (stream.skipped.count - bad)
                bad = stream.skipped.count
            file.write("".join(line + "\n" for line in lines).encode())
    told(stream, quiet)
    if out != "-" and not quiet:
        say(f"{rows:,} predictions in {out}")


def evaluated(
    data: list[str], reading: Reading, path: Path, tradeoff: Tradeoff, *, quiet: bool
) -> tuple[Model, Report]:
    """A model, and its metrics on labelled examples it does not learn from."""
    model, stream, found = scored(data, reading, path, labels=True)
    progress = Progress(len(model.classes))
    for batch, scores in found:
        if batch.y is None:
            raise InvalidInputError(f"the rows to evaluate on need labels, row {batch.first_row} has none")
        progress.update(scores, batch.y, batch.weights)
    if not progress.rows:
        raise InvalidInputError(f"{', '.join(data)}: there is no example in it")
    told(stream, quiet)
    return model, progress.report(tradeoff)


def told(stream: Any, quiet: bool) -> None:
    """Says how many bad records were passed over."""
    if stream.skipped is not None and stream.skipped.count and not quiet:
        say(
            f"thinstream: {stream.skipped.count:,} bad records were passed over, the first: {stream.skipped.reasons[0]}"
        )
