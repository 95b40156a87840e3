"""The data sets of the papers: what they are, where they can be had, where they are kept, and which are there."""

import os
import re
import sys
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from thinstream.errors import MissingDataError, UnknownNameError, listed

#: Endings of compressed files, the ones that are fastest to read first.
COMPRESSIONS = ("", ".zst", ".gz", ".bz2", ".xz")
#: Endings of files that hold examples.
FORMATS = ("svm", "libsvm", "csv", "tsv", "vw", "jsonl", "tar.gz")
_ENDING = re.compile(rf"(?:\.([A-Za-z0-9_-]+))?\.({'|'.join(map(re.escape, FORMATS))})(\.zst|\.gz|\.bz2|\.xz)?")
_ORDER = ("", "train", "first", "val", "valid", "second", "test")


class Published(NamedTuple):
    """A file that can be downloaded, and what its source says is in it (None: it does not say)."""

    name: str  # under which it is kept
    url: str
    part: str  # "train", "test", or "" where there is one part only
    format: str
    rows: int | None = None
    features: int | None = None
    nonzeros: int | None = None
    megabytes: float | None = None  # to download, about
    sha256: str | None = None

    @property
    def source_name(self) -> str:
        """What the source calls it."""
        return urlsplit(self.url).path.rpartition("/")[2]


class Dataset(NamedTuple):
    """A data set of the papers, as they count it: all parts together."""

    name: str
    title: str
    papers: tuple[str, ...]
    kind: str
    rows: int
    licence: str
    features: int | None = None
    positives: float | None = None  # share of the positive (in imbalanced sets the rare) class
    files: tuple[Published, ...] = ()  # empty: cannot be downloaded, see `ask`
    ask: str = ""
    note: str = ""
    stand_ins: tuple[str, ...] = ()  # names of sets that are like it, smaller or easier to get

    @property
    def size(self) -> str:
        """How much it is, in words.

        >>> dataset("a9a").size
        '48,842 rows, 123 features, about 3.5 MB to download'
        """
        words = [f"{self.rows:,} rows"]
        if self.features is not None:
            words.append(f"{self.features:,} features")
        megabytes = [file.megabytes for file in self.files]
        nonzeros = [file.nonzeros for file in self.files]
        if megabytes and None not in megabytes:
            words.append(f"about {sum(filter(None, megabytes)):.3g} MB to download")
        elif nonzeros and None not in nonzeros:
            words.append(f"{sum(filter(None, nonzeros)):,} non-zeros")
        return ", ".join(words)


@cache
def catalogue() -> dict[str, Dataset]:
    """Every data set of the papers, by name.

    >>> [found.name for found in catalogue().values() if "P1" in found.papers]
    ['covtype', 'rcv1', 'real-sim', 'url', 'epsilon', 'astro-ph']
    """
    import tomllib  # these two cost more to import than the rest of the package
    from importlib.resources import files as resources

    text = resources("thinstream.datasets").joinpath("catalogue.toml").read_text(encoding="utf-8")
    found = {}
    for name, entry in tomllib.loads(text).items():
        files = tuple(_published(name, **file) for file in entry.pop("files", ()))
        papers, stand_ins = tuple(entry.pop("papers")), tuple(entry.pop("stand_ins", ()))
        found[name] = Dataset(name, papers=papers, files=files, stand_ins=stand_ins, **entry)
    return found


def _published(name: str, url: str, format: str, part: str = "", **more: Any) -> Published:  # noqa: A002 (the catalogue's word)
    compression = next((ending for ending in COMPRESSIONS[1:] if url.endswith(ending)), "")
    return Published(".".join(filter(None, (name, part, format))) + compression, url, part, format, **more)


def dataset(name: str) -> Dataset:
    """The data set of this name.

    >>> dataset("spambase").papers
    ('P3',)
    >>> dataset("covtyp")
    Traceback (most recent call last):
    thinstream.errors.UnknownNameError: no data set is called 'covtyp'; did you mean 'covtype'?
    """
    if name not in catalogue():
        raise unknown(name, catalogue())
    return catalogue()[name]


def unknown(name: str, known: Iterable[str]) -> UnknownNameError:
    """The error that names what is near."""
    import difflib

    names = list(dict.fromkeys(known))
    folded = {other.casefold(): other for other in names}
    near = difflib.get_close_matches(name.casefold(), folded, n=3) or [
        other for other in folded if name and name.casefold() in other
    ]
    hint = f"did you mean {listed(folded[other] for other in near[:5])}?" if near else f"there are {listed(names)}"
    return UnknownNameError(f"no data set is called {name!r}; {hint}")


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
