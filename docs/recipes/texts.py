"""Draws docs/recipes/texts.png: what texts are taken apart into, and how many rows that takes.

python docs/recipes/texts.py [FILE]
"""

import json
import sys
import tempfile
from pathlib import Path

import numpy as np

from thinstream.data import open_stream
from thinstream.lanes.learner import Learner
from thinstream.models.pipeline import Pipeline
from thinstream.models.preparation import Preparation
from thinstream.plotting import matplotlib

GOOD, BAD = ("good", "great", "pleasant", "splendid"), ("bad", "awful", "boring", "terrible")
#: How texts are taken apart, and how rows are prepared.
WAYS = {
    "words": ({}, (None, None)),
    "words, tf-idf": ({}, ("idf", "l2")),
    "pairs of words, tf-idf": ({"ngrams": (1, 2)}, ("idf", "l2")),
    "3 to 5 characters, tf-idf": ({"chars": (3, 5)}, ("idf", "l2")),
    "both, tf-idf": ({"ngrams": (1, 2), "chars": (3, 5)}, ("idf", "l2")),
}


def main(path, rows=20_000):
    """Learns the same texts in all ways, and draws the errors as rows pass; returns those of the second half."""
    rng = np.random.default_rng(0)
    errors = {}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "reviews.jsonl"
        file.write_text("".join(json.dumps(review(rng)) + "\n" for _ in range(rows)))
        for name, (how, preparation) in WAYS.items():
            learner = Pipeline.of(Learner("arow", n_features=1 << 18), Preparation(*preparation))
            stream, wrong = open_stream(file, text=("text",), bits=18, **how), []
            for batch in stream.batches():
                wrong.append((learner.learn(batch) > 0) != (batch.y > 0))  # predicted before it is learned
            errors[name] = np.concatenate(wrong)
    draw(path, errors)
    return {name: float(wrong[rows // 2 :].mean()) for name, wrong in errors.items()}


def review(rng):
    """A text of filler words and one opinion, one in three turned round by "not", one in three misspelt."""
    likes, turned = rng.random() < 0.5, rng.random() < 1 / 3
    word = str(rng.choice(GOOD if likes != turned else BAD))
    if rng.random() < 1 / 3:
        k = rng.integers(1, len(word))
        word = word[:k] + word[k - 1] * rng.integers(1, 4) + word[k:]
    filler = [f"w{k}" for k in np.exp(rng.random(12) * np.log(3000)).astype(int)]
    filler[rng.integers(12)] = "not"
    place = rng.integers(12)
    words = [*filler[:place], *(["not"] if turned else []), word, *filler[place:]]
    return {"label": int(likes), "text": " ".join(words)}


def draw(path, errors):
    """The share of errors among the last rows, a tenth of all."""
    figure = matplotlib().figure.Figure(figsize=(8, 4), layout="constrained")
    axes = figure.subplots()
    for name, wrong in errors.items():
        window = len(wrong) // 10
        recent = np.convolve(wrong, np.full(window, 1 / window), "valid")
        axes.plot(np.arange(window, len(wrong) + 1), 100 * recent, label=name)
    axes.set(xlabel="rows", ylabel="wrong of the last tenth (%)", ylim=(0, None))
    axes.legend(frameon=False)
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    place = sys.argv[1] if len(sys.argv) > 1 else Path(__file__).with_name("texts.png")
    for name, share in main(place).items():
        print(f"{name:<28}{100 * share:5.1f}")
