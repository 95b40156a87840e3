"""What many machines would take, from constants measured on this one.

    python benchmarks/cost_model.py [--docs docs/distributed.md]

Measured: text to model on one core; finding, merging and applying increments, per record. Assumed, and named in the
table: the network between machines. The rest is arithmetic, in `by_examples`. Takes about a minute.
"""

import argparse
import pickle
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from streams import describe, generated

from thinstream.batch import Batch
from thinstream.data.opening import open_stream
from thinstream.distributed.deltas import apply_delta, copy_learner, delta, merge_deltas
from thinstream.distributed.rounds import rows_of_round
from thinstream.lanes.learner import Learner

BEGIN, END = "<!-- cost model: begin (benchmarks/cost_model.py) -->", "<!-- cost model: end -->"
#: Between machines, assumed: bytes per second of one link, and seconds of one message more than on loopback.
LINK, FLIGHT = 1.25e9, 50e-6
WIDTH, TOUCHED, DELTAS = 1 << 20, 200_000, 8
#: The job on paper.
NONZEROS, PER_ROW, MACHINES = 1e12, 65, (1, 10, 100)


class Constants(NamedTuple):
    """Seconds, on one core of this machine."""

    text: float  # per non-zero, from text to model
    found: float  # per feature of the model: finding what has changed
    merged: float  # per record and worker: merging, on the driver
    applied: float  # per record: taking over the new base
    record: float  # bytes of a record that is sent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--docs", type=Path, help="a page whose tables are to be replaced")
    options = parser.parse_args()
    constants = measure()
    text = "\n\n".join([f"Measured on: {describe()}.", constants_table(constants), paper_table(constants)])
    print(text)
    if options.docs:
        before, _, rest = options.docs.read_text().partition(BEGIN)
        options.docs.write_text("\n\n".join([before + BEGIN, text, END]) + rest.partition(END)[2])


# Measured -------------------------------------------------------------------------------------------------------------


def measure() -> Constants:
    found, merged, taken, record = increments()
    return Constants(text(), found, merged, taken, record)


def best(work: Any, repeats: int = 5) -> float:
    """Seconds of the fastest run; the others tell of who else uses the machine."""
    took = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        took.append(time.perf_counter() - start)
    return min(took)


def text() -> float:
    """One thread that parses and learns in turns."""
    with tempfile.TemporaryDirectory(prefix="thinstream-bench-") as folder:
        path, _ = generated(Path(folder))
        nonzeros = sum(batch.nnz for batch in open_stream(path).batches())

        def once() -> None:
            learner = Learner("fsol", n_features=0, grow=True, fit_intercept=False)
            for batch in open_stream(path, threads=0).batches():
                learner.learn(batch)

        once()
        return best(once, 3) / nonzeros


def increments() -> tuple[float, float, float, float]:
    """Finding, merging, applying, and bytes, of random increments."""
    rng = np.random.default_rng(0)
    base = Learner("fsol", n_features=WIDTH, fit_intercept=False)
    workers = []
    for _ in range(DELTAS):
        learner = copy_learner(base)
        indices = np.sort(rng.choice(WIDTH, TOUCHED, replace=False)).astype(np.int32)
        ends = np.arange(0, TOUCHED + 1, 100)
        y = rng.choice(np.array([-1, 1], np.int8), len(ends) - 1)
        learner.learn(Batch.of(ends, indices, np.ones(TOUCHED, np.float32), WIDTH, y))
        workers.append(learner)
    deltas = [delta(base, learner) for learner in workers]
    records = sum(len(change.parts[0].indices) for change in deltas)
    new = merge_deltas(base, deltas)
    change = delta(base, new)
    return (
        best(lambda: delta(base, workers[0])) / WIDTH,
        best(lambda: merge_deltas(base, deltas), 3) / records,
        best(lambda: apply_delta(base, change)) / len(change.parts[0].indices),
        sum(len(pickle.dumps(change)) for change in deltas) / records,
    )


# On paper -------------------------------------------------------------------------------------------------------------


def by_examples(c: Constants, machines: int, every: float, touched: float) -> tuple[float, float]:
    """Seconds of learning and of merging.

    Each machine learns ``every`` rows and sends ``touched`` records; the driver receives them one after the other,
    merges, and sends the new base's changes to all.
    """
    rows = NONZEROS / PER_ROW / machines
    learning = c.text * NONZEROS / machines
    if machines == 1:
        return learning, 0.0
    sent = 2 * machines * touched * c.record / LINK
    round_ = sent + machines * touched * c.merged + touched * (c.found * 5 + c.applied) + 2 * FLIGHT
    return learning, rows / every * round_


def constants_table(c: Constants) -> str:
    lines = [
        "| constant | measured |",
        "|---|--:|",
        f"| text to model, one core | {c.text * 1e9:.1f} ns per non-zero |",
        f"| finding what changed | {c.found * 1e9:.1f} ns per feature of the model |",
        f"| merging increments, on the driver | {c.merged * 1e9:.0f} ns per record |",
        f"| taking over a new base | {c.applied * 1e9:.0f} ns per record |",
        f"| size of a record (FSOL) | {c.record:.0f} bytes |",
    ]
    return "\n".join(lines)


def paper_table(c: Constants) -> str:
    head = (
        f"On paper: {NONZEROS:.0e} non-zeros in rows of {PER_ROW}, one core a machine, links of "
        f"{LINK * 8e-9:.0f} Gbit/s and {FLIGHT * 1e6:.0f} µs (assumed); a million records change between two merges. "
        "Hours of learning + merging."
    )
    most = rows_of_round(1 << 30, 2)
    plans = [
        (f"a merge every {most:,} rows", lambda m: by_examples(c, m, most, 1e6)),
        ("a merge every 10 million rows", lambda m: by_examples(c, m, 1e7, 1e6)),
    ]
    heads = [f"{m} machine{'s' if m > 1 else ''}" for m in MACHINES]
    lines = [f"| plan | {' | '.join(heads)} |", "|---|" + "--:|" * len(MACHINES)]
    for name, plan in plans:
        cells = [f"{a / 3600:.1f} + {b / 3600:.1f}" for a, b in map(plan, MACHINES)]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join([head, "", *lines])


if __name__ == "__main__":
    main()
