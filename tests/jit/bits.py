"""Trains algorithms on a fixed stream, and prints digests of their state: processes for tests of compiled code.

python -m tests.jit.bits two NAME ...                        two classes in float64
python -m tests.jit.bits run NAME ...                        everything, with code from the cache or compiled now
python -m tests.jit.bits record FILE NAME ...                write the functions that this needs
python -m tests.jit.bits shipped FOLDER BASELINE NAME ...    with code of a wheel, without numba
"""

import hashlib
import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import scipy.sparse as sp

import thinstream as ts
from tests.algorithms.online.golden import stream
from thinstream import jit
from thinstream.jit import cache
from thinstream.jit.ahead import rehearse


def digests(names, everything=True):
    """Return a digest for each algorithm, precision and number of classes (ten: one loop over lanes)."""
    rows, results = stream(), {}
    X = sp.csr_matrix(rows.X)
    for name in names or [algorithm.name for algorithm in ts.algorithms("online")]:
        for dtype in ("float32", "float64") if everything else ("float64",):
            one = ts.make(name, dtype=dtype).fit(X, rows.y)._model.learner.outputs.one
            results[f"{name} {dtype}"] = digest(*one.memory)
            if everything:
                ten = ts.make(name, dtype=dtype).fit(X, np.arange(len(rows.y)) % 10)
                results[f"{name} {dtype} ten classes"] = digest(ten.coef_, ten.decision_function(X))
    return results


def digest(*arrays):
    return hashlib.sha256(b"".join(array.tobytes() for array in arrays)).hexdigest()


def run_bits(task, *words, **environment):
    """Run this module in a process, and return what it prints."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.jit.bits", task, *map(str, words)],
        cwd=Path(__file__).parents[2],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout) if done.stdout else None


def main(task, *words):
    if task == "record":
        with rehearse(ignores_files=True) as rehearsal:
            digests(words[1:])
        Path(words[0]).write_bytes(pickle.dumps(rehearsal.requests))
        return
    if task == "shipped":
        folder, baseline, *words = words
        cache.SHIPPED = Path(folder)
        cache._usable_baselines = lambda: (baseline,)
        sys.modules["numba"] = None  # importing it raises
    results = digests(words, everything=task != "two")
    print(json.dumps([results, sorted({was_in_file for _, _, was_in_file in jit.specialisations})]))


if __name__ == "__main__":
    main(*sys.argv[1:])
