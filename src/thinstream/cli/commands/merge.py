"""``thinstream merge``: models trained on shards become one."""

from pathlib import Path
from typing import Annotated

import typer


def merge(
    models: Annotated[list[Path], typer.Argument(help="Model files, saved in full.", show_default=False)],
    out: Annotated[Path, typer.Option("--model", "-m", help="Where the merged model goes.", show_default=False)],
    average: Annotated[
        bool, typer.Option("--average", help="Average where an algorithm has no rule of its own, instead of refusing.")
    ] = False,
    weights_only: Annotated[bool, typer.Option("--weights-only", help="Save non-zero weights only.")] = False,
) -> None:
    """Merge models that learned from disjoint parts of a stream, by the rule of their algorithm.

    They must agree in algorithm, parameters, costs, classes, features and how their data was read. The order does not
    matter.
    """
    from itertools import combinations

    from thinstream.cli.io import require_not_input, require_writable
    from thinstream.errors import MergeError
    from thinstream.models.file import read, write

    require_writable(out)
    require_not_input(out, *models)
    for path, twin in combinations([path for path in models if path.exists()], 2):
        if path.samefile(twin):
            raise MergeError(f"{path} and {twin} are the same file: its examples would count twice")
    first, *others = (read(path) for path in models)
    for path, other in zip(models[1:], others, strict=True):
        growing = first.classes.grow and other.classes.grow  # classes may have come in some only
        for what, one, two in (
            ("classes", first.classes, first.classes if growing else other.classes),
            ("feature space", first.feature_space, other.feature_space),
            ("reading options", first.reading_options, other.reading_options),
            ("preparation of rows", first.preparation.kinds, other.preparation.kinds),
        ):
            if one != two:
                raise MergeError(f"{models[0]} and {path} differ in their {what}: {one} and {two}")
    merged = first.merge(*others, average=average)
    learner = merged.learner
    write(out, merged, "weights" if weights_only else "full")
    print(f"{out}: {learner.t:,} examples, {learner.nnz:,} of {learner.n_weights:,} weights are not zero")
