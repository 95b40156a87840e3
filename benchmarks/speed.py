"""Speed of learning against scikit-learn's SGDClassifier and against loops fused by hand, side by side in one run.

    make bench            (or: python benchmarks/speed.py [--rows N] [--quick])

Caveats first. One core, one process, generated data (Zipf's law with exponent 1.1, unit rows), one pass, float32 on
both sides, through ``partial_fit`` of a fresh model, so that checking the input and making the state are included.
Contestants take turns within each repetition and medians over the repetitions are shown, but this still measures one
machine on one day: read the ratios. SGDClassifier runs without shuffling and without intercept, to do the same work.
"""

import argparse
import platform
import statistics
import subprocess
import sys
import time
import warnings
from pathlib import Path

import fused
import numpy as np
from sklearn.linear_model import SGDClassifier

import thinstream as ts
from thinstream.batch import Batch
from thinstream.datasets import zipf_text
from thinstream.lanes.learner import Learner

warnings.filterwarnings("ignore", category=UserWarning)
REPEATS = 5
L1 = 1e-6
WIDTHS = {"47k": 47_000, "3.2M": 3_200_000}
WIDEST = 16_000_000


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=100_000, help="length of each stream (default 100000)")
    parser.add_argument("--quick", action="store_true", help="the algorithms the targets name, nothing else")
    options = parser.parse_args()
    print(__doc__.split("\n\n")[2], f"\n\nMachine: {describe()}\n")
    goals = []
    for label, width in WIDTHS.items():
        goals += against_sgd(label, zipf_text(options.rows, width))
    goals += wide(options.rows)
    goals += start_up()
    goals += single_rows()
    goals += memory(options.rows)
    if not options.quick:
        everything(options.rows)
    print("\nTargets")
    for text, value, met in goals:
        print(f"  {'met   ' if met else 'MISSED'} {text}: {value}")


def against_sgd(label, stream):
    """FSOL, SSOL, AROW against SGDClassifier and against their fused loops; FTRLProximal against SGDClassifier."""
    X, y = stream
    nnz = X.nnz
    print(f"{label} features, {X.shape[0]:,} rows, {nnz / X.shape[0]:.0f} non-zeros a row: ns per non-zero")
    sgd = {"alpha": 1e-6, "shuffle": False, "fit_intercept": False}
    contestants = {
        "SGD l1": lambda: SGDClassifier(penalty="l1", **sgd).partial_fit(X, y, classes=[-1, 1]),
        "SGD no penalty": lambda: SGDClassifier(penalty=None, **sgd).partial_fit(X, y, classes=[-1, 1]),
        "FSOL": lambda: ts.FSOL(l1=L1, fit_intercept=False).partial_fit(X, y, classes=[-1, 1]),
        "SSOL": lambda: ts.SSOL(l1=L1, fit_intercept=False).partial_fit(X, y, classes=[-1, 1]),
        "AROW": lambda: ts.AROW(fit_intercept=False).partial_fit(X, y, classes=[-1, 1]),
        "FTRLProximal": lambda: ts.FTRLProximal(l1=L1, fit_intercept=False).partial_fit(X, y, classes=[-1, 1]),
    }
    took = {name: 1e9 * seconds / nnz for name, seconds in race(contestants).items()}
    for name, ns in took.items():
        print(
            f"  {name:15s}{ns:7.2f}    {took['SGD l1'] / ns:5.1f}x SGD l1 {took['SGD no penalty'] / ns:5.1f}x SGD none"
        )
    loops = {}
    for name, parameters, by_hand in FUSED:
        loops[name] = lambda name=name, parameters=parameters: generic(name, parameters, X, y)
        loops[f"{name} by hand"] = lambda parameters=parameters, by_hand=by_hand: by_hand(parameters, X, y)
    took_loops = {name: 1e9 * seconds / nnz for name, seconds in race(loops, clocked=True).items()}
    ratios = {}
    for name, *_ in FUSED:
        ratios[name] = took_loops[name] / took_loops[f"{name} by hand"]
        print(f"  loop alone, {name}: generic {took_loops[name]:.2f}, by hand {took_loops[f'{name} by hand']:.2f}")
    print()
    return [
        goal(f"{label}: FSOL ≥ 5x SGD l1", took["SGD l1"] / took["FSOL"], 5),
        goal(f"{label}: FSOL ≥ 1x SGD without penalty", took["SGD no penalty"] / took["FSOL"], 1),
        goal(f"{label}: SSOL ≥ 3x SGD l1", took["SGD l1"] / took["SSOL"], 3),
        goal(f"{label}: AROW ≥ 3x SGD l1", took["SGD l1"] / took["AROW"], 3),
        goal(f"{label}: FTRLProximal ≥ 2x SGD l1", took["SGD l1"] / took["FTRLProximal"], 2),
        *(goal(f"{label}: generic {n} loop ≤ 1.3x the fused one", r, -1.3) for n, r in ratios.items()),
    ]


def generic(name, parameters, X, y):
    model = Learner(name, n_features=X.shape[1], fit_intercept=False, **parameters)
    batch = Batch.of(X.indptr, X.indices, X.data, X.shape[1], y)
    start = time.perf_counter()
    model.learn(batch, scores=False)
    return time.perf_counter() - start


def fused_run(loop, fields):
    def run(parameters, X, y):
        state = np.zeros(fields * X.shape[1], dtype=np.float32)
        if fields == 2:
            state[1::2] = 1
        indptr = X.indptr.astype(np.int64)
        start = time.perf_counter()
        loop(*parameters.values(), indptr, X.indices, X.data, y, state, np.zeros(5, np.int64), np.zeros(1))
        return time.perf_counter() - start

    return run


FUSED = [
    ("FSOL", {"eta": 1.0, "l1": L1}, fused_run(fused.fsol, 1)),
    ("SSOL", {"eta": 1.0, "l1": L1, "r": 1.0}, fused_run(fused.ssol, 2)),
    ("AROW", {"r": 1.0}, fused_run(fused.arow, 2)),
]


def wide(rows):
    """Cost per non-zero must not depend on the width, caches apart."""
    print("ns per non-zero as the model gets wider (partial_fit of a model that exists)")
    took = {}
    for width in (*WIDTHS.values(), WIDEST):
        X, y = zipf_text(rows, width)
        models = {
            name: ts.make(name, l1=L1, fit_intercept=False).partial_fit(X[:1], y[:1], classes=[-1, 1])
            for name in ("FSOL", "SSOL")
        }
        runs = {n: lambda model=model, X=X, y=y: model.partial_fit(X, y) for n, model in models.items()}
        for name, seconds in race(runs).items():
            took[name, width] = 1e9 * seconds / X.nnz
    for name in ("FSOL", "SSOL"):
        print(f"  {name}: " + ", ".join(f"{took[name, w]:.2f} at {w:,}" for w in (*WIDTHS.values(), WIDEST)))
    print()
    first = next(iter(WIDTHS.values()))
    return [goal(f"{n} at 16M ≤ 3x 47k", took[n, WIDEST] / took[n, first], -3) for n in ("FSOL", "SSOL")]


def start_up():
    """Seconds a first fit of a compiled algorithm adds to importing scikit-learn, in fresh processes."""
    imports = (
        "import time; s = time.perf_counter(); from sklearn.linear_model import SGDClassifier; import scipy.sparse\n"
    )
    fit = "import thinstream; thinstream.FSOL().fit([[1.0], [2.0]], [0, 1])\n"
    show = "print(time.perf_counter() - s)"
    programs = {"scikit-learn": imports + show, "scikit-learn and a first fit": imports + fit + show}
    took = race({name: lambda code=code: fresh(code) for name, code in programs.items()}, clocked=True)
    added = took["scikit-learn and a first fit"] - took["scikit-learn"]
    print(f"Start: import scikit-learn {took['scikit-learn']:.2f} s, first fit after it {added:.2f} s more\n")
    return [goal("first fit adds ≤ 0.5 s to importing scikit-learn", added, -0.5)]


def single_rows():
    """Microseconds of one row at a time through a learner, the batch checked each time."""
    X, y = zipf_text(2_000, 47_000)
    model = Learner("ssol", n_features=X.shape[1], fit_intercept=False)

    def run():
        for i in range(len(y)):
            a, b = X.indptr[i], X.indptr[i + 1]
            row = Batch.of(np.array([0, b - a]), X.indices[a:b], X.data[a:b], X.shape[1], y[i : i + 1])
            model.learn(row)

    took = 1e6 * race({"row": run})["row"] / len(y)
    print(f"One row at a time, SSOL through Learner.learn: {took:.1f} µs a row\n")
    return [goal("single-row learn ≤ 50 µs", took, -50)]


def memory(rows):
    """What a fit adds to the resident memory at its peak, besides the input, in a fresh process."""
    if not sys.platform.startswith("linux"):
        return []
    code = f"""
import ctypes, re, numpy as np, thinstream as ts
from thinstream.datasets import zipf_text
X, y = zipf_text({rows}, 3_200_000)
ts.SSOL(fit_intercept=False).fit(X[:100, :100], np.arange(100) % 2)
status = lambda what: int(re.search(what + r":\\s+(\\d+)", open("/proc/self/status").read())[1]) / 1024
ctypes.CDLL(None).malloc_trim(0)  # what making the data left behind
open("/proc/self/clear_refs", "w").write("5")  # the peak starts anew
before = status("VmRSS")
model = ts.SSOL(n_passes=2, fit_intercept=False).fit(X, y)
size = X.data.nbytes + X.indices.nbytes + X.indptr.nbytes
print(status("VmHWM") - before, model._model.learner.outputs.one.memory.state.nbytes / 2**20, size / 2**20)
"""
    added, state, size = map(float, run_python(code).split())
    print(f"Memory of SSOL at 3.2M features: input {size:.0f} MB, state {state:.0f} MB; a fit added {added:.0f} MB\n")
    return [goal("a fit adds ≤ its state and a tenth of the input", added / (state + size / 10), -1)]


def everything(rows):
    """Every algorithm at its defaults, but SMIDAS: a round of it costs O(nnz(θ)), and all would wait for it."""
    X, y = zipf_text(rows, 47_000)
    print("Every algorithm with default parameters, 47k features: ns per non-zero, progressive error")
    models = {}

    def learn(name):
        models[name] = ts.make(name, fit_intercept=False).partial_fit(X, y, classes=[-1, 1])

    took = race({a.name: lambda name=a.name: learn(name) for a in ts.algorithms("online") if a.name != "SMIDAS"})
    for name, seconds in sorted(took.items(), key=lambda item: item[1]):
        model = models[name]
        print(f"  {name:24s}{1e9 * seconds / X.nnz:7.2f}   {100 * model.n_mistakes_ / model.t_:5.1f} %")


def race(contestants, clocked=False):
    """Median seconds of each, taking turns; one untimed round first (compilation, caches)."""
    times = {name: [] for name in contestants}
    for round_number in range(REPEATS + 1):
        for name, run in contestants.items():
            start = time.perf_counter()
            result = run()
            seconds = result if clocked else time.perf_counter() - start
            if round_number:
                times[name].append(seconds)
    return {name: statistics.median(found) for name, found in times.items()}


def goal(text, value, limit):
    """A target: at least ``limit``, or at most, if that is negative."""
    return text, f"{value:.2f}", value >= limit if limit > 0 else value <= -limit


def run_python(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def fresh(code):
    return float(run_python(code))


def describe():
    cpu = Path("/proc/cpuinfo")
    names = [line for line in cpu.read_text().splitlines() if line.startswith("model name")] if cpu.exists() else []
    model = names[0].split(":")[1].strip() if names else platform.processor()
    return f"{platform.system()} {platform.machine()}, {model}, Python {platform.python_version()}"


if __name__ == "__main__":
    main()
