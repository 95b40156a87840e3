"""Lanes on a GPU beside lanes on all cores of the same machine: seconds for one pass over a generated text set.

    python -m benchmarks.gpu                                # the table of docs/gpu.md
    python -m benchmarks.gpu --lanes 1024 --rules FSOL --rows 20000
    python -m benchmarks.gpu --text                         # text to tallies: a study of a libsvm file
    python -m benchmarks.gpu --search news.train.svm        # 10,000 settings × 5 folds of SSOL, text to result
    python -m benchmarks.gpu --classes                      # 103 classes, text to models

Rows have 60 words of 47,236 (or 3.2 million), drawn by Zipf's law. Each time is the best of two passes after one that
compiles. A sample of lanes is compared with models of their own, bit for bit.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time

import numpy as np
from scipy.sparse import csr_matrix
from sklearn.datasets import dump_svmlight_file, load_svmlight_file
from sklearn.linear_model import SGDClassifier
from sklearn.model_selection import GridSearchCV

from thinstream.batch import Batch
from thinstream.data.opening import open_stream
from thinstream.lanes.lanes import Lanes
from thinstream.lanes.learner import Learner
from thinstream.tuning.passes import study_stream
from thinstream.tuning.study import StudyConfig, Trial

RULES = ("FSOL", "SSOL", "AROW")
LANES = (256, 1024, 4096, 16384)


def text(rows, width, words=90, seed=0):
    """Rows of distinct words, of unit length, labelled by a random plane."""
    rng = np.random.default_rng(seed)
    share = 1 / np.arange(1, width + 1) ** 1.1
    drawn = np.searchsorted(np.cumsum(share / share.sum()), rng.random((rows, words))).clip(0, width - 1)
    drawn = np.sort(rng.permutation(width)[drawn], axis=1)
    new = np.ones(drawn.shape, bool)
    new[:, 1:] = drawn[:, 1:] != drawn[:, :-1]
    counts = new.sum(axis=1)
    indptr = np.concatenate([[0], np.cumsum(counts)])
    indices, values = drawn[new].astype(np.int32), np.repeat(1 / np.sqrt(counts), counts).astype(np.float32)
    scores = np.add.reduceat(values * rng.standard_normal(width)[indices], indptr[:-1])
    return Batch.of(indptr, indices, values, width, np.where(scores > np.median(scores), 1, -1).astype(np.int8))


def parameters_of(rule, lanes):
    """As a search would have them: a rate, and a threshold where there is one."""
    rng = np.random.default_rng(1)
    drawn = 10 ** rng.uniform(-3, 1, (lanes, 2))
    if rule == "AROW":
        return [{"r": float(r)} for r, _ in drawn]
    return [{"eta": float(eta), "l1": float(l1)} for eta, l1 in drawn]


def timed(rule, count, batch, device, threads, times=2):
    """Seconds to make the lanes, and to learn; and the lanes."""
    best, made = np.inf, np.inf
    parameters = parameters_of(rule, count)
    Lanes(rule, parameters, n_features=10, device=device, threads=threads).learn(text(10, 10, 5), scores=False)
    for _ in range(times):
        start = time.perf_counter()
        lanes = Lanes(rule, parameters, n_features=batch.n_features, device=device, threads=threads)
        made = min(made, time.perf_counter() - start)
        start = time.perf_counter()
        lanes.learn(batch, scores=False)
        assert not lanes.failed  # which waits for the device, too
        best = min(best, time.perf_counter() - start)
    return made, best, lanes


def same(rule, lanes, batch, sample=3):
    """Whether a sample of the lanes has the bits of models of their own."""
    for lane in np.linspace(0, len(lanes) - 1, sample).astype(int).tolist():
        model = Learner(rule, n_features=batch.n_features, **parameters_of(rule, len(lanes))[lane])
        model.learn(batch)
        if model.weights().tobytes() != lanes[lane].weights().tobytes():
            return False
    return True


def text_to_tallies(batch, rules, counts, threads, without_cpu):
    """Seconds from a libsvm file to what each model got wrong before it learned a row; the best of two."""
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "rows.svm")
        matrix = csr_matrix((batch.values, batch.indices, batch.indptr), (len(batch), batch.n_features))
        dump_svmlight_file(matrix, batch.y, file, zero_based=False)
        print(f"a file of {os.path.getsize(file) / 1e6:.0f} MB", flush=True)
        for rule in rules:
            for count in counts:
                trials = [Trial(own) for own in parameters_of(rule, count)]
                line, wrong = f"{rule:6} {count:6,} models, text to tallies:", []
                for device in ("cuda",) if without_cpu else ("cuda", "cpu"):
                    config = StudyConfig(rule, n_features=batch.n_features, threads=threads, device=device)
                    best = np.inf
                    for _ in range(2 if device == "cuda" else 1):
                        start = time.perf_counter()
                        found = study_stream(open_stream(file, threads=threads), config, trials)
                        best = min(best, time.perf_counter() - start)
                    line += f"  {device} {best:7.3f}"
                    wrong.append(found.learned.counts)
                print(line, f" same counts {all(np.array_equal(each, wrong[0]) for each in wrong)}", flush=True)


def search(file, settings, threads, peers):
    """Random search with 5 folds by the command line, and by GridSearchCV of scikit-learn from some of its settings."""
    grid = ["-g", "eta=log:1e-3..10", "-g", "l1=log:1e-3..100", "--random", str(settings), "-j", str(threads)]
    for device in ("cuda", "cpu"):
        start = time.perf_counter()
        command = [
            sys.executable,
            "-m",
            "thinstream",
            "tune",
            file,
            "-a",
            "ssol",
            *grid,
            "--top",
            "1",
            "--device",
            device,
        ]
        said = subprocess.run(command, capture_output=True, text=True, check=False)
        print(f"tune --device {device}: {time.perf_counter() - start:.1f} s", flush=True)
        print(said.stdout, said.stderr, flush=True)
    start = time.perf_counter()
    X, y = load_svmlight_file(file)
    alphas = np.geomspace(1e-8, 1e-2, peers)
    GridSearchCV(SGDClassifier(max_iter=1, tol=None), {"alpha": alphas}, n_jobs=threads, refit=False).fit(X, y)
    seconds = time.perf_counter() - start
    print(
        f"GridSearchCV(SGDClassifier): {peers} in {seconds:.1f} s, so {settings} in {seconds * settings / peers:,.0f} s"
    )


def classes(threads, count=103, rows=23_149, width=47_236):
    """A model per class on generated rows, from text on."""
    batch = text(rows, width, words=110)
    plane = np.random.default_rng(2).standard_normal((width, count)).astype(np.float32)
    numbers = np.argmax(csr_matrix((batch.values, batch.indices, batch.indptr), (rows, width)) @ plane, axis=1)
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "topics.svm")
        dump_svmlight_file(
            csr_matrix((batch.values, batch.indices, batch.indptr), (rows, width)), numbers, file, zero_based=False
        )
        names = tuple(range(count))
        for device in ("cuda", "cuda", "cpu", "cpu"):  # the first of each compiles
            start = time.perf_counter()
            lanes = Lanes("arow", [{}] * count, n_features=width, device=device, threads=threads)
            for rows_of in open_stream(file, classes=names).batches():
                signs = np.where(rows_of.y[:, np.newaxis] == np.arange(count), np.int8(1), np.int8(-1))
                lanes.learn(rows_of, signs, scores=False)
            weights = [model.weights() for model in lanes]
            print(
                f"{count} classes, {device}: {time.perf_counter() - start:.2f} s", sum(map(np.count_nonzero, weights))
            )


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--rows", type=int, default=100_000)
    options.add_argument("--width", type=int, default=47_236)
    options.add_argument("--lanes", type=int, nargs="*", default=LANES)
    options.add_argument("--rules", nargs="*", default=RULES)
    options.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    options.add_argument("--without-cpu", action="store_true")
    options.add_argument("--search", metavar="FILE", help="a text set of two classes, in libsvm's format")
    options.add_argument("--settings", type=int, default=10_000)
    options.add_argument("--peers", type=int, default=100)
    options.add_argument("--classes", action="store_true")
    options.add_argument("--text", action="store_true", help="text to tallies, instead of rows in memory")
    given = options.parse_args()
    if given.search or given.classes:
        if given.search:
            search(given.search, given.settings, given.threads, given.peers)
        if given.classes:
            classes(given.threads)
        return
    batch = text(given.rows, given.width)
    print(
        f"{given.rows:,} rows, {given.width:,} features, {batch.nnz:,} non-zeros, {given.threads} threads", flush=True
    )
    if given.text:
        text_to_tallies(batch, given.rules, given.lanes, given.threads, given.without_cpu)
        return
    for rule in given.rules:
        for count in given.lanes:
            made, gpu, lanes = timed(rule, count, batch, "cuda", given.threads)
            bits = same(rule, lanes, batch)
            line = f"{rule:6} {count:6,} lanes: made {made:6.2f}  GPU {gpu:7.3f}  same bits {bits}"
            del lanes
            if not given.without_cpu:
                _, cpu, _ = timed(rule, count, batch, "cpu", given.threads, times=1)
                line += f"  CPU {cpu:7.3f}"
            print(line, flush=True)


if __name__ == "__main__":
    main()
