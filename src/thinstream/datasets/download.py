"""Fetches data sets: resumed where a download broke off, checked, and never half there.

A file grows in the folder ``.partial`` beside its final place, under its final name, and is moved when everything
about it is right. Its sha256 is kept in ``SHA256SUMS``, in the form ``sha256sum --check`` reads.
"""

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from thinstream.datasets.catalogue import Published, dataset, find, folders, parts_of
from thinstream.errors import DownloadError, InvalidInputError, InvalidParameterError, listed
from thinstream.locks import locked

#: Called with the file's name, the bytes there are, and those there will be (None: the server does not say).
Progress = Callable[[str, int, int | None], None]
#: Called with a file just fetched, before it gets its place, and what is published about it; raises what is wrong.
Check = Callable[[Path, Published], None]

SUMS = "SHA256SUMS"


class Checked(NamedTuple):
    """A file, its sha256, and whether that is the one recorded when it was downloaded (False: none was)."""

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
    """Fetches the files of a data set that are not there yet, and says where all of them are.

    After a break (the network, a signal) the same call goes on where the last one stopped.

    Parameters
    ----------
    name
        Of a data set in `catalogue`.
    folder
        Where to put it, by default the first of `folders()`. Made if need be.
    progress
        Called now and then with the file's name, the bytes there are and those there will be (or None).
    parts
        Only these, for example ``["train"]``.
    check
        Called with each new file and what is published about it, to count rows for example; what it raises is raised,
        and the file is thrown away.
    base
        Address of a mirror that has the files under the names they get here; by default the environment variable
        ``THINSTREAM_DATA_URL``, else each file's own source.
    timeout
        Seconds without a byte until the server is given up.

    """
    from thinstream.datasets import transfer  # http costs more to import than everything else here

    entry = dataset(name)
    if not entry.files:
        raise DownloadError(f"data set {name!r} cannot be downloaded: {entry.ask}")
    wanted = _parts(name, entry.files, parts)
    mirror = base or os.environ.get("THINSTREAM_DATA_URL")
    place = folders()[0] if folder is None else Path(folder)
    partial = place / ".partial"
    with _alone(partial):
        for file in wanted:
            if file.part not in parts_of(name, place):
                url = f"{mirror.rstrip('/')}/{file.name}" if mirror else file.url
                transfer.fetch(url, partial / file.name, timeout, progress)
                _place(partial / file.name, place / file.name, file, check)
        return [parts_of(name, place)[file.part] for file in wanted]


def verify(name: str, within: Sequence[str | os.PathLike[str]] | None = None) -> list[Checked]:
    """Reads the files of a data set and compares them with the sha256 recorded when they were downloaded.

    A file that differs raises `InvalidInputError`; one of which none is recorded comes back with ``recorded=False``.
    """
    results = []
    for path in find(name, within):
        expected, found = _recorded(path.parent).get(path.name), sha256(path)
        if expected not in (None, found):
            raise InvalidInputError(
                f"{path} is damaged or was changed: its sha256 is {found}, {SUMS} has {expected}; "
                f"delete it and get it again with: thinstream datasets {name} --download"
            )
        results.append(Checked(path, found, expected is not None))
    return results


def sha256(path: Path) -> str:
    """Of a file's content, in hexadecimal."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _parts(name: str, files: tuple[Published, ...], parts: Sequence[str] | None) -> list[Published]:
    there = {file.part: file for file in files}
    for part in parts or ():
        if part not in there:
            raise InvalidParameterError(f"parts of data set {name!r} must be {listed(there)}, got {part!r}")
    return [file for file in files if parts is None or file.part in parts]


def _place(fetched: Path, path: Path, file: Published, check: Check | None) -> None:
    """Moves a fetched file to its place if it is what it should be, else deletes it."""
    try:
        found = sha256(fetched)
        if file.sha256 not in (None, found):
            raise DownloadError(f"{file.name} from {file.url} must have the sha256 {file.sha256}, got {found}")
        if check is not None:
            check(fetched, file)
    except Exception:
        fetched.unlink(missing_ok=True)
        raise
    sums = {**_recorded(path.parent), path.name: found}
    lines = "".join(f"{value}  {name}\n" for name, value in sorted(sums.items()))
    draft = fetched.parent / SUMS
    draft.write_text(lines, encoding="utf-8")
    draft.replace(path.parent / SUMS)  # first: a file in its place always has its sum
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
    """One process at a time downloads into a folder."""
    with ExitStack() as held:
        try:
            partial.mkdir(parents=True, exist_ok=True)
            held.enter_context(locked(partial / "lock", wait=False))
        except BlockingIOError as error:
            raise DownloadError(f"another process is downloading into {partial.parent}; wait for it") from error
        except OSError as error:
            raise DownloadError(f"cannot write into the folder {partial.parent}: {error.strerror}") from error
        yield
