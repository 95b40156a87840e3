"""What tuning in one pass picks, against exhaustive cross-validation of every configuration, on real data.

    python -m benchmarks.tuning_quality FOLDER [--sets a9a,w8a] [--shuffles 5] [--write docs/measurements.md]

Caveats first. One pass: `OnlineGridSearchCV` with 5 folds, held-out rows scored as they pass, all candidates as lanes.
Exhaustive: scikit-learn's `GridSearchCV` with the same folds; every configuration is trained anew on four folds and its
final model scored on the fifth. Both then train their pick on all training rows; what counts is its error on test rows
that neither has seen (the set's own, else a quarter of the rows). All of that in several random orders of the training
rows, as online learning depends on the order; the difference is the mean over them, with its standard error over orders
and test rows.
"""

import argparse
import lzma
import math
import time
from contextlib import ExitStack
from pathlib import Path

import numpy as np
from benchmarks.pages import put
from sklearn.datasets import load_svmlight_file, load_svmlight_files
from sklearn.model_selection import GridSearchCV, PredefinedSplit

import thinstream as ts

FOLDS = 5
#: The rule about the first rows (`thinstream.tuning.warmup`) was chosen with the test errors of these in sight …
CHOSEN_ON = ("a9a", "w8a", "ijcnn1", "20news-comp-vs-rec", "reuters21578-acq", "rcv1-small", "sms-spam", "spambase")
#: … and not of these.
FRESH = ("farm-ads", "20news-sci-vs-talk", "enron1-spam", "spamassassin", "phish-url-pdd")
SETS = CHOSEN_ON + FRESH
SEARCHES = (
    (ts.FSOL(fit_intercept=False), {"eta": [2.0**e for e in range(-9, 3)]}),
    (ts.AROW(fit_intercept=False), {"r": [2.0**e for e in range(-5, 6)]}),
    (ts.SSOL(fit_intercept=False), {"eta": [2.0**e for e in range(-5, 4, 2)], "r": [2.0**e for e in range(-5, 6, 2)]}),
)
HEAD = (
    "| set | rows | algorithm | candidates | one pass | exhaustive | difference ± s.e. |\n|---|---|---|---|---|---|---|"
)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path, help="where the sets are (NAME.train.svm.xz and NAME.test.svm.xz, or one)")
    parser.add_argument("--sets", default=",".join(SETS), help="which of them (default: see SETS)")
    parser.add_argument("--shuffles", type=int, default=5, help="orders of the training rows (default 5)")
    parser.add_argument("--write", type=Path, help="a page to put the table into, between its markers")
    options = parser.parse_args()
    print(__doc__.split("\n\n")[2], "\n")
    print(HEAD)
    start, lines, worse = time.perf_counter(), [], 0
    for name in options.sets.split(","):
        X, y, X_test, y_test = load(options.folder, name)
        for estimator, grid in SEARCHES:
            found = np.array(
                [compared(estimator, grid, X, y, X_test, y_test, seed) for seed in range(options.shuffles)]
            )
            one, other = 100 * found.mean(axis=(0, 2))
            difference, spread = one - other, standard_error(100.0 * (found[:, 0].astype(int) - found[:, 1]))
            worse += bool(difference > 2 * spread)
            points = math.prod(map(len, grid.values()))
            lines.append(
                f"| {name} | {X.shape[0]:,} | {type(estimator).__name__} | {points} | {one:.2f} % | "
                f"{other:.2f} % | {difference:+.2f} ± {spread:.2f} |"
            )
            print(lines[-1], flush=True)
    seconds = time.perf_counter() - start
    print(f"\none pass is worse by more than two standard errors in {worse} of {len(lines)}; {seconds:.0f} s")
    if options.write:
        put(options.write, "quality", "\n".join([HEAD, *lines]))


def load(folder, name):
    """Train and test rows; a set in one piece is cut in four by a fixed draw."""
    whole = folder / f"{name}.svm.xz"
    with ExitStack() as stack:
        if not whole.exists():
            files = [stack.enter_context(lzma.open(folder / f"{name}.{part}.svm.xz")) for part in ("train", "test")]
            return load_svmlight_files(files, dtype=np.float32)
        X, y = load_svmlight_file(stack.enter_context(lzma.open(whole)), dtype=np.float32)
    order, cut = np.random.default_rng(0).permutation(len(y)), 3 * len(y) // 4
    return X[order[:cut]], y[order[:cut]], X[order[cut:]], y[order[cut:]]


def compared(estimator, grid, X, y, X_test, y_test, seed):
    """Which test rows the pick of one pass gets wrong, and which the exhaustive one."""
    order = np.random.default_rng(seed).permutation(len(y))
    X, y = X[order], y[order]
    one = ts.OnlineGridSearchCV(estimator, grid, cv=FOLDS).fit(X, y)
    folds = PredefinedSplit(np.arange(len(y)) % FOLDS)
    other = GridSearchCV(estimator, grid, cv=folds).fit(X, y)
    return [search.predict(X_test) != y_test for search in (one, other)]


def standard_error(differences):
    """Of the mean of a table orders × rows, either of which could have been others."""
    orders, rows = differences.mean(axis=1), differences.mean(axis=0)
    between = orders.var(ddof=1) / len(orders) if len(orders) > 1 else 0.0
    return math.sqrt(between + rows.var(ddof=1) / len(rows))


if __name__ == "__main__":
    main()
