"""How small models get: files and test errors in full, of weights only, and refitted on 100 and 1,000 features.

    python -m benchmarks.thinning [--docs docs/measurements.md] [--data DIR] [--sets sms-spam,enron1-spam]

Caveats first. One split and one order of each dataset, those of ``benchmarks.versus``. Learners have default parameters
and read rows of unit length once (Auto has its portfolio). They are refitted on the training rows, as Auto. Test errors
are in percent. *Cut* is the error of a model with the same number of weights that is not refitted.
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
SIZES = (100, 1_000)
HEAD = ["dataset", "learner", "weights", "full, bytes", "weights only, bytes", "error"]
HEAD += [title for n in SIZES for title in (f"{n:,} features, bytes", "error", "cut")]


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
    lines = []
    for learner, options in LEARNERS.items():
        model = ts.make(learner, **options).fit(X, y)

        def error(one: Any) -> str:
            return f"{100 * (1 - one.score(X_test, y_test)):.2f}"

        line = [learner, f"{model.nnz_:,}", f"{in_bytes(model, False):,}", f"{in_bytes(model, True):,}", error(model)]
        for n in SIZES:
            small = model.thin(n, X, y)
            line += [f"{in_bytes(small, True):,}", error(small), error(model.thin(n))]
        lines.append(line)
        print(name, *line, flush=True)
    return lines


def in_bytes(model: Any, weights_only: bool) -> int:
    """The size of a model's file."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        model.save(path, weights_only=weights_only)
        return path.stat().st_size


if __name__ == "__main__":
    main()
