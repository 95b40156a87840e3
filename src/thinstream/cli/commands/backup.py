"""``thinstream backup``: a copy of a server's folder, taken while the server runs."""

from pathlib import Path
from typing import Annotated

from thinstream.cli.declared import argument


def backup(
    data: Annotated[Path, argument("The folder of the server (its --data).", metavar="DATA")],
    target: Annotated[Path, argument("A new folder for the copy.", metavar="TARGET")],
) -> None:
    """Copy the folder of a server, which may be running: each journal with the checkpoint that it continues.

    Copying the folder with other tools while the server runs can give a journal and a checkpoint that don't match. To
    restore, stop the server and put the copy in the place of its folder: thinstream serve --data TARGET.
    """
    from thinstream.serve import require_packages

    require_packages()
    from thinstream.serve.places import Places
    from thinstream.serve.recovery import back_up

    names = back_up(Places(data), target)
    print(f"backed up {', '.join(names)} to {target}")
