"""From text to model, against Vowpal Wabbit and scikit-learn, side by side in one run.

    make bench            (or: python benchmarks/streams.py [--keep FOLDER] [--quick])

Caveats first. Generated text (Zipf's law, 47k features, about 61 non-zeros a row, six digits), in the page cache, one
pass. Every contestant has its own learner: FSOL here, Vowpal Wabbit's default gradient descent with hinge loss,
SGDClassifier with hinge loss and l1, and FTRL-Proximal with logistic loss of both; only the time is compared, not what
is learned. Vowpal Wabbit parses on one thread and learns on another; thinstream parses on as many threads as there are
cores. "To model" is measured inside each process, from opening the data to the model written, imports and compiled code
being there; whole processes from start to exit, with a warm compile cache. Contestants take turns, medians are shown.
"""

import argparse
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

ROWS, WIDTH, COPIES = 190_000, 47_000, 10
REPEATS = 5

FTRL = ["--quiet", "--ftrl", "--loss_function", "logistic", "--l1", "1e-6"]
THINSTREAM = """
import sys, time
from thinstream.data.labels import Classes
from thinstream.lanes.learner import Learner
from thinstream.models.file import write
from thinstream.models.model import Model
from thinstream.data.opening import open_stream
from thinstream.training.run import Run
path, out, algorithm = sys.argv[1:]
def once():
    start = time.perf_counter()
    model = Model(Learner(algorithm, n_features=0, grow=True, fit_intercept=False, l1=1e-6), Classes(-1, 1))
    Run(open_stream(path), model).run()
    write(out, model)
    return time.perf_counter() - start
once()
print(once())
"""
WABBIT = """
import sys, time
import vowpalwabbit
arguments = sys.argv[1:]
start = time.perf_counter()
vowpalwabbit.Workspace(arg_list=arguments).finish()
print(time.perf_counter() - start)
"""
SGD = """
import sys, time
from sklearn.datasets import load_svmlight_file
from sklearn.linear_model import SGDClassifier
import pickle
path, out = sys.argv[1:]
start = time.perf_counter()
X, y = load_svmlight_file(path)
X.indices, X.indptr = X.indices.astype("int32"), X.indptr.astype("int32")  # SGDClassifier takes no others
model = SGDClassifier(penalty="l1", alpha=1e-6, shuffle=False, fit_intercept=False).partial_fit(X, y, classes=[-1, 1])
pickle.dump(model, open(out, "wb"))
print(time.perf_counter() - start)
"""
PARSE = """
import sys, time
from thinstream.data.text.libsvm import Libsvm
from thinstream.data.sources import pieces
form = Libsvm()
for warm in (True, False):
    start, size = time.perf_counter(), 0
    for piece in pieces(sys.argv[1], form, 0):
        assert form.parse(piece.text).error is None
        size += len(piece.text)
    seconds = time.perf_counter() - start
print(size / seconds / 1e6)
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--keep", type=Path, help="a folder for the generated files, used again if they are there")
    parser.add_argument("--quick", action="store_true", help="without the large file")
    parser.add_argument("--rows", type=int, default=ROWS, help="of the text (default 190000)")
    options = parser.parse_args()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed package has its bytecode
    print(__doc__.split("\n\n")[2], f"\n\nMachine: {describe()}\n")
    folder = options.keep or Path(tempfile.mkdtemp(prefix="thinstream-bench-"))
    try:
        goals = measure(folder, options.rows, options.quick)
    finally:
        if options.keep is None:
            shutil.rmtree(folder)
    print("\nTargets")
    for text, value, met in goals:
        print(f"  {'met   ' if met else 'MISSED'} {text}: {value}")


def measure(folder, rows, quick):
    text, wabbit = generated(folder, rows)
    size = text.stat().st_size / 1e6
    print(f"{text.name}: {size:.0f} MB, {rows:,} rows\n")
    out = folder / "model"
    goals = []

    speed = statistics.median(fresh(PARSE, text) for _ in range(REPEATS))
    print(f"parsing on one core, with validation and all output: {speed:.0f} MB/s\n")
    goals.append(goal("parsing at ≥ 550 MB/s on a core", speed, speed >= 550, "MB/s"))

    cache, wabbit_cache = folder / "big.cache", folder / "big.vw.cache"
    run("-m", "thinstream", "convert", text, "--out", cache, "--quiet")
    wabbit_cache.unlink(missing_ok=True)
    learn = ["--quiet", "--loss_function", "hinge", "-f", out]
    fresh(WABBIT, "-d", wabbit, "--cache_file", wabbit_cache, *learn)
    took = race(
        {
            "thinstream": lambda: fresh(THINSTREAM, text, out, "fsol"),
            "Vowpal Wabbit": lambda: fresh(WABBIT, "-d", wabbit, *learn),
            "thinstream, from its cache": lambda: fresh(THINSTREAM, cache, out, "fsol"),
            "Vowpal Wabbit, from its cache": lambda: fresh(WABBIT, "-d", wabbit, "--cache_file", wabbit_cache, *learn),
            "thinstream, FTRLProximal": lambda: fresh(THINSTREAM, text, out, "ftrlproximal"),
            "Vowpal Wabbit --ftrl": lambda: fresh(WABBIT, "-d", wabbit, *FTRL, "-f", out),
        }
    )
    took["load_svmlight_file + SGDClassifier"] = fresh(SGD, text, out)
    print("seconds to model")
    for name, seconds in took.items():
        print(f"  {name:36s}{seconds:8.3f}   {size / seconds:8.0f} MB/s of text")
    ours, theirs = took["thinstream"], took["Vowpal Wabbit"]
    slow = took["load_svmlight_file + SGDClassifier"] / ours
    cached = took["Vowpal Wabbit, from its cache"] / took["thinstream, from its cache"]
    goals.append(goal("text to model ≥ 4x faster than Vowpal Wabbit", theirs / ours, theirs / ours >= 4, "x"))
    goals.append(goal("text to model ≥ 25x faster than load_svmlight_file + SGD", slow, slow >= 25, "x"))
    goals.append(goal("from the cache ≥ 3x faster than Vowpal Wabbit", cached, cached >= 3, "x"))
    ftrl = took["Vowpal Wabbit --ftrl"] / took["thinstream, FTRLProximal"]
    goals.append(goal("FTRLProximal, text to model ≥ 3x faster than Vowpal Wabbit's --ftrl", ftrl, ftrl >= 3, "x"))
    goals.append(goal("text to model within LIBSOL's 0.36 s (its time elsewhere, for 180 MB)", ours, ours < 0.36, "s"))

    start = statistics.median(first_byte(folder) for _ in range(REPEATS))
    print(f"\nstart of the command to its first byte: {start:.2f} s")
    goals.append(goal("start to first byte < 0.8 s", start, start < 0.8, "s"))
    return goals if quick else goals + large(folder, text, wabbit, out)


def large(folder, text, wabbit, out):
    """Whole processes on ten times the text, and the memory they take."""
    big, big_wabbit, small = folder / "large.svm", folder / "large.vw", folder / "small.svm"
    for source, target in ((text, big), (wabbit, big_wabbit)):
        if not target.exists():
            with open(target, "wb") as file:
                for _ in range(COPIES):
                    file.write(source.read_bytes())
    if not small.exists():
        content = text.read_bytes()[:100_000_000]
        small.write_bytes(content[: content.rindex(b"\n") + 1])
    size = big.stat().st_size
    train = ["-m", "thinstream", "train", "-a", "fsol", "--l1", "1e-6", "-m", f"{out}.ts", "--quiet"]
    peaks = {name: peak(*train, file) for name, file in (("small", small), ("large", big))}
    took = race(
        {
            "thinstream": lambda: clocked(*train, big),
            "Vowpal Wabbit": lambda: clocked(
                "-m", "vowpalwabbit", "-d", big_wabbit, "--quiet", "--loss_function", "hinge", "-f", f"{out}.vw"
            ),
        },
        repeats=3,
    )
    print(f"\nwhole processes on {size / 1e9:.1f} GB of text")
    for name, seconds in took.items():
        print(f"  {name:36s}{seconds:8.2f} s {size / seconds / 1e6:8.0f} MB/s")
    ratio = took["Vowpal Wabbit"] / took["thinstream"]
    growth = peaks["large"] - peaks["small"]
    print(f"peak memory: {peaks['small']:.0f} MB on 0.1 GB of text, {peaks['large']:.0f} MB on {size / 1e9:.1f} GB")
    return [
        goal(f"whole process ≥ 4x faster than Vowpal Wabbit on {size / 1e9:.1f} GB", ratio, ratio >= 4, "x"),
        goal("peak memory flat from 0.1 GB of text on (within 32 MB)", growth, growth < 32, "MB more"),
    ]


def generated(folder, rows=ROWS, width=WIDTH):
    """The text in libsvm's and in Vowpal Wabbit's form."""
    from thinstream.datasets import zipf_text

    folder.mkdir(parents=True, exist_ok=True)
    text, wabbit = folder / "big.svm", folder / "big.vw"
    if not (text.exists() and wabbit.exists()):
        X, y = zipf_text(rows, width)
        X.data *= np.random.default_rng(1).uniform(0.3, 1.0, width).astype(np.float32)[X.indices]
        with open(text, "w") as plain, open(wabbit, "w") as other:
            for i in range(rows):
                row = slice(X.indptr[i], X.indptr[i + 1])
                pairs = zip((X.indices[row] + 1).tolist(), X.data[row].tolist(), strict=True)
                features = " ".join(map("%d:%.6g".__mod__, pairs))
                label = "+1" if y[i] > 0 else "-1"
                plain.write(f"{label} {features}\n")
                other.write(f"{label[label[0] == '+' :]} | {features}\n")
    return text, wabbit


def fresh(code, *arguments):
    """The number a program prints, run in a separate process."""
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)], check=True, capture_output=True, text=True
    )
    return float(done.stdout.split()[-1])


def run(*arguments):
    subprocess.run([sys.executable, *map(str, arguments)], check=True)


def clocked(*arguments):
    start = time.perf_counter()
    run(*arguments)
    return time.perf_counter() - start


def peak(*arguments):
    """Peak resident megabytes of a process."""
    code = "import resource, subprocess, sys; subprocess.run([sys.executable, *sys.argv[1:]], check=True)\n"
    return fresh(code + "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1e3)", *arguments)


def first_byte(folder):
    """Seconds from starting ``thinstream train`` to its opening of the data, a pipe with a name."""
    pipe = folder / "pipe"
    pipe.unlink(missing_ok=True)
    os.mkfifo(pipe)
    start = time.perf_counter()
    command = [sys.executable, "-m", "thinstream", "train", str(pipe), "-a", "fsol", "--quiet"]
    process = subprocess.Popen(command)
    with open(pipe, "wb") as file:  # waits for the reader
        seconds = time.perf_counter() - start
        file.write(b"+1 1:1\n-1 2:1\n")
    process.wait()
    pipe.unlink()
    return seconds


def race(contestants, repeats=REPEATS):
    """Median seconds of each, taking turns; one untimed round first."""
    times = {name: [] for name in contestants}
    for number in range(repeats + 1):
        for name, contestant in contestants.items():
            seconds = contestant()
            if number:
                times[name].append(seconds)
    return {name: statistics.median(seconds) for name, seconds in times.items()}


def goal(text, value, met, unit):
    return text, f"{value:.3g} {unit}" if unit != "x" else f"{value:.1f}x", met


def describe():
    cpu = Path("/proc/cpuinfo")
    names = [line for line in cpu.read_text().splitlines() if line.startswith("model name")] if cpu.exists() else []
    model = names[0].split(":")[1].strip() if names else platform.processor()
    return (
        f"{platform.system()} {platform.machine()}, {model}, {os.cpu_count()} cores, Python {platform.python_version()}"
    )


if __name__ == "__main__":
    main()
