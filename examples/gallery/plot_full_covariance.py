"""
Which features go together
==========================

A diagonal covariance knows how sure a learner is of each weight. The full matrix also knows which weights hang
together: if two features always come at the same time, only the sum of their weights is known.
"""

# %%
# Features in groups
# ------------------
#
# Thirty features in ten groups of three; within a group they rise and fall together, the first group most.

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import thinstream as ts
from thinstream.models.file import read

rng = np.random.default_rng(1)
groups, size, rows = 10, 3, 3_000
tied = np.linspace(0.97, 0.1, groups)
shared = np.repeat(rng.normal(size=(rows, groups)) * tied, size, axis=1)
X = (shared + rng.normal(size=(rows, groups * size)) * np.repeat(np.sqrt(1 - tied**2), size)).astype(np.float32)
y = np.where(X @ rng.normal(size=groups * size) + rng.normal(size=rows) > 0, 1, -1)

diagonal = ts.AROW().fit(X[:2_000], y[:2_000])
full = ts.AROW(covariance="full", fit_intercept=False).fit(X[:2_000], y[:2_000])
for name, model in {"diagonal": diagonal, "full": full}.items():
    print(f"{name}: {1 - model.score(X[2_000:], y[2_000:]):.1%} wrong on new rows")

# %%
# The belief, as a picture
# ------------------------
#
# The model file has the whole matrix. As correlations of weights it shows blue squares: within a group weights trade
# off against each other, since only their sum is known.

file = Path(tempfile.mkdtemp()) / "full.ts"
full.save(file)
sigma = read(file).learner.outputs.one.sigma
covariance = np.array([sigma.column(j) for j in range(sigma.d)])
deviation = np.sqrt(np.diag(covariance))
correlation = covariance / np.outer(deviation, deviation)
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4.2), layout="constrained")
for place, matrix, title in (
    (left, np.corrcoef(X.T), "features"),
    (right, correlation, "what AROW believes of weights"),
):
    shown = place.imshow(matrix, cmap="RdBu_r", vmin=-1, vmax=1)
    place.set(title=title, xticks=range(0, 31, 3 * size), yticks=range(0, 31, 3 * size))
figure.colorbar(shown, ax=(left, right), label="correlation", shrink=0.85)
plt.show()
