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

    They must agree in algorithm, parameters, costs, classes and features. The order does not matter.
    """
    from thinstream.errors import MergeError
    from thinstream.models.file import read, write
    from thinstream.models.model import Model, Names
    from thinstream.one_vs_rest import merge as merged

    found = [read(path) for path in models]
    first = found[0]
    for path, other in zip(models[1:], found[1:], strict=True):
        for what in ("classes", "feature_space"):
            one, two = getattr(first, what), getattr(other, what)
            if one != two:
                raise MergeError(f"{models[0]} and {path} differ in their {what.replace('_', ' ')}: {one} and {two}")
    names: dict[int, str] = {}
    for model in reversed(found):
        if model.names is not None:
            names.update(zip(model.names.indices.tolist(), model.names.texts, strict=True))
    learner = merged([model.learner for model in found], average=average)
    kept = Names.of(list(names.values()), list(names)) if names else None
    write(out, Model(learner, first.classes, first.feature_space, kept), "weights" if weights_only else "full")
    typer.echo(f"{out}: {learner.t:,} examples, {learner.nnz:,} of {learner.n_weights:,} weights are not zero")
