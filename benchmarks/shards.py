"""What learning by examples on many workers costs in accuracy, by algorithm, way of merging, and number of shards.

    python benchmarks/shards.py [--docs docs/distributed.md] [--sets a9a,covtype] [--algorithms fsol,ssol]

The workers are simulated one after another in one process, with the very code that merges on Ray and Spark, so every
number can be had again. Rows are scaled to unit length; train and test parts as published or two thirds and the rest
of a fixed shuffle; at most 20,000 rows of a set are learned, in random order. Each shard is a stretch of them.
"One merge": each worker learns its whole shard, then all are merged. "Periodic": first after 16 rows of each worker,
then whenever an eighth more was learned (half more from 4096 rows of a worker on), as `train` does by default.
Parameters are defaults but those shown.
Needs the data sets, see `thinstream datasets`; about five minutes on one core.
"""

import argparse
import re
import statistics
import sys
import time
from itertools import pairwise
from pathlib import Path

import numpy as np

from thinstream.batch import Batch
from thinstream.data.opening import open_stream
from thinstream.datasets import find
from thinstream.distributed.deltas import combining_for, copy_learner, delta, merge_deltas
from thinstream.distributed.rounds import rows_of_round
from thinstream.lanes.learner import Learner

TEXT = ["20news-comp-vs-rec", "20news-sci-vs-talk", "reuters21578-acq", "farm-ads", "phish-url-pdd", "enron1-spam"]
OTHER = ["covtype", "kdd99", "a9a"]
ALGORITHMS = {
    "FSOL": {},
    "SSOL": {"diagonal": "exact"},
    "SSOL (drop)": {},
    "RDA": {"gamma": 0.1},
    "AdaRDA": {},
    "AROW": {},
    "ARCSOGD": {},
    "PA": {},
    "Perceptron": {},
    "FOBOS": {"eta": 10.0},
    "AdaFOBOS": {},
    "CW": {},
    "SCW": {},
}
SHARDS, COMPARED = (2, 4, 8, 16), 8
ROWS, TEST = 20_000, 60_000
BEGIN, END = "<!-- shards: begin (benchmarks/shards.py) -->", "<!-- shards: end -->"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--docs", type=Path, help="a page whose tables are to be replaced")
    parser.add_argument("--sets", default=",".join(TEXT + OTHER))
    parser.add_argument("--algorithms", default=",".join(ALGORITHMS))
    options = parser.parse_args()
    start, sets = time.perf_counter(), options.sets.split(",")
    data = {name: split_set(name) for name in sets}
    chosen = [name for name in ALGORITHMS if name.lower() in options.algorithms.lower().split(",")]
    results = {}
    for name in chosen:
        results[name] = {each: measured(name, *data[each]) for each in sets}
        print(f"{name}: {time.perf_counter() - start:.0f} s", file=sys.stderr, flush=True)
    text = f"{rules_table(results)}\n\n{shards_table(results)}"
    print(text)
    if options.docs is not None:
        page = options.docs.read_text()
        between = re.compile(re.escape(BEGIN) + ".*" + re.escape(END), re.DOTALL)
        options.docs.write_text(between.sub(lambda _: f"{BEGIN}\n{text}\n{END}", page))


def measured(name, train, test):
    """(error %, balanced accuracy %) by (shards, way, periodic); serial: shards 1."""
    new = fresh(name, train.n_features)
    default = combining_for(new)
    found = {(1, default.way, True): quality(learned(name, train, 1, default.way, False), test)}
    for shards in SHARDS:
        for way in default.rule.ways if shards == COMPARED else default.rule.ways[:1]:
            for periodic in (False, True):
                found[shards, way, periodic] = quality(learned(name, train, shards, way, periodic), test)
    return found


def learned(name, rows, shards, way, periodic):
    base, n = fresh(name, rows.n_features), len(rows)
    cuts = [n * k // shards for k in range(shards + 1)]
    parts = [rows.until(b).after(a) for a, b in pairwise(cuts)]
    taken, places = 0, [0] * shards
    while any(place < len(part) for place, part in zip(places, parts, strict=True)):
        more, deltas = rows_of_round(taken, shards) if periodic else n, []
        alone = periodic and not taken
        for k, part in enumerate(parts[:1] if alone else parts):
            learner, a, b = copy_learner(base), places[k], min(places[k] + more, len(part))
            learner.learn(part.until(b).after(a), scores=False)
            deltas.append(delta(base, learner))
            places[k] = b
        base = merge_deltas(base, deltas, way)
        taken = max(base.t // shards, 1) if alone else taken + more
    return base


def fresh(name, width):
    return Learner(name.split()[0], n_features=width, fit_intercept=False, **ALGORITHMS[name])


def quality(model, test):
    called, right = model.scores(test) > 0, test.y > 0
    recalls = [float(np.mean(called[right])), float(np.mean(~called[~right]))]
    return 100 * float(np.mean(called != right)), 100 * statistics.mean(recalls)


def split_set(name):
    """Rows to learn from and rows to test on."""
    order, parts = np.random.default_rng(7), [whole(file) for file in find(name)]
    if len(parts) == 1:
        shuffled = order.permutation(len(parts[0]))
        cut = len(shuffled) * 2 // 3
        parts = [parts[0].take(shuffled[:cut][:ROWS]), parts[0].take(shuffled[cut:][:TEST])]
    else:
        parts = [part.take(order.permutation(len(part))[:most]) for part, most in zip(parts, (ROWS, TEST), strict=True)]
    return compact(*parts)


def compact(train, test):
    """Features numbered by those that occur in the rows to learn from: others would only take room."""
    there = np.unique(train.indices[: train.nnz])
    numbers = np.full(max(train.n_features, test.n_features), -1)
    numbers[there] = np.arange(len(there))
    return tuple(renumbered(rows, numbers, len(there)) for rows in (train, test))


def renumbered(rows, numbers, width):
    indices, values = numbers[rows.indices[: rows.nnz]], rows.values[: rows.nnz]
    known = indices >= 0
    indptr = np.concatenate([[0], np.cumsum(known)])[rows.indptr]
    return Batch.of(indptr, indices[known].astype(np.int32), values[known], width, y=rows.y)


def whole(file):
    batches = list(open_stream(file, normalize="l2").batches())
    indptr = np.concatenate([[0], np.cumsum(np.concatenate([np.diff(batch.indptr) for batch in batches]))])
    indices, values = (
        np.concatenate([getattr(batch, which)[: batch.nnz] for batch in batches]) for which in ("indices", "values")
    )
    width, y = max(batch.n_features for batch in batches), np.concatenate([batch.y for batch in batches])
    return Batch.of(indptr, indices, values, width, y=y)


def rules_table(results):
    """Loss of each way at eight shards: mean and worst over the text sets, worst over the others."""
    lines = [
        f"Points of test error lost at {COMPARED} shards, by way of merging (first: the default); text sets: mean "
        "and worst; others: worst.\n",
        "| algorithm | merge | one merge: text mean | text worst | others worst | periodic: text mean | text worst "
        "| others worst |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, by_set in results.items():
        any_set = next(iter(by_set.values()))
        ways = [way for shards, way, periodic in any_set if shards == COMPARED and periodic]
        for way in ways:
            cells = [shown(name) if way == ways[0] else "", way]
            for periodic in (False, True):
                lost = {each: loss(found, COMPARED, way, periodic) for each, found in by_set.items()}
                text = [lost[each] for each in lost if each in TEXT]
                others = [lost[each] for each in lost if each not in TEXT]
                cells += [signed(statistics.mean(text)), signed(max(text))] if text else ["–", "–"]
                cells.append(signed(max(others)) if others else "–")
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def shards_table(results):
    """Test error and balanced accuracy of the default on every set."""
    counts = " | ".join(f"{k} {how}" for how in ("once", "periodic") for k in SHARDS)
    lines = [
        "Test error % / balanced accuracy % with the default way of merging; once: one merge at the end.\n",
        f"| algorithm | set | serial | {counts} |",
        "|---|---|---" + "|---" * 2 * len(SHARDS) + "|",
    ]
    for name, by_set in results.items():
        for each, found in by_set.items():
            way = next(iter(found))[1]
            cells = [found[1, way, True], *(found[k, way, periodic] for periodic in (False, True) for k in SHARDS)]
            numbers = " | ".join(f"{error:.2f} / {balanced:.1f}" for error, balanced in cells)
            lines.append(f"| {shown(name)} | {each} | {numbers} |")
    return "\n".join(lines)


def loss(found, shards, way, periodic):
    serial = next(iter(found.values()))
    return found[shards, way, periodic][0] - serial[0]


def signed(number):
    return f"{number:+.2f}"


def shown(name):
    given = ", ".join(f"{key}={value!r}" for key, value in ALGORITHMS[name].items())
    return f"{name.split()[0]}({given})" if given else name.replace(" (drop)", '(diagonal="drop")')


if __name__ == "__main__":
    main()
