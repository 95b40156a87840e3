"""Scores of the candidates on training rows, each before the row was learned; computed once, and kept."""

from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
from benchmarks.portfolio.candidates import DIAGONAL, NARROW, PREPARATIONS, WITH_FULL, Candidate
from benchmarks.versus.sets import EARLY, SETS, SHARE, lines_of, source
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, vstack

from thinstream.batch import Batch
from thinstream.data import open_stream
from thinstream.datasets import find
from thinstream.files import replacing
from thinstream.lanes.lanes import Lanes
from thinstream.models.preparation import Preparation

#: Sets that versus does not have.
FURTHER = ("rcv1-small", "mdsd-electronics", "spambase", "svmguide3", "australian")
IN_TIME = tuple(name for name, one in SETS.items() if one.in_time)
#: Of longer sets the first so many; shorter ones come in several orders, for errors that say more.
ROWS, SHORT, ORDERS = 100_000, 15_000, 3
FULL_ROWS = 50_000  # that models of full covariance learn, and that are judged
PIECE = 4096


class Stream(NamedTuple):
    """Training rows in an order."""

    set: str
    order: int

    def __str__(self) -> str:
        return f"{self.set} {self.order}"


class Kept(NamedTuple):
    """What is known of a stream."""

    scores: NDArray[np.float32]  # rows × candidates
    y: NDArray[np.int8]
    cut: int  # rows that were learned; the others were scored by models that stood still


def streams() -> Iterator[Stream]:
    """All of them."""
    for name in (*SETS, *FURTHER):
        yield from (Stream(name, order) for order in range(ORDERS if _is_short(name) else 1))


def _is_short(name: str) -> bool:
    return name not in IN_TIME and len(training_lines(name)) <= SHORT


def training_lines(name: str) -> list[bytes]:
    """The rows that versus learns from, in its order; no other row is read."""
    paths = find(source(name))
    lines = lines_of(paths[0])
    if name not in IN_TIME:
        lines = [lines[i] for i in np.random.default_rng(0).permutation(len(lines))]
    return lines if len(paths) > 1 else lines[: round(SHARE * len(lines))]


def rows_of(stream: Stream) -> tuple[csr_matrix, NDArray[np.int8]]:
    """A stream's rows."""
    lines = training_lines(stream.set)[:ROWS]
    if stream.order:
        lines = [lines[i] for i in np.random.default_rng(stream.order).permutation(len(lines))]
    with TemporaryDirectory() as folder:
        path = Path(folder) / "rows.svm"
        path.write_bytes(b"\n".join(lines) + b"\n")
        batches = list(open_stream(str(path)).batches())
    width = max(batch.n_features for batch in batches)
    parts = [csr_matrix((b.values, b.indices, b.indptr), (len(b), width)) for b in batches]
    return vstack(parts, format="csr"), np.concatenate([np.asarray(b.y) for b in batches])


def scores(X: csr_matrix, y: NDArray[np.int8], cut: int, chosen: Sequence[Candidate]) -> NDArray[np.float32]:
    """Of each candidate, before it learned the row; rows from the cut on are not learned.

    They are nan from where a candidate could not go on.
    """
    found = np.empty((X.shape[0], len(chosen)), np.float32)
    first = 0
    for name, of_preparation in groupby(chosen, key=lambda one: one.preparation):
        runs: list[tuple[slice, Lanes]] = []
        for algorithm, group in groupby(of_preparation, key=lambda one: one.member.algorithm):
            parameters = [one.member.parameters for one in group]
            lanes = Lanes(algorithm, parameters, n_features=X.shape[1], fit_intercept=True)
            runs.append((slice(first, first + len(parameters)), lanes))
            first += len(parameters)
        prepare = Preparation(*PREPARATIONS[name])
        prepare.widen(X.shape[1])
        for here in _pieces(cut, X.shape[0]):
            part, learns = X[here], here.start < cut
            batch = Batch.of(part.indptr, part.indices, part.data, X.shape[1], y=y[here])
            ready = _ready(prepare, batch, learns) if prepare else batch
            for columns, lanes in runs:
                found[here, columns] = lanes.learn(ready) if learns else lanes.scores(ready)
    return found


def _pieces(cut: int, rows: int) -> list[slice]:
    edges = [*range(0, cut, PIECE), *range(cut, rows, PIECE), rows]
    return [slice(start, stop) for start, stop in pairwise(edges)]


def _ready(prepare: Preparation, batch: Batch, learns: bool) -> Batch:
    dtype = np.dtype("float32")
    return prepare.learn(batch, dtype)[0] if learns else prepare.apply(batch, dtype)


def kept(
    folder: Path, stream: Stream, diagonal: Sequence[Candidate] = DIAGONAL, full: Sequence[Candidate] = WITH_FULL
) -> Kept:
    """The scores of a stream by all candidates, as far as those of full covariance have gone.

    Where rows are too wide for these, their scores are nan: a head leaves them out, as a blend does.
    """
    most = _kept(folder / f"{stream.set}-{stream.order}-diagonal.npz", stream, diagonal, ROWS)
    few = _kept(folder / f"{stream.set}-{stream.order}-full.npz", stream, full, FULL_ROWS, NARROW)
    assert most is not None
    rows = min(len(most.y), FULL_ROWS)
    beside = np.full((rows, len(full)), np.nan, np.float32) if few is None else few.scores
    together = np.concatenate([most.scores[:rows], beside], axis=1)
    return Kept(together, most.y[:rows], min(most.cut, rows))


def _kept(place: Path, stream: Stream, chosen: Sequence[Candidate], rows: int, widest: int = 0) -> Kept | None:
    """Those on disk if they are of the same candidates, or else computed now."""
    names = np.array([str(one) for one in chosen])
    if place.exists():
        with np.load(place) as file:
            if np.array_equal(file["names"], names):
                return Kept(file["scores"], file["y"], int(file["cut"])) if len(file["scores"]) else None
    X, y = rows_of(stream)
    X, y = X[:rows], y[:rows]
    cut = round(EARLY * len(y)) if stream.set in IN_TIME else len(y)
    wide = 0 < widest < X.shape[1]
    found: Any = np.empty((0, 0), np.float32) if wide else scores(X, y, cut, chosen)
    place.parent.mkdir(parents=True, exist_ok=True)
    with replacing(place) as file, file.open("wb") as out:
        np.savez(out, names=names, scores=found, y=y, cut=cut)
    return None if wide else Kept(found, y, cut)
