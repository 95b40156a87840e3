"""
Probabilities that mean something
=================================

Of the rows that are given 70 %, seventy in a hundred should be positive. Auto's head learns that as the stream goes
by; a score that is squeezed through the logistic function does not.
"""

# %%
# Scores and probabilities
# ------------------------
#
# The rows are like hashed texts, a tenth of the labels wrong. All probabilities are of rows that were not learned.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.calibration import calibration_curve

import thinstream as ts
from thinstream.datasets import zipf_text

X, y = zipf_text(24_000, 5_000, noise=0.1)
learned, others = slice(0, 16_000), slice(16_000, None)
arow = ts.AROW().fit(X[learned], y[learned])
told = {
    "Auto": ts.Auto().fit(X[learned], y[learned]).predict_proba(X[others])[:, 1],
    "AROW(calibrate=True)": ts.AROW(calibrate=True).fit(X[learned], y[learned]).predict_proba(X[others])[:, 1],
    "AROW's score, squeezed": 1 / (1 + np.exp(-arow.decision_function(X[others]))),
}

# %%
# Reliability
# -----------
#
# On the dashed line a probability is what it says. Below, how often each was said.

figure, (top, below) = plt.subplots(2, 1, figsize=(6.4, 5.6), layout="constrained", sharex=True, height_ratios=[3, 1])
top.plot([0, 1], [0, 1], color="grey", ls="--")
for name, probability in told.items():
    positive, said = calibration_curve(y[others] > 0, probability, n_bins=12, strategy="uniform")
    brier = np.mean((probability - (y[others] > 0)) ** 2)
    top.plot(said, positive, marker="o", label=f"{name}: Brier score {brier:.3f}")
    below.hist(probability, bins=40, range=(0, 1), histtype="step")
top.set(ylabel="share that is positive")
top.legend()
below.set(xlabel="probability that was said", ylabel="rows")
plt.show()
