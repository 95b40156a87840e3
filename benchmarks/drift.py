"""Auto on two streams that change, beside AROW that forgets: the numbers of docs/auto.md.

    python benchmarks/drift.py

Caveats first. Generated, one seed: 9,000 rows each, the change after 4,000. *Others*: 20 normal features, the sum of
the first ten decides and then that of the others. *Turned*: 8 uniform features, a sum of alternating signs decides,
then its opposite, one label in ten a slip (as in docs/recipes/drift.md). Rows called wrong before they were learned.
"""

import numpy as np

import thinstream as ts

ROWS, CHANGE = 9000, 4000
HALF_LIVES = (None, 30, 100, 300, 1000)


def main():
    for name, stream in (("others", others()), ("turned", turned())):
        print(f"{name}: Auto {wrong(ts.Auto(), *stream):,}")
        for half_life in HALF_LIVES:
            print(f"  AROW, half-life {half_life}: {wrong(ts.AROW(half_life=half_life), *stream):,}")


def others():
    X = np.random.default_rng(0).normal(size=(ROWS, 20)).astype(np.float32)
    late = np.arange(ROWS) >= CHANGE
    return X, np.where(late, X[:, 10:].sum(axis=1), X[:, :10].sum(axis=1)) > 0


def turned():
    rng = np.random.default_rng(2)
    X = (rng.random((ROWS, 8)) - 0.5).astype(np.float32)
    sign = X @ np.where(np.arange(8) % 2, -1.0, 1.0) > 0
    return X, sign ^ (np.arange(ROWS) >= CHANGE) ^ (rng.random(ROWS) < 0.1)


def wrong(model, X, y):
    return model.fit(X, y).n_mistakes_


if __name__ == "__main__":
    main()
