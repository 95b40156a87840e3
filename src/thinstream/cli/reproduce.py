"""``thinstream reproduce``: the papers' tables and figures."""

from pathlib import Path
from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command()(reproduce)


def reproduce(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME]...", help="Experiments; all, or p0 … p3 for those of one paper.", show_default=False
        ),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(help="Folder of the data sets (default: THINSTREAM_DATA, else the cache).", show_default=False),
    ] = None,
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Where pages, CSV and pictures go; the summary goes beside it.")
    ] = Path("reproduction"),
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Processes (default: the cores there are).", show_default=False)
    ] = None,
    smoke: Annotated[bool, typer.Option("--smoke", help="Tiny sizes, to see that everything runs.")] = False,
    fresh: Annotated[bool, typer.Option("--fresh", help="Forget finished parts of earlier runs.")] = False,
    pages: Annotated[
        bool, typer.Option("--pages", help="Run nothing: write the pages again from the results in --out.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but errors.")] = False,
) -> None:
    """Make the papers' tables and figures anew, the papers' numbers beside ours; without a name, list them.

    A run that is stopped goes on where it was when the same command is given again. Data sets that are not there are
    left out and named on the page.
    """
    from thinstream.cli.reproducing import Reproduction, listing

    if names or pages:
        names = names or ["all"]
        Reproduction(out, data, jobs, smoke, fresh, quiet).reproduce(names, only_pages=pages)
    else:
        listing(data)
