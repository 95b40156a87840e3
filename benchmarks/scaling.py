"""What scale and normalize buy on raw columns: progressive error on covtype, elec2 and mammography.

    python benchmarks/scaling.py

Caveats first. Every learner at its defaults, nothing tuned, one pass in float32; covtype and mammography, whose files
are sorted by class, in a random order (seed 0), elec2 in time. Errors are of each row before it is learned, in percent,
and in parentheses the mean of both classes' errors: mammography has 2.3 % positives. The tables of docs/scaling.md.
"""

import numpy as np

from thinstream.algorithms.registry import find
from thinstream.batch import Batch
from thinstream.datasets import load
from thinstream.models.model import make_learner
from thinstream.models.pipeline import Pipeline
from thinstream.models.preparation import Preparation

SETS = {"covtype": True, "elec2": False, "mammography": True}  # and whether rows are shuffled
LEARNERS = ("arow", "fsol", "adarda", "ftrlproximal", "nag", "pa")
KINDS = {"as they are": (None, None), "max": ("max", None), "rms": ("rms", None), "max, l2": ("max", "l2")}


def main():
    print(__doc__.split("\n\n")[2], "\n")
    for name, shuffled in SETS.items():
        X, y = load(name)
        order = np.random.default_rng(0).permutation(len(y)) if shuffled else np.arange(len(y))
        X, y = X[order].astype(np.float32), y[order]
        batch = Batch.of(X.indptr, X.indices, X.data, X.shape[1], y)
        share = float((y > 0).mean())
        print(f"**{name}**, {len(y):,} rows, {X.shape[1]} features, {100 * share:.3g} % positive\n")
        print(f"| learner | {' | '.join(KINDS)} |\n|---|{'---|' * len(KINDS)}")
        for algorithm in LEARNERS:
            print(
                f"| {find(algorithm).name} | {' | '.join(error(algorithm, kind, batch) for kind in KINDS.values())} |"
            )
        print()


def error(algorithm, kind, batch):
    """Progressive, of all rows and balanced."""
    inner = make_learner(algorithm, n_features=batch.n_features, fit_intercept=True)
    scores = Pipeline.of(inner, Preparation(*kind)).learn(batch)
    positive = batch.y > 0
    wrong = (scores > 0) != positive
    balanced = (wrong[positive].mean() + wrong[~positive].mean()) / 2
    return f"{100 * wrong.mean():.2f} ({100 * balanced:.1f})"


if __name__ == "__main__":
    main()
