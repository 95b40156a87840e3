"""
What it is worth to know the costs
==================================

One row in ten is positive. What does it bring to tell the learner that missing one costs more than a false alarm? One
pass answers for nineteen prices, with a model for each and one that knows of none: Fig. 3 and 4 of paper P3.
"""

# %%
# Rare positives
# --------------

import matplotlib.pyplot as plt
import numpy as np

import thinstream as ts

rng = np.random.default_rng(0)
y = np.where(rng.random(20_000) < 0.1, 1, -1)
X = (rng.normal(size=(20_000, 20)) + 0.3 * y[:, np.newaxis]).astype(np.float32)
curves = ts.cost_curve(ts.FSOL(eta=0.1, fit_intercept=True), X, y)

# %%
# Told and blind
# --------------
#
# Where both kinds of mistakes cost the same nothing is gained. The more a missed positive costs, the more it is worth
# to say so.

figure, (left, right) = plt.subplots(1, 2, figsize=(8.5, 3.8), layout="constrained")
cost = curves.cost
left.plot(cost.weights, cost.blind, color="grey", label="knows of no costs")
left.plot(cost.weights, cost.tuned, color="tab:orange", label="is told the costs")
left.fill_between(cost.weights, cost.tuned, cost.blind, color="tab:orange", alpha=0.15)
left.set(xlabel="cost of a missed positive (of 1)", ylabel="cost per row", ylim=(0, None))
left.legend()
right.plot(cost.weights, 100 * cost.sensitivity, label="positives found")
right.plot(cost.weights, 100 * cost.specificity, label="negatives left alone")
right.set(xlabel="cost of a missed positive (of 1)", ylabel="%", ylim=(0, 102))
right.legend()
plt.show()
