"""Where data sets are kept, and which are there."""

import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from thinstream.datasets.catalogue import COMPRESSIONS, Dataset, catalogue, unknown
from thinstream.errors import MissingDataError

#: Endings of files that hold examples.
FORMATS = ("svm", "libsvm", "csv", "tsv", "vw", "jsonl", "tar.gz")
_ENDING = re.compile(rf"(?:\.([A-Za-z0-9_-]+))?\.({'|'.join(map(re.escape, FORMATS))})(\.zst|\.gz|\.bz2|\.xz)?")
_ORDER = ("", "train", "first", "val", "valid", "second", "test")


def folders() -> tuple[Path, ...]:
    """Where data sets are looked for; the first is where downloads go.

    The folders in the environment variable ``THINSTREAM_DATA``, parted as those in ``PATH`` are, or else one in the
    user's cache.
    """
    given = [part for part in os.environ.get("THINSTREAM_DATA", "").split(os.pathsep) if part]
    return tuple(Path(part).expanduser() for part in given) or (_cache() / "thinstream" / "data",)


def find(name: str, within: Sequence[str | os.PathLike[str]] | None = None) -> list[Path]:
    """The files of a data set, ``train`` before ``test``, from the first folder that has any.

    A file is called ``name.svm`` or ``name.part.svm`` (or .libsvm, .csv, .tsv, .vw, .jsonl; then perhaps .zst, .gz,
    .bz2 or .xz), or as its source calls it (``a9a.t``). Of a part kept twice the copy that is faster to read is taken.
    Sets that are in no paper are found as well.

    Parameters
    ----------
    name
        Of a data set in `catalogue`, or of files that are there.
    within
        Folders to look in, instead of `folders()`.

    """
    places = folders() if within is None else tuple(Path(place) for place in within)
    for place in places:
        if files := parts_of(name, place):
            return list(files.values())
    entry = catalogue().get(name)
    if entry is None:
        raise unknown(name, [*catalogue(), *present(places)])
    raise MissingDataError(_absence(entry, places))


def present(within: Sequence[Path] | None = None) -> list[str]:
    """Names of the data sets that are there, sorted."""
    sources = {file.source_name: entry.name for entry in catalogue().values() for file in entry.files}
    found = set()
    for place in folders() if within is None else within:
        for file in _listing(place):
            if file.name in sources:
                found.add(sources[file.name])
            elif match := re.search(_ENDING.pattern + "$", file.name):
                found.add(file.name[: match.start()])
    return sorted(name for name in found if name and not name.isupper())  # README, MANIFEST … are about data sets


def parts_of(name: str, place: Path) -> dict[str, Path]:
    """The files of a data set in a folder, by part, in the order in which they are learned from."""
    best: dict[str, tuple[int, Path]] = {}
    entry = catalogue().get(name)
    sources = {file.source_name: file for file in entry.files} if entry else {}
    for file in _listing(place):
        match = _ENDING.fullmatch(file.name[len(name) :]) if file.name.startswith(name) else None
        if match:
            part, compression = match[1] or "", match[3] or ""
        elif file.name in sources:
            part, compression = sources[file.name].part, file.suffix if file.suffix in COMPRESSIONS else ""
        else:
            continue
        rank = COMPRESSIONS.index(compression)
        if part not in best or rank < best[part][0]:
            best[part] = (rank, file)
    parts = sorted(best, key=lambda part: (_ORDER.index(part) if part in _ORDER else len(_ORDER), part))
    return {part: best[part][1] for part in parts}


def _listing(place: Path) -> list[Path]:
    try:
        return sorted(file for file in place.iterdir() if file.is_file())
    except OSError:  # not there, or not ours to read: nothing is found in it
        return []


def _absence(entry: Dataset, places: Sequence[Path]) -> str:
    looked = ", ".join(map(str, places))
    text = f"data set {entry.name!r} ({entry.size}) is not in {looked}; "
    if entry.files:
        text += f"get it with: thinstream datasets {entry.name} --download"
    else:
        text += f"it cannot be downloaded: {entry.ask}"
    if there := [name for name in entry.stand_ins if any(parts_of(name, place) for place in places)]:
        text += f"; like it, and there: {', '.join(there)}"
    return text


def _cache() -> Path:
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    given = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return given if given.is_absolute() else Path.home() / ".cache"  # the XDG rules: a relative one is ignored
