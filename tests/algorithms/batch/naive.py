"""The naive side: dense, float64, written from P2 (through docs/specification.md, §6), numpy alone."""

import numpy as np


def soft(v, a):
    return np.sign(v) * max(abs(v) - a, 0.0)


def naive_scd(X, y, coordinates, l1, beta, c=None):
    """One coordinate at a time, the whole gradient anew for each."""
    m, d = X.shape
    c = np.ones(m) if c is None else c
    w = np.zeros(d)
    for j in coordinates:
        slopes = -y / (1.0 + np.exp(np.clip(y * (X @ w), -700, 700)))
        g = np.sum(c * slopes * X[:, j]) / np.sum(c)
        w[j] = soft(w[j] - g / beta, l1 / beta)
    return w


def scd_objective(X, y, w, l1, c=None):
    c = np.ones(len(y)) if c is None else c
    return np.sum(c * np.logaddexp(0.0, -y * (X @ w))) / np.sum(c) + l1 * np.sum(np.abs(w))


def naive_hard(v, s):
    """H(v, s) [ties: lower index kept]."""
    order = sorted(range(len(v)), key=lambda j: (-abs(v[j]), j))
    kept = np.zeros(len(v))
    for j in order[:s]:
        kept[j] = v[j]
    return kept


def naive_grades(X, y, gamma, s, n_iter, c=None):
    """(w, every Ψ, how close the last kept and the first dropped |w_j| ever came)."""
    c = np.ones(len(y)) if c is None else c
    w, edge = np.zeros(X.shape[1]), np.inf
    potentials = [0.5 * np.sum(c * (y - X @ w) ** 2)]
    for _ in range(n_iter):
        v = w + X.T @ (c * (y - X @ w)) / gamma
        sizes = sorted(abs(v), reverse=True)
        if s < len(v) and sizes[s] > 0:
            edge = min(edge, sizes[s - 1] - sizes[s])
        w = naive_hard(v, s)
        potentials.append(0.5 * np.sum(c * (y - X @ w) ** 2))
    return w, np.array(potentials), edge
