"""``thinstream convert``: write a binary copy of the data."""

from pathlib import Path
from typing import Annotated

from thinstream.cli.options import Data, Output, Reading, option


def convert(
    data: Data,
    reading: Reading,
    output: Output,
    out: Annotated[Path, option("The output file, with the extension .cache.", None, "--out", "-o")],
    dtype: Annotated[str, option("Precision of the values: float32 or float64.", show_default=True)] = "float32",
) -> None:
    """Write rows to a binary Arrow file, which thinstream reads without parsing."""
    from thinstream.cli.io import look_first, open_data, require_outputs
    from thinstream.cli.render import report_skipped, say
    from thinstream.data.cache import write_cache

    require_outputs(data, out)
    stream = open_data(data, look_first(data, reading, quiet=output.quiet), dtype)
    cache = write_cache(stream, out)
    report_skipped(stream, output.quiet)
    if not output.quiet:
        say(f"wrote {cache.rows:,} rows to {out} ({out.stat().st_size:,} bytes)")
