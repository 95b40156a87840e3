"""``thinstream shuffle``: the lines of files in random order."""

from typing import Annotated

import typer

from thinstream.cli.options import Header, Lines


def shuffle(
    data: Lines,
    out: Annotated[str, typer.Option("--out", "-o", help="Where the lines go; - is standard output.")] = "-",
    seed: Annotated[int, typer.Option(min=0, help="Names the order: the same on every machine.")] = 0,
    memory: Annotated[int, typer.Option(min=1, help="Megabytes to use at most, about.")] = 256,
    header: Header = None,
) -> None:
    """Put the lines of files (of CSV: its records) in random order, also of files larger than memory.

    Rows sorted by class teach an online learner the last class only: shuffle them first.
    """
    from thinstream.cli.io import require_writable
    from thinstream.cli.render import say
    from thinstream.streams.formats import are_records
    from thinstream.streams.lines.reorder import shuffle as write_shuffled
    from thinstream.streams.sources import resolve

    require_writable(out)
    files = resolve(data)
    quoted = are_records(files)
    rows = write_shuffled(files, out, seed, memory << 20, quoted if header is None else header, quoted=quoted)
    if out != "-":
        say(f"{rows:,} lines in {out}")
