"""``thinstream datasets``: the papers' data sets, found or downloaded."""

from pathlib import Path
from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command()(datasets)


def datasets(
    name: Annotated[
        str | None, typer.Argument(help="Show this one, and where its files are.", show_default=False)
    ] = None,
    download: Annotated[bool, typer.Option("--download", help="Fetch it, if it is public.")] = False,
    verify: Annotated[
        bool, typer.Option("--verify", help="Compare files with the checksums of their download.")
    ] = False,
    folder: Annotated[
        Path | None,
        typer.Option(help="Where to (default: THINSTREAM_DATA, else the cache folder).", show_default=False),
    ] = None,
) -> None:
    """List the papers' data sets and which of them are here; show, download or verify one."""
    from thinstream.cli.dataset_tasks import fetch, listing, shown, verified
    from thinstream.errors import InvalidParameterError

    if name is None:
        if download or verify:
            raise InvalidParameterError("name the data set: thinstream datasets NAME --download")
        listing()
    elif download:
        fetch(name, folder)
    elif verify:
        verified(name)
    else:
        shown(name)
