"""What a budget of features costs in error, beside plain hashing into as much memory.

    python -m benchmarks.budget [--rows N] [--data DIR] [--docs docs/measurements.md]

Caveats first. One order of the rows, shuffled once; progressive errors in percent, of rows before they were learned;
one pass of AROW with rows of unit length. Budgets are a tenth, a thirtieth and a hundredth of the features that occur.
Memory is that of the state and of what the budget keeps beside it (numbers, order of admission, table, sketch); plain
hashing gets the smallest power of two of numbers that takes no less. Where the sets are not there, texts are made up.
"""

import argparse
import json
import lzma
import os
import random
import time
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from benchmarks.pages import put, table

from thinstream import open_stream
from thinstream.batch import Batch
from thinstream.data.labels import Classes
from thinstream.models.model import Model

SHARES = (10, 30, 100)
HEAD = [
    "stream",
    "rows",
    "features",
    "kept",
    "MB",
    "budget",
    "`admit=1`",
    "hashed",
    "numbers",
    "all features",
]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, help="rows of each stream (default: all)")
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("THINSTREAM_DATA", ".")))
    parser.add_argument("--docs", type=Path, help="a page whose table is to be replaced")
    options = parser.parse_args()
    print(__doc__.split("\n\n")[2], "\n")
    lines, fine = [], True
    for name, classes, batches in streams(options.data, options.rows):
        occur = np.unique(np.concatenate([batch.indices for batch in batches]))
        nameless = [replace(batch, names=None) for batch in batches]  # models without a budget go by numbers
        everything, seconds = error(Model.fresh("arow", classes, grow=True, normalize="l2"), nameless)
        print(f"{name}: {len(occur):,} features occur, all of them: {100 * everything:.2f} % in {seconds:.1f} s")
        for share in SHARES:
            most = max(len(occur) // share, 1)
            found = {}
            for admit in (2, 1):
                model = Model.fresh("arow", classes, grow=True, normalize="l2", max_features=most, admit=admit)
                found[admit], seconds = error(model, batches)
                size = most * per_feature(classes) + model.learner.encoder.nbytes
                told = f"{100 * found[admit]:.2f} % in {seconds:.1f} s, {size / 1e6:.1f} MB"
                print(f"  {most:,} kept, admit {admit}: {told}", flush=True)
            bits = int(np.ceil(np.log2(size / per_feature(classes))))
            plain = Model.fresh("arow", classes, grow=True, normalize="l2")
            hashed, seconds = error(plain, [folded(batch, bits) for batch in batches])
            print(f"  hashed into 2^{bits}: {100 * hashed:.2f} % in {seconds:.1f} s")
            fine &= found[2] <= hashed
            *own, shared, best = (f"{100 * each:.2f}" for each in (found[2], found[1], hashed, everything))
            counts = [f"{count:,}" for count in (sum(map(len, batches)), len(occur), most)]
            lines.append([name, *counts, f"{size / 1e6:.1f}", *own, shared, f"2^{bits}", best])
    verdict = "met" if fine else "missed"
    print(f"\ntarget: a budget no worse than plain hashing into as much memory: {verdict}")
    if options.docs:
        put(options.docs, "budgets", table(HEAD, lines, numbers_from=1))


def per_feature(classes):
    """Bytes of AROW's state of a feature."""
    return 8 * classes.n_models


def error(model, batches):
    """Progressive error, and seconds."""
    wrong, rows, began = 0, 0, time.perf_counter()
    for batch in batches:
        model, scores = model.learn(batch, model.classes)
        right = batch.y > 0 if model.classes.are_two else batch.y
        wrong += int(np.count_nonzero(model.chosen(scores) != right))
        rows += len(batch)
    return wrong / rows, time.perf_counter() - began


def folded(batch, bits):
    """The rows with numbers hashed into fewer, as names are: equal ones add up."""
    mixed = batch.indices.astype(np.uint64) * np.uint64(0x9E3779B1) >> np.uint64(7)
    numbers = (mixed & np.uint64((1 << bits) - 1)).astype(np.int32)
    found = Batch.of(batch.indptr, numbers, batch.values.copy(), 1 << bits, batch.y, batch.weights)
    return replace(found, first_row=batch.first_row)


def streams(data, rows):
    """Names, classes and batches of the streams there are."""
    news, urls = data / "20news-bydate.raw.jsonl.xz", data / "phish-url-pdd.svm.xz"
    with TemporaryDirectory() as folder:
        place = Path(folder) / "texts.jsonl"
        if news.is_file():
            with lzma.open(news, "rt", encoding="utf-8") as file:
                records = [json.loads(line) for line in file]
            texts = [(record["group"], record["text"]) for record in records]
            yield opened("20 newsgroups, words and pairs of them", texts, place, rows)
        else:
            yield opened("made-up texts, words and pairs of them", made_up(rows or 20_000), place, rows)
    if urls.is_file():
        with TemporaryDirectory() as folder:
            place = Path(folder) / "urls.svm"
            with lzma.open(urls, "rt") as file:
                place.write_text("".join(shuffled(file.readlines(), rows)))
            yield "phishing URLs", Classes(-1, 1), list(open_stream(place).batches())


def opened(name, texts, place, rows):
    """A stream of texts in which pairs of words count as well."""
    texts = shuffled(texts, rows)
    place.write_text("".join(json.dumps({"label": label, "text": text}) + "\n" for label, text in texts))
    labels = tuple(sorted({label for label, _ in texts}))
    stream = open_stream(place, text=("text",), ngrams=(1, 2), classes=labels, bits=62)
    return name, Classes(*labels), list(stream.batches())


def shuffled(rows, most):
    """So many rows in random order, always the same."""
    rows = list(rows)
    random.Random(0).shuffle(rows)
    return rows[:most]


def made_up(rows):
    """Texts of words of which most are rare; a few tell the class."""
    chosen = np.random.default_rng(0)
    for k in range(rows):
        words = [f"w{min(word, 10**9)}" for word in chosen.zipf(1.3, 40)]
        told = [f"{'ab'[k % 2]}{word}" for word in chosen.zipf(1.5, 2)]
        yield "ab"[k % 2], " ".join(words + told)


if __name__ == "__main__":
    main()
