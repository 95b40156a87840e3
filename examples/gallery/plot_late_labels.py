"""
Labels that come later
======================

A click is known minutes after an advertisement was shown, a fraud weeks after the payment. `LabelJoin` predicts rows
now, keeps them under their ids, and learns them when their labels come.
"""

# %%
# What waiting costs
# ------------------
#
# The same stream with labels that come at once, after 100, 1,000 and 5,000 rows on average, in the order they come
# in.

import matplotlib.pyplot as plt
import numpy as np

import thinstream as ts

rng = np.random.default_rng(3)
rows = 12_000
X = (rng.normal(size=(rows, 60)) * (rng.random((rows, 60)) < 0.3)).astype(np.float32)
y = np.where(X @ rng.normal(size=60) + 0.5 * rng.normal(size=rows) > 0, 1, -1)

figure, place = plt.subplots(figsize=(8, 4), layout="constrained")
for delay in (0, 100, 1_000, 5_000):
    comes = np.arange(rows) + (rng.exponential(delay, rows) if delay else 0)
    order, next_label, join, said = np.argsort(comes, kind="stable"), 0, ts.LabelJoin(ts.AROW(), classes=[-1, 1]), []
    for start in range(0, rows, 100):
        ids = np.arange(start, start + 100)
        said.append(join.predict(ids.tolist(), X[ids]))
        due = next_label + int(np.searchsorted(comes[order[next_label:]], start + 100))
        arrived = order[next_label:due]
        if len(arrived):
            join.label(arrived.tolist(), y[arrived].tolist())
        next_label = due
    wrong = np.concatenate(said) != y
    name = f"after {delay:,} rows" if delay else "at once"
    place.plot(
        np.arange(rows - 999),
        100 * np.convolve(wrong, np.ones(1000) / 1000, "valid"),
        label=f"labels {name}: {wrong.mean():.1%}",
    )
place.set(xlabel="row", ylabel="error of the last 1,000 rows, %", ylim=(0, None))
place.legend(title="when they come, and the error of all rows")
plt.show()
