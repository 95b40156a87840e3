"""The golden table of the batch twins on one fixed stream. ``python -m tests.algorithms.batch.golden`` rewrites it."""

from pathlib import Path

import numpy as np

from tests.algorithms.batch.naive import naive_grades, naive_scd
from tests.algorithms.batch.twins import NaiveBCW, NaiveFGM, NaiveSBCW, NaiveSparDCA, run
from tests.algorithms.online.golden import write

TABLE = Path(__file__).with_name("golden.json")
GROUPS = {"r": 3, "n_groups": 4}
#: Name → estimator, its parameters; twin, its parameters.
CASES = {
    "BCW hinge": ("BCW", {"batch_size": 60}, NaiveBCW, {}),
    "BCW squared_hinge": (
        "BCW",
        {"batch_size": 30, "loss": "squared_hinge", "C": 0.5},
        NaiveBCW,
        {"loss_name": "squared_hinge", "C": 0.5},
    ),
    "SBCW hinge": ("SBCW", {"batch_size": 100, "group_size": 3, "n_groups": 4}, NaiveSBCW, GROUPS),
    "SBCW squared_hinge": (
        "SBCW",
        {"batch_size": 50, "group_size": 3, "n_groups": 4, "loss": "squared_hinge", "sigma": 0.5},
        NaiveSBCW,
        {**GROUPS, "loss_name": "squared_hinge", "sigma": 0.5},
    ),
    "FGM": ("FGM", {"group_size": 3, "n_groups": 4}, NaiveFGM, GROUPS),
    "SparDCA hinge": ("SparDCA", {"l1": 0.5}, NaiveSparDCA, {"l1": 0.5}),
    "SparDCA squared_hinge": (
        "SparDCA",
        {"l1": 0.5, "loss": "squared_hinge"},
        NaiveSparDCA,
        {"l1": 0.5, "loss_name": "squared_hinge"},
    ),
    "SCD": ("SCD", {"l1": 0.01, "coordinates": [*range(40)] * 3}, naive_scd, {"l1": 0.01, "beta": 0.25}),
    "GraDes": ("GraDes", {"gamma": 150.0, "n_nonzero": 9}, naive_grades, {"gamma": 150.0, "s": 9, "n_iter": 10}),
}


def stream():
    """200 rows of 40 features, a third of them there, of a noisy linear rule."""
    rng = np.random.default_rng(2025)
    X = rng.normal(size=(200, 40)) * (rng.random((200, 40)) < 0.33)
    return X, np.where(X[:, :8].sum(axis=1) + 0.5 * rng.normal(size=200) > 0.3, 1.0, -1.0)


def numbers(w, t, mistakes, loss):
    """What is written down of a run."""
    where = np.flatnonzero(w)
    found = {"t": t, "mistakes": mistakes, "loss": loss, "nnz": len(where), "weights": np.abs(w).sum()}
    return {name: float(value) for name, value in {**found, "place": (w[where] * (where + 1)).sum()}.items()}


def twin_row(case):
    """The row of a twin."""
    _, parameters, twin, own = CASES[case]
    X, y = stream()
    if twin is naive_scd:
        w = naive_scd(X, y, parameters["coordinates"], **own)
        return without_rounds(X, y, w, np.logaddexp(0.0, -y * (X @ w)).sum())
    if twin is naive_grades:
        w, potentials, _ = naive_grades(X, y, **own)
        return without_rounds(X, y, w, potentials[-1])
    size = parameters.get("batch_size", len(y))
    naive = run(twin(X.shape[1], **own), [(X[i : i + size], y[i : i + size], None) for i in range(0, len(y), size)])
    if twin is NaiveFGM:
        return without_rounds(X, y, naive.w, 0.5 * (np.maximum(0.0, 1.0 - y * (X @ naive.w)) ** 2).sum())
    return numbers(naive.w, naive.t, int(naive.mistakes), naive.loss)


def without_rounds(X, y, w, loss):
    """The numbers of a method whose rows have no turns: of the final weights."""
    return numbers(w, len(y), int((np.where(X @ w > 0, 1, -1) != y).sum()), loss)


if __name__ == "__main__":
    write(TABLE, {case: twin_row(case) for case in CASES})
