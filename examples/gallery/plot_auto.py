"""
Who leads the blend
===================

Auto has nine models learn along and weighs them as they go. Here the stream is cut into pieces, and after each piece
we ask who has which share.
"""

# %%
# A stream like hashed texts
# --------------------------

import matplotlib.pyplot as plt
import numpy as np

import thinstream as ts
from thinstream.datasets import zipf_text

X, y = zipf_text(24_000, 5_000, noise=0.05)
auto, shares, rows, wrong = ts.Auto(), [], [], []
for start in range(0, 24_000, 1_000):
    piece = slice(start, start + 1_000)
    wrong.append((auto.learn(X[piece], y[piece], classes=[-1, 1]) > 0) != (y[piece] > 0))
    shares.append([lane["share"] for lane in auto.lanes_])
    rows.append(start + 1_000)


def told(lane):
    """What a model is, by the parameters that are not the usual ones."""
    usual = ts.make(lane["learner"]).get_params()
    given = [f"{name}={value}" for name, value in lane["parameters"].items() if value != usual.get(name)]
    return ", ".join([lane["learner"], *given, *(["prepared rows"] if lane.get("normalize") else [])])


names = [told(lane) for lane in auto.lanes_]

# %%
# Shares along the stream
# -----------------------
#
# Who has next to no share for long is left out, and costs nothing from there on.

figure, (top, below) = plt.subplots(2, 1, figsize=(8, 6.6), layout="constrained", sharex=True, height_ratios=[3, 1.3])
order = np.argsort(-np.array(shares[-1]))
top.stackplot(rows, np.array(shares).T[order], labels=[names[k] for k in order])
top.set(ylabel="share of the blend", ylim=(0, 1))
figure.legend(loc="outside lower center", ncols=2, fontsize=8)
below.plot(rows, [100 * each.mean() for each in wrong], marker=".")
below.axhline(5, color="grey", ls=":")
below.text(rows[0] + 100, 6, "labels that are wrong anyway", fontsize=8)
below.set(xlabel="rows", ylabel="error, %", xlim=(rows[0], rows[-1]), ylim=(0, None))
plt.show()
