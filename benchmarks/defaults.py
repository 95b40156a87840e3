"""Untuned defaults on eleven real sets, beside Vowpal Wabbit's, SGDClassifier's and the majority class.

    python -m benchmarks.defaults [--docs docs/defaults.md] [--data DIR] [--sets a9a,elec2] [--learners arow,adarda]

Caveats first. One split and one order of each set, those of ``benchmarks.versus``: a set's own test part, or the last
30 % of its rows, at random but for elec2, which is in time. Every learner is made without arguments and takes one pass
(SGDClassifier by ``partial_fit``, not shuffled). *Majority* always answers the class that more of the training rows
have. Errors are of the test rows, in percent; those above the majority's are bold. *Stops* is a learner that refuses a
row which would leave numbers that are not finite, as CW does on columns up to 10⁵. SMIDAS, a row of which costs as much
as there are weights, is left out on the widest sets.
"""

import argparse
import math
import os
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from benchmarks.pages import put, table
from benchmarks.versus.contest import Contest, error, open_contest
from benchmarks.versus.tools import TOOLS
from benchmarks.versus.tools.sgd import read
from numpy.typing import NDArray

import thinstream as ts
from thinstream.algorithms.registry import algorithms
from thinstream.cli.commands.algorithms import PURPOSES
from thinstream.errors import NumericalError

#: As the table names them, and as the data folder does.
SETS = {
    "sms-spam": "sms-spam",
    "a9a": "a9a",
    "spambase": "spambase",
    "w8a": "w8a",
    "enron1": "enron1-spam",
    "phish-url": "phish-url-pdd",
    "mammography": "mammography",
    "australian": "australian",
    "campaign": "campaign",
    "elec2": "elec2",
    "census": "census-income",
}
PREPARATIONS: dict[str, dict[str, str]] = {"Raw rows": {}, 'Rows with `scale="max"`': {"scale": "max"}}
PEERS = {"Vowpal Wabbit": "Vowpal Wabbit", "scikit-learn": "`SGDClassifier`"}
#: Rows × features from which on a learner is left out: a row of SMIDAS costs as much as there are weights.
SLOW = {"SMIDAS": 2.5e8}
MAJORITY = "always the majority class"


def main() -> None:
    parser = argparse.ArgumentParser("python -m benchmarks.defaults", description=__doc__.split("\n")[0])
    parser.add_argument("--docs", type=Path, help="a page whose table is to be replaced")
    parser.add_argument("--data", type=Path, help="folder of the data sets (default: THINSTREAM_DATA)")
    parser.add_argument("--sets", default=",".join(SETS), help="names of sets, with commas (default: all)")
    parser.add_argument("--learners", default=",".join(ours()), help="names of learners (default: all that are online)")
    parser.add_argument("--scratch", type=Path, default=Path("build/versus/text"), help="for texts of sets")
    options = parser.parse_args()
    if options.data:
        os.environ["THINSTREAM_DATA"] = str(options.data.resolve())
    contests = {name: open_contest(SETS[name], options.scratch, smoke=False) for name in options.sets.split(",")}
    text = page({name: errors(contest, options.learners.split(",")) for name, contest in contests.items()})
    print(text)
    if options.docs:
        put(options.docs, "defaults", text)


def ours() -> list[str]:
    """Auto, and all that learn online, grouped as ``thinstream algorithms`` does."""
    online = {algorithm.name for algorithm in algorithms("online")}
    return list(dict.fromkeys(["Auto", *(name for group in PURPOSES.values() for name in group if name in online)]))


def errors(contest: Contest, learners: list[str]) -> dict[str, dict[str, float]]:
    """Test errors on a set by preparation of rows and learner, the majority's first."""
    start, majority = time.perf_counter(), {MAJORITY: majority_error(contest.y, contest.y_test)}
    peers = {PEERS[name]: peer_error(contest, name) for name in PEERS if not TOOLS[name].missing()}
    X, y = read(contest.files("train", unit=False))
    X_test, _ = read(contest.files("test", unit=False), X.shape[1])
    found = {}
    for kind, options in PREPARATIONS.items():
        found[kind] = majority | ({} if options else peers)
        for name in learners:
            if name in SLOW and X.shape[0] * X.shape[1] > SLOW[name]:
                continue
            model = ts.make(name, **options)
            try:
                scores = model.fit(X, y).decision_function(X_test)
                found[kind][type(model).__name__] = error(scores, contest.y_test)
            except NumericalError:
                found[kind][type(model).__name__] = math.nan
    print(f"{contest.set.name}: {time.perf_counter() - start:.0f} s", file=sys.stderr, flush=True)
    return found


def majority_error(y: NDArray[np.bool_], y_test: NDArray[np.bool_]) -> float:
    """Of the class that most of the rows learned from have, in percent.

    >>> majority_error(np.array([True, False, False]), np.array([True, False, False, False]))
    25.0
    """
    return float(100 * np.mean(y_test != (y.mean() > 0.5)))


def peer_error(contest: Contest, name: str) -> float:
    """Of a peer as ``benchmarks.versus`` runs its defaults."""
    tool = TOOLS[name]
    with TemporaryDirectory() as folder:
        learned = tool.learn(contest, tool.default, Path(folder) / "model")
        return error(tool.model(contest, tool.default, learned).scores, contest.y_test)


def page(found: dict[str, dict[str, dict[str, float]]]) -> str:
    """A table for each preparation of rows: a row for each learner, a column for each set; and who was above where."""
    pieces = []
    for kind in PREPARATIONS:
        columns = {name: each[kind] for name, each in found.items()}
        learners = max(columns.values(), key=len)
        rows = [
            [name, *(cell(each[name], each[MAJORITY]) if name in each else "" for each in columns.values())]
            for name in learners
        ]
        pieces += [f"{kind}:\n", table(["", *columns], rows) + "\n", worse(columns) + "\n"]
    return "\n".join(pieces)


def worse(columns: dict[str, dict[str, float]]) -> str:
    """A sentence on those above the majority somewhere."""
    places: dict[str, list[str]] = {}
    for name, each in columns.items():
        for learner, value in each.items():
            if not value <= each[MAJORITY]:
                places.setdefault(learner, []).append(name)
    told = "; ".join(f"{learner} ({', '.join(names)})" for learner, names in places.items())
    return f"Above the majority: {told}." if told else "None is above the majority anywhere."


def cell(value: float, majority: float) -> str:
    """An error, bold if it is above the majority's.

    >>> cell(2.0, 3.0), cell(3.5, 3.0), cell(math.nan, 3.0)
    ('2.00', '**3.50**', '**stops**')
    """
    if value <= majority:
        return f"{value:.2f}"
    return "**stops**" if math.isnan(value) else f"**{value:.2f}**"


if __name__ == "__main__":
    main()
