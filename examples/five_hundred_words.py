"""A text classifier of at most 500 words, so that a person can read it: comp.* against rec.* of 20 newsgroups.

    python examples/five_hundred_words.py [--rows N] [--out five_hundred_words.png]

One pass learns thirty models from dense to empty (`SparsityPath`); each has a twin that never saw every tenth message,
so that errors are honest. The best with at most 500 words is taken and tested on the newer messages.
"""

import json
import lzma
import re

import numpy as np
from matplotlib.figure import Figure
from sklearn.feature_extraction.text import TfidfVectorizer
from story import real_or_made_up, tell

import thinstream as ts
from thinstream.datasets import find

BUDGET = 500


def main(rows, out):
    """Learns the path, takes a model, and draws what it knows."""
    (texts, y), (later, truth) = real_or_made_up(lambda: (messages("train"), messages("test")), made_up)
    texts, y = texts[:rows], y[:rows]
    words = TfidfVectorizer(stop_words="english", token_pattern=r"[a-z]{3,}", min_df=3)
    X, X_later = words.fit_transform(texts), words.transform(later)

    path = ts.SparsityPath(ts.AdaRDA(fit_intercept=False), n=30, l1_min=1e-6, max_nnz=BUDGET, pick="best").fit(X, y)
    small, dense = path.best_estimator_, path.models_[0]
    print(f"{X.shape[0]:,} messages, {X.shape[1]:,} words, {len(path.models_)} models in one pass")
    for name, model in (("densest", dense), ("picked", small)):
        wrong = 1 - model.score(X_later, truth)
        print(f"{name}: {model.nnz_:,} words, wrong on {wrong:.1%} of {len(truth):,} later messages")
    weights = small.coef_.ravel()
    names, order = words.get_feature_names_out(), np.argsort(weights)
    print("comp:", ", ".join(names[order[:-11:-1]]))
    print("rec: ", ", ".join(names[order[:10]]))
    draw(path, [(names[j], weights[j]) for j in [*order[:12], *order[-12:]]], out)


def messages(part):
    """Texts without their headers and labels (+1: comp.*, −1: rec.*), in random order."""
    found = []
    with lzma.open(find("20news-bydate")[0], "rt") as file:
        for line in file:
            row = json.loads(line)
            if row["split"] == part and row["group"].split(".")[0] in ("comp", "rec"):
                body = re.split(r"[\t\n]{2}", row["text"], maxsplit=1)[-1]  # what follows the header
                found.append((body, 1 if row["group"].startswith("comp") else -1))
    order = np.random.default_rng(0).permutation(len(found))
    return [found[i][0] for i in order], np.array([found[i][1] for i in order])


def made_up(n=4000):
    """Messages of a made-up language, older and newer ones; two hundred of its words are of one side or the other."""
    rng = np.random.default_rng(0)
    syllables = [first + second for first in "bdfgklmnprstvz" for second in "aeiou"]
    words = np.array(["".join(rng.choice(syllables, 3)) for _ in range(5000)])
    side = np.where(np.arange(5000) % 25, 0.0, np.where(np.arange(5000) % 2, 1.0, -1.0))
    y = rng.choice([-1, 1], n)
    often = 1.0 / (np.arange(5000) + 20)
    chances = {label: often * np.exp(label * side) / np.sum(often * np.exp(label * side)) for label in (-1, 1)}
    texts = [" ".join(rng.choice(words, 60, p=chances[label])) for label in y.tolist()]
    cut = n * 3 // 4
    return (texts[:cut], y[:cut]), (texts[cut:], y[cut:])


def draw(path, words, file):
    """Error against words, and the heaviest words of the model that was taken."""
    figure = Figure(figsize=(10, 5), layout="constrained")
    left, right = figure.subplots(1, 2)
    table, shown = path.path_, path.path_["nnz"] > 0
    left.errorbar(
        table["nnz"][shown],
        100 * table["held_out_error"][shown],
        100 * table["held_out_error_se"][shown],
        fmt="o-",
        ms=4,
        capsize=2,
    )
    best = path.best_index_
    left.plot(table["nnz"][best], 100 * table["held_out_error"][best], "s", ms=10, mfc="none", mec="C3", label="taken")
    left.axvline(BUDGET, color="grey", lw=0.8, ls=":", label=f"{BUDGET} words")
    left.set(xscale="log", xlabel="words with a weight", ylabel="error on messages held out (%)", title="one pass")
    left.grid(alpha=0.3)
    left.legend()
    labels, weights = zip(*words, strict=True)
    right.barh(labels, weights, color=["C1" if weight < 0 else "C0" for weight in weights])
    right.set(title="heaviest words: rec.* (left), comp.* (right)")
    right.tick_params(axis="y", labelsize=8)
    figure.savefig(file, dpi=110)


if __name__ == "__main__":
    tell(main, __doc__, "five_hundred_words.png")
