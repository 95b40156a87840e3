"""From text to model, each in a process of its own: seconds and peak memory."""

import json
import statistics
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.versus.cells import gathered
from benchmarks.versus.contest import Candidate, open_contest
from benchmarks.versus.tools import TOOLS

Row = dict[str, Any]
REPEATS = 3
LONG = 5.0  # seconds; what takes longer is not repeated


def measured(set_name: str, tool_name: str, scratch: Path, smoke: bool) -> list[Row]:
    """The tuned learner of a tool on a set, and its trials."""
    found = gathered(scratch / ("smoke" if smoke else "cells")).get("accuracy", [])
    tuned = [row for row in found if (row["set"], row["tool"], row["column"]) == (set_name, tool_name, "tuned")]
    if not tuned:
        return []
    open_contest(set_name, scratch / "text", smoke)  # the text is there before the clock starts
    learning = _fresh("learn", set_name, tool_name, scratch, smoke, tuned[0]["plain"])
    row = {"set": set_name, "tool": tool_name, "column": "times", "candidate": tuned[0]["candidate"], **learning}
    if set_name in TUNED_SETS:
        tuning = _fresh("tune", set_name, tool_name, scratch, smoke, "")
        row["tuning_s"] = tuning["seconds"]
    return [row]


#: Where tuning is timed, too: it takes 24 times as long.
TUNED_SETS = ("20news-comp-vs-rec", "reuters21578-acq", "phish-url-pdd", "a9a")


def _fresh(what: str, set_name: str, tool_name: str, scratch: Path, smoke: bool, candidate: str) -> Row:
    """Medians over processes."""
    asked = json.dumps([what, set_name, tool_name, str(scratch), smoke, candidate])
    rows: list[Row] = []
    while len(rows) < (REPEATS if what == "learn" else 1):
        start = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.versus.times", asked], check=True, capture_output=True, text=True
        )
        took = time.perf_counter() - start
        rows.append(json.loads(done.stdout.splitlines()[-1]) | {"process_s": took})
        if took > LONG:
            break
    return {key: statistics.median(row[key] for row in rows) for key in rows[0]}


def _alone(what: str, set_name: str, tool_name: str, scratch: str, smoke: bool, candidate: str) -> Row:
    """What the process does: from opening the text to the model on disk, what it imports on the way included."""
    contest, tool = open_contest(set_name, Path(scratch) / "text", smoke), TOOLS[tool_name]
    with TemporaryDirectory() as folder:
        start = time.perf_counter()
        if what == "tune":
            tool.trials(contest, tool.candidates(contest))
        else:
            tool.learn(contest, Candidate.of(candidate), Path(folder) / "model")
        seconds = time.perf_counter() - start
    return {"seconds": seconds, "peak_mb": _peak()}


def _peak() -> float:
    """The most memory that was resident, in megabytes."""
    status = Path("/proc/self/status")
    if status.exists():
        found = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(found.split()[1]) / 1024
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    print(json.dumps(_alone(*json.loads(sys.argv[1]))))
