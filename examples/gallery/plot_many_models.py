"""
Two hundred models in one pass
==============================

A grid of 42 settings, each in five folds: 210 models that learn side by side while each row is read once, every one
with the bits of a run of its own.
"""

# %%
# The grid
# --------
#
# `OnlineGridSearchCV` is used as scikit-learn's `GridSearchCV` is. Row i is held out from the models of fold i mod 5
# and scored as it passes.

import time

import matplotlib.pyplot as plt
import numpy as np

import thinstream as ts
from thinstream.datasets import zipf_text

X, y = zipf_text(12_000, 5_000, noise=0.05)
grid = {"eta": [2.0**e for e in range(-5, 2)], "l1": [0.0, *(10.0**e for e in range(-2, 3))]}
ts.FSOL().fit(X[:100], y[:100])  # compiled, before the clock is looked at

start = time.perf_counter()
alone = ts.FSOL(eta=0.25).fit(X[:10_000], y[:10_000])
single = time.perf_counter() - start
search = ts.OnlineGridSearchCV(ts.FSOL(), grid, cv=5).fit(X[:10_000], y[:10_000])
start = time.perf_counter()
search = search.fit(X[:10_000], y[:10_000])
many = time.perf_counter() - start
print(f"one model: {1000 * single:.0f} ms; 210 models and the best one again: {1000 * many:.0f} ms")
print(f"best: {search.best_params_}, right on {search.score(X[10_000:], y[10_000:]):.1%} of new rows")

# %%
# The landscape
# -------------
#
# Errors on held-out rows. The star is the pick; too large a threshold empties the model, and how large that is
# depends on the rate.

errors = 100 * (1 - np.array(search.cv_results_["mean_test_score"]).reshape(len(grid["eta"]), len(grid["l1"])))
figure, place = plt.subplots(figsize=(7, 4.2), layout="constrained")
shown = place.imshow(errors, cmap="viridis_r", aspect="auto")
for (i, j), error in np.ndenumerate(errors):
    place.text(
        j, i, f"{error:.1f}", ha="center", va="center", color="white" if error > errors.mean() else "black", fontsize=8
    )
i, j = np.unravel_index(search.best_index_, errors.shape)
place.plot(j - 0.32, i, marker="*", color="tab:orange", markersize=14)
place.set_xticks(range(len(grid["l1"])), [f"{value:g}" for value in grid["l1"]])
place.set_yticks(range(len(grid["eta"])), [f"{value:g}" for value in grid["eta"]])
place.set(xlabel="l1", ylabel="eta")
figure.colorbar(shown, label="error, %")
plt.show()
