"""``thinstream merge``: merge models that were trained on shards."""

from pathlib import Path
from typing import Annotated

from thinstream.cli.options import argument, option


def merge(
    models: Annotated[list[Path], argument("Model files, saved without --weights-only.")],
    out: Annotated[Path, option("The file of the merged model.", None, "--model", "-m")],
    average: Annotated[
        bool, option("Average the weights if the algorithm has no merge rule.", None, "--average")
    ] = False,
    weights_only: Annotated[bool, option("Save non-zero weights only.", None, "--weights-only")] = False,
) -> None:
    """Merge models that learned disjoint parts of a stream, with the merge rule of their algorithm.

    The models must have the same algorithm, parameters, costs, classes, features and reading options. Their order does
    not matter.
    """
    from itertools import combinations

    from thinstream.cli.io import require_not_input, require_writable
    from thinstream.errors import MergeError
    from thinstream.models.file import read, write

    require_writable(out)
    require_not_input(out, *models)
    for path, twin in combinations([path for path in models if path.exists()], 2):
        if path.samefile(twin):
            raise MergeError(f"{path} and {twin} are the same file, and its examples would count twice")
    first, *others = (read(path) for path in models)
    for path, other in zip(models[1:], others, strict=True):
        growing = first.classes.grow and other.classes.grow  # each model may know different classes
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
