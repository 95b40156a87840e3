"""Test error against the number of features: SBCW beside SOFS, FGM, sparDCA and liblinear's l1 SVM (P1, Figure 1).

    THINSTREAM_DATA=folder python experiments/feature_selection.py [--sets NAME …] [--out docs/feature-selection]

Rows have unit length; a set without a test part is cut 7 : 3 at random. A classifier may use at most p features. SBCW
and FGM (15 groups each) and SOFS are told p; sparDCA and the l1 SVM are swept over l1 and C, and the model of most
features up to p is taken. SBCW's σ and SOFS's r are chosen on a fifth of the training rows, all else is at its default.
"SBCW → SVM" refits liblinear's l2 SVM on the p features that SBCW chose. Writes the tables into PATH.md, and PATH.png.
"""

import argparse
import lzma
import time
import warnings
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from sklearn.datasets import load_svmlight_file
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import normalize
from sklearn.svm import LinearSVC

import thinstream as ts
from thinstream.datasets import find
from thinstream.plotting import matplotlib

SETS = ("20news-comp-vs-rec", "farm-ads", "phish-url-pdd", "debian-science")
FEATURES = (15, 30, 75, 150, 300)
SIGMA, R = (1e-3, 0.1, 1.0, 10.0, 100.0), (0.1, 1.0, 10.0)
L1, C = np.geomspace(200.0, 0.5, 14), np.geomspace(0.003, 1.0, 10)
BEGIN, END = "<!-- tables: begin (written by experiments/feature_selection.py) -->", "<!-- tables: end -->"
STYLES = ("o-", "o--", "s-", "D-", "^-", "v-")


def main():
    """Runs everything, prints and writes."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sets", nargs="+", default=SETS, help="data sets (default: all four)")
    parser.add_argument("--out", default="docs/feature-selection", help="where to write, without ending")
    options = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)  # liblinear at large C: its weights are good enough
    results, text = {}, []
    for name in options.sets:
        start = time.perf_counter()
        train, test = load(name)
        results[name] = curves(train, test)
        text.append(table(name, train, test, results[name]))
        print(text[-1], f"\n({time.perf_counter() - start:.0f} s)\n", flush=True)
    page = Path(f"{options.out}.md")
    before, _, rest = page.read_text().partition(BEGIN) if page.exists() else ("", "", "")
    after = rest.partition(END)[2] or "\n"
    page.write_text("\n\n".join([before + BEGIN, *text, END]) + after)
    picture(results, f"{options.out}.png")


def load(name):
    """((X, y) to learn from, (X, y) to test with)."""
    parts = []
    for path in find(name):
        with (lzma.open if path.suffix == ".xz" else open)(path, "rb") as file:
            parts.append(load_svmlight_file(file))
    width = max(X.shape[1] for X, _ in parts)
    for X, _ in parts:
        X.resize(X.shape[0], width)
    X, y = normalize(sp.vstack([X for X, _ in parts], format="csr")), np.concatenate([y for _, y in parts])
    rng = np.random.default_rng(0)
    if len(parts) == 1:
        order, cut = rng.permutation(len(y)), int(0.7 * len(y))
    else:
        cut = len(parts[0][1])
        order = np.concatenate([rng.permutation(cut), np.arange(cut, len(y))])
    return (X[order[:cut]], y[order[:cut]]), (X[order[cut:]], y[order[cut:]])


def curves(train, test):
    """Method → list of (features, test error in %, seconds to fit), one for each of FEATURES."""
    found = {"SBCW": [], "SBCW → SVM": [], "SOFS": [], "FGM": []}
    for p in FEATURES:
        found["SBCW"].append(judge(best([ts.SBCW(n_features=p, sigma=s) for s in SIGMA], train), train, test))
        chained = make_pipeline(ts.SBCW(n_features=p), LinearSVC(fit_intercept=False))
        found["SBCW → SVM"].append(judge(chained, train, test))
        found["SOFS"].append(judge(best([ts.SOFS(B=p, r=r) for r in R], train), train, test))
        found["FGM"].append(judge(ts.FGM(group_size=p // 15, n_groups=15), train, test))
    paths = {
        "sparDCA": [ts.SparDCA(l1=l1, loss="squared_hinge") for l1 in L1],
        "l1 SVM": [LinearSVC(penalty="l1", dual=False, fit_intercept=False, C=c) for c in C],
    }
    for label, models in paths.items():
        points = []
        for model in models:
            points.append(judge(model, train, test))
            if points[-1][0] > max(FEATURES):
                break
        found[label] = [max((q for q in points if q[0] <= p), default=None) for p in FEATURES]
    return found


def best(models, train):
    """The model with the fewest errors on the last fifth of the rows, not fitted yet."""
    X, y = train
    cut = int(0.8 * len(y))
    return max(models, key=lambda model: model.fit(X[:cut], y[:cut]).score(X[cut:], y[cut:]))


def judge(model, train, test):
    """(features used, test error in %, seconds to fit)."""
    start = time.perf_counter()
    model.fit(*train)
    seconds = time.perf_counter() - start
    used = np.count_nonzero(getattr(model, "coef_", None) if hasattr(model, "coef_") else model[-1].coef_)
    return used, 100.0 * (1.0 - model.score(*test)), seconds


def table(name, train, test, found):
    """A Markdown table: test error (features used) at each p, and the seconds of the last fit."""
    rows, width = train[0].shape
    majority = 100.0 * min(np.mean(test[1] > 0), np.mean(test[1] < 0))
    lines = [
        f"**{name}**: {rows:,} rows to learn from, {len(test[1]):,} to test, {width:,} features; the smaller class is "
        f"{majority:.1f} %\n",
        "| test error in % (features used) | " + " | ".join(f"≤ {p}" for p in FEATURES) + " | seconds |",
        "|---|" + "---|" * (len(FEATURES) + 1),
    ]
    for label, points in found.items():
        cells = ["–" if point is None else f"{point[1]:.1f} ({point[0]})" for point in points]
        lines.append(f"| {label} | {' | '.join(cells)} | {'–' if points[-1] is None else f'{points[-1][2]:.2f}'} |")
    return "\n".join(lines)


def picture(results, path):
    """Test error against features used, a panel for each set."""
    figure = matplotlib().figure.Figure(figsize=(4.2 * len(results), 4.2), layout="constrained")
    for axis, (name, found) in zip(np.atleast_1d(figure.subplots(1, len(results))), results.items(), strict=True):
        for (label, points), style in zip(found.items(), STYLES, strict=True):
            shown = [point[:2] for point in points if point is not None]
            axis.plot(*zip(*shown, strict=True) if shown else ([], []), style, ms=4, label=label)
        axis.set(xscale="log", title=name, xlabel="features used", ylabel="test error (%)")
        axis.grid(alpha=0.3)
        axis.legend(fontsize=8)
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    main()
