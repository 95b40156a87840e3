"""``thinstream export`` and ``merge``: write models to other files."""

from pathlib import Path
from typing import Annotated

import thinstream
from thinstream.cli.options import argument, option

#: The names of the formats, without importing them.
FORMATS = sorted(path.stem for path in Path(thinstream.__path__[0], "export", "formats").glob("[!_]*.py"))


def export(
    model: Annotated[Path, argument("The model file.")],
    out: Annotated[Path, argument("The file to write. Its extension selects the format, for example .json or .h (C).")],
    format: Annotated[  # noqa: A002 (the option's name)
        str | None,
        option(f"The format: {', '.join(FORMATS[:-1])} or {FORMATS[-1]}. Default: the extension of OUT selects it."),
    ] = None,
    quiet: Annotated[bool, option("Print nothing but errors.", None, "--quiet", "-q")] = False,
) -> None:
    """Export a model as text (feature, weight), JSON, ONNX, a C header, a JavaScript module or an SQL query."""
    from thinstream.cli.io import require_not_input
    from thinstream.cli.render import say
    from thinstream.errors import InvalidParameterError
    from thinstream.export import LinearModel
    from thinstream.export import export as write
    from thinstream.models.file import read

    if str(out) == "-":
        raise InvalidParameterError("OUT must be a file, got '-' (standard output)")
    require_not_input(out, model)
    inputs = write(LinearModel.of(read(model)), out, format)
    if not quiet:
        say(f"wrote {out} ({out.stat().st_size:,} bytes)")
        if inputs:
            say(inputs)


def merge(
    models: Annotated[list[Path], argument("Model files, saved without --weights-only.")],
    out: Annotated[Path, option("The file of the merged model.", None, "--model", "-m")],
    average: Annotated[bool, option("Average the weights if the algorithm has no merge rule.")] = False,
    weights_only: Annotated[bool, option("Save non-zero weights only.")] = False,
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
