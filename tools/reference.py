"""Reference results of every kind of model and file, to be compared after a change that must not change results.

    python -m tools.reference write reference.npz     # before the change
    python -m tools.reference compare reference.npz   # after it

The runs use public names only, so that modules may move between the two commands. Each run is stored as plain arrays:
the scores of each row before its update, the final weights, intercepts and scores, and the counts. A run that is
refused is stored as refused. Bits depend on the processor and on the versions of NumPy and Numba, so compare on the
machine that has written the file.
"""

import argparse
import csv
import json
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

import thinstream as ts
from thinstream.errors import ThinstreamError

Arrays = dict[str, NDArray[Any]]
Run = Callable[[Path], Arrays]

#: Parameters that estimators may have; one that does not have them refuses them.
VARIANTS: list[dict[str, Any]] = [
    {},
    {"dtype": "float64"},
    {"fit_intercept": False},
    {"class_weight": "balanced"},
    {"class_weight": {0: 1.0, 1: 5.0}},
    {"loss": "logistic"},
    {"loss": "squared_hinge"},
    {"covariance": "full"},
    {"diagonal": "drop"},
    {"half_life": 100.0},
    {"scale": "max"},
    {"scale": "rms", "normalize": "l2"},
    {"scale": "idf"},
    {"normalize": "l2"},
    {"max_features": 10},
    {"max_nnz": 5},
    {"calibrate": True},
    {"grow_classes": True},
    {"n_passes": 2, "shuffle": True, "random_state": 0},
]
N_ROWS, N_FEATURES, N_TEST = 300, 24, 40


def rows(n_classes: int) -> tuple[Any, NDArray[np.int64]]:
    """Return sparse rows of which some features decide the class, with values of different sizes."""
    rng = np.random.default_rng(n_classes)
    X = rng.normal(size=(N_ROWS, N_FEATURES)) * (rng.random((N_ROWS, N_FEATURES)) < 0.4)
    X *= 10.0 ** rng.integers(-2, 2, N_FEATURES)
    y = np.argmax(X @ rng.normal(size=(N_FEATURES, n_classes)) + 0.1 * rng.normal(size=(N_ROWS, n_classes)), axis=1)
    return sp.csr_matrix(X), y


def counts_of(model: Any) -> NDArray[np.float64]:
    """Return what a fitted model has counted."""
    names = ("t_", "n_mistakes_", "n_updates_", "nnz_", "threshold_", "n_features_in_")
    return np.array([float(np.sum(getattr(model, name, -1))) for name in names])


def learned(model: Any, X: Any, y: NDArray[Any]) -> Arrays:
    """Learn in chunks and return what the model is then, also after it was saved, loaded and resumed."""
    half = len(y) // 2
    progressive = []
    for part in (slice(0, 7), slice(7, half)):
        progressive.append(model.learn(X[part], y[part], classes=None if part.start else np.unique(y)))
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder) / "model.ts")
        model = ts.load(Path(folder) / "model.ts")
    progressive.append(model.learn(X[half:], y[half:]))
    return {"progressive": np.concatenate(progressive)} | state_of(model, X)


def fitted(model: Any, X: Any, y: NDArray[Any]) -> Arrays:
    """Fit as a whole, for models that take many rows at once or read them several times."""
    return state_of(model.fit(X, y), X)


def exact_weights(model: Any) -> Any:
    """Return all weights: those of Auto for each kind of rows, one after another."""
    return model.raw_coef_ if hasattr(model, "raw_coef_") else getattr(model, "coef_", None)


def state_of(model: Any, X: Any) -> Arrays:
    """Return the weights of a fitted model, its scores and counts."""
    state = {"scores": model.decision_function(X[:N_TEST]), "counts": counts_of(model)}
    for name in ("coef_", "intercept_", "variance_"):
        value = exact_weights(model) if name == "coef_" else getattr(model, name, None)
        if value is not None:
            state[name] = value.toarray() if sp.issparse(value) else np.asarray(value)
    if hasattr(model, "predict_proba"):
        state["probabilities"] = model.predict_proba(X[:N_TEST])
    return state


def of_estimators() -> Iterator[tuple[str, Run]]:
    """Every algorithm and Auto with every variant, binary and multiclass."""
    for name in ["Auto", *(algorithm.name for algorithm in ts.algorithms())]:
        for variant in VARIANTS:
            for n_classes in (2, 3):
                if n_classes == 3 and isinstance(variant.get("class_weight"), dict):
                    continue

                def run(folder: Path, name: str = name, variant: Any = variant, n_classes: int = n_classes) -> Arrays:
                    X, y = rows(n_classes)
                    model = ts.make(name, **variant)
                    if "random_state" in model.get_params():
                        model.set_params(random_state=0)  # SCD draws coordinates
                    whole = "n_passes" in variant or not hasattr(model, "learn")
                    return (fitted if whole else learned)(model, X, y)

                yield f"{name} {json.dumps(variant)} {n_classes} classes", run


def table(folder: Path) -> dict[str, Path]:
    """Write one table in every format, and return the paths."""
    rng = np.random.default_rng(5)
    words = ["free", "offer", "lunch", "friday", "phone", "bill", "meeting", "win", "cash", "report"]
    records = [
        {
            "label": "spam" if rng.random() < 0.4 else "ham",
            "subject": " ".join(rng.choice(words, 3)),
            "city": str(rng.choice(["Oslo", "Rome", ""])),
            "size": round(float(rng.normal()), 3),
            "day": f"2024-0{rng.integers(1, 10)}-{rng.integers(10, 29)}",
        }
        for _ in range(200)
    ]
    paths = {kind: folder / f"table.{kind}" for kind in ("csv", "tsv", "jsonl", "vw", "svm", "parquet", "arrow")}
    for kind, delimiter in (("csv", ","), ("tsv", "\t")):
        with paths[kind].open("w", newline="") as file:
            writer = csv.DictWriter(file, records[0].keys(), delimiter=delimiter)
            writer.writeheader()
            writer.writerows(records)
    paths["jsonl"].write_text("".join(json.dumps(record) + "\n" for record in records))
    paths["vw"].write_text(
        "".join(f"{1 if r['label'] == 'spam' else -1} |subject {r['subject']} |n size:{r['size']}\n" for r in records)
    )
    X, y = rows(2)
    lines = []
    for row, label in zip(X, y, strict=True):
        lines.append(" ".join([str(label), *(f"{j + 1}:{x:.6g}" for j, x in zip(row.indices, row.data, strict=True))]))
    paths["svm"].write_text("\n".join(lines) + "\n")
    import pyarrow as pa
    import pyarrow.feather as feather
    import pyarrow.parquet as pq

    columns = pa.Table.from_pylist(records)
    pq.write_table(columns, paths["parquet"], row_group_size=60)
    feather.write_feather(columns, str(paths["arrow"]))
    return paths


def of_formats() -> Iterator[tuple[str, Run]]:
    """Every file format with several learners and ways to read it."""
    ways: dict[str, list[dict[str, Any]]] = {
        "csv": [{}, {"bits": 10}, {"text": ("subject",)}, {"cross": (("city", "subject"),)}, {"missing": "ignore"}],
        "vw": [{}, {"bits": 10}],
        "svm": [{}, {"classes": (0, 1)}],
    }
    for kind in ("tsv", "jsonl", "parquet", "arrow"):
        ways[kind] = ways["csv"]
    for kind, options in ways.items():
        for option in options:
            for name in ("AROW", "SSOL", "Auto"):

                def run(folder: Path, kind: str = kind, option: Any = option, name: str = name) -> Arrays:
                    path = table(folder)[kind]
                    model = ts.make(name)
                    model.fit_stream(ts.open_stream(path, **option))
                    weights = exact_weights(model)
                    weights = weights.toarray() if sp.issparse(weights) else np.asarray(weights)
                    where = np.flatnonzero(weights)
                    again = ts.open_stream(path, **option)
                    scores = np.concatenate([np.ravel(scores) for _, scores in _scored(model, again)])
                    return {
                        "where": where,
                        "weights": weights.ravel()[where],
                        "scores": scores,
                        "counts": counts_of(model),
                    }

                yield f"{kind} {json.dumps(option)} {name}", run


def _scored(model: Any, stream: Any) -> Iterator[tuple[Any, NDArray[Any]]]:
    for batch in stream.batches():
        X = sp.csr_matrix((batch.values, batch.indices, batch.indptr), shape=(len(batch), model.n_features_in_))
        yield batch, model.decision_function(X)


def outcome_of(run: Run) -> Arrays:
    """Return the arrays of a run, or its refusal."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return run(Path(folder))
        except (ThinstreamError, TypeError, ValueError, AttributeError):
            return {"refused": np.array([1])}


def all_runs() -> Iterator[tuple[str, Run]]:
    """Return all runs by name."""
    yield from of_estimators()
    yield from of_formats()


def is_same(one: Arrays, other: Arrays) -> bool:
    """Return whether two runs have the same arrays, bit for bit."""
    return one.keys() == other.keys() and all(
        one[key].shape == other[key].shape and one[key].tobytes() == other[key].tobytes() for key in one
    )


def main(arguments: list[str] | None = None) -> int:
    """Write the reference, or compare with it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("write", "compare"))
    parser.add_argument("path", type=Path)
    parser.add_argument("--only", default="", help="only runs whose name contains this text")
    given = parser.parse_args(arguments)
    runs = [(name, run) for name, run in all_runs() if given.only in name]
    results: dict[str, Arrays] = {}
    for k, (name, run) in enumerate(runs, 1):
        results[name] = outcome_of(run)
        if sys.stderr.isatty():
            print(f"\r{k} of {len(runs)} runs", end="", file=sys.stderr)
    if given.command == "write":
        np.savez_compressed(
            given.path, **{f"{name}|{key}": a for name, each in results.items() for key, a in each.items()}
        )
        refused = sum("refused" in each for each in results.values())
        print(f"{len(results)} runs in {given.path}, {refused} of them refused")
        return 0
    known: dict[str, Arrays] = {}
    with np.load(given.path) as file:
        for name in file.files:
            run_name, _, key = name.rpartition("|")
            known.setdefault(run_name, {})[key] = file[name]
    differ = [name for name, each in results.items() if name not in known or not is_same(each, known[name])]
    differ += [name for name in known if name not in results and given.only in name]
    print(f"{len(results) - len(differ)} of {len(results)} runs agree with {given.path}")
    for name in differ:
        print(f"differs: {name}")
    return int(bool(differ))


if __name__ == "__main__":
    sys.exit(main())
