"""The golden table of the batch twins on one fixed stream. ``python -m tests.batch.golden`` rewrites it."""

import json
from pathlib import Path

import numpy as np

from tests.batch.twins import NaiveBCW, NaiveFGM, NaiveSBCW, NaiveSparDCA, run

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
    size = parameters.get("batch_size", len(y))
    naive = run(twin(X.shape[1], **own), [(X[i : i + size], y[i : i + size], None) for i in range(0, len(y), size)])
    if twin is NaiveFGM:  # it has no rounds
        scores = X @ naive.w
        xi = np.maximum(0.0, 1.0 - y * scores)
        return numbers(naive.w, len(y), int((np.where(scores > 0, 1, -1) != y).sum()), 0.5 * (xi**2).sum())
    return numbers(naive.w, naive.t, int(naive.mistakes), naive.loss)


if __name__ == "__main__":
    TABLE.write_text(json.dumps({case: twin_row(case) for case in CASES}, indent=1) + "\n")
