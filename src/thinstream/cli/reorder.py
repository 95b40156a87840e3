"""``thinstream shuffle`` and ``thinstream split``: files of lines in another order, or in parts."""

from collections.abc import Callable
from typing import Annotated, TypeVar

import typer

Number = TypeVar("Number", int, float)
_DATA = typer.Argument(help="Files or - for standard input; .gz, .bz2, .xz, .zst as they are.", show_default=False)
_HEADER = typer.Option("--header", help="The first line of each file is a header: keep it first.")


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    app.command()(shuffle)
    app.command()(split)


def shuffle(
    data: Annotated[list[str], _DATA],
    out: Annotated[str, typer.Option("--out", "-o", help="Where the lines go; - is standard output.")] = "-",
    seed: Annotated[int, typer.Option(min=0, help="Names the order: the same on every machine.")] = 0,
    memory: Annotated[int, typer.Option(min=1, help="Megabytes to use at most, about.")] = 256,
    header: Annotated[bool, _HEADER] = False,
) -> None:
    """Put the lines of files in random order, also of files larger than memory.

    Rows sorted by class teach an online learner the last class only: shuffle them first.
    """
    from thinstream.cli.opening import require_place
    from thinstream.cli.show import say
    from thinstream.streams.lines.reorder import shuffle as shuffled
    from thinstream.streams.sources import resolve

    require_place(out)
    rows = shuffled(resolve(data), out, seed, memory << 20, header)
    if out != "-":
        say(f"{rows:,} lines in {out}")


def split(
    data: Annotated[list[str], _DATA],
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
    header: Annotated[bool, _HEADER] = False,
) -> None:
    """Deal the lines of files out to several outputs: at random, in order, or every N-th."""
    from thinstream.cli.opening import require_place
    from thinstream.cli.show import say
    from thinstream.streams.lines.reorder import split as dealt
    from thinstream.streams.sources import resolve

    shares, counts = _numbers(fractions, "--fractions", float), _numbers(first, "--first", int)
    for path in out:
        require_place(path)
    found = dealt(resolve(data), out, fractions=shares, counts=counts, every=every, seed=seed, header=header)
    for path, rows in zip(out, found, strict=True):
        say(f"{rows:,} lines in {path}")


def _numbers(text: str | None, option: str, kind: Callable[[str], Number]) -> list[Number] | None:
    """The numbers of a list with commas."""
    try:
        return None if text is None else [kind(part) for part in text.split(",")]
    except ValueError:
        raise typer.BadParameter(f"{option} must be numbers, as in 0.8,0.2 or 1000, got {text!r}") from None
