"""Electricity prices drift: a model that stops learning goes stale, one that goes on does not.

    python examples/electricity.py [--rows N] [--out electricity.png]

45,312 half-hours of the New South Wales market in order of time: is the price above or below the last day's mean? Each
half-hour is judged before it is learned. Beside the models stands the forecaster that says "as half an hour ago": no
linear model of the six raw features that remembers beats it, one that forgets within hours does.
"""

import numpy as np
import scipy.sparse as sp
from matplotlib.figure import Figure
from story import real_or_made_up, tell

import thinstream as ts
from thinstream.datasets import load

WEEK = 48 * 7
HEAD = 0.2  # of the stream, for the model that stops


def main(rows, out):
    """Runs along the stream and draws the picture."""
    X, y = real_or_made_up(lambda: load("elec2"), made_up)
    X, y = X[:rows], y[:rows]
    head = int(HEAD * len(y))
    frozen = ts.AROW(fit_intercept=True)
    wrong = {
        "AROW, stopped after a fifth": np.concatenate(
            [frozen.learn(X[:head], y[:head]), frozen.decision_function(X[head:])]
        ),
        "AROW, certain for ever": ts.AROW(fit_intercept=True).learn(X, y),
        "AROW, with a half-life of 8 hours": ts.AROW(half_life=16).learn(X, y),
        "gradient descent at a constant rate": ts.CSOGD(eta=0.3, fit_intercept=True).learn(X, y),
        "as half an hour ago": np.concatenate([[1.0], y[:-1]]),
    }
    wrong = {name: (scores > 0) != (y > 0) for name, scores in wrong.items()}
    print(f"{'wrong (%)':<38}{'whole stream':>14}{'after the first fifth':>23}")
    for name, mistakes in wrong.items():
        print(f"{name:<38}{100 * np.mean(mistakes):>14.1f}{100 * np.mean(mistakes[head:]):>23.1f}")
    draw(wrong, head, out)


def made_up(n=45_312):
    """Half-hours of a made-up market: demand and prices go their ways, and what makes electricity dear changes."""
    rng = np.random.default_rng(0)
    day = np.sin(2 * np.pi * np.arange(n) / 48)
    X = np.abs(0.5 + 0.2 * day[:, np.newaxis] * rng.normal(size=6) + 0.1 * rng.normal(size=(n, 6)))
    weights = np.cumsum(rng.normal(scale=0.05, size=(n, 6)), axis=0)
    price = np.sum(weights * (X - 0.5), axis=1)
    level = np.convolve(price, np.ones(48) / 48)[:n]
    return sp.csr_matrix(X), np.where(price > level, 1, -1).astype(np.int8)


def draw(wrong, head, path):
    """Errors over the last four weeks, along the stream."""
    figure = Figure(figsize=(10, 4.5), layout="constrained")
    axis = figure.subplots()
    for name, mistakes in wrong.items():
        span = min(4 * WEEK, max(len(mistakes) // 10, 1))
        axis.plot(
            np.arange(span, len(mistakes) + 1) / WEEK,
            100 * np.convolve(mistakes, np.ones(span) / span, "valid"),
            "k:" if name.startswith("as") else "-",
            lw=1,
            label=name,
        )
    axis.axvline(head / WEEK, color="grey", lw=0.8)
    axis.set(xlabel="weeks", ylabel="wrong, of the last four weeks (%)", title="drifting electricity prices")
    axis.grid(alpha=0.3)
    axis.legend(loc="upper left", ncols=2)
    axis.set_ylim(0, 1.25 * axis.get_ylim()[1])
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    tell(main, __doc__, "electricity.png")
