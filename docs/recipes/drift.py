"""Draws docs/recipes/drift.png: a stream that turns around and one that drifts, and three ways to deal with it.

python docs/recipes/drift.py [FILE]

The second stream is elec2, if it is in the folder named by THINSTREAM_DATA.
"""

import sys
from pathlib import Path

import numpy as np

import thinstream as ts
from thinstream.datasets import load, present
from thinstream.plotting import matplotlib
from thinstream.training.monitors import ADWIN

HALF_LIVES = [None, *(2**e for e in range(1, 17))]
PIECE = 100  # rows between two looks of the model that starts anew
NEVER, ANEW = "never forgets", "starts anew where ADWIN says"


def main(path, rows=30_000, prices=None):
    """Compares and draws; for each stream the half-life that tuning finds, and the errors of three models."""
    streams = {f"made up: turns around twice in {rows:,} rows": turning(rows)}
    if "elec2" in present() if prices is None else prices:
        streams["elec2: electricity prices, 45,312 half-hours"] = load("elec2")
    found = {name: compare(X, y) for name, (X, y) in streams.items()}
    draw(path, found)
    return {
        name: (best, {title: float(np.mean(wrong)) for title, wrong in mistakes.items()})
        for name, (best, _, mistakes, _) in found.items()
    }


def turning(rows, features=50, seed=4):
    """Sparse rows, a tenth of the labels wrong; in the second third all signs of the concept are turned."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, features)) * (rng.random((rows, features)) < 0.2)
    y = np.sign(X @ rng.normal(size=features)) * np.where(np.arange(rows) // (rows // 3) == 1, -1, 1)
    return X, np.where((y > 0) ^ (rng.random(rows) < 0.1), 1, -1)


def compare(X, y):
    """The best half-life, errors of all, mistakes of three models along the stream, and where ADWIN saw a change."""
    search = ts.OnlineGridSearchCV(ts.AROW(), {"half_life": HALF_LIVES}, cv=None).fit(X, y)  # 17 models, one pass
    best = search.best_params_["half_life"]
    anew, changes = starting_anew(X, y)
    forgetting = ts.AROW(half_life=best).learn(X, y)
    scores = {NEVER: ts.AROW().learn(X, y), f"half-life of {best} rows": forgetting, ANEW: anew}
    mistakes = {title: (each > 0) != (y > 0) for title, each in scores.items()}
    return best, 1 - search.cv_results_["progressive_score"], mistakes, changes


def starting_anew(X, y):
    """Scores of a model that is thrown away when the error has risen; the next one begins with the rows since then."""
    model, monitor, scores, changes = ts.AROW(), ADWIN(), [], []
    for start in range(0, len(y), PIECE):
        piece = slice(start, start + PIECE)
        scores.append(model.learn(X[piece], y[piece], classes=[-1, 1]))
        for change in monitor.update((scores[-1] > 0) != (y[piece] > 0)):
            changes.append(change.row)
            since = slice(change.since, start + PIECE)
            model = ts.AROW().partial_fit(X[since], y[since], classes=[-1, 1])
    return np.concatenate(scores), changes


def draw(path, found):
    """A row per stream: errors along it, and the error of each half-life."""
    figure = matplotlib().figure.Figure(figsize=(11, 3.5 * len(found)), layout="constrained")
    axes = figure.subplots(len(found), 2, width_ratios=[2, 1], squeeze=False)
    for (along, lives), (name, (_, errors, mistakes, changes)) in zip(axes, found.items(), strict=True):
        for title, wrong in mistakes.items():
            span = max(len(wrong) // 50, 1)
            rates = 100 * np.convolve(wrong, np.ones(span) / span, "valid")
            along.plot(np.arange(span, len(wrong) + 1), rates, lw=1, label=f"{title}: {100 * np.mean(wrong):.1f} %")
        for row in changes:
            along.axvline(row, color="C2", lw=0.6, ls=":")
        along.set(title=name, xlabel="row", ylabel=f"wrong, of the last {span:,} (%)", ylim=(0, None))
        lives.plot(HALF_LIVES[1:], 100 * errors[1:], "o-", color="C1", ms=4, label="with a half-life")
        lives.axhline(100 * errors[0], color="C0", label="without")
        lives.set(
            title="tuning, in one pass", xlabel="half-life (rows)", ylabel="wrong before learned (%)", xscale="log"
        )
    for axis in axes.flat:
        axis.grid(alpha=0.3)
        axis.legend(fontsize=8)
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    place = sys.argv[1] if len(sys.argv) > 1 else Path(__file__).with_suffix(".png")
    for stream, (half_life, shares) in main(place).items():
        print(f"{stream}: the best half-life is {half_life} rows")
        for model, share in shares.items():
            print(f"  {model:<32}{100 * share:5.1f} % wrong")
