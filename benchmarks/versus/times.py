"""From text to model, each in a process of its own: seconds and peak memory."""

import json
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.versus.cells import gathered
from benchmarks.versus.contest import open_contest

Row = dict[str, Any]
REPEATS = 3
LONG = 5.0  # seconds; what takes longer is not repeated


def state(set_name: str, tool_name: str, scratch: Path, smoke: bool) -> object:
    """What a cell depends on: what was chosen."""
    return REPEATS, LONG, [row["plain"] for row in _tuned(set_name, tool_name, scratch, smoke)]


def measured(set_name: str, tool_name: str, scratch: Path, smoke: bool) -> list[Row]:
    """The tuned learner of a tool on a set, and its trials."""
    tuned = _tuned(set_name, tool_name, scratch, smoke)
    if not tuned:
        return []
    open_contest(set_name, scratch / "text", smoke)  # the text is there before the clock starts
    learning = _fresh("learn", set_name, tool_name, scratch, smoke, tuned[0]["plain"])
    row = {"set": set_name, "tool": tool_name, "column": "times", "candidate": tuned[0]["candidate"], **learning}
    if set_name in TUNED_SETS:
        tuning = _fresh("tune", set_name, tool_name, scratch, smoke, "")
        row["tuning_s"] = tuning["seconds"]
    return [row]


def _tuned(set_name: str, tool_name: str, scratch: Path, smoke: bool) -> list[Row]:
    found = gathered(scratch / ("smoke" if smoke else "cells")).get("accuracy", [])
    return [row for row in found if (row["set"], row["tool"], row["column"]) == (set_name, tool_name, "tuned")]


#: Where tuning is timed, too: it takes 24 times as long.
TUNED_SETS = ("20news-comp-vs-rec", "reuters21578-acq", "phish-url-pdd", "a9a")


def _fresh(what: str, set_name: str, tool_name: str, scratch: Path, smoke: bool, candidate: str) -> Row:
    """Medians over processes."""
    asked = json.dumps([what, set_name, tool_name, str(scratch), smoke, candidate])
    rows: list[Row] = []
    while len(rows) < (REPEATS if what == "learn" else 1):
        start = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.versus.alone", asked], check=True, capture_output=True, text=True
        )
        took = time.perf_counter() - start
        rows.append(json.loads(done.stdout.splitlines()[-1]) | {"process_s": took})
        if took > LONG:
            break
    return {key: statistics.median(row[key] for row in rows) for key in rows[0]}
