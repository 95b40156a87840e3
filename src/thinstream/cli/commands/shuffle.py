"""``thinstream shuffle``: write the lines of files in random order."""

from typing import Annotated

from thinstream.cli.options import Header, Lines, option


def shuffle(
    data: Lines,
    out: Annotated[
        str, option("The output file, or - for standard output.", None, "--out", "-o", show_default=True)
    ] = "-",
    seed: Annotated[
        int, option("The random seed. The order is the same on every machine.", min=0, show_default=True)
    ] = 0,
    memory: Annotated[int, option("The approximate memory limit, in megabytes.", min=1, show_default=True)] = 256,
    header: Header = None,
) -> None:
    """Write the lines of files, or the records of CSV files, in random order. Files can be larger than memory.

    Shuffle rows that are sorted by class. Otherwise, an online learner forgets all but the last class.
    """
    from thinstream.cli.io import require_writable
    from thinstream.cli.render import say
    from thinstream.data.formats import are_records
    from thinstream.data.shuffle import shuffle as write_shuffled
    from thinstream.data.sources import resolve

    require_writable(out)
    files = resolve(data)
    quoted = are_records(files)
    rows = write_shuffled(files, out, seed, memory << 20, quoted if header is None else header, quoted=quoted)
    if out != "-":
        say(f"wrote {rows:,} lines to {out}")
