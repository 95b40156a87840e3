"""``thinstream convert``: a binary copy that is read without parsing."""

from pathlib import Path
from typing import Annotated

import typer

from thinstream.cli.options import Data, Output, Reading


def convert(
    data: Data,
    reading: Reading,
    output: Output,
    out: Annotated[Path, typer.Option("--out", "-o", help="Where the copy goes; name it .cache.", show_default=False)],
    dtype: Annotated[str, typer.Option(help="Precision of the values: float32 or float64.")] = "float32",
) -> None:
    """Write examples to an Arrow file that is memory-mapped back without parsing (and that other tools can open)."""
    from thinstream.cli.io import look_first, open_data, require_outputs
    from thinstream.cli.render import report_skipped, say
    from thinstream.streams.cache.mapped import write_cache

    require_outputs(data, out)
    stream = open_data(data, look_first(data, reading, quiet=output.quiet), dtype)
    cache = write_cache(stream, out)
    report_skipped(stream, output.quiet)
    if not output.quiet:
        say(f"{cache.rows:,} rows in {out} ({out.stat().st_size:,} bytes)")
