"""``thinstream backup``: copy the folder of a server, also while the server runs."""

from pathlib import Path
from typing import Annotated

from thinstream.cli.options import argument


def backup(
    data: Annotated[Path, argument("The folder of the server (its --data).", metavar="DATA")],
    target: Annotated[Path, argument("A new folder for the copy.", metavar="TARGET")],
) -> None:
    """Copy the folder of a server, also while the server runs.

    Other tools can copy a journal and a checkpoint that don't match. To restore the copy, stop the server and start it
    with the copy: thinstream serve --data TARGET.
    """
    from thinstream.serve import require_packages

    require_packages()
    from thinstream.serve.folders import ServerPaths, back_up

    names = back_up(ServerPaths(data), target)
    print(f"backed up {', '.join(names)} to {target}")
