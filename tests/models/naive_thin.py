"""Thinning as §15 has it, on dense arrays; nothing of thinstream is used."""

import math

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


def kept(weights, importance, n, vectors=1):
    """The weights of the n most important features; of equally important ones, the first.

    A feature has a weight in each row (class) and each of the vectors, which follow one another. Its importance is the
    root of the sum over classes of (Σ over vectors of ± importance)², with the signs of the weights.
    """
    table, values = np.atleast_2d(weights), np.reshape(importance, np.atleast_2d(weights).shape)
    d = table.shape[1] // vectors
    features = []
    for j in range(d):
        places = [j + v * d for v in range(vectors)]
        if any(table[k, place] != 0 for k in range(len(table)) for place in places):
            sums = [
                sum(values[k, place] * (-1 if table[k, place] < 0 else 1) for place in places)
                for k in range(len(table))
            ]
            features.append((-math.sqrt(sum(total**2 for total in sums)), j))
    result = np.zeros_like(table)
    for _, j in sorted(features)[:n]:
        for v in range(vectors):
            result[:, j + v * d] = table[:, j + v * d]
    return result.reshape(np.shape(weights))


def choice(sizes, values, errors):
    """The smallest size at which some importance is within one standard error of the best, and its best importance.

    Smaller values are better. ``values`` and ``errors`` (standard errors) have a row for each importance.
    """
    best = min((value, p, k) for p, row in enumerate(values) for k, value in enumerate(row))
    limit = best[0] + errors[best[1]][best[2]]
    for k, size in enumerate(sizes):
        if min(row[k] for row in values) <= limit:
            return size, min(range(len(values)), key=lambda p: values[p][k])
    raise AssertionError
