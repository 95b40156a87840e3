"""Draws docs/recipes/crosses.png: tastes that no sum of user and genre can tell, learned with a cross and without.

python docs/recipes/crosses.py [FILE]
"""

import sys
from pathlib import Path

import numpy as np

from thinstream.data import Hashing, Numbering, from_memory
from thinstream.lanes.learner import Learner
from thinstream.plotting import matplotlib

USERS, GENRES, SLIPS, LAST = 40, 12, 0.05, 1000


def main(path, rows=20_000):
    """Learns from answers and draws what became of it; the share of wrong ones among the last."""
    rng = np.random.default_rng(0)
    tastes = rng.random((USERS, GENRES)) < 0.45
    user, genre = rng.integers(USERS, size=rows), rng.integers(GENRES, size=rows)
    liked = tastes[user, genre] ^ (rng.random(rows) < SLIPS)
    pairs = [divmod(k, GENRES) for k in range(USERS * GENRES)]
    wrong, scores = {}, np.zeros((USERS, GENRES))
    for name, cross in (("user and genre", ()), ("and user × genre", [("user", "genre")])):
        learner = Learner("adarda", n_features=1 << 18)
        found = [learner.learn(batch) for batch in stream_of(zip(user, genre, strict=True), liked, cross)]
        wrong[name] = (np.concatenate(found) > 0) != liked  # each predicted before it is learned
        asked = [learner.scores(batch) for batch in stream_of(pairs, np.zeros(len(pairs)), cross)]
        scores = np.concatenate(asked).reshape(USERS, GENRES)
    draw(path, wrong, scores, tastes)
    return {name: float(np.mean(mistakes[-LAST:])) for name, mistakes in wrong.items()}


def stream_of(pairs, liked, cross):
    """Batches of dicts."""
    rows = [({"user": f"u{u}", "genre": f"g{g}"}, int(y)) for (u, g), y in zip(pairs, liked, strict=True)]
    return from_memory(rows, hasher=Numbering(Hashing(bits=18)), cross=cross).batches()


def draw(path, wrong, scores, tastes):
    """Error along the stream, what was learned of each pair, and the truth."""
    figure = matplotlib().figure.Figure(figsize=(10, 4), layout="constrained")
    along, learned, truth = figure.subplots(1, 3, width_ratios=[2.2, 1, 1])
    for (name, mistakes), colour in zip(wrong.items(), ("tab:gray", "tab:blue"), strict=True):
        span = min(LAST, len(mistakes) // 10)
        error = 100 * np.convolve(mistakes, np.ones(span) / span, "valid")
        along.plot(np.arange(span, len(mistakes) + 1), error, color=colour, label=name)
    along.axhline(100 * SLIPS, color="black", ls=":", lw=1, label="slips")
    along.set(xlabel="answers", ylabel="wrong, of the last 1,000 (%)", ylim=(0, 55))
    along.legend(frameon=False)
    order = np.argsort(tastes.sum(axis=1))
    for axis, shown, title in ((learned, scores > 0, "learned"), (truth, tastes, "true tastes")):
        axis.imshow(shown[order], aspect="auto", cmap="Blues", vmin=0, vmax=1.4, interpolation="nearest")
        axis.set(title=title, xlabel="genres", xticks=[], yticks=[])
    learned.set_ylabel("users")
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    place = sys.argv[1] if len(sys.argv) > 1 else Path(__file__).with_suffix(".png")
    for name, share in main(place).items():
        print(f"{name:<20}{100 * share:5.1f} % wrong of the last {LAST:,}")
