"""``thinstream convert``: a binary copy that is read without parsing."""

from pathlib import Path
from typing import Annotated

import typer

from thinstream.cli.groups import Output, Reading, grouped


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command()(grouped(convert))


def convert(
    data: Annotated[list[str], typer.Argument(help="Files, globs, or - for standard input.", show_default=False)],
    reading: Reading,
    output: Output,
    out: Annotated[Path, typer.Option("--out", "-o", help="Where the copy goes; name it .cache.", show_default=False)],
    dtype: Annotated[str, typer.Option(help="Precision of the values: float32 or float64.")] = "float32",
) -> None:
    """Write examples to an Arrow file that is memory-mapped back without parsing (and that other tools can open)."""
    from thinstream.cli.opening import opened, require_apart, require_place
    from thinstream.cli.show import say
    from thinstream.streams.cache.mapped import write_cache
    from thinstream.streams.sources import resolve

    require_place(out)
    require_apart(out, *resolve(data))
    stream = opened(data, reading, dtype)
    cache = write_cache(stream, out)
    if not output.quiet:
        if stream.skipped is not None and stream.skipped.count:
            say(f"thinstream: {stream.skipped.count:,} bad records were passed over: {stream.skipped.reasons[0]}")
        say(f"{cache.rows:,} rows in {out} ({out.stat().st_size:,} bytes)")
