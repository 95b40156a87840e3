"""What a timed process does. It imports nothing of thinstream, nor of any tool, before the clock starts."""

import json
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.versus.contest import Candidate, open_contest
from benchmarks.versus.tools import TOOLS

Row = dict[str, Any]


def alone(what: str, set_name: str, tool_name: str, scratch: str, smoke: bool, candidate: str) -> Row:
    """From opening the text to the model on disk, what it imports on the way included."""
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
    print(json.dumps(alone(*json.loads(sys.argv[1]))))
