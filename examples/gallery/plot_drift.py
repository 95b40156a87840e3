"""
A stream that turns around
==========================

In the middle of the stream what spoke for a class begins to speak against it. A model that remembers everything takes
long to come to terms with that; one with a half-life forgets; a monitor says where it happened.
"""

# %%
# The stream
# ----------
#
# Fifty features, a tenth of the labels wrong, and from row 10,000 on all signs are turned.

import matplotlib.pyplot as plt
import numpy as np

import thinstream as ts
from thinstream.training.monitors import ADWIN

rng = np.random.default_rng(4)
rows = 20_000
X = (rng.normal(size=(rows, 50)) * (rng.random((rows, 50)) < 0.2)).astype(np.float32)
y = np.sign(X @ rng.normal(size=50)) * np.where(np.arange(rows) < rows // 2, 1, -1)
y = np.where((y > 0) ^ (rng.random(rows) < 0.1), 1, -1)

# %%
# Three learners
# --------------
#
# `learn` returns scores of rows before they were learned, so mistakes are those a user would have met. The third is
# thrown away where ADWIN, told of each mistake, says that the error has risen.

models = {"remembers everything": ts.AROW(), "half-life of 1,000 rows": ts.AROW(half_life=1000)}
wrong = {name: (model.learn(X, y) > 0) != (y > 0) for name, model in models.items()}

model, monitor, found, mistakes = ts.AROW(), ADWIN(), [], []
for start in range(0, rows, 200):
    piece = slice(start, start + 200)
    scores = model.learn(X[piece], y[piece], classes=[-1, 1])
    mistakes.append((scores > 0) != (y[piece] > 0))
    changes = monitor.update(mistakes[-1])
    if changes:
        found += changes
        model = ts.AROW()
wrong["starts anew where ADWIN says"] = np.concatenate(mistakes)
print("; ".join(f"{name}: {each.mean():.1%} wrong" for name, each in wrong.items()))
print("ADWIN:", ", ".join(f"row {change.row:,}" for change in found))

# %%
# Along the stream
# ----------------

figure, place = plt.subplots(figsize=(8, 4), layout="constrained")
for name, each in wrong.items():
    place.plot(np.arange(rows - 499), 100 * np.convolve(each, np.ones(500) / 500, "valid"), label=name)
for change in found:
    place.axvline(change.row, color="grey", ls=":", lw=1)
place.axhline(10, color="black", lw=0.8, ls="--")
place.text(100, 6.5, "labels that are wrong anyway", fontsize=8)
place.set(xlabel="row", ylabel="error of the last 500 rows, %", ylim=(0, None), xlim=(0, rows))
place.legend(loc="upper left")
plt.show()
