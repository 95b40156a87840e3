"""``thinstream split``: split the lines of files among several outputs."""

from collections.abc import Callable
from typing import Annotated, Any, TypeVar

from thinstream.cli.options import Header, Lines, option
from thinstream.errors import InvalidParameterError

Number = TypeVar("Number", int, float)


def split(
    data: Lines,
    out: Annotated[list[str], option("An output file. Repeat the option for each part.", None, "--out", "-o")],
    fractions: Annotated[str | None, option("Split at random with one share per output, such as 0.8,0.2.")] = None,
    first: Annotated[
        str | None, option("Split in order, with the number of lines of each output but the last: 1000 or 1000,500.")
    ] = None,
    every: Annotated[int | None, option("Write every Nth line to the second output.", metavar="N", min=2)] = None,
    seed: Annotated[int, option("The random seed for --fractions.", min=0, show_default=True)] = 0,
    header: Header = None,
) -> None:
    """Split the lines of files, or the records of CSV files, among outputs: at random, in order or every Nth line."""
    from thinstream.cli.io import require_writable
    from thinstream.cli.render import say
    from thinstream.data.formats import are_records
    from thinstream.data.shuffle import split as write_parts
    from thinstream.data.sources import resolve

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
