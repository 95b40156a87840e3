"""How small models get: files and test errors in full, of weights only, and thin.

    python -m benchmarks.thinning [--docs docs/thin-models.md] [--data DIR] [--sets sms-spam,enron1-spam]

Caveats first. One split and one order of each set, those of ``benchmarks.versus``; untuned learners, one pass, rows of
unit length (Auto has a portfolio of its own). The last fifth of the training rows is held out from learning by all: it
chooses what is important and how many weights to keep, the smallest number within one standard error of the best. "1 %"
has that share of all non-zero weights, chosen without rows. Test errors in percent.
"""

import argparse
import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.pages import put, table
from benchmarks.versus.contest import open_contest
from benchmarks.versus.tools.sgd import read

import thinstream as ts

SETS = ("sms-spam", "enron1-spam", "spamassassin", "phish-url-pdd", "20news-comp-vs-rec")
LEARNERS: dict[str, dict[str, Any]] = {
    "Auto": {},
    "AROW": {"normalize": "l2"},
    "AdaRDA": {"normalize": "l2"},
    "FSOL": {"normalize": "l2"},
}
HELD_OUT = 0.2  # of the training rows
HEAD = [
    "set",
    "learner",
    "weights",
    "full, bytes",
    "weights only, bytes",
    "error",
    "thin, weights",
    "bytes",
    "error",
    "1 %",
]


def main() -> None:
    parser = argparse.ArgumentParser("python -m benchmarks.thinning", description=__doc__.split("\n")[0])
    parser.add_argument("--docs", type=Path, help="a page whose table is to be replaced")
    parser.add_argument("--data", type=Path, help="folder of the data sets (default: THINSTREAM_DATA)")
    parser.add_argument("--sets", default=",".join(SETS), help="names of sets, with commas (default: all)")
    parser.add_argument("--scratch", type=Path, default=Path("build/versus/text"), help="for texts of sets")
    options = parser.parse_args()
    if options.data:
        os.environ["THINSTREAM_DATA"] = str(options.data.resolve())
    rows = [[name, *line] for name in options.sets.split(",") for line in measured(name, options.scratch)]
    text = table(HEAD, rows, numbers_from=2)
    print(text)
    if options.docs:
        put(options.docs, "thin models", text)


def measured(name: str, scratch: Path) -> list[list[str]]:
    """A line for each learner."""
    files = open_contest(name, scratch, smoke=False).files
    X, y = read(files("train", unit=False))
    X_test, y_test = read(files("test", unit=False), X.shape[1])
    cut = round((1 - HELD_OUT) * len(y))
    lines = []
    for learner, options in LEARNERS.items():
        model = ts.make(learner, **options).fit(X[:cut], y[:cut])
        small = model.thin(X=X[cut:], y=y[cut:])
        errors = [
            f"{100 * (1 - each.score(X_test, y_test)):.2f}" for each in (model, small, model.thin(model.nnz_ // 100))
        ]
        sizes = [f"{size:,}" for size in (in_bytes(model, False), in_bytes(model, True), in_bytes(small, True))]
        lines.append(
            [learner, f"{model.nnz_:,}", *sizes[:2], errors[0], f"{small.nnz_:,}", sizes[2], errors[1], errors[2]]
        )
        print(name, *lines[-1], flush=True)
    return lines


def in_bytes(model: Any, weights_only: bool) -> int:
    """The size of a model's file."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        model.save(path, weights_only=weights_only)
        return path.stat().st_size


if __name__ == "__main__":
    main()
