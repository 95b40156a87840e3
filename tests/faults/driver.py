"""Runs a command line again and again, each time with another of its calls failing: the process that `inject.c` is in.

Each run is a fork of this process, which has loaded everything once: hundreds of them take seconds.
"""

import ctypes
import errno
import json
import os
import shutil
import sys
import traceback
from hashlib import sha256
from pathlib import Path

from thinstream.cli.app import run
from thinstream.cli.terminal import open_standard_streams

#: Name → error, whether it lasts, whether a write is cut short.
FAULTS = {
    "full disk": (errno.ENOSPC, 1, 0),
    "no room once": (errno.ENOSPC, 0, 0),
    "input/output error": (errno.EIO, 0, 0),
    "interrupted": (errno.EINTR, 0, 0),
    "short write": (0, 0, 1),
}
#: Calls that all fail, one after the other.
MANY = 40


def attempt(command, template, work, number, fault):
    """One run in a fresh copy of a folder: what it said, its exit code, the files there are then."""
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(template, work)
    said = work.with_suffix(".said")
    child = os.fork()
    if child == 0:
        try:
            os._exit(fail_once(command, work, said, number, fault))
        except BaseException:  # what the command did not expect
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(70)
    _, status = os.waitpid(child, 0)
    text, _, counted = said.read_text().rpartition("\n")
    code = os.waitstatus_to_exitcode(status)
    calls = json.loads(counted) if code in (0, 1) else []
    return {"code": code, "said": text, "files": {f.name: content(f) for f in sorted(work.iterdir())}, "calls": calls}


def fail_once(command, work, said, number, fault):
    """Runs the command with a call that fails; the last line written is how many calls there were of each kind."""
    os.chdir(work)
    handle = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(handle, 1)
    os.dup2(handle, 2)
    shim = ctypes.CDLL(None)
    shim.fault_arm(os.fsencode(work), ctypes.c_long(number), *FAULTS.get(fault, (0, 0, 0)))
    code = run(command)
    shim.fault_disarm()
    sys.stdout.flush()
    sys.stderr.flush()
    os.write(handle, f"\n{json.dumps([shim.fault_calls(kind) for kind in range(3)])}".encode())
    return code


def content(file):
    """The bytes of a file, or what tells them from others where they are many."""
    result = file.read_bytes()
    return result.hex() if len(result) < 1 << 20 else sha256(result).hexdigest()


def calls_to_fail(calls):
    """Every call; of very many some from the first on, and the last ones, which put files in place."""
    every = range(1, calls + 1)
    return every if calls <= MANY else [*every[: -MANY // 4 : calls // MANY], *every[-MANY // 4 :]]


def main(command, template, work):
    """A run without faults, then one for each call and fault; as JSON."""
    shutil.copytree(template, work)
    os.chdir(work)
    out = sys.stdout
    sys.stdout = sys.stderr
    assert run(command) == 0  # loads all that the others need
    sys.stdout = out
    good = attempt(command, template, work, 0, "")
    runs = [
        {"number": number, "fault": fault, **attempt(command, template, work, number, fault)}
        for fault in FAULTS
        for number in calls_to_fail(sum(good["calls"]))
    ]
    print(json.dumps({"good": good, "runs": runs}))


if __name__ == "__main__":
    open_standard_streams()
    main(json.loads(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]))
