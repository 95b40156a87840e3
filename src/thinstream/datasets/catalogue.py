"""The datasets of the papers: their properties, where to find their files, and how to download and verify them.

A file grows in the folder ``.partial`` next to its final path, and is moved when it is complete and verified. Its
sha256 is stored in ``SHA256SUMS``, in the format of ``sha256sum --check``.
"""

import hashlib
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from thinstream.errors import (
    DownloadError,
    InvalidInputError,
    InvalidParameterError,
    MissingDataError,
    UnknownNameError,
    listed,
)
from thinstream.files import locked

#: Extensions of compressed files, the fastest to read first.
COMPRESSIONS = ("", ".zst", ".gz", ".bz2", ".xz")
#: Extensions of data files.
FORMATS = ("svm", "libsvm", "csv", "tsv", "vw", "jsonl", "tar.gz")
_ENDING = re.compile(rf"(?:\.([A-Za-z0-9_-]+))?\.({'|'.join(map(re.escape, FORMATS))})(\.zst|\.gz|\.bz2|\.xz)?")
_ORDER = ("", "train", "first", "val", "valid", "second", "test")


class Published(NamedTuple):
    """A file to download, and what its source states about it (None: nothing)."""

    name: str  # its name after the download
    url: str
    part: str  # "train", "test", or "" if there is only one part
    format: str
    rows: int | None = None
    features: int | None = None
    nonzeros: int | None = None
    megabytes: float | None = None  # approximate size of the download
    sha256: str | None = None

    @property
    def source_name(self) -> str:
        """The name of the file at its source."""
        return urlsplit(self.url).path.rpartition("/")[2]


class Dataset(NamedTuple):
    """A dataset of the papers. Its numbers are those of the papers, for all parts together."""

    name: str
    title: str
    papers: tuple[str, ...]
    domain: str
    rows: int
    licence: str
    features: int | None = None
    positives: float | None = None  # share of the positive class, which is the rare one in imbalanced datasets
    files: tuple[Published, ...] = ()  # empty if it cannot be downloaded, see `ask`
    ask: str = ""
    note: str = ""
    stand_ins: tuple[str, ...] = ()  # similar datasets, smaller or easier to get
    ranges: Mapping[str, tuple[float, float]] = MappingProxyType({})  # column, counted from 1: its published range

    @property
    def size(self) -> str:
        """The size as text.

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
    """Return all datasets of the papers by name.

    >>> [entry.name for entry in catalogue().values() if "P1" in entry.papers]
    ['covtype', 'rcv1', 'real-sim', 'url', 'epsilon', 'astro-ph']
    """
    import tomllib  # these two cost more to import than the rest of the package
    from importlib.resources import files as resources

    text = resources("thinstream.datasets").joinpath("catalogue.toml").read_text(encoding="utf-8")
    datasets = {}
    for name, entry in tomllib.loads(text).items():
        files = tuple(_published(name, **file) for file in entry.pop("files", ()))
        papers, stand_ins = tuple(entry.pop("papers")), tuple(entry.pop("stand_ins", ()))
        datasets[name] = Dataset(name, papers=papers, files=files, stand_ins=stand_ins, **entry)
    return datasets


def _published(name: str, url: str, format: str, part: str = "", **more: Any) -> Published:  # noqa: A002 (the catalogue's word)
    compression = next((ending for ending in COMPRESSIONS[1:] if url.endswith(ending)), "")
    return Published(".".join(filter(None, (name, part, format))) + compression, url, part, format, **more)


def dataset(name: str) -> Dataset:
    """Return a dataset by its name.

    >>> dataset("spambase").papers
    ('P3',)
    >>> dataset("covtyp")
    Traceback (most recent call last):
    thinstream.errors.UnknownNameError: there is no dataset 'covtyp'; did you mean 'covtype'?
    """
    if name not in catalogue():
        raise unknown(name, catalogue())
    return catalogue()[name]


def unknown(name: str, names: Iterable[str]) -> UnknownNameError:
    """Return the error for an unknown name, with similar names."""
    import difflib

    distinct = list(dict.fromkeys(names))
    folded = {other.casefold(): other for other in distinct}
    near = difflib.get_close_matches(name.casefold(), folded, n=3) or [
        other for other in folded if name and name.casefold() in other
    ]
    hint = f"did you mean {listed(folded[other] for other in near[:5])}?" if near else f"there are {listed(distinct)}"
    return UnknownNameError(f"there is no dataset {name!r}; {hint}")


def folders() -> tuple[Path, ...]:
    """Return the folders with datasets; downloads go to the first one.

    These are the folders in the environment variable ``THINSTREAM_DATA``, separated as in ``PATH``, or else a folder in
    the user's cache.
    """
    paths = [path for path in os.environ.get("THINSTREAM_DATA", "").split(os.pathsep) if path]
    return tuple(Path(path).expanduser() for path in paths) or (_cache() / "thinstream" / "data",)


def find(name: str, within: Sequence[str | os.PathLike[str]] | None = None) -> list[Path]:
    """Return the files of a dataset, ``train`` before ``test``, from the first folder that has any.

    A file is named ``name.svm`` or ``name.part.svm`` (or .libsvm, .csv, .tsv, .vw, .jsonl, optionally with .zst, .gz,
    .bz2 or .xz), or as at its source (``a9a.t``). If a part exists twice, this returns the copy that is faster to read.
    Datasets that are not in the catalogue are also found.

    Parameters
    ----------
    name
        Name of a dataset in `catalogue`, or of other files in the folders.
    within
        Folders to search, instead of `folders()`.

    """
    searched = folders() if within is None else tuple(Path(folder) for folder in within)
    for folder in searched:
        if files := parts_of(name, folder):
            return list(files.values())
    entry = catalogue().get(name)
    if entry is None:
        raise unknown(name, [*catalogue(), *present(searched)])
    raise MissingDataError(_absence(entry, searched))


def present(within: Sequence[Path] | None = None) -> list[str]:
    """Return the names of the datasets that have files, sorted."""
    sources = {file.source_name: entry.name for entry in catalogue().values() for file in entry.files}
    names = set()
    for folder in folders() if within is None else within:
        for file in _listing(folder):
            if file.name in sources:
                names.add(sources[file.name])
            elif match := re.search(_ENDING.pattern + "$", file.name):
                names.add(file.name[: match.start()])
    return sorted(name for name in names if name and not name.isupper())  # not README or MANIFEST


def parts_of(name: str, folder: Path) -> dict[str, Path]:
    """Return the files of a dataset in a folder by part, in the order in which they are learned."""
    best: dict[str, tuple[int, Path]] = {}
    entry = catalogue().get(name)
    sources = {file.source_name: file for file in entry.files} if entry else {}
    for file in _listing(folder):
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


def _listing(folder: Path) -> list[Path]:
    try:
        return sorted(file for file in folder.iterdir() if file.is_file())
    except OSError:  # does not exist, or cannot be read
        return []


def _absence(entry: Dataset, searched: Sequence[Path]) -> str:
    text = f"the dataset {entry.name!r} ({entry.size}) is not in {', '.join(map(str, searched))}; "
    if entry.files:
        text += f"download it with: thinstream datasets {entry.name} --download"
    else:
        text += f"it cannot be downloaded: {entry.ask}"
    if similar := [name for name in entry.stand_ins if any(parts_of(name, folder) for folder in searched)]:
        text += f"; a similar dataset is available: {', '.join(similar)}"
    return text


def _cache() -> Path:
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    folder = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return folder if folder.is_absolute() else Path.home() / ".cache"  # XDG ignores relative paths


#: Called with the file's name, the bytes received, and the total (None if unknown).
Progress = Callable[[str, int, int | None], None]
#: Called with a downloaded file, before it is moved, and its published properties; raises an error if it is wrong.
Check = Callable[[Path, Published], None]

SUMS = "SHA256SUMS"


class Checked(NamedTuple):
    """A file, its sha256, and whether a recorded sha256 confirmed it (False: none was recorded)."""

    path: Path
    sha256: str
    recorded: bool


def download(
    name: str,
    folder: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
    *,
    parts: Sequence[str] | None = None,
    check: Check | None = None,
    base: str | None = None,
    timeout: float = 60.0,
) -> list[Path]:
    """Download the files of a dataset that do not exist yet, and return the paths of all files.

    After an interruption, the same call resumes where the last one stopped.

    Parameters
    ----------
    name
        Name of a dataset in `catalogue`.
    folder
        The destination, by default the first of `folders()`. Created if necessary.
    progress
        Called now and then with the file's name, the bytes received and the total (or None).
    parts
        Download only these parts, for example ``["train"]``.
    check
        Called with each new file and its published properties, for example to count rows. If it raises an error, the
        file is deleted.
    base
        URL of a mirror that has the files under their names after the download. Default: the environment variable
        ``THINSTREAM_DATA_URL``, or else the source of each file.
    timeout
        Seconds without data after which the download fails.

    """
    from thinstream.datasets import transfer  # importing http takes longer than everything else

    entry = dataset(name)
    if not entry.files:
        raise DownloadError(f"the dataset {name!r} cannot be downloaded: {entry.ask}")
    wanted = _parts(name, entry.files, parts)
    mirror = base or os.environ.get("THINSTREAM_DATA_URL")
    target = folders()[0] if folder is None else Path(folder)
    partial = target / ".partial"
    with _alone(partial):
        for file in wanted:
            if file.part not in parts_of(name, target):
                url = f"{mirror.rstrip('/')}/{file.name}" if mirror else file.url
                transfer.fetch(url, partial / file.name, timeout, progress)
                _move(partial / file.name, target / file.name, file, check)
        return [parts_of(name, target)[file.part] for file in wanted]


def verify(name: str, within: Sequence[str | os.PathLike[str]] | None = None) -> list[Checked]:
    """Compare the files of a dataset with the sha256 recorded when they were downloaded.

    A file that differs raises `InvalidInputError`. Without a recorded sha256, the result has ``recorded=False``.
    """
    results = []
    for path in find(name, within):
        expected, actual = _recorded(path.parent).get(path.name), sha256(path)
        if expected not in (None, actual):
            raise InvalidInputError(
                f"{path} is damaged or was changed: its sha256 is {actual}, but {SUMS} has {expected}. Delete it and "
                f"download it again with: thinstream datasets {name} --download"
            )
        results.append(Checked(path, actual, expected is not None))
    return results


def sha256(path: Path) -> str:
    """Return the sha256 of a file in hexadecimal."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _parts(name: str, files: tuple[Published, ...], parts: Sequence[str] | None) -> list[Published]:
    available = {file.part: file for file in files}
    for part in parts or ():
        if part not in available:
            raise InvalidParameterError(f"parts of the dataset {name!r} must be {listed(available)}, got {part!r}")
    return [file for file in files if parts is None or file.part in parts]


def _move(fetched: Path, path: Path, file: Published, check: Check | None) -> None:
    """Move a downloaded file to its final path if it is right, else delete it."""
    try:
        actual = sha256(fetched)
        if file.sha256 not in (None, actual):
            raise DownloadError(f"{file.name} from {file.url} must have the sha256 {file.sha256}, got {actual}")
        if check is not None:
            check(fetched, file)
    except Exception:
        fetched.unlink(missing_ok=True)
        raise
    sums = {**_recorded(path.parent), path.name: actual}
    lines = "".join(f"{value}  {name}\n" for name, value in sorted(sums.items()))
    draft = fetched.parent / SUMS
    draft.write_text(lines, encoding="utf-8")
    draft.replace(path.parent / SUMS)  # before the file, so that a file in its final path always has a checksum
    fetched.replace(path)


def _recorded(folder: Path) -> dict[str, str]:
    try:
        lines = (folder / SUMS).read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return {}
    pairs = (line.split(maxsplit=1) for line in lines if line.strip())
    return {pair[1].lstrip("*"): pair[0].lower() for pair in pairs if len(pair) == 2}


@contextmanager
def _alone(partial: Path) -> Iterator[None]:
    """Only one process at a time downloads into a folder."""
    with ExitStack() as held:
        try:
            partial.mkdir(parents=True, exist_ok=True)
            held.enter_context(locked(partial / "lock", wait=False))
        except BlockingIOError as error:
            raise DownloadError(f"another process is downloading into {partial.parent}. Wait until it ends.") from error
        except OSError as error:
            raise DownloadError(f"cannot write into the folder {partial.parent}: {error.strerror}") from error
        yield
