"""Rare positives: a threshold, costs, balancing and ARCSOGD, judged on rows held out.

    python -m benchmarks.rare_classes [--docs docs/rare-positives.md] [--data DIR] [--sets w8a,mammography]

Caveats first. One split and one order of each set, those of ``benchmarks.versus``; of phish-url so many positives are
left out, at random, that 1 % are left, in training and test rows alike. Every learner at its defaults, one pass,
nothing tuned. Thresholds are chosen on the scores that the later half of the training rows had before they were
learned. "costs" gives a positive ten times the cost of a negative; "balanced" is the running ratio of the classes.
Precision, recall and F1 of the positive class, average precision (AP) of the scores, in percent, on the test rows.
"""

import argparse
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from benchmarks.pages import put, table
from benchmarks.versus.contest import open_contest
from benchmarks.versus.tools.sgd import read
from sklearn.metrics import average_precision_score, precision_recall_fscore_support

import thinstream as ts
from thinstream.datasets import find

#: Sets, and the share of positives that is left where they are not rare.
SETS: dict[str, float | None] = {
    "phish-url-pdd": 0.01,
    "mammography": None,
    "w8a": None,
    "debian-science": None,
    "census-income": None,
}
LEARNERS = ("Auto", "AdaRDA", "AROW", "FTRLProximal", "ARCSOGD")
COSTS = {"": None, "costs 1:10": {-1: 1.0, 1: 10.0}, "balanced": "balanced"}
GOALS = {"--recall 0.8": {"recall": 0.8}, "--false-alarms 0.001": {"false_alarms": 0.001}}
HEAD = ["learner", "how", "precision", "recall", "F1", "AP"]


class Rows(NamedTuple):
    """Rows and labels ±1."""

    X: Any
    y: Any


def main() -> None:
    parser = argparse.ArgumentParser("python -m benchmarks.rare_classes", description=__doc__.split("\n")[0])
    parser.add_argument("--docs", type=Path, help="a page whose tables are to be replaced")
    parser.add_argument("--data", type=Path, help="folder of the data sets (default: THINSTREAM_DATA)")
    parser.add_argument("--sets", default=",".join(SETS), help="names of sets, with commas (default: all)")
    parser.add_argument("--scratch", type=Path, default=Path("build/versus/text"), help="for texts of sets")
    options = parser.parse_args()
    if options.data:
        os.environ["THINSTREAM_DATA"] = str(options.data.resolve())
    pieces, found = [], []
    for name in options.sets.split(","):
        train, test = halves(name, options.scratch)
        found.append([(learner, *one) for learner in LEARNERS for one in outcomes(learner, train, test)])
        share = 100 * float((train.y > 0).mean())
        about = f"{len(train.y):,} rows, {train.X.shape[1]:,} features, {share:.2g}% positive"
        pieces.append(f"**{name}**, {about}; {len(test.y):,} test rows, {int((test.y > 0).sum()):,} positive\n")
        pieces.append(shown(found[-1]))
        print("\n".join(pieces[-2:]), flush=True)
    means = [(*same[0][:2], np.mean([one[2] for one in same], axis=0)) for same in zip(*found, strict=True)]
    pieces[:0] = ["Means over the sets below:\n", shown(means)]
    print(pieces[1])
    if options.docs:
        put(options.docs, "rare classes", "\n".join(pieces))


def halves(name: str, scratch: Path) -> tuple[Rows, Rows]:
    """Rows to learn from and rows to test with."""
    find(name)  # says where to get it, if it is not here
    files = open_contest(name, scratch, smoke=False).files
    X, y = read(files("train", unit=False))
    train, test = Rows(X, y), Rows(*read(files("test", unit=False), X.shape[1]))
    share, rng = SETS.get(name), np.random.default_rng(0)
    return (thinned(train, share, rng), thinned(test, share, rng)) if share else (train, test)


def thinned(rows: Rows, share: float, rng: np.random.Generator) -> Rows:
    """The same with so many positives left out that they are that share; order stays."""
    positive = np.flatnonzero(rows.y > 0)
    count = round(share / (1 - share) * (len(rows.y) - len(positive)))
    left = np.sort(np.concatenate([np.flatnonzero(rows.y < 0), rng.choice(positive, count, replace=False)]))
    return Rows(rows.X[left], rows.y[left])


def shown(found: list[Any]) -> str:
    """A table: learner, how, and four numbers a row."""
    return table(HEAD, [[one, how, *(f"{value:.1f}" for value in numbers)] for one, how, numbers in found], 2) + "\n"


def outcomes(learner: str, train: Rows, test: Rows) -> Iterator[tuple[str, Any]]:
    """Each way to learn and decide, and its four numbers."""
    half = len(train.y) // 2
    for how, costs in COSTS.items():
        model = ts.make(learner, class_weight=costs)
        before = model.learn(train.X, train.y)
        yield how, judged(model, test)
        if not how:
            for goal, options in GOALS.items():
                yield goal, judged(model.set_threshold(scores=before[half:], y=train.y[half:], **options), test)


def judged(model: Any, test: Rows) -> Any:
    """Precision, recall, F1 and average precision, in percent."""
    said = model.predict(test.X)
    three = precision_recall_fscore_support(test.y, said, average="binary", zero_division=0.0)[:3]
    ap = average_precision_score(test.y, model.decision_function(test.X))
    return 100 * np.array([*three, ap])


if __name__ == "__main__":
    main()
