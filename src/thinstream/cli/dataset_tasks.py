"""What ``thinstream datasets`` does."""

import sys
from pathlib import Path

from thinstream.datasets import Published, catalogue, dataset, folders, present, verify
from thinstream.datasets import download as fetched
from thinstream.datasets import find as found
from thinstream.errors import InvalidInputError, MissingDataError
from thinstream.streams.opening import open_stream


def listing() -> None:
    """All data sets, a line each."""
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


def shown(name: str) -> None:
    """One data set, and its files."""
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
        for path in found(name):
            print(f"here: {path}")
    except MissingDataError as error:
        print(error)


def fetch(name: str, folder: Path | None) -> None:
    """Downloads with a line of progress, counts the rows, and says where the files are."""

    def progress(file: str, have: int, total: int | None) -> None:
        if sys.stderr.isatty():
            of = f" of {total / 1e6:,.1f}" if total else ""
            sys.stderr.write(f"\r\033[K{file}: {have / 1e6:,.1f}{of} MB")
            sys.stderr.flush()

    paths = fetched(name, folder, progress, check=_counted)
    if sys.stderr.isatty():
        sys.stderr.write("\r\033[K")
    for path in paths:
        print(path)


def _counted(path: Path, published: Published) -> None:
    """What was fetched must have the published numbers of rows and non-zeros."""
    if published.format != "libsvm" or published.rows is None:
        return
    rows = nonzeros = 0
    for batch in open_stream(path, "libsvm", zero_based="auto", dtype="float64").batches():
        rows, nonzeros = rows + len(batch), nonzeros + batch.nnz
    if rows != published.rows or (published.nonzeros is not None and nonzeros != published.nonzeros):
        raise InvalidInputError(
            f"{path.name}: {published.rows:,} rows and {published.nonzeros or 'any number of'} non-zeros are "
            f"published, got {rows:,} and {nonzeros:,}"
        )


def verified(name: str) -> None:
    """Checksums of the files that are here."""
    for checked in verify(name):
        told = "as downloaded" if checked.recorded else "no checksum was recorded"
        print(f"{checked.sha256}  {checked.path}  ({told})")
