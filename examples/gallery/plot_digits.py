"""
Digits as pictures
==================

A model for each class, learned in one pass over scikit-learn's digits: its weights, put back in the place of the
pixels, are a picture of what it looks for.
"""

# %%
# One against the rest
# --------------------
#
# More than two classes need nothing special: there is a weight vector for each, and the highest score wins. Rows come
# as they are stored; the first 1,200 are learned, once, in that order.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

import thinstream as ts

X, y = load_digits(return_X_y=True)
X = X.astype(np.float32) / 16
model = ts.AROW().fit(X[:1200], y[:1200])
print(f"{model.score(X[1200:], y[1200:]):.1%} of {len(y) - 1200} further digits are read rightly")

# %%
# What it looks for
# -----------------
#
# Each weight times how much its pixel varies, which is what it does to scores. Ink on red speaks for the digit, ink
# on blue against it: the zero wants an empty middle.

effect = model.coef_ * X.std(axis=0)
largest = np.abs(effect).max()
figure, places = plt.subplots(2, 5, figsize=(8, 3.6), layout="constrained")
for digit, place in enumerate(places.flat):
    shown = place.imshow(effect[digit].reshape(8, 8), cmap="RdBu_r", vmin=-largest, vmax=largest)
    place.set(title=digit, xticks=[], yticks=[])
figure.colorbar(shown, ax=places, label="weight × deviation", shrink=0.8)
plt.show()

# %%
# How sure it is
# --------------
#
# AROW keeps the variance of each weight. Where no digit has ink, in the corners, nothing was learned and the variance
# is still 1; where there is much ink, weights are certain.

figure, place = plt.subplots(figsize=(4.4, 3.4), layout="constrained")
shown = place.imshow(model.variance_.mean(axis=0).reshape(8, 8), cmap="viridis")
place.set(title="variance of the weights, mean of ten classes", xticks=[], yticks=[])
figure.colorbar(shown, ax=place)
plt.show()

# sphinx_gallery_thumbnail_number = 1
