"""The data sets as text files that every tool reads: the same rows in the same order, plain or of unit length."""

import bz2
import gzip
import lzma
import shutil
from pathlib import Path
from typing import NamedTuple

import numpy as np

SHARE = 0.7  # of the rows are for learning, where a set has no test part of its own
TRIAL_ROWS = 50_000  # of longer sets the first so many decide between candidates
EARLY = 0.8  # of the trial rows are learned where rows are in time; the others are held out
SMOKE_ROWS = 240
OPENERS = {".xz": lzma.open, ".gz": gzip.open, ".bz2": bz2.open}


class Set(NamedTuple):
    """What a set asks for."""

    name: str
    text: bool = False  # wide and sparse: the sets on which model size is compared
    in_time: bool = False  # rows stay in their order
    rare: bool = False  # few positives: tuned for balanced accuracy, too


SETS = {
    one.name: one
    for one in (
        Set("20news-comp-vs-rec", text=True),
        Set("20news-sci-vs-talk", text=True),
        Set("20news-pcmac", text=True),
        Set("reuters21578-acq", text=True),
        Set("farm-ads", text=True),
        Set("mdsd-books", text=True),
        Set("enron1-spam", text=True),
        Set("spamassassin", text=True),
        Set("sms-spam", text=True),
        Set("trec07p.first", text=True, in_time=True),
        Set("phish-url-pdd", text=True),
        Set("debian-science", text=True, rare=True),
        Set("a9a"),
        Set("covtype"),
        Set("ijcnn1", rare=True),
        Set("w8a", rare=True),
        Set("kdd99"),
        Set("census-income", rare=True),
        Set("ipinyou", rare=True),
        Set("elec2", in_time=True),
        Set("campaign", rare=True),
        Set("mammography", rare=True),
    )
}


def set_of(name: str) -> Set:
    """A set of the list, or any other of the data folder, in random order.

    >>> set_of("elec2").in_time, set_of("spambase")
    (True, Set(name='spambase', text=False, in_time=False, rare=False))
    """
    return SETS.get(name, Set(name))


def source(name: str) -> str:
    """The name under which the data folder has it: ``trec07p.first`` is the only part of trec07p that is there."""
    return name.split(".")[0]


class Files(NamedTuple):
    """Where the text of a set is."""

    folder: Path

    def __call__(self, part: str, unit: bool, form: str = "svm") -> Path:
        """The file of a part (train, test, trial), of plain rows or those of unit length, as svm or vw."""
        return self.folder / f"{part}{'.unit' if unit else ''}.{form}"


def prepared(name: str, scratch: Path, *, smoke: bool = False, seed: int = 0) -> Files:
    """Writes the files of a set unless they are there; none of this is timed."""
    files = Files(scratch / f"{name}-{seed}{'-smoke' if smoke else ''}")
    done = files.folder / "done"
    if done.exists():
        return files
    shutil.rmtree(files.folder, ignore_errors=True)
    files.folder.mkdir(parents=True)
    for part, lines in zip(("train", "test"), split(name, smoke=smoke, seed=seed), strict=True):
        files(part, False).write_bytes(b"\n".join(lines) + b"\n")
        units = [unit_row(line) for line in lines]
        files(part, True).write_bytes(b"\n".join(units) + b"\n")
        for unit, rows in ((False, lines), (True, units)):
            files(part, unit, "vw").write_bytes(b"\n".join(map(as_wabbit, rows)) + b"\n")
            if part == "train":  # Vowpal Wabbit only predicts rows without a label
                rows = rows[:TRIAL_ROWS]
                cut = learned(len(rows), set_of(name))
                trial = [*map(as_wabbit, rows[:cut]), *(as_wabbit(row)[2:] for row in rows[cut:])]
                files("trial", unit, "vw").write_bytes(b"\n".join(trial) + b"\n")
    done.touch()
    return files


def learned(rows: int, which: Set) -> int:
    """How many of the trial rows are learned."""
    return round(EARLY * rows) if which.in_time else rows


def split(name: str, *, smoke: bool, seed: int) -> tuple[list[bytes], list[bytes]]:
    """Rows to learn from and rows to test with: the set's own parts, or the first 70 % of its rows and the others.

    Rows are in random order, those to learn from also where the parts are the set's own, unless time orders them.
    """
    from thinstream.datasets import find  # here, so that a timed peer does not import it

    parts = [lines_of(path) for path in find(source(name))]
    rng = np.random.default_rng(seed)
    if not set_of(name).in_time:
        parts[0] = [parts[0][i] for i in rng.permutation(len(parts[0]))]
    if len(parts) == 1:
        cut = round(SHARE * len(parts[0]))
        parts = [parts[0][:cut], parts[0][cut:]]
    train, test = parts
    if smoke:
        step = len(test) // SMOKE_ROWS or 1
        return some(train), test[::step][:SMOKE_ROWS]
    return train, test


def some(lines: list[bytes]) -> list[bytes]:
    """A few rows with both classes among them."""
    step = len(lines) // SMOKE_ROWS or 1
    chosen = lines[::step][:SMOKE_ROWS]
    for sign in (b"+", b"-"):
        if not any(line.startswith(sign) for line in chosen):
            chosen[1:1] = [line for line in lines if line.startswith(sign)][:5]
    return chosen


def lines_of(path: Path) -> list[bytes]:
    """The rows of a file, decompressed."""
    with OPENERS.get(path.suffix, open)(path, "rb") as file:
        return file.read().splitlines()


def unit_row(line: bytes) -> bytes:
    """A row scaled to length 1, in six digits.

    >>> unit_row(b"+1 1:3 4:4")
    b'+1 1:0.6 4:0.8'
    """
    label, *pairs = line.split()
    if not pairs:
        return label
    cut = [pair.split(b":") for pair in pairs]
    values = np.array([float(value) for _, value in cut])
    values /= np.sqrt(values @ values)
    return label + b" " + b" ".join([b"%b:%.6g" % (one[0], value) for one, value in zip(cut, values, strict=True)])


def as_wabbit(line: bytes) -> bytes:
    """A row as Vowpal Wabbit reads it.

    >>> as_wabbit(b"-1 7:0.5")
    b'-1 | 7:0.5'
    """
    label, _, rest = line.partition(b" ")
    return label + b" | " + rest
