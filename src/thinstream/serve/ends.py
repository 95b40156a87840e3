"""How often processes of a server have ended: written by the one that starts them, told by those that answer."""

import json
from contextlib import suppress
from pathlib import Path


def tell_ends(folder: Path, ends: dict[str, int]) -> None:
    """Leaves how often processes of each kind have ended by themselves."""
    draft = folder / "ends.tmp"
    with suppress(OSError):  # the server goes on without
        draft.write_text(json.dumps(ends))
        draft.replace(folder / "ends")


def ends_told(folder: Path) -> dict[str, int]:
    """What was left there; nothing where one process is all there is."""
    try:
        found: dict[str, int] = json.loads((folder / "ends").read_text())
    except FileNotFoundError:
        return {}
    return found
