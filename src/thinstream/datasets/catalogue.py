"""The data sets of the papers: what they are, and where they can be had."""

from collections.abc import Iterable
from functools import cache
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from thinstream.errors import UnknownNameError, listed

#: Endings of compressed files, the ones that are fastest to read first.
COMPRESSIONS = ("", ".zst", ".gz", ".bz2", ".xz")


class Published(NamedTuple):
    """A file that can be downloaded, and what its source says is in it (None: it does not say)."""

    name: str  # under which it is kept
    url: str
    part: str  # "train", "test", or "" where there is one part only
    format: str
    rows: int | None
    features: int | None
    nonzeros: int | None
    megabytes: float | None  # to download, about
    sha256: str | None

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
    features: int | None
    positives: float | None  # share of the positive (in imbalanced sets the rare) class
    licence: str
    files: tuple[Published, ...]  # empty: cannot be downloaded, see `ask`
    ask: str
    note: str
    stand_ins: tuple[str, ...]  # names of sets that are like it, smaller or easier to get

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
    return {name: _dataset(name, entry) for name, entry in tomllib.loads(text).items()}


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


def _dataset(name: str, entry: dict[str, Any]) -> Dataset:
    return Dataset(
        name=name,
        title=entry["title"],
        papers=tuple(entry["papers"]),
        kind=entry["kind"],
        rows=entry["rows"],
        features=entry.get("features"),
        positives=entry.get("positives"),
        licence=entry["licence"],
        files=tuple(_published(name, file) for file in entry.get("files", ())),
        ask=entry.get("ask", ""),
        note=entry.get("note", ""),
        stand_ins=tuple(entry.get("stand_ins", ())),
    )


def _published(name: str, file: dict[str, Any]) -> Published:
    part, form, url = file.get("part", ""), file["format"], file["url"]
    compression = next((ending for ending in COMPRESSIONS[1:] if url.endswith(ending)), "")
    return Published(
        name=".".join(filter(None, (name, part, form))) + compression,
        url=url,
        part=part,
        format=form,
        **{key: file.get(key) for key in ("rows", "features", "nonzeros", "megabytes", "sha256")},
    )
