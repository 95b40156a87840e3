"""P1, Table 2: batch and online confidence-weighted learning, error and time."""

import math
import time
import warnings
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from papers.data import joined, parts, scaled
from papers.experiment import Cell, Claim, Compared, Experiment, Row, markdown
from papers.places import asked_device
from papers.presenting import distinct, grouped, legend, panels_for, pick, plus_minus, published

DECADES = [1e-2, 1e-1, 1.0, 1e1, 1e2]
#: Full-covariance method → its estimator, what is not tuned, what is.
FULL: dict[str, tuple[str, dict[str, Any], dict[str, list[float]]]] = {
    "AROW": ("AROW", {}, {"r": DECADES}),
    "CW": ("CW", {}, {"phi": [0.1257, 0.3853, 0.6745, 1.0364, 1.6449]}),  # Φ⁻¹ of 0.55 … 0.95
    "NAROW": ("NAROW", {}, {"b": [2.0, 8.0, 32.0, 128.0, 512.0]}),
    "SCW": ("SCW", {"variant": "I"}, {"C": DECADES}),
    "SCW2": ("SCW", {"variant": "II"}, {"C": DECADES}),
    "SOP": ("SOP", {}, {"a": DECADES}),
    "CW in LIBOL": ("CW", {"form": "stdev"}, {"phi": [0.1257, 0.3853, 0.6745, 1.0364, 1.6449]}),
}
FIRST_ORDER: dict[str, tuple[str, dict[str, Any], dict[str, list[float]]]] = {
    "PA": ("PA", {}, {"C": DECADES}),
    "PA in LIBOL": ("PA", {"variant": "PA"}, {}),
}
#: Method → the variant that the LIBOL toolbox, which the authors used, has under this name.
LIBOL = {"CW": "CW in LIBOL", "PA": "PA in LIBOL"}
BATCH = {"BCW-L1": "hinge", "BCW-L2": "squared_hinge"}
METHODS = ("AROW", "CW", "NAROW", "SCW", "SCW2", "SOP", "PA", "DCD", *BATCH)
HUES = ("blue", "orange", "green", "brown", "pink", "gray", "olive", "purple", "red", "cyan")
COLOURS = {name: f"tab:{hue}" for name, hue in zip(METHODS, HUES, strict=True)}
FOLDS = 5
WIDE = 100  # features from which full matrices are not tuned: it would take an hour
FIRST = 1_000  # rows there are in the first megabyte, and more


class Size(NamedTuple):
    """How much of a set is taken."""

    learn: int
    test: int
    tune: int  # rows of the five folds
    orders: int  # random orders
    full_orders: int  # of the methods that keep a full matrix


#: Set → its size, the methods, and what it is called in the paper's table.
SETS: dict[str, tuple[Size, tuple[str, ...]]] = {
    "covtype": (Size(450_000, 131_012, 5_000, 5, 2), (*METHODS, *LIBOL.values())),
    "epsilon-like 3k": (Size(3_000, 10_000, 3_000, 3, 1), METHODS),
    "epsilon-like 20k": (Size(20_000, 10_000, 3_000, 1, 1), ("PA", "DCD", *BATCH)),
}
SMOKE: dict[str, tuple[Size, tuple[str, ...]]] = {
    "covtype": (Size(300, 200, 50, 1, 1), ("PA", "DCD", "BCW-L1")),
    "epsilon-like 3k": (Size(60, 50, 30, 1, 1), ("AROW", "BCW-L1")),
}


class Sample(NamedTuple):
    """Dense rows."""

    X: NDArray[np.float64]
    y: NDArray[np.int8]


@lru_cache(maxsize=1)
def draw_rows(name: str, learn: int, test: int) -> tuple[Sample, Sample]:
    """Rows to learn from and to test with."""
    few = learn + test < FIRST
    X, y = scaled_covtype(few) if name == "covtype" else epsilon_like(learn + test)
    order = np.random.default_rng(0).permutation(len(y))
    first, second = order[:learn], order[learn : learn + test]
    return Sample(X[first], y[first]), Sample(X[second], y[second])


@lru_cache(maxsize=1)
def scaled_covtype(few: bool = False) -> Sample:
    """Every column from 0 to 1, as LIBSVM scales it; of the first rows only where few are needed."""
    data = joined(parts("covtype", normalise=False, rows=FIRST if few else None))
    return Sample(scaled(data.X.toarray()), data.y)


def epsilon_like(n: int, d: int = 2_000) -> Sample:
    """A few common factors under noise, rows of length 1, labels of a noisy linear rule."""
    rng = np.random.default_rng(0)
    mixing, plane = rng.standard_normal((20, d)) / 3.0, rng.standard_normal(d)
    X = rng.standard_normal((n, 20)) @ mixing
    X += rng.standard_normal((n, d), dtype=np.float32)
    X /= np.sqrt(np.einsum("ij,ij->i", X, X))[:, np.newaxis]
    scores = X @ plane
    return Sample(X, np.where(scores + 0.3 * scores.std() * rng.standard_normal(n) > 0, 1, -1).astype(np.int8))


def chosen(method: str, train: Sample) -> tuple[Any, str]:
    """An estimator with the parameters that are best in five folds, not fitted, and what was chosen."""
    from sklearn.model_selection import GridSearchCV
    from sklearn.svm import LinearSVC

    import thinstream as ts

    grid: dict[str, list[float]] = {"C": DECADES}
    common: dict[str, Any] = {"fit_intercept": False, "dtype": "float64"}
    if method in FULL or method in FIRST_ORDER:
        name, fixed, grid = (FULL | FIRST_ORDER)[method]
        model = getattr(ts, name)(**({"covariance": "full"} if method in FULL else {}), **common, **fixed)
        if method in FULL and train.X.shape[1] > WIDE:
            return model, "default"
        if not grid:
            return model, "nothing to choose"
        search = ts.OnlineGridSearchCV(model, grid, cv=FOLDS, refit=False, device=asked_device())
    else:
        batch: Any = BATCH.get(method)
        model = ts.BCW(loss=batch, **common) if batch else LinearSVC(loss="hinge", fit_intercept=False)
        search = GridSearchCV(model, grid, cv=FOLDS, refit=False)
    best = search.fit(train.X, train.y).best_params_
    return model.set_params(**best), told(best)


def told(parameters: dict[str, Any]) -> str:
    """Parameters in words.

    >>> told({"C": 0.1})
    'C = 0.1'
    """
    return ", ".join(f"{name} = {value:g}" for name, value in parameters.items())


def measure(name: str, method: str, size: Size) -> list[Row]:
    """A row for each random order: test error in %, seconds of the processor to learn."""
    from sklearn.base import clone
    from sklearn.exceptions import ConvergenceWarning

    warnings.simplefilter("ignore", ConvergenceWarning)  # liblinear stops after its 1,000 rounds
    train, test = draw_rows(name, size.learn, size.test)
    model, parameters = chosen(method, Sample(train.X[: size.tune], train.y[: size.tune]))
    clone(model).fit(train.X[:50], train.y[:50])  # compiles
    dense = method in BATCH or method == "DCD"
    rows = []
    for seed in range(1 if method == "DCD" else size.full_orders if method in FULL else size.orders):
        order = np.random.default_rng(seed).permutation(len(train.y))
        X, y = train.X[order], train.y[order]
        given = X if dense else sp.csr_matrix(X)
        start = time.process_time()
        model = clone(model).fit(given, y)
        seconds = time.process_time() - start
        error = 100.0 * (1.0 - model.score(test.X, test.y))
        rows.append({"set": name, "method": method, "order": seed, "error": error, "seconds": seconds})
        rows[-1] |= {"parameters": parameters, "learned": len(y), "tested": len(test.y)}
    return rows


def cells(smoke: bool) -> list[Cell]:
    """One for each set and method."""
    return [
        Cell(
            f"{name} {method}{', default' * (name != 'covtype' and method in FULL)}",
            measure,
            (name, method, size),
            ("covtype",) if name == "covtype" else (),
        )
        for name, (size, methods) in (SMOKE if smoke else SETS).items()
        for method in methods
    ]


def means(rows: Sequence[Row]) -> dict[tuple[str, str], tuple[float, float, float]]:
    """(set, method) → mean and deviation of the error, mean seconds."""
    return {
        (name, method): (
            float(np.mean([row["error"] for row in own])),
            float(np.std([row["error"] for row in own])) if len(own) > 1 else math.nan,
            float(np.mean([row["seconds"] for row in own])),
        )
        for (name, method), own in grouped(rows, "set", "method").items()
    }


def tables(rows: Sequence[Row]) -> Iterator[str]:
    """A table for each set."""
    paper, found = published("p1-table2"), means(rows)
    for name in distinct(rows, "set"):
        own = pick(rows, set=name)
        lines = []
        for method in (method for method in METHODS if (name, method) in found):
            error, spread, seconds = found[name, method]
            first = next(row for row in own if row["method"] == method)
            theirs = [paper.get((name, method, measure)) for measure in ("error", "seconds")]
            line = [method, plus_minus((error, spread)), f"{seconds:.2f}"]
            if name == "covtype":
                libol = found.get((name, LIBOL.get(method, "")))
                line += [plus_minus(libol and libol[:2])]
                line += ["–" if one is None else f"{one.value:.2f}" for one in theirs]
            lines.append([*line, str(first["parameters"])])
        papers = ["LIBOL's variant", "paper's error", "seconds"] if name == "covtype" else []
        head = ["method", "error in %", "seconds", *papers]
        size = f"{own[0]['learned']:,} rows to learn from, {own[0]['tested']:,} to test"
        yield f"**{name}**: {size}\n\n{markdown([*head, 'chosen'], lines)}"


def draw(rows: Sequence[Row], figure: Any) -> None:
    """Error against time, a panel for each set."""
    found = means(rows)
    sets = distinct(rows, "set")
    for panel, name in panels_for(figure, sets, len(sets), 4.4, 4.4, 0.0):
        for method in (method for method in METHODS if (name, method) in found):
            error, _, seconds = found[name, method]
            marker = "*" if method in BATCH else "o" if method in FULL else "s"
            panel.plot(
                max(seconds, 1e-3), error, marker, ms=12 if marker == "*" else 8, color=COLOURS[method], label=method
            )
        panel.set(title=name, xscale="log", xlabel="seconds to learn", ylabel="test error (%)")
    legend(figure, figure.axes[:1], 5)


def claims(rows: Sequence[Row]) -> list[Claim]:
    """Check the statements below the table on every dataset."""
    found, sets = means(rows), distinct(rows, "set")
    good: dict[str, list[bool]] = {"error": [], "second": [], "dcd": []}
    said: dict[str, list[str]] = {"error": [], "second": [], "dcd": []}
    for name in sets:
        own = {method: found[name, method] for method in METHODS if (name, method) in found}
        batch, others = [own[m] for m in own if m in BATCH], {m: own[m] for m in own if m not in BATCH}
        error, seconds, slowest = min(b[0] for b in batch), max(b[2] for b in batch), min(b[2] for b in batch)
        best = min(others, key=lambda m: others[m][0])
        good["error"].append(error <= others[best][0] + 0.5)
        said["error"].append(f"{name} {error:.2f} %, {best} {others[best][0]:.2f} %")
        second = [others[m][2] for m in others if m in FULL]
        if second:
            good["second"].append(seconds * 5 <= min(second))
            said["second"].append(
                f"{name} {slowest:.2f} to {seconds:.2f} s, the others {min(second):.1f} to {max(second):.1f} s"
            )
        if "DCD" in own:
            good["dcd"].append(seconds < own["DCD"][2])
            said["dcd"].append(f"{name} {seconds:.2f} s, DCD {own['DCD'][2]:.2f} s")
    texts = {
        "error": "BCW's error is comparable to the best other's, or lower (half a point is allowed here)",
        "second": "BCW is much faster (here: five times) than every second-order method that learns row by row",
        "dcd": "BCW is faster than DCD (liblinear)",
    }
    return [Claim(text, all(good[key]), "; ".join(said[key])) for key, text in texts.items() if said[key]]


def compare(rows: Sequence[Row]) -> list[Compared]:
    """Compare the errors on covtype, in our variants and in those of LIBOL. Generated data have nothing to compare."""
    paper, found = published("p1-table2"), means(rows)
    compared = []
    for method in (method for method in METHODS if ("covtype", method) in found):
        error, spread, _ = found["covtype", method]
        published_error = paper["covtype", method, "error"]
        reading = found.get(("covtype", LIBOL.get(method, "")), (math.nan,))[0]
        near = abs(reading - published_error.value) <= published_error.spread
        why = "LIBOL's variant is within the paper's standard deviation" if near else ""
        compared.append(Compared(f"covtype, {method}, error in %", error, spread, published_error.value, why, reading))
    return compared


EXPERIMENT = Experiment.of(__name__, "p1-table2")
