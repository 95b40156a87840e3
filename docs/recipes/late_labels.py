"""Draws docs/recipes/late-labels.png: what a model knows when a row comes, its label coming hours later.

python docs/recipes/late_labels.py [FILE]
"""

import sys
from pathlib import Path

import numpy as np

import thinstream as ts
from thinstream.plotting import matplotlib

#: Hours between a payment and what became of it, and the hour in which the thieves change their ways.
DELAYS, TURN, HOURS = (0, 2, 24), 60, 120


def main(path, per_hour=150):
    """Payments are judged when they come, learned when their labels do; the error on the day of the turn, by delay."""
    rng = np.random.default_rng(0)
    n = HOURS * per_hour
    hour = np.repeat(np.arange(HOURS), per_hour)
    X = rng.normal(size=(n, 20))
    stolen = np.where(hour < TURN, X[:, 0] + X[:, 1], X[:, 1] - X[:, 2]) + rng.normal(size=n) / 3 > 1
    wrong = {delay: judged(X, stolen, hour, delay) for delay in DELAYS}
    draw(path, wrong, hour)
    return {delay: float(np.mean(mistakes[(hour >= TURN) & (hour < TURN + 24)])) for delay, mistakes in wrong.items()}


def judged(X, stolen, hour, delay):
    """Which payments were called wrong when they came."""
    join = ts.LabelJoin(ts.PA(C=0.02), classes=[False, True], keep=200_000)
    called = np.empty(len(X), bool)
    for now in range(HOURS):
        rows, known = np.flatnonzero(hour == now), np.flatnonzero(hour == now - delay)
        for part in np.array_split(rows, 10):  # at once: labels come between the parts of an hour
            called[part] = join.predict(part, X[part])
            if delay == 0:
                join.label(part, stolen[part])
        if delay:
            join.label(known, stolen[known])
    return called != stolen


def draw(path, wrong, hour):
    """The error of each hour."""
    figure = matplotlib().figure.Figure(figsize=(8, 3.6), layout="constrained")
    axis = figure.subplots()
    for (delay, mistakes), colour in zip(wrong.items(), ("tab:gray", "tab:blue", "tab:red"), strict=True):
        error = [100 * mistakes[(hour >= now - 2) & (hour <= now)].mean() for now in range(HOURS)]
        name = {0: "labels at once", 1: "an hour later"}.get(delay, f"{delay} hours later")
        axis.plot(range(HOURS), error, color=colour, label=name)
    axis.axvline(TURN, color="black", ls=":", lw=1)
    axis.annotate("thieves change", (TURN, 1), (-4, 0), textcoords="offset points", ha="right", size=9)
    axis.set(xlabel="hour", ylabel="called wrong when it came (%)", ylim=(0, 40), xlim=(0, HOURS - 1))
    axis.legend(ncols=3, loc="upper left", edgecolor="none", framealpha=1)
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    print(main(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).with_name("late-labels.png")))
