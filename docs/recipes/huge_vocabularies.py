"""Draws docs/recipes/huge-vocabularies.png: how many bits a vocabulary needs, and what they cost.

python docs/recipes/huge_vocabularies.py [FILE]
"""

import sys
import tempfile
from pathlib import Path

import numpy as np

from thinstream.data import open_stream
from thinstream.lanes.learner import Learner
from thinstream.plotting import matplotlib

VOCABULARY, WORDS = 200_000, 10


def main(path, rows=100_000, bits=range(8, 23)):
    """Learns with so many bits, and draws errors on rows kept back, collisions and memory; returns the errors."""
    rng = np.random.default_rng(0)
    words = np.exp(rng.random((rows, WORDS)) * np.log(VOCABULARY)).astype(np.int64)
    labels = np.where(rng.choice([-1, 1], VOCABULARY + 1)[words].sum(axis=1) > 0, 1, -1)
    errors, memory = {"plain": [], "signed": []}, []
    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder) / "words.vw"
        lines = (f"{y} |t " + " ".join(f"w{w}" for w in row) for y, row in zip(labels, words.tolist(), strict=True))
        text.write_text("\n".join(lines))
        for b in bits:
            for name in errors:
                learner = Learner("adarda", n_features=1 << b)
                stream, wrong = open_stream(text, bits=b, signed=name == "signed"), []
                for batch in stream.batches():
                    wrong.append((learner.learn(batch) > 0) != (batch.y > 0))  # predicted before it is learned
                errors[name].append(np.concatenate(wrong)[rows // 2 :].mean())
            memory.append(learner.memory.state.nbytes / 1e6)
    draw(path, list(bits), errors, memory, len(np.unique(words)))
    return errors


def draw(path, bits, errors, memory, names):
    """Errors by bits, and below what is shared and what it takes."""
    figure = matplotlib().figure.Figure(figsize=(8, 5), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=[2, 1])
    for (name, found), style in zip(errors.items(), ("o-", "s--"), strict=True):
        above.plot(bits, 100 * np.array(found), style, ms=4, label=name)
    above.set(ylabel="wrong (%)", ylim=(0, None), title=f"{names:,} different words")
    above.legend(frameon=False)
    below.plot(bits, 100 * (1 - (1 - 0.5 ** np.array(bits, float)) ** (names - 1)), "k.-")
    below.set(xlabel="bits", ylabel="names that share\na number (%)", ylim=(0, 105), xticks=bits)
    room = below.twinx()
    room.semilogy(bits, memory, color="tab:green", marker=".")
    room.set_ylabel("memory (MB)", color="tab:green")
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    place = sys.argv[1] if len(sys.argv) > 1 else Path(__file__).with_name("huge-vocabularies.png")
    for name, shares in main(place).items():
        print(f"{name:<8}" + " ".join(f"{100 * share:5.1f}" for share in shares))
