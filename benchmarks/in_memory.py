"""Predicting from rows in memory with a fitted model: dicts, frames of pandas and polars, and lines of JSON and CSV.

    python -m benchmarks.in_memory [--rows N]

Caveats first. Generated rows of 9 columns: numbers, categories and a text. The model is AROW, trained on the same
table as a CSV file. Each number is thousands of rows per second of processor time, the best of 7 calls of ``predict``.
Run it in two versions of the library in turn to compare them: it uses public names only.
"""

import argparse
import csv
import json
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl

import thinstream as ts

ROWS, CALLS = 5_000, 7


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=ROWS, help=f"rows of each call (default {ROWS})")
    options = parser.parse_args()
    print(__doc__.split("\n\n")[2], "\n")
    for title, with_text in (("with a text of 12 words", True), ("numbers and categories", False)):
        table = generated(options.rows, with_text)
        print(f"{title}\n{'':20s}{'thousand rows per s':>20s}")
        for name, speed in measured(table, ("note",) if with_text else ()).items():
            print(f"{name:20s}{speed:20.0f}")
        print()
    print("Targets\n  none: compare the numbers before and after a change")


def generated(n, with_text):
    """Return the columns of a table."""
    rng = np.random.default_rng(0)
    words = np.array(["".join(rng.choice(list("etaoinshrdlu"), rng.integers(2, 9))) for _ in range(3000)])
    table = {
        "label": rng.integers(0, 2, n).tolist(),
        "age": rng.integers(18, 90, n).tolist(),
        "price": np.round(rng.gamma(2.0, 100.0, n), 2).tolist(),
        "city": words[rng.integers(0, 500, n)].tolist(),
        "plan": [f"plan{k}" for k in rng.integers(0, 40, n)],
        "visits": rng.poisson(3, n).tolist(),
        "ratio": rng.normal(size=n).tolist(),
        "paid": (rng.random(n) < 0.5).tolist(),
        "speed": rng.normal(size=n).tolist(),
    }
    if with_text:
        table["note"] = [" ".join(rng.choice(words, 12)) for _ in range(n)]
    return table


def measured(table, text):
    """Return thousands of rows per second of processor time by the kind of rows."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "table.csv")
        with open(path, "w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(table)
            writer.writerows(zip(*table.values(), strict=True))
        model = ts.AROW().fit_stream(ts.open_stream(path, text=text))
    columns = {name: values for name, values in table.items() if name != "label"}
    records = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    frame = pd.DataFrame(columns)
    kinds = {
        "dicts": records,
        "mixed dicts": [dict(reversed(row.items())) if k % 2 else row for k, row in enumerate(records)],
        "pandas": frame,
        "pandas, categories": frame.astype({"city": "category", "plan": "category"}),
        "polars": pl.DataFrame(columns),
        "JSON lines": [json.dumps(record) for record in records],
    }
    speeds = {name: speed(model, rows, len(records)) for name, rows in kinds.items()}
    return speeds | {"one dict a call": speed(model, [records[0]], 1)}


def speed(model, rows, n):
    """Return thousands of rows per second of processor time."""
    best, repeats = np.inf, max(200 // n, 1)
    for _ in range(CALLS + 1):  # the first loads the code
        start = time.process_time()
        for _ in range(repeats):
            model.predict(rows)
        best = min(best, (time.process_time() - start) / repeats)
    return n / best / 1000


if __name__ == "__main__":
    main()
