"""Uses a fresh installation as its first users do: every format, every algorithm, tuning, thinning and the Python API.

    python fresh_install.py record FILE     write the functions that this needs compiled
    python fresh_install.py run BASELINE    run it without numba; print what was loaded, and digests of the results
    python fresh_install.py emulated        the same with short files and the code that fits the processor

`tools.dist` derives the code of a wheel from the first, and tests it with the second in a bare environment. Therefore
this file imports nothing but the installed package.
"""

import contextlib
import hashlib
import io
import json
import os
import pickle
import sys
import warnings
from pathlib import Path

from thinstream.algorithms.registry import algorithms, find
from thinstream.cli.app import run
from thinstream.cli.commands.compile import ROWS, commands_of, conversions, folder_of_rows
from thinstream.cli.options import DEFAULT_LEARNER
from thinstream.models.model import make_learner

FULL = ("--covariance", "full")
SCALES = (["--scale", "max"], ["--scale", "rms"], ["--scale", "idf"], ["--normalize", "l2"], ["--tfidf"])
#: Texts with words that are tokenized in Python, because their lower case has another length.
TEXTS = ("a free offer for you", "lunch on friday", "İstanbul, größer ΑΣ", "an offer 😀")
LABELED = ["--label", "label", "--text", "text"]


def command_lines(names):
    """Yield command lines, each with the exit codes that are right."""
    for name in names:
        for dtype in ("float32", "float64"):
            if dtype in dtypes_of(name):
                for intercept in ("--intercept", "--no-intercept"):
                    words = ["rows.svm", "-a", name, "--dtype", dtype, intercept]
                    yield ["train", *words, "-m", "model.ts"], {0, 2}  # batch methods have no intercept
                    yield ["train", *words, "-m", "model.ts", "--features", "30", "-q"], {0, 2}
                    yield ["predict", "rows.svm", "-m", "model.ts", "-o", "labels"], {0}
        if find(name).kind == "online" or name == DEFAULT_LEARNER:
            for line in commands_of(name, "float32", tuning=True)[2:]:
                yield line, {0}
            for file in ("three.svm", "ten.svm"):
                yield ["train", file, "-a", name, "-m", "model.ts"], {0, 1, 2}  # some need the number of features
            yield ["train", "rows.svm", "-a", name, *FULL], {0, 2}
    if DEFAULT_LEARNER not in names:
        return
    for ending in ROWS:
        for line in conversions(ending):
            yield line, {0}
        for words in ([], ["--dtype", "float64"], ["--names", "100"], ["--max-features", "4"]):
            yield ["train", f"rows{ending}", "-m", "model.ts", *words], {0, 2}
        yield ["evaluate", f"rows{ending}", "-m", "model.ts"], {0, 1}
        yield ["train", f"many{ending}", "-m", "model.ts"], {0}
    yield ["train", "rows.csv", "-m", "model.ts"], {0}
    yield ["predict", "rows.csv", "-m", "model.ts", "--id", "a", "-o", "labels"], {0}
    for file in ("texts.csv", "texts.jsonl"):
        for words in ([], ["--names", "100"], ["--max-features", "20"]):
            yield ["train", file, "-m", "model.ts", *LABELED, *words], {0}
        yield ["explain", file, "-m", "model.ts"], {0}
        yield ["shuffle", file, "-o", "shuffled"], {0, 2}
    for words in (["--names", "100"], ["--ngrams", "1-2"], ["--chars", "3-5"]):
        for ending in (".csv", ".jsonl"):
            yield ["train", f"many{ending}", "-m", "model.ts", "--text", "b", *words], {0}
    for ending in (".parquet", ".arrow", ".cache"):
        yield ["train", f"table{ending}", "-m", "model.ts"], {0}
        if ending != ".cache":
            yield ["predict", f"table{ending}", "-m", "model.ts", "-o", "labels"], {0}
    for words in SCALES:
        for name in (DEFAULT_LEARNER, "arow", "fsol"):
            yield ["train", "rows.svm", "-a", name, "-m", "model.ts", *words], {0, 2}
    for file in ("rows.svm", "ten.svm", "wide.svm"):
        yield ["train", file, "-m", "model.ts", "--json"], {0}
        yield ["evaluate", file, "-m", "model.ts"], {0}
        yield ["thin", "model.ts", "--nnz", "2", "-m", "thin.ts"], {0}
        yield ["thin", "model.ts", "--on", file, "-m", "thin.ts"], {0}
        yield ["predict", file, "-m", "thin.ts", "-o", "labels"], {0}
        yield ["inspect", "model.ts"], {0}
        yield ["explain", file, "-m", "model.ts"], {0}
        yield ["thin", "model.ts", "--nnz", "2", "--refit", file, "-m", "thin.ts"], {0}
        yield ["train", file, "-m", "model.ts", "--nnz", "2"], {0}
        yield ["tune", file, "-m", "model.ts"], {0, 2}
        yield ["tune", file, "-a", "arow", "--scoring", "auc"], {0}
    for algorithm in ("arow", DEFAULT_LEARNER):
        yield ["train", "rows.svm", "-a", algorithm, "--monitor", "adwin,ddm,page-hinkley"], {0}
    yield ["train", "rows.svm", "-a", "arow", "-m", "model.ts"], {0}
    yield ["diagnose", "rows.svm", "-m", "model.ts"], {0}
    yield ["train", "rows.svm", "--recall", "0.5"], {0}
    yield ["train", "rows.svm", "--class-weight", "balanced"], {0}
    yield ["train", "rows.svm", "--grow-classes"], {0}


def dtypes_of(name):
    """Return the precisions that an algorithm supports."""
    supported = []
    for dtype in ("float32", "float64"):
        with contextlib.suppress(Exception):
            make_learner(find(name).name, n_features=3, dtype=dtype)
            supported.append(dtype)
    return supported or ["float64"]


def write_files(copies):
    """Write long files, texts, and rows in formats that are not text."""
    for ending, text in ROWS.items():
        head, _, rest = text.partition("\n") if ending == ".csv" else ("", "", text)
        Path(f"many{ending}").write_text(f"{head}\n{rest}".lstrip() + rest * copies)
    with open("many.csv", "a") as file:
        file.write('1,0.5,"quoted, with ""quotes"",\nand a line end",2024-05-17\n')
    Path("wide.svm").write_text("".join(f"{k % 2} {k % 7 + 1}:1 {10**10 + k % 5}:0.5\n" for k in range(40)))
    rows = [{"label": k % 2, "more": {"a": [k]}, "text": TEXTS[k % len(TEXTS)]} for k in range(40)]
    Path("texts.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    Path("texts.csv").write_text("label,text\n" + "".join(f'{row["label"]},"{row["text"]}"\n' for row in rows))
    import pyarrow as pa
    import pyarrow.feather
    import pyarrow.parquet

    columns = {"label": [1, -1], "a": [0.5, 2.0], "b": ["x", "y"], "n": [1, 2], "day": ["2024-05-17", ""]}
    table = pa.table({**{name: values * 100 for name, values in columns.items()}, "text": TEXTS * 50})
    pyarrow.parquet.write_table(table, "table.parquet")
    pyarrow.feather.write_feather(table, "table.arrow", compression="uncompressed")
    assert run(["convert", "rows.svm", "--out", "table.cache", "-q"]) == 0


def use_estimators(names):
    """Fit estimators from Python, and yield their scores."""
    import numpy as np
    import scipy.sparse as sp

    import thinstream as ts

    rng = np.random.default_rng(0)
    X = (
        sp.random(40, 12, 0.4, format="csr", rng=rng)
        if "rng" in _parameters(sp.random)
        else sp.random(40, 12, 0.4, "csr")
    )
    y = np.where(np.arange(40) % 3, 1, -1)
    for name in names:
        for data in (X, X.toarray(), X.astype(np.float32)):
            for labels in (y, np.arange(40) % 10):
                with contextlib.suppress(ValueError):  # methods for two classes
                    model = ts.make(find(name).name)
                    model.set_params(**{"random_state": 0} if "random_state" in model.get_params() else {})
                    model.fit(data, labels)
                    scores = model.decision_function(data)
                    if hasattr(model, "partial_fit"):
                        model.partial_fit(data, labels)
                    if hasattr(model, "predict_proba"):
                        model.predict_proba(data)
                    if labels is y:
                        model.thin(3, data, labels).predict(data)
                        model.explain(data[:1])
                    yield f"{name} {data.dtype} {len(set(labels))}", scores.tobytes() + model.coef_.tobytes()


def use_tables():
    """Fit estimators on frames and dicts, and yield their scores."""
    import pandas as pd

    import thinstream as ts
    from thinstream.data import Numbering, from_memory

    frame = pd.read_parquet("table.parquet")[:40].drop(columns="label")
    dicts = frame.to_dict("records")
    for name in ("Auto", "AROW"):
        for n_classes in (2, 3, 10):
            labels = [k % n_classes for k in range(40)]
            model = ts.make(name).fit(frame, labels).partial_fit(frame[:1], labels[:1])
            yield f"{name} frame {n_classes}", model.decision_function(frame).tobytes()
            rows = from_memory(list(zip(dicts, labels, strict=True)), hasher=Numbering())
            model = ts.make(name).fit_stream(rows)
            yield f"{name} dicts {n_classes}", repr(list(model.predict_stream(rows))).encode()


def check_rows():
    """Check rows with indices and values of all types, as files, arrays and requests have them."""
    import numpy as np

    from thinstream.batch import Batch

    for starts, indices in ((np.int32, np.int32), (np.int64, np.int32), (np.int64, np.int64)):
        for dtype in (np.float32, np.float64):
            for columns in ([0, 4], [4, 0]):  # the second is sorted
                Batch.of(np.array([0, 2], starts), np.array(columns, indices), np.ones(2, dtype), n_features=5)


def make_errors():
    """Pass rows that cannot be learned, in which errors are found or scales are rolled back."""
    import numpy as np
    import scipy.sparse as sp

    import thinstream as ts

    y = np.array([1, -1, 1])
    for scale in ("max", "rms", "idf"):
        for dtype in ("float32", "float64"):
            model = ts.make("AROW", scale=scale, dtype=dtype).fit(np.eye(3), y)
            huge = np.array([[1.0, 0.0, 2.0], [np.finfo(dtype).max / 2.0] * 3, [0.0, 1.0, 0.0]])
            with contextlib.suppress(ValueError):
                model.partial_fit(sp.csr_matrix(huge), y)
            model = ts.make("Perceptron", scale=scale, dtype=dtype).fit(np.eye(3), y)
            tiny = np.array([[1.0, 0.0, 2.0], [1e-38, 1e-38, 0.0], [0.0, 1.0, 0.0]])
            with contextlib.suppress(ArithmeticError, ValueError):
                model.partial_fit(sp.csr_matrix(tiny), y, sample_weight=np.finfo(dtype).max * np.array([0.5, 0.5, 1.0]))
    with contextlib.suppress(ValueError):
        ts.make("AROW").fit(sp.csr_matrix(np.array([[1.0, np.nan], [0.0, 1.0], [1.0, 1.0]])), y)


def _parameters(function):
    import inspect

    return inspect.signature(function).parameters


def use(names, copies=2000):
    """Run everything, and return a digest of each result."""
    digests = {}
    with folder_of_rows(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with contextlib.redirect_stdout(io.StringIO()):
            write_files(copies)
        for number, (words, codes) in enumerate(command_lines(names)):
            Path("labels").unlink(missing_ok=True)
            out, errors = io.StringIO(), io.StringIO()
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
                code = run(words)
            if code not in codes:
                raise SystemExit(f"thinstream {' '.join(words)} ended with {code}: {errors.getvalue()}")
            if words[0] == "predict" and "labels" in words:
                digests[f"{number} {' '.join(words)}"] = hashlib.sha256(Path("labels").read_bytes()).hexdigest()
        if DEFAULT_LEARNER in names:
            check_rows()
            make_errors()
            for name, scores in use_tables():
                digests[name] = hashlib.sha256(scores).hexdigest()
        for name, scores in use_estimators(names):
            digests[name] = hashlib.sha256(scores).hexdigest()
    return digests


def record(file, names):
    """Write the functions that the runs would compile. Exit if they leave out functions of a module."""
    from thinstream.jit import Compiled
    from thinstream.jit.ahead import rehearse

    with rehearse(ignores_files=True) as rehearsal:
        use(names, copies=20)
    requests = list(rehearsal.requests.values())
    called = {id(request.function) for request in requests}
    modules = [module for name, module in sorted(sys.modules.items()) if name.startswith("thinstream.")]
    missed = {
        id(value): value.title
        for module in modules
        for value in vars(module).values()
        if isinstance(value, Compiled) and id(value) not in called
    }
    if missed and DEFAULT_LEARNER in names:
        raise SystemExit(f"no run calls these functions: {', '.join(missed.values())}")
    Path(file).write_bytes(pickle.dumps(requests))
    print(f"{len(requests)} functions")


def run_shipped(names, baseline=""):
    """Run with shipped code and without numba."""
    from thinstream import jit
    from thinstream.jit import cache

    sys.modules["numba"] = None  # importing it raises
    if baseline:
        cache._usable_baselines = lambda: (baseline,)
    loaded, find_code = [], cache.CodeFile.find

    def find(file):
        code = find_code(file)
        if code is not None:
            loaded.append(file.name)
        return code

    cache.CodeFile.find = find
    digests = use(names, 2000 if baseline else 20)
    compiled = [name for name, _, was_found in jit.specialisations if not was_found]
    print(json.dumps({"loaded": loaded, "compiled": compiled, "results": digests}))


def main():
    """Run what the command line says."""
    task, *words = sys.argv[1:]
    limit = os.environ.get("FRESH_INSTALL_ALGORITHMS")
    names = limit.split(",") if limit else [DEFAULT_LEARNER, *(algorithm.name for algorithm in algorithms())]
    if task == "record":
        record(words[0], names)
    else:
        run_shipped(names, *words)


if __name__ == "__main__":
    main()
