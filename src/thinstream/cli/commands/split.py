"""``thinstream split``: the lines of files in parts."""

from collections.abc import Callable
from typing import Annotated, Any, TypeVar

import typer

from thinstream.cli.options import Header, Lines

Number = TypeVar("Number", int, float)


def split(
    data: Lines,
    out: Annotated[
        list[str], typer.Option("--out", "-o", help="An output; give it twice or more.", show_default=False)
    ],
    fractions: Annotated[
        str | None, typer.Option(help="Shares at random, one per output: 0.8,0.2.", show_default=False)
    ] = None,
    first: Annotated[
        str | None,
        typer.Option(help="Lines in order, for all outputs but the last: 1000 or 1000,500.", show_default=False),
    ] = None,
    every: Annotated[
        int | None, typer.Option(min=2, help="Every N-th line goes to the second output.", show_default=False)
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the fractions.")] = 0,
    header: Header = None,
) -> None:
    """Deal the lines of files (of CSV: its records) out to several outputs: at random, in order, or every N-th."""
    from thinstream.cli.io import require_writable
    from thinstream.cli.render import say
    from thinstream.streams.formats import are_records
    from thinstream.streams.lines.reorder import split as write_parts
    from thinstream.streams.sources import resolve

    shares, counts = _numbers(fractions, "--fractions", float), _numbers(first, "--first", int)
    for path in out:
        require_writable(path)
    files = resolve(data)
    quoted = are_records(files)
    how: dict[str, Any] = {"fractions": shares, "counts": counts, "every": every}
    kept = quoted if header is None else header
    found = write_parts(files, out, **how, seed=seed, header=kept, quoted=quoted)
    for path, rows in zip(out, found, strict=True):
        say(f"{rows:,} lines in {path}")


def _numbers(text: str | None, option: str, kind: Callable[[str], Number]) -> list[Number] | None:
    """The numbers of a list with commas."""
    try:
        return None if text is None else [kind(part) for part in text.split(",")]
    except ValueError:
        raise typer.BadParameter(f"{option} must be numbers, as in 0.8,0.2 or 1000, got {text!r}") from None
