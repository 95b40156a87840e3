"""Seventy-seven settings with five folds each, 385 models, in one pass over the news: Reuters-21578, acquisitions.

    python examples/one_pass_tuning.py [--rows N] [--out one_pass_tuning.png]

`OnlineGridSearchCV` holds every candidate and fold as a lane: a row is read once and all models look at it. The map of
cross-validated errors is drawn beside the map of test errors, which the search never saw.
"""

import time

import numpy as np
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from story import load_unit_rows, real_or_made_up, tell

import thinstream as ts
from thinstream.datasets import zipf_text

ETA = [2.0**e for e in range(-4, 3)]
R = [2.0**e for e in range(-5, 6)]


def main(rows, out):
    """Searches, tests every candidate, and draws both maps."""
    (X, y), test = real_or_made_up(articles, made_up)
    X, y = X[:rows], y[:rows]
    estimator = ts.SSOL(l1=20.0, update_on="loss", fit_intercept=False)
    start = time.perf_counter()
    search = ts.OnlineGridSearchCV(estimator, {"eta": ETA, "r": R}, cv=5).fit(X, y)
    seconds = time.perf_counter() - start
    start = time.perf_counter()
    errors = np.array([1 - estimator.set_params(**one).fit(X, y).score(*test) for one in search.cv_results_["params"]])
    alone = time.perf_counter() - start

    best = search.best_estimator_
    print(f"{len(errors)} candidates × 5 folds on {len(y):,} articles: {seconds:.1f} s (compiling included)")
    print(f"fitting and testing the {len(errors)} candidates once each, without folds: {alone:.1f} s")
    print(f"picked {search.best_params_}: cross-validated error {1 - search.best_score_:.2%}")
    print(f"test error {1 - best.score(*test):.2%} with {best.nnz_:,} of {X.shape[1]:,} weights")
    print(f"(the best test error of any candidate is {errors.min():.2%}, the worst {errors.max():.2%})")
    draw(1 - search.cv_results_["mean_test_score"], errors, search.best_index_, out)


def articles():
    """Load the training articles, in random order, and the test articles."""
    X, y = load_unit_rows("reuters21578-acq", "train")
    order = np.random.default_rng(0).permutation(len(y))
    return (X[order], y[order]), load_unit_rows("reuters21578-acq", "test")


def made_up():
    """Generate training and test articles of a made-up language."""
    X, y = zipf_text(8000, 10_000)
    return (X[:6000], y[:6000]), (X[6000:], y[6000:])


def draw(validated, errors, best, path):
    """Two maps over η and r, the pick marked on both."""
    figure = Figure(figsize=(10, 3.8), layout="constrained")
    axes = figure.subplots(1, 2)
    scale = LogNorm(100 * min(validated.min(), errors.min()), 100 * max(validated.max(), errors.max()))
    for axis, values, title in zip(axes, (validated, errors), ("cross-validation, one pass", "test"), strict=True):
        image = axis.imshow(
            100 * values.reshape(len(ETA), len(R)), origin="lower", norm=scale, cmap="viridis_r", aspect="auto"
        )
        axis.plot(best % len(R), best // len(R), "o", ms=14, mfc="none", mec="C3", mew=2)
        axis.set(title=f"error (%), {title}", xlabel="log₂ r", ylabel="log₂ η")
        axis.set_xticks(range(len(R)), labels=[f"{np.log2(r):.0f}" for r in R])
        axis.set_yticks(range(len(ETA)), labels=[f"{np.log2(eta):.0f}" for eta in ETA])
    figure.colorbar(image, ax=axes)
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    tell(main, __doc__, "one_pass_tuning.png")
