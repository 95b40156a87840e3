"""20 newsgroups from raw messages: one command here, beside TfidfVectorizer and SGDClassifier.

    python benchmarks/texts.py --data 20news-bydate.raw.jsonl.xz [--ways counts,binary]

Caveats first. The split by date of the set itself (11,314 and 7,532 messages, 20 groups), headers included, one order
of the training rows for all, shuffled as the set is sorted by group. Seconds are of processor time, all threads
together, the better of two. Ours are whole commands with their start, compiled code being there: training from the JSON
Lines file to the model written, and evaluation of the test file. Theirs are without imports: reading JSON,
TfidfVectorizer, SGDClassifier at its defaults (5 epochs and more), and the test rows the same way.
"""

import argparse
import json
import lzma
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

READING = ["--label", "group", "--text", "text", "--ignore", "id,split"]
WAYS = {
    "counts": ["-a", "arow", "--bits", "18", "--tfidf"],
    "binary": ["-a", "arow", "--bits", "18", "--tfidf", "--binary"],
    "passes": ["-a", "arow", "--bits", "18", "--tfidf", "--binary", "--passes", "2"],
    "pairs": ["-a", "arow", "--bits", "20", "--tfidf", "--binary", "--passes", "2", "--ngrams", "1-2"],
}
PEERS = {
    "TfidfVectorizer + SGDClassifier": {},
    "the same, binary": {"binary": True},
    "the same, pairs of words": {"ngram_range": (1, 2), "binary": True},
}
REPEATS = 2


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="20news-bydate.raw.jsonl.xz")
    parser.add_argument("--ways", default=",".join(WAYS), help="ours, of " + ",".join(WAYS))
    options = parser.parse_args()
    print(__doc__.split("\n\n")[2], "\n")
    with tempfile.TemporaryDirectory() as folder:
        train, test = split(options.data, Path(folder))
        runs = {f"thinstream {' '.join(WAYS[way])}": (ours, WAYS[way]) for way in options.ways.split(",")}
        runs |= {name: (theirs, how) for name, how in PEERS.items()}
        found = {name: [] for name in runs}
        for _ in range(REPEATS):  # the first may compile
            for name, (run, how) in runs.items():
                found[name].append(run(train, test, how))
        print(f"{'':68s}{'test error':>12s}{'training':>10s}{'testing':>9s}")
        for name, results in found.items():
            learning, testing = (min(part) for part in list(zip(*results, strict=True))[1:])
            print(f"{name:68s}{100 * results[0][0]:10.2f} %{learning:8.1f} s{testing:7.1f} s")


def split(data, folder):
    """Training and test rows, shuffled."""
    rows = {"train": [], "test": []}
    with lzma.open(data, "rt") as file:
        for line in file:
            rows[json.loads(line)["split"]].append(line)
    for name, lines in rows.items():
        random.Random(0).shuffle(lines)
        (folder / f"{name}.jsonl").write_text("".join(lines))
    return folder / "train.jsonl", folder / "test.jsonl"


def ours(train, test, how):
    """(test error, seconds of training, seconds of testing)."""
    model = train.with_name("model.ts")
    start = _of_children()
    _run("train", train, *READING, *how, "-m", model, "--quiet")
    learned = _of_children()
    report = json.loads(_run("evaluate", test, "-m", model, "--json"))
    return report["error"], learned - start, _of_children() - learned


def _of_children():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _run(*words):
    command = [sys.executable, "-m", "thinstream", *map(str, words)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def theirs(train, test, how):
    """The same of scikit-learn."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import SGDClassifier

    start = time.process_time()
    texts, groups = _read(train)
    vectors = TfidfVectorizer(**how)
    model = SGDClassifier(random_state=0).fit(vectors.fit_transform(texts), groups)
    learned = time.process_time()
    texts, groups = _read(test)
    wrong = sum(a != b for a, b in zip(model.predict(vectors.transform(texts)), groups, strict=True))
    return wrong / len(groups), learned - start, time.process_time() - learned


def _read(path):
    rows = [json.loads(line) for line in path.open()]
    return [row["text"] for row in rows], [row["group"] for row in rows]


if __name__ == "__main__":
    main()
