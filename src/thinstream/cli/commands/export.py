"""``thinstream export``: a model for other tools."""

from pathlib import Path
from typing import Annotated

import typer


def export(
    model: Annotated[Path, typer.Argument(help="The model file.", show_default=False)],
    out: Annotated[
        Path,
        typer.Argument(help="Where it goes: .txt, .tsv, .json, .onnx, .h, .js, .mjs or .sql.", show_default=False),
    ],
    format: Annotated[  # noqa: A002 (the option's name)
        str | None,
        typer.Option(help="text, json, onnx, c, js or sql; by default the ending of OUT tells.", show_default=False),
    ] = None,
) -> None:
    """Write a model as text (feature, weight), JSON, ONNX, a C header, a JavaScript module or a query of SQL."""
    from thinstream.cli.io import require_not_input
    from thinstream.errors import InvalidParameterError
    from thinstream.models.exports import LinearModel
    from thinstream.models.exports import export as write
    from thinstream.models.file import read

    if str(out) == "-":
        raise InvalidParameterError("OUT must be a file, got '-': a model is written whole or not at all")
    require_not_input(out, model)
    write(LinearModel.of(read(model)), out, format)
