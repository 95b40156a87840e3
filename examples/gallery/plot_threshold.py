"""
A promise about false alarms
============================

One row in fifty is positive. Instead of weighing classes, learn the rows as they are and draw the line where it is
worth it; the line is chosen on scores of rows before they were learned, so it holds on new ones.
"""

# %%
# Promise and fact
# ----------------

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import roc_curve

import thinstream as ts

rng = np.random.default_rng(0)
y = np.where(rng.random(60_000) < 0.02, 1, -1)
X = (rng.normal(size=(60_000, 20)) + 0.35 * (y[:, np.newaxis] > 0)).astype(np.float32)
learned, later, new = slice(0, 30_000), slice(15_000, 30_000), slice(30_000, None)
model = ts.AROW(r=10.0)
scores = model.learn(X[learned], y[learned])

promised, kept, found = [0.001, 0.003, 0.01, 0.03, 0.1, 0.3], [], []
for rate in promised:
    model = model.set_threshold(false_alarms=rate, scores=scores[later], y=y[later])
    called = model.predict(X[new]) > 0
    kept.append(called[y[new] < 0].mean())
    found.append(called[y[new] > 0].mean())
    print(f"promised {rate:.1%} false alarms: {kept[-1]:.2%} on new rows, {found[-1]:.0%} of the positives found")

# %%
# In one picture
# --------------

alarms, hits, _ = roc_curve(y[new], model.decision_function(X[new]))
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
left.loglog(promised, kept, "o-", color="tab:orange")
left.plot(promised, promised, color="grey", ls="--")
left.set(xlabel="false alarms promised", ylabel="false alarms on new rows")
right.plot(alarms, hits, color="grey", label="every threshold there is")
right.plot(kept, found, "o", color="tab:orange", label="those that were promised")
right.set(xscale="log", xlabel="false alarms", ylabel="positives found", xlim=(5e-4, 1))
right.legend()
plt.show()
