"""Thinning as §15 has it, on dense arrays; nothing of thinstream is used."""

import numpy as np


def arow(X, y, r=1.0):
    """AROW with a constant column, and the squares of the rows it has moved on: weights, intercept, Σx² of each."""
    X = np.hstack([np.ones((len(X), 1)), X])
    mu, precision = np.zeros(X.shape[1]), np.ones(X.shape[1])
    for x, label in zip(X, y):
        sigma = 1.0 / precision
        v = np.sum(sigma * x * x)
        loss = 1.0 - label * (mu @ x)
        if loss > 0:
            mu = mu + loss / (r + v) * label * sigma * x
            precision = precision + x * x / r
    return mu[1:], mu[0], r * (precision - 1.0)[1:]


def adarda(X, y, eta=1.0, delta=1.0):
    """AdaRDA with the hinge loss and a constant column: weights, intercept, Σg² of each."""
    X = np.hstack([np.ones((len(X), 1)), X])
    G, S = np.zeros(X.shape[1]), np.zeros(X.shape[1])
    for x, label in zip(X, y):
        w = -eta * G / (delta + np.sqrt(S))
        if 1.0 - label * (w @ x) > 0:
            G, S = G - label * x, S + x * x
    w = -eta * G / (delta + np.sqrt(S))
    return w[1:], w[0], S[1:]


def kept(weights, importance, n):
    """The weights of largest importance, class after class; of equals the first, and none that is 0."""
    flat, order = weights.ravel(), list(range(weights.size))
    order = sorted((k for k in order if flat[k] != 0), key=lambda k: (-importance.ravel()[k], k))
    result = np.zeros_like(flat)
    for k in order[:n]:
        result[k] = flat[k]
    return result.reshape(weights.shape)


def choice(sizes, errors, rows):
    """The smallest size at which some importance is within one standard error of the best, and its best importance."""
    best = min(min(row) for row in errors)
    limit = best + (best * (1 - best) / rows) ** 0.5
    for k, size in enumerate(sizes):
        if min(row[k] for row in errors) <= limit:
            return size, min(range(len(errors)), key=lambda p: errors[p][k])
    raise AssertionError
