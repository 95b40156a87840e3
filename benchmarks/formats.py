"""Reading on one core, from the bytes of a file to batches, in every text format, next to other tools.

    python benchmarks/formats.py [--rows N]

Caveats first. Generated files, in the page cache; megabytes of file per second of processor time, of all threads a
reader has. Ours: parsed, checked, texts taken apart, names hashed into 2^22 numbers, rows sorted, batches made; the
best of 5, without looking at the first records, which takes some 0.02 s. Vowpal Wabbit: its own format and CSV (where
a text is one feature, and is not taken apart) to examples, and one update of its default learner on each (it cannot
read without learning); the best of 3. pandas and
scikit-learn: read_csv or read_json, HashingVectorizer for texts, FeatureHasher for categories, scipy's hstack; once.
pyarrow alone takes nothing apart and hashes nothing: the limit.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

ROWS, REPEATS = 40_000, 5
#: MB/s per core asked for.
TARGETS = {"mixed.csv": 143, "text.jsonl": 183, "wide.jsonl": 114, "text.vw": 217, "mixed.vw": 189, "numbers.svm": 500}
#: Options that need more than rows of numbers, and the share of the speed that they may not fall below.
OPTIONS = {
    "mixed.csv": {"cross": "city,plan", "id": "zip", "names": 100_000},
    "text.jsonl": {"id": "label", "names": 100_000},
    "wide.jsonl": {"cross": "city,paid", "id": "city", "names": 100_000},
    "text.vw": {"id": "tag", "names": 100_000},
    "mixed.vw": {"cross": "c,n", "id": "tag", "names": 100_000},
}
LEAST = 0.8
TEXTS = {"mixed.csv": ("note",), "text.jsonl": ("text",)}

WABBIT = """
import sys, time
import vowpalwabbit
start = time.process_time()
vowpalwabbit.Workspace(arg_list=[*sys.argv[1:], "--quiet", "-b", "22"]).finish()
print(time.process_time() - start)
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=ROWS, help="rows of each file (default 40000)")
    options = parser.parse_args()
    print(__doc__.split("\n\n")[2], "\n")
    with tempfile.TemporaryDirectory() as folder:
        files = generated(Path(folder), options.rows)
        print(f"{'MB/s':14s}{'MB':>8s}{'thinstream':>12s}{'VW':>8s}{'pandas+sklearn':>16s}{'pyarrow':>9s}")
        speeds = {name: ours(path, TEXTS.get(name, ())) for name, path in files.items()}
        for name, path in files.items():
            others = [wabbit(path), pandas_and_sklearn(path), arrow(path)]
            shown = [f"{speed:.0f}" if speed else "–" for speed in others]
            size = path.stat().st_size / 1e6
            print(f"{name:14s}{size:8.1f}{speeds[name]:12.0f}{shown[0]:>8s}{shown[1]:>16s}{shown[2]:>9s}")
        print(f"\nMB/s{'':10s}{'plain':>12s}{'cross':>12s}{'id':>12s}{'names':>12s}")
        more = {}
        for name, options_of in OPTIONS.items():
            path, text = files[name], TEXTS.get(name, ())
            for option, value in options_of.items():
                value = [tuple(value.split(","))] if option == "cross" else value
                more[name, option] = ours(path, text, **{option: value})
            shown = [
                f"{more[name, option]:.0f} ({more[name, option] / speeds[name]:.0%})" if option in options_of else "–"
                for option in ("cross", "id", "names")
            ]
            print(f"{name:14s}{speeds[name]:12.0f}" + "".join(f"{entry:>12s}" for entry in shown))
        bigrams = ours(files["text.jsonl"], ("text",), ngrams=(1, 2))
        characters = ours(files["text.jsonl"], ("text",), chars=(3, 5))
        print(f"text.jsonl with --ngrams 1-2: {bigrams:.0f} MB/s, with --chars 3-5: {characters:.0f} MB/s")
    print("\nTargets")
    for name, least in TARGETS.items():
        print(f"  {'met   ' if speeds[name] >= least else 'MISSED'} {name} at ≥ {least} MB/s: {speeds[name]:.0f}")
    for (name, option), value in more.items():
        share = value / speeds[name]
        print(f"  {'met   ' if share >= LEAST else 'MISSED'} {name} with {option} at ≥ {LEAST:.0%}: {share:.0%}")


def ours(path, text, **more):
    """Megabytes a second to batches."""
    from thinstream.data.opening import open_stream

    best = np.inf
    for _ in range(REPEATS + 1):  # the first loads the code
        start = time.process_time()
        rows = sum(len(batch) for batch in open_stream(path, text=text, threads=0, look=0, **more).batches())
        best = min(best, time.process_time() - start)
        assert rows > 0
    return path.stat().st_size / 1e6 / best


def wabbit(path):
    """The same of Vowpal Wabbit, where it reads the format."""
    if path.suffix not in (".vw", ".csv"):
        return None
    extra = ["--loss_function", "logistic"]
    if path.suffix == ".csv":  # labels are 0 and 1, and called _label
        with open(path) as file:
            extra = ["--csv", "--csv_header", file.readline().strip().replace("label", "_label", 1)]
    seconds = np.inf
    for _ in range(3):
        command = [sys.executable, "-c", WABBIT, "-d", str(path), *extra]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            return None
        seconds = min(seconds, float(done.stdout.split()[-1]))
    return path.stat().st_size / 1e6 / seconds


def pandas_and_sklearn(path):
    """Columns read by pandas, texts and categories hashed by scikit-learn."""
    import pandas as pd
    import scipy.sparse as sp
    from sklearn.feature_extraction import FeatureHasher
    from sklearn.feature_extraction.text import HashingVectorizer

    if path.suffix not in (".csv", ".jsonl"):
        return None
    start = time.process_time()
    frame = pd.read_csv(path) if path.suffix == ".csv" else pd.read_json(path, lines=True)
    parts = []
    for name in TEXTS.get(path.name, ()):
        parts.append(HashingVectorizer(n_features=2**22, norm=None, alternate_sign=False).transform(frame.pop(name)))
    named = [name for name in frame.columns if frame[name].dtype.kind not in "biuf"]
    if named:
        pairs = ([f"{name}={value}" for name, value in zip(named, row, strict=True)] for row in frame[named].to_numpy())
        parts.append(FeatureHasher(2**22, input_type="string", alternate_sign=False).transform(pairs))
    numbers = frame.drop(columns=[*named, "label"]).fillna(0.0).to_numpy(np.float32)
    sp.hstack([*parts, sp.csr_matrix(numbers)], format="csr")
    return path.stat().st_size / 1e6 / (time.process_time() - start)


def arrow(path):
    """To columns, no more."""
    from pyarrow import csv
    from pyarrow import json as lines

    read = {".csv": (csv, csv.read_csv), ".jsonl": (lines, lines.read_json)}.get(path.suffix)
    if read is None:
        return None
    best = np.inf
    for _ in range(3):
        start = time.process_time()
        read[1](path, read_options=read[0].ReadOptions(use_threads=False))
        best = min(best, time.process_time() - start)
    return path.stat().st_size / 1e6 / best


def generated(folder, n):
    """The files: words by Zipf's law, numbers, categories."""
    rng = np.random.default_rng(0)
    letters = np.array(list("etaoinshrdlucmfwypvbgkqjxz"))
    words = np.array(["".join(rng.choice(letters[: rng.integers(5, 26)], rng.integers(1, 11))) for _ in range(20_000)])
    likely = 1.0 / np.arange(1, len(words) + 1) ** 1.05
    likely /= likely.sum()

    def text(most):
        chosen = words[rng.choice(len(words), rng.integers(most // 4, most), p=likely)].tolist()
        chosen[::7] = [word.title() for word in chosen[::7]]
        chosen[::11] = [f"{word}," for word in chosen[::11]]
        return " ".join(chosen)

    cities = words[rng.integers(0, 500, n)]
    labels = rng.integers(0, 2, n).tolist()
    files = {name: folder / name for name in TARGETS}
    with open(files["mixed.csv"], "w") as file:
        file.write("label,age,price,city,plan,visits,note,ratio,zip\n")
        for i in range(n):
            numbers = f"{rng.integers(18, 90)},{rng.gamma(2.0) * 100:.2f},{cities[i]},{'abc'[i % 3]}{i % 40}"
            more = f'{rng.poisson(3)},"{text(24)}",{rng.normal():.5f},{rng.integers(10_000, 99_999)}'
            file.write(f"{labels[i]},{numbers},{more}\n")
    with open(files["text.jsonl"], "w") as file:
        for i in range(n // 4):
            entry = text(400).replace(" the ", '\n"') + "\n\nä – done."
            file.write(json.dumps({"label": labels[i], "text": entry}, ensure_ascii=i % 2 == 0) + "\n")
    with open(files["wide.jsonl"], "w") as file:
        for i in range(n):
            row = {"label": labels[i], "city": cities[i], "paid": bool(i % 3), "note": None}
            row |= {f"x{k}": round(float(value), 4) for k, value in enumerate(rng.normal(size=16))}
            file.write(json.dumps(row) + "\n")
    with open(files["text.vw"], "w") as file:
        for i in range(n // 4):
            file.write(f"{2 * labels[i] - 1} |t {text(400).replace(':', '').replace('|', '')}\n")
    with open(files["mixed.vw"], "w") as file:
        for i in range(n):
            numbers = " ".join(f"x{k}:{value:.4g}" for k, value in enumerate(rng.normal(size=8)))
            file.write(f"{2 * labels[i] - 1} 1.0 row{i}|c city={cities[i]} |n {numbers} |t {text(20)}\n")
    with open(files["numbers.svm"], "w") as file:
        for i in range(n):
            columns = np.unique(rng.integers(1, 50_000, 60)).tolist()
            pairs = zip(columns, rng.normal(size=len(columns)).tolist(), strict=True)
            file.write(f"{2 * labels[i] - 1} " + " ".join(map("%d:%.5g".__mod__, pairs)) + "\n")
    return files


if __name__ == "__main__":
    main()
