"""Phishing links are rare and a missed one costs more than a false alarm: teach the costs while learning.

    python examples/malicious_urls.py [--rows N] [--out malicious_urls.png]

Of the phishing URLs of a public list one in forty is kept, so that about 2 % of the stream is phishing. ARCSOGD (paper
P3) and AdaRDA learn it in one pass at several costs of a miss; a URL is judged before it is learned. The picture shows
what each model catches against its false alarms, and the bill if a miss costs as much as twenty false alarms.
"""

import numpy as np
from matplotlib.figure import Figure
from story import load_unit_rows, real_or_made_up, tell

import thinstream as ts
from thinstream.datasets import zipf_text

COSTS = (1, 2, 5, 10, 20, 50)
MISS = 20  # what a missed phishing link costs, in false alarms


def main(rows, out):
    """Learns the stream at each cost and draws the picture."""
    rng = np.random.default_rng(0)
    urls, y = real_or_made_up(lambda: load_unit_rows("phish-url-pdd"), lambda: zipf_text(20_000, 20_000, words=30))
    kept = rng.permutation(np.flatnonzero((y < 0) | (rng.random(len(y)) < 1 / 40)))[:rows]
    X, y = urls[kept], y[kept]
    print(f"{len(y):,} URLs, {np.mean(y > 0):.1%} of them phishing\n")
    print(f"{'model':<10}{'cost of a miss':>16}{'caught':>9}{'false alarms':>14}{'costs per 1000 URLs':>21}")
    curves = {}
    for name, eta in (("AdaRDA", 1.0), ("ARCSOGD", 10.0)):
        common = {"eta": eta, "fit_intercept": False}
        models = [ts.make(name, class_weight={-1: 1.0, 1: float(cost)}, **common) for cost in COSTS]
        curves[name] = [judged(model, X, y) for model in models]
        for cost, (caught, alarms, total) in zip(COSTS, curves[name], strict=True):
            print(f"{name:<10}{cost:>16}{caught:>9.1%}{alarms:>14.2%}{total:>21.1f}")
    draw(curves, out)


def judged(model, X, y):
    """Share of the phishing caught, share of the rest that raised an alarm, and the cost of 1000 URLs."""
    alarm = model.learn(X, y) > 0
    missed = np.sum(~alarm & (y > 0))
    return np.mean(alarm[y > 0]), np.mean(alarm[y < 0]), 1000 * (MISS * missed + np.sum(alarm & (y < 0))) / len(y)


def draw(curves, path):
    """The trade between the two mistakes, and the bill."""
    figure = Figure(figsize=(10, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    for (name, points), below in zip(curves.items(), (False, True), strict=True):
        caught, alarms, total = np.array(points).T
        left.plot(100 * alarms, 100 * caught, "o-", label=name)
        for cost, x, height in zip(COSTS, alarms, caught, strict=True):
            left.annotate(
                str(cost),
                (100 * x, 100 * height),
                textcoords="offset points",
                xytext=(5, -11) if below else (-13, 5),
                fontsize=8,
            )
        right.plot(COSTS, total, "o-", label=name)
    left.set(
        xscale="log",
        xlabel="false alarms (% of honest URLs)",
        ylabel="phishing caught (%)",
        title="at each cost of a miss",
    )
    right.set(xscale="log", xlabel="cost of a miss the model was told", title=f"bill of 1000 URLs, a miss at {MISS}")
    right.set_xticks(COSTS, labels=map(str, COSTS))
    right.minorticks_off()
    right.axvline(MISS, color="grey", lw=0.8, ls=":")
    for axis in (left, right):
        axis.grid(alpha=0.3)
        axis.legend()
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    tell(main, __doc__, "malicious_urls.png")
