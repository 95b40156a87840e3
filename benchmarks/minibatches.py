"""What mini-batches cost in accuracy in mode features, by algorithm and data set.

    python benchmarks/minibatches.py [--docs docs/distributed.md] [--sets a9a,covtype] [--algorithms fsol,ssol]

Several ranks learn what one rank learns, so one is enough. Data sets, rows and parameters are those of
`benchmarks/shards.py`. Needs the data sets, see `thinstream datasets`.
"""

import argparse
import re
import sys
import time
from pathlib import Path

from shards import ALGORITHMS, OTHER, TEXT, fresh, quality, split_set

from thinstream.data.labels import Classes
from thinstream.distributed.mpi import join, sliced
from thinstream.models.model import Model

SIZES = (1, 16, 64, 256, 1024)
BEGIN, END = "<!-- mini-batches: begin (benchmarks/minibatches.py) -->", "<!-- mini-batches: end -->"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--docs", type=Path, help="a page whose table is to be replaced")
    parser.add_argument("--sets", default=",".join(TEXT + OTHER))
    parser.add_argument("--algorithms", default=",".join(ALGORITHMS))
    options = parser.parse_args()
    start, sets = time.perf_counter(), options.sets.split(",")
    data = {name: split_set(name) for name in sets}
    lines = ["| algorithm | data set | " + " | ".join(map(str, SIZES)) + " |", "|---|---|" + "--:|" * len(SIZES)]
    for name in [name for name in ALGORITHMS if name.lower() in options.algorithms.lower().split(",")]:
        for each in sets:
            found = [quality(learned(name, data[each][0], size), data[each][1]) for size in SIZES]
            cells = " | ".join(f"{error:.2f} / {balanced:.1f}" for error, balanced in found)
            lines.append(f"| {name} | {each} | {cells} |")
        print(f"{name}: {time.perf_counter() - start:.0f} s", file=sys.stderr, flush=True)
    text = "\n".join(lines)
    print(text)
    if options.docs is not None:
        between = re.compile(re.escape(BEGIN) + ".*" + re.escape(END), re.DOTALL)
        page = options.docs.read_text()
        options.docs.write_text(between.sub(lambda _: f"{BEGIN}\n{text}\n{END}", page))


def learned(name, rows, size):
    learner = sliced(Model(fresh(name, rows.n_features), Classes(-1, 1)), join(), size).learner
    learner.learn(rows)
    return learner.outputs.one


if __name__ == "__main__":
    main()
