"""A spam filter that learns as the mail arrives: TREC 2007, 37,710 messages in order, 183,000 tokens, one pass.

    python examples/spam_stream.py [--rows N] [--out spam_stream.png]

Every message is judged before it is learned, so each number is an honest test. Three filters read the same mail: one
that keeps every token (AROW), one that keeps few (AdaRDA with l1), and one that stopped learning after the first 4000.
"""

import numpy as np
from matplotlib.figure import Figure
from story import load_unit_rows, real_or_made_up, tell

import thinstream as ts
from thinstream.datasets import zipf_text

WINDOW = 1000
STOPPED = "AROW, stopped at 4000"


def main(rows, out):
    """Reads the mail once and draws the picture."""
    filters = {
        "AROW, every token": ts.AROW(r=0.1, fit_intercept=False),
        "AdaRDA, few tokens": ts.AdaRDA(eta=0.3, l1=1e-4, fit_intercept=False),
        STOPPED: ts.AROW(r=0.1, fit_intercept=False),
    }
    wrong = {name: [] for name in filters}
    sizes = {name: [] for name in filters}
    messages, labels = real_or_made_up(lambda: load_unit_rows("trec07p"), lambda: zipf_text(20_000, 50_000))
    messages, labels = messages[:rows], labels[:rows]
    for start in range(0, len(labels), WINDOW):
        X, y = messages[start : start + WINDOW], labels[start : start + WINDOW]
        for name, model in filters.items():
            if name == STOPPED and start >= 4000:
                scores = model.decision_function(X)
            else:
                scores = model.learn(X, y, classes=[-1, 1])
            wrong[name].append(np.mean((scores > 0) != (y > 0)))
            sizes[name].append(model.nnz_)

    print(f"{'filter':<24}{'error, all mail':>18}{'last quarter':>14}{'tokens kept':>13}")
    for name in filters:
        late = wrong[name][-max(len(wrong[name]) // 4, 1) :]
        print(f"{name:<24}{np.mean(wrong[name]):>17.2%}{np.mean(late):>14.2%}{sizes[name][-1]:>13,}")
    draw(wrong, sizes, out)


def draw(wrong, sizes, path):
    """Mistakes and tokens kept, along the stream."""
    figure = Figure(figsize=(10, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    for name in wrong:
        messages = WINDOW * np.arange(1, len(wrong[name]) + 1)
        left.plot(messages, WINDOW * np.cumsum(wrong[name]), label=name)
        right.plot(messages, sizes[name], label=name)
    left.set(title="mistakes so far", xlabel="messages read", yscale="log")
    right.set(title="tokens with a weight", xlabel="messages read", yscale="log")
    left.legend()
    for axis in (left, right):
        axis.grid(alpha=0.3)
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    tell(main, __doc__, "spam_stream.png")
