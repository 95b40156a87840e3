"""``thinstream thin``: a small model out of a large one."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from thinstream.cli.declared import option
from thinstream.cli.options import Output, Reading

if TYPE_CHECKING:
    from thinstream.models.model import Model
    from thinstream.thinning import Choice, Curve

#: How measures of importance are called, by their power of q_j.
MEASURES = {0.0: "|w|", 0.5: "|w|·√q", 1.0: "|w|·q"}
#: Of so many lines of the curve one is shown.
EVERY = 4


def thin(
    model: Annotated[Path, typer.Argument(help="The model file.", show_default=False)],
    reading: Reading,
    output: Output,
    out: Annotated[Path, option("Where the thin model goes.", None, "--model", "-m")],
    nnz: Annotated[int | None, option("How many weights to keep, all classes together.", None, min=1)] = None,
    on: Annotated[
        str | None,
        option(
            "Labelled rows that the model has not learned, several files with commas: they choose what is important "
            "and, without --nnz, how many weights to keep.",
            None,
            metavar="FILES",
        ),
    ] = None,
) -> None:
    """Keep the most important weights of a model: a small one that predicts, and cannot go on learning.

    A weight is as important as its size and the root of the squares its feature had in the rows that were learned, as
    far as the model knows them. With --on three such measures are tried, and the smallest number of weights whose error
    on these rows is within one standard error of the lowest is taken. Files, exports and what prepares rows are as
    before.
    """
    from thinstream.cli.io import require_model_file, require_not_input, require_writable
    from thinstream.cli.lanes import SMALL
    from thinstream.cli.render import say, show_json
    from thinstream.errors import InvalidParameterError
    from thinstream.models.file import read, write
    from thinstream.thinning import importance
    from thinstream.thinning import thin as thinned

    files = on.split(",") if on else []
    if nnz is None and not files:
        raise InvalidParameterError(
            "give --nnz, how many weights to keep, or --on FILES, rows to choose it on; or both"
        )
    require_writable(out)
    require_not_input(out, model, *files)
    require_model_file(out)
    found, told = read(model), {}
    if files:
        curve = _curve(found, model, files, reading, nnz, output.quiet)
        choice = curve.choice if nnz is None else curve.at(nnz)
        if not (output.quiet or output.json):
            _show(curve, choice)
        small, told = thinned(found, choice.n, importance(found.learner, choice.power)), choice._asdict()
    else:
        small = thinned(found, nnz or 1)
    write(out, small, "weights")
    kept, before = small.learner.nnz, found.learner.nnz
    sizes = out.stat().st_size, model.stat().st_size
    if output.json:
        show_json({"non_zeros": kept, "of": before, "bytes": sizes[0], "bytes_before": sizes[1]} | told)
    elif not output.quiet:
        print(f"{out}: {kept:,} of {before:,} non-zero weights, {sizes[0]:,} bytes instead of {sizes[1]:,}")
        if not files and kept < before < SMALL:
            say("thinstream: weights of few columns make up for one another; --on ROWS tells how many can go")


def _curve(model: "Model", path: Path, files: list[str], reading: Reading, nnz: int | None, quiet: bool) -> "Curve":
    """The error on labelled rows by how many weights are kept."""
    from thinstream.cli.io import collect_garbage
    from thinstream.cli.render import report_skipped
    from thinstream.learners.growing_classes import GrowingClasses
    from thinstream.streams.opening import open_like
    from thinstream.thinning import measured

    stream = open_like(model, files, reading, str(path))
    model.require_features(stream.feature_space, "the data", str(path))
    collect_garbage()
    batches, classes = stream.batches(), model.classes
    if isinstance(classes, GrowingClasses):  # a class the model has not met is never called
        growing = classes
        batches = (
            batch.labelled(growing.numbered(stream.classes or (), batch.require_labels("thin on"))[1], batch.weights)
            for batch in batches
        )
    curve = measured(model, batches, None if nnz is None else [nnz])
    report_skipped(stream, quiet)
    return curve


def _show(curve: "Curve", choice: "Choice") -> None:
    """The curve, some of its lines left out, an asterisk at the one that was chosen."""
    from thinstream.cli.render import write_table
    from thinstream.evaluate.showing import percent

    last = len(curve.sizes) - 1
    shown = [k for k, n in enumerate(curve.sizes) if k in (0, last) or k % EVERY == 0 or n == choice.n]
    rows = [[f"{curve.sizes[k]:,}", *(percent(each[k]) for each in curve.errors)] for k in shown]
    chosen = next(line for line, k in enumerate(shown) if curve.sizes[k] == choice.n)
    write_table(["weights", *(f"{MEASURES[power]}, error %" for power in curve.powers)], rows, chosen)
    print(
        f"{choice.n:,} weights, the most important by {MEASURES[choice.power]}: error {percent(choice.error)} %, "
        f"the lowest is {percent(choice.lowest)} % ± {percent(choice.standard_error)}"
    )
