"""``thinstream datasets``: list, download and verify the papers' data sets."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from thinstream.cli.options import argument, option

if TYPE_CHECKING:
    from thinstream.datasets import Published


def datasets(
    name: Annotated[str | None, argument("Show this data set and its files.")] = None,
    download: Annotated[bool, option("Download it, if it is public.")] = False,
    verify: Annotated[bool, option("Compare its files with the checksums of the download.")] = False,
    folder: Annotated[
        Path | None, option("Download to this folder (default: THINSTREAM_DATA or the cache folder).")
    ] = None,
) -> None:
    """List the papers' data sets and mark those on this machine, or show, download or verify one."""
    from thinstream.errors import InvalidParameterError

    if name is None:
        if download or verify:
            raise InvalidParameterError("--download and --verify need a data set: thinstream datasets NAME --download")
        _list_all()
    elif download:
        _download(name, folder)
    elif verify:
        _verify(name)
    else:
        _show(name)


def _list_all() -> None:
    from thinstream.datasets import catalogue, folders, present

    here = set(present())
    print(f"{'':2}{'name':<26}{'papers':<10}{'rows':>12}{'features':>12}{'positive':>10}  description")
    for entry in catalogue().values():
        share = "–" if entry.positives is None else f"{100 * entry.positives:.2f}%"
        width = "–" if entry.features is None else f"{entry.features:,}"
        mark, papers = "✓" if entry.name in here else " ", ",".join(entry.papers) or "–"
        print(f"{mark} {entry.name:<26}{papers:<10}{entry.rows:>12,}{width:>12}{share:>10}  {entry.title}")
    others = sorted(here - set(catalogue()))
    if others:
        print(f"\nOther data sets on this machine: {', '.join(others)}")
    print(
        f"\n✓: on this machine, in {', '.join(map(str, folders()))}. To download: thinstream datasets NAME --download"
    )


def _show(name: str) -> None:
    from thinstream.datasets import catalogue, dataset, find
    from thinstream.errors import MissingDataError

    if name in catalogue():
        entry = dataset(name)
        users = ", ".join(entry.papers) or "experiments and examples"
        print(f"{entry.title}\n{entry.size}\nused by {users}\nlicense: {entry.licence}")
        for text in (entry.note, entry.ask):
            if text:
                print(text)
        for file in entry.files:
            print(f"public: {file.url}")
    try:
        for path in find(name):
            print(f"file: {path}")
    except MissingDataError as error:
        print(error)


def _download(name: str, folder: Path | None) -> None:
    """Download a data set, check its size, and print its files."""
    from thinstream.datasets import download

    def progress(file: str, have: int, total: int | None) -> None:
        if sys.stderr.isatty():
            of = f" of {total / 1e6:,.1f}" if total else ""
            sys.stderr.write(f"\r\033[K{file}: {have / 1e6:,.1f}{of} MB")
            sys.stderr.flush()

    paths = download(name, folder, progress, check=_require_published_size)
    if sys.stderr.isatty():
        sys.stderr.write("\r\033[K")
    for path in paths:
        print(path)


def _require_published_size(path: Path, published: "Published") -> None:
    """Raise if a file does not have the published numbers of rows and non-zeros."""
    from thinstream.data.opening import open_stream
    from thinstream.errors import InvalidInputError

    if published.format != "svm" or published.rows is None:
        return
    rows = nonzeros = 0
    for batch in open_stream(path, "libsvm", zero_based="auto", dtype="float64", look=0).batches():
        rows, nonzeros = rows + len(batch), nonzeros + batch.nnz
    if rows != published.rows or (published.nonzeros is not None and nonzeros != published.nonzeros):
        raise InvalidInputError(
            f"{path.name} must have {published.rows:,} rows and {published.nonzeros or 'any number of'} non-zeros, as "
            f"published, got {rows:,} and {nonzeros:,}"
        )


def _verify(name: str) -> None:
    from thinstream.datasets import verify

    for checked in verify(name):
        state = "unchanged since the download" if checked.recorded else "no checksum was recorded"
        print(f"{checked.sha256}  {checked.path}  ({state})")
