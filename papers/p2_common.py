"""What P2's experiments share: the six tasks of 20 newsgroups, made from the messages, and how rows are scaled."""

import json
import tarfile
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from papers.data import Data, unit, whole
from thinstream.data.compression import open_read
from thinstream.datasets import find

CORPUS = "20news-bydate"
#: P2 Table 2: rows to learn from, to choose parameters with, to test; the sums are those of the corpus.
SIZES = {
    "comp vs rec": (4278, 1644, 2948),
    "comp vs sci": (4248, 1766, 2829),
    "comp vs talk": (3960, 1577, 2607),
    "rec vs talk": (3456, 1423, 2353),
    "sci vs rec": (3772, 1598, 2561),
    "sci vs talk": (3397, 1445, 2363),
}
REUTERS = "reuters21578-acq"
#: The same colour for the same algorithm in every figure of P2.
COLOURS = {
    "stable": "tab:red",
    "TG": "tab:green",
    "SCD": "tab:orange",
    "SMIDAS, p = 0.5 ln d": "tab:blue",
    "SMIDAS, p = 2 ln d": "black",
}
TASK_COLOURS = dict(
    zip(SIZES, ("tab:red", "tab:blue", "tab:green", "tab:purple", "tab:orange", "tab:brown"), strict=True)
)
DOCUMENTS, WORD = 4, r"(?u)\b\w\w+\b"  # a word of a task is in so many of its messages


class Task(NamedTuple):
    """Three parts, drawn at random."""

    train: Data
    valid: Data
    test: Data

    @property
    def width(self) -> int:
        """Features."""
        return int(self.train.X.shape[1])


class Corpus(NamedTuple):
    """Counts of words, and the first part of each message's group: comp, rec, sci, talk."""

    counts: sp.csr_matrix
    heads: NDArray[np.str_]


def needs(task: str) -> tuple[str, ...]:
    """The set a task is made of."""
    return (CORPUS,) if task in SIZES else (REUTERS,)


@lru_cache(maxsize=4)
def task(name: str, rows: str = "unit", words: int = 0, limit: int = 0) -> Task:
    """A task in P2's proportions, in a random order that is always the same.

    ``rows`` are "unit" (of length 1) or "tf-idf" (unscaled); ``words`` keeps the most frequent ones only, and
    ``limit`` cuts each part, for smoke runs.
    """
    data = whole(REUTERS) if name == REUTERS else newsgroups(name, rows, words, limit)
    n = len(data.y)
    learned, chosen, tested = SIZES.get(name, (round(0.6 * n), round(0.15 * n), n))
    order, cuts = np.random.default_rng(0).permutation(n), np.cumsum([learned, chosen])
    if limit:
        cuts, tested = np.array([limit, 2 * limit]), limit
    first, second, third = np.split(order, cuts)
    return Task(data.take(first), data.take(second), data.take(third[:tested]))


def newsgroups(name: str, rows: str, words: int = 0, limit: int = 0) -> Data:
    """tf-idf of the messages of two groups, stop words left out; the first group is +1."""
    plus, minus = name.split(" vs ")
    counted = corpus(3 * limit)
    chosen = np.flatnonzero((counted.heads == plus) | (counted.heads == minus))
    counts = counted.counts[chosen]
    return Data(tf_idf(counts, rows, words), np.where(counted.heads[chosen] == plus, 1, -1).astype(np.int8))


def tf_idf(counts: sp.csr_matrix, rows: str, words: int = 0) -> sp.csr_matrix:
    """Counts × (1 + ln((1 + n)/(1 + df))) of the words that are in enough rows; of length 1 if ``rows`` is "unit"."""
    frequency = np.bincount(counts.indices, minlength=counts.shape[1])
    kept = frequency >= min(DOCUMENTS, counts.shape[0])
    if words and np.count_nonzero(kept) > words:
        kept = np.zeros_like(kept)
        kept[np.argsort(-frequency, kind="stable")[:words]] = True
    weights = 1.0 + np.log((1.0 + counts.shape[0]) / (1.0 + frequency[kept]))
    found = sp.csr_matrix(counts[:, kept] @ sp.diags(weights))
    found.sort_indices()
    return unit(found) if rows == "unit" else found


@lru_cache(maxsize=1)
def corpus(per_group: int = 0) -> Corpus:
    """The messages of comp, rec, sci and talk as counts of words; so many of each if ``per_group`` is not 0."""
    from sklearn.feature_extraction.text import CountVectorizer

    heads: list[str] = []
    texts: list[str] = []
    for head, text in messages(find(CORPUS)[0]):
        if head in ("comp", "rec", "sci", "talk") and not (per_group and heads.count(head) >= per_group):
            heads.append(head)
            texts.append(text)
    counts = CountVectorizer(stop_words="english", token_pattern=WORD, min_df=2).fit_transform(texts)
    return Corpus(sp.csr_matrix(counts, dtype=np.float64), np.array(heads))


def messages(place: Path) -> Iterator[tuple[str, str]]:
    """(first part of the group, text) of each message, from JSON Lines or from the archive of the download."""
    if place.name.endswith(".tar.gz"):
        with tarfile.open(place) as archive:
            for member in archive:
                file = archive.extractfile(member)
                if file is not None:
                    yield Path(member.name).parent.name.split(".")[0], file.read().decode("latin-1")
        return
    with open_read(place) as lines:
        for line in lines:
            row = json.loads(line)
            yield row["group"].split(".")[0], row["text"]


def errors(X: sp.csr_matrix, y: NDArray[np.int8], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Share of misclassified rows, for each column of weights."""
    found: NDArray[np.float64] = np.mean((X @ weights > 0) != (y > 0)[:, np.newaxis], axis=0)
    return found


def halts(rows: int, passes: int, ratio: float = 1.35) -> Sequence[int]:
    """Numbers of examples after which a run is looked at: closer at its start, then at the end of each pass.

    >>> halts(10, 2, 2.0)
    [1, 2, 4, 8, 10, 20]
    """
    found = [1]
    while found[-1] * ratio < rows:
        found.append(max(found[-1] + 1, int(found[-1] * ratio)))
    return [*(number for number in found if number < rows), *(rows * (done + 1) for done in range(passes))]
