"""
From dense to empty in one pass
===============================

How few weights are enough? A sparsity path has twenty models of one algorithm learn side by side, each with another
l1, and takes the thinnest that is no worse than the best by more than its standard error.
"""

# %%
# A thousand features, a hundred of which matter
# ----------------------------------------------
#
# The synthetic stream of paper P0: each row has the informative features and 200 others, of noise ten times as large.

import matplotlib.pyplot as plt
import numpy as np

import thinstream as ts
from thinstream.datasets import sparse_gaussian

train, test = sparse_gaussian(20_000, 5_000)
path = ts.SparsityPath(ts.FSOL()).fit(train.X, train.y)
table, best = path.path_, path.best_index_
error = 1 - path.score(test.X, test.y)
print(f"l1 = {table['l1'][best]:.3g}: {table['nnz'][best]} weights, wrong on {error:.2%} of new rows")

# %%
# Every row of the table is a model
# ---------------------------------
#
# Errors are of rows held out from each model's twin, with their standard error. To the left of the pick weights are
# noise that was learned; to the right of it what mattered is missing.

figure, place = plt.subplots(figsize=(7, 4), layout="constrained")
errors = 100 * table["held_out_error"]
place.errorbar(table["nnz"], errors, 100 * table["held_out_error_se"], marker="o", capsize=3, label="held-out rows")
place.axvline(table["nnz"][best], color="tab:orange", ls="--", label=f"picked: {table['nnz'][best]} weights")
place.axvline(100, color="grey", ls=":", label="informative features")
place.set(xscale="symlog", xlabel="non-zero weights", ylabel="error, %", xlim=(0, 1200), ylim=(0, None))
place.legend()
plt.show()

# %%
# Which weights stay
# ------------------
#
# The first hundred columns are the informative ones. Each line of the picture is a model, from dense at the top to
# empty at the bottom.

weights = np.array([model.coef_.ravel() for model in path.models_])
figure, place = plt.subplots(figsize=(7, 3.6), layout="constrained")
shown = place.imshow(weights != 0, aspect="auto", cmap="Blues", interpolation="nearest", vmax=1.6)
place.axhline(best, color="tab:orange", lw=2)
place.axvline(100, color="grey", ls=":")
place.set(xlabel="feature", ylabel="model", yticks=[0, best, len(weights) - 1], title="weights that are not zero")
plt.show()

# sphinx_gallery_thumbnail_number = 1
