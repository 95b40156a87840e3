"""Refitting on dense arrays: columns are selected with numpy, and `Auto` learns these columns only."""

import numpy as np

import thinstream as ts

STEPS = {1: (1,), 2: (8, 1), 4: (32, 8, 2, 1)}


def progressive_rms(X):
    """Each value over the root mean square of its feature's values so far, and the final root mean squares."""
    squares, counts, out = np.zeros(X.shape[1]), np.zeros(X.shape[1]), np.zeros(X.shape)
    for row, x in enumerate(X.astype(np.float64)):
        present = x != 0
        squares[present] += x[present] ** 2
        counts[present] += 1
        out[row, present] = x[present] / np.sqrt(squares[present] / counts[present])
    return out, np.sqrt(np.divide(squares, counts, out=np.zeros_like(squares), where=counts > 0))


def ranked(weights, X, view):
    """Features, the most important first: |weight| times the root of Σx² of the rows as they are prepared."""
    if view == "raw rows":
        X, units = progressive_rms(X)
        weights = weights * units
    elif view == "unit rows":
        lengths = np.sqrt((X.astype(np.float64) ** 2).sum(axis=1, keepdims=True))
        X = np.divide(X, lengths, out=np.zeros(X.shape), where=lengths > 0)
    importance = np.sqrt((np.abs(weights) ** 2 * (X.astype(np.float64) ** 2).sum(axis=0)).sum(axis=0))
    order = np.argsort(-importance, kind="stable")
    return order[weights.any(axis=0)[order]]


def path(ranking, X, y, n, steps, view):
    """The last model on the way from a ranking to n features, and its features."""
    options = {"scale": "rms"} if view == "raw rows" else {"normalize": "l2"}
    sizes = list(dict.fromkeys(min(factor * n, len(ranking)) for factor in STEPS[steps]))
    for size in sizes:
        features = np.sort(ranking[:size])
        model = ts.Auto(interactions=False, **options).fit(X[:, features], y)
        ranking = features[ranked(model.coef_ if view == "raw rows" else model.raw_coef_, X[:, features], view)]
    return model, features


def losses(scores, y):
    """-log p of each row's class, from one score per row or one per class."""
    if scores.ndim == 1:
        return np.logaddexp(0.0, np.where(y > 0, -scores, scores).astype(np.float64))
    p = 1 / (1 + np.exp(-scores.astype(np.float64)))
    return -np.log((p / p.sum(axis=1, keepdims=True))[np.arange(len(y)), y])


def is_near(difference):
    """Whether losses are not above the best by more than one standard error of the difference."""
    return difference.mean() <= difference.std() / np.sqrt(len(difference))


def refit(model, fresh, X, y, n):
    """The way that is chosen, and the features and the model at its end. ``fresh`` makes a model like ``model``."""
    held_out = np.arange(len(y)) % 5 == 4
    full = fresh().fit(X[~held_out], y[~held_out])
    ranking = ranked(full.coef_, X[~held_out], None)
    ways = [(steps, view) for steps in STEPS for view in ("unit rows", "raw rows")]
    table = []
    for steps, view in ways:
        small, features = path(ranking, X[~held_out], y[~held_out], n, steps, view)
        table.append(losses(small.decision_function(X[held_out][:, features]), y[held_out]))
    cut = np.zeros(X.shape[1])
    cut[ranking[:n]] = 1
    table.append(losses(full.decision_function(X[held_out] * cut), y[held_out]))
    best = table[int(np.argmin([one.mean() for one in table]))]
    near = [way for way, one in zip([*ways, "cut"], table, strict=True) if is_near(one - best)]
    way = near[0]
    ranking = ranked(model.coef_, X, None)
    if way == "cut":
        return way, np.sort(ranking[:n]), None
    small, features = path(ranking, X, y, n, *way)
    return way, features, small
