"""``thinstream datasets``: the papers' data sets, found or downloaded."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from thinstream.datasets import Published


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
    from thinstream.errors import InvalidParameterError

    if name is None:
        if download or verify:
            raise InvalidParameterError("name the data set: thinstream datasets NAME --download")
        _list_all()
    elif download:
        _download(name, folder)
    elif verify:
        _verify(name)
    else:
        _show(name)


def _list_all() -> None:
    """Prints all data sets, a line each."""
    from thinstream.datasets import catalogue, folders, present

    here = set(present())
    print(f"{'':2}{'name':<26}{'papers':<10}{'rows':>12}{'features':>12}{'positive':>10}  what it is")
    for entry in catalogue().values():
        share = "–" if entry.positives is None else f"{100 * entry.positives:.2f} %"
        width = "–" if entry.features is None else f"{entry.features:,}"
        mark, papers = "✓" if entry.name in here else " ", ",".join(entry.papers) or "–"
        print(f"{mark} {entry.name:<26}{papers:<10}{entry.rows:>12,}{width:>12}{share:>10}  {entry.title}")
    others = sorted(here - set(catalogue()))
    if others:
        print(f"\nAlso here: {', '.join(others)}")
    print(f"\n✓ is here. Folders: {', '.join(map(str, folders()))}. thinstream datasets NAME --download fetches one.")


def _show(name: str) -> None:
    """Prints one data set, and its files."""
    from thinstream.datasets import catalogue, dataset, find
    from thinstream.errors import MissingDataError

    if name in catalogue():
        entry = dataset(name)
        users = ", ".join(entry.papers) or "experiments and examples"
        print(f"{entry.title}\n{entry.size}\nused by {users}\nlicence: {entry.licence}")
        for text in (entry.note, entry.ask):
            if text:
                print(text)
        for file in entry.files:
            print(f"public: {file.url}")
    try:
        for path in find(name):
            print(f"here: {path}")
    except MissingDataError as error:
        print(error)


def _download(name: str, folder: Path | None) -> None:
    """Downloads with a line of progress, counts the rows, and says where the files are."""
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
    """Raises where a file has not the published numbers of rows and non-zeros."""
    from thinstream.errors import InvalidInputError
    from thinstream.streams.opening import open_stream

    if published.format != "svm" or published.rows is None:
        return
    rows = nonzeros = 0
    for batch in open_stream(path, "libsvm", zero_based="auto", dtype="float64", look=0).batches():
        rows, nonzeros = rows + len(batch), nonzeros + batch.nnz
    if rows != published.rows or (published.nonzeros is not None and nonzeros != published.nonzeros):
        raise InvalidInputError(
            f"{path.name}: {published.rows:,} rows and {published.nonzeros or 'any number of'} non-zeros are "
            f"published, got {rows:,} and {nonzeros:,}"
        )


def _verify(name: str) -> None:
    """Compares the files that are here with their checksums."""
    from thinstream.datasets import verify

    for checked in verify(name):
        how = "as downloaded" if checked.recorded else "no checksum was recorded"
        print(f"{checked.sha256}  {checked.path}  ({how})")
