"""Work that is kept, so that a run that was stopped goes on where it was."""

import json
from collections.abc import Callable, Iterable
from hashlib import blake2b
from pathlib import Path
from typing import Any

from thinstream.files import replacing

Row = dict[str, Any]


def kept(folder: Path, key: str, state: object, work: Callable[[], Iterable[Row]]) -> list[Row]:
    """The rows of a cell: those on disk, if they were made of the same state, or else made now."""
    digest = blake2b(repr(state).encode(), digest_size=8).hexdigest()
    place = folder / f"{key.replace(' ', '-')}.json"
    if place.exists():
        found = json.loads(place.read_text())
        if found["digest"] == digest:
            return list(found["rows"])
    folder.mkdir(parents=True, exist_ok=True)
    rows = list(work())
    with replacing(place) as file:
        file.write_text(json.dumps({"key": key, "digest": digest, "rows": rows}))
    return rows


def gathered(folder: Path) -> dict[str, list[Row]]:
    """All rows that are kept, by kind of cell; a cell's rows in their order."""
    return {
        kind.name: [row for place in sorted(kind.glob("*.json")) for row in json.loads(place.read_text())["rows"]]
        for kind in sorted(folder.glob("*"))
    }
