"""``thinstream export``: convert a model for other tools."""

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
    write(LinearModel.of(read(model)), out, format)
    if not quiet:
        say(f"wrote {out} ({out.stat().st_size:,} bytes)")
