"""
A belief that narrows
=====================

Two features, so that everything can be seen: rows come by, AROW moves its belief about the two weights, and becomes
surer in the directions it has seen.
"""

# %%
# Rows, a few at a time
# ---------------------

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.patches import Ellipse

import thinstream as ts

rng = np.random.default_rng(2)
truth = np.array([1.0, -0.6])
X = rng.normal(size=(400, 2)) * [1.0, 0.5]
y = np.where(X @ truth + 0.3 * rng.normal(size=400) > 0, 1, -1)

figure, places = plt.subplots(2, 4, figsize=(10, 5.2), layout="constrained")
model, seen = ts.AROW(r=2.0, fit_intercept=False), 0
for (above, below), rows in zip(places.T, (2, 10, 50, 400), strict=True):
    model = model.partial_fit(X[seen:rows], y[seen:rows], classes=[-1, 1])
    seen, weights = rows, model.coef_.ravel()
    above.scatter(*X[:rows].T, c=y[:rows], cmap="coolwarm", s=12, alpha=0.8)
    direction = np.array([-weights[1], weights[0]])
    above.axline((0, 0), tuple(direction), color="black")
    above.set(title=f"{rows} rows", xlim=(-3, 3), ylim=(-2, 2), xticks=[], yticks=[])
    for width in (1, 2):
        size = 2 * width * np.sqrt(model.variance_.ravel())
        below.add_patch(Ellipse(tuple(weights), *size, color="tab:blue", alpha=0.25))
    below.plot(*weights, "o", color="tab:blue")
    below.axline((0, 0), tuple(truth), color="tab:orange", ls="--")
    below.set(xlim=(-2.2, 2.6), ylim=(-2.4, 2))
places[0, 0].set_ylabel("rows, and the line")
places[1, 0].set_ylabel("belief about the weights")
plt.show()

# %%
# Above, what was seen so far and the line that the mean of the belief draws; below, one and two standard deviations
# of it. All weights on the dashed line draw the line that the labels come from.
