"""``thinstream convert``, ``shuffle`` and ``split``: write rows to other files."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypeVar

from thinstream.cli.options import Data, Header, Lines, Output, Reading, option
from thinstream.errors import InvalidParameterError

Number = TypeVar("Number", int, float)


def convert(
    data: Data,
    reading: Reading,
    output: Output,
    out: Annotated[Path, option("The output file, with the extension .cache.", None, "--out", "-o")],
    dtype: Annotated[str, option("Precision of the values: float32 or float64.")] = "float32",
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


def shuffle(
    data: Lines,
    out: Annotated[str, option("The output file, or - for standard output.", None, "--out", "-o")] = "-",
    seed: Annotated[int, option("The random seed. The order is the same on every machine.", min=0)] = 0,
    memory: Annotated[int, option("The approximate memory limit, in megabytes.", min=1)] = 256,
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


def split(
    data: Lines,
    out: Annotated[list[str], option("An output file. Repeat the option for each part.", None, "--out", "-o")],
    fractions: Annotated[str | None, option("Split at random with one share per output, such as 0.8,0.2.")] = None,
    first: Annotated[
        str | None, option("Split in order, with the number of lines of each output but the last: 1000 or 1000,500.")
    ] = None,
    every: Annotated[int | None, option("Write every Nth line to the second output.", metavar="N", min=2)] = None,
    seed: Annotated[int, option("The random seed for --fractions.", min=0)] = 0,
    header: Header = None,
) -> None:
    """Split the lines of files, or the records of CSV files, among outputs: at random, in order or every Nth line."""
    from thinstream.cli.io import require_writable
    from thinstream.cli.render import say
    from thinstream.data.formats import are_records
    from thinstream.data.shuffle import split as write_parts
    from thinstream.data.sources import resolve

    if [fractions, first, every].count(None) != 2:
        raise InvalidParameterError("split needs one of --fractions, --first and --every")
    shares, counts = _numbers(fractions, "--fractions", float), _numbers(first, "--first", int)
    for path in out:
        require_writable(path)
    files = resolve(data)
    quoted = are_records(files)
    how: dict[str, Any] = {"fractions": shares, "counts": counts, "every": every}
    has_header = quoted if header is None else header
    counts_written = write_parts(files, out, **how, seed=seed, header=has_header, quoted=quoted)
    for path, rows in zip(out, counts_written, strict=True):
        say(f"wrote {rows:,} lines to {path}")


def _numbers(text: str | None, option: str, parse: Callable[[str], Number]) -> list[Number] | None:
    try:
        return None if text is None else [parse(part) for part in text.split(",")]
    except ValueError:
        raise InvalidParameterError(f"{option} must be numbers such as 0.8,0.2 or 1000, got {text!r}") from None
