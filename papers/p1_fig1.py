"""P1 Figure 1: test error against the number of features a model may use."""

import time
import warnings
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np

from papers.data import Data, split
from papers.experiment import Cell, Claim, Experiment, Row, cells_for, markdown
from papers.places import asked_device
from papers.presenting import distinct, legend, panels, pick

SETS = ("20news-comp-vs-rec", "farm-ads", "phish-url-pdd", "debian-science")
FEATURES = (15, 30, 75, 150, 300)
GROUPS, TICKS = 15, (1, 5, 15, 30, 75, 150, 300)
SIGMA, R = (1e-3, 0.1, 1.0, 10.0, 100.0), (0.1, 1.0, 10.0)
#: From few features to many; sweeps end at the first model with more than are asked for.
L1, C = np.geomspace(200.0, 0.5, 14).tolist(), np.geomspace(0.003, 1.0, 10).tolist()
#: Rows to learn from: FGM solves for all weights after each group.
MOST = 8_000
STYLES = {
    "SBCW": ("o-", "tab:red"),
    "SBCW → SVM": ("o--", "tab:red"),
    "SOFS": ("s-", "tab:green"),
    "FGM": ("D-", "tab:blue"),
    "sparDCA": ("^-", "tab:orange"),
    "l1 SVM": ("v-", "tab:purple"),
}


def curve(name: str, method: str, features: tuple[int, ...], most: int) -> list[Row]:
    """A row for each number of features allowed; none where no model of a sweep is that small."""
    from sklearn.exceptions import ConvergenceWarning

    warnings.simplefilter("ignore", ConvergenceWarning)  # liblinear at large C: its weights are good enough
    train, test = split(name)
    train = train.take(slice(most))
    test = test.take(slice(most)) if most < MOST else test
    sweep = swept(method)
    if sweep:
        points = []
        for model in sweep:
            points.append(judged(model, train, test))
            if points[-1][0] > max(features):
                break
        found = {p: max((point for point in points if point[0] <= p), default=None) for p in features}
    else:
        told(method, min(features), train).fit(*train.take(slice(100)))  # compiles
        found = {p: judged(told(method, p, train), train, test) for p in features}
    minority = 100.0 * min(np.mean(test.y > 0), np.mean(test.y < 0))
    common = {"set": name, "method": method, "rows": len(train.y), "tests": len(test.y), "width": train.X.shape[1]}
    return [
        {**common, "minority": float(minority), "allowed": p, "used": point[0], "error": point[1], "seconds": point[2]}
        for p, point in found.items()
        if point is not None
    ]


def swept(method: str) -> list[Any]:
    """The models of a method without a parameter for the number of features, from few to many."""
    from sklearn.svm import LinearSVC

    import thinstream as ts

    if method == "sparDCA":
        return [ts.SparDCA(l1=l1, loss="squared_hinge", fit_intercept=False) for l1 in L1]
    if method == "l1 SVM":
        return [LinearSVC(penalty="l1", dual=False, fit_intercept=False, C=c) for c in C]
    return []


def told(method: str, p: int, train: Data) -> Any:
    """A model of at most p features, not fitted."""
    from sklearn.pipeline import make_pipeline
    from sklearn.svm import LinearSVC

    import thinstream as ts

    if method == "SBCW":
        return best([ts.SBCW(n_features=p, sigma=sigma, fit_intercept=False) for sigma in SIGMA], train)
    if method == "SBCW → SVM":
        return make_pipeline(ts.SBCW(n_features=p, fit_intercept=False), LinearSVC(fit_intercept=False))
    if method == "FGM":
        return ts.FGM(group_size=max(1, p // GROUPS), n_groups=GROUPS, fit_intercept=False)
    model = ts.SOFS(B=p, fit_intercept=False)
    search = ts.OnlineGridSearchCV(model, {"r": list(R)}, refit=False, device=asked_device()).fit(train.X, train.y)
    return model.set_params(**search.best_params_)


def best(models: Sequence[Any], train: Data) -> Any:
    """The model with the fewest errors on the last fifth of the rows, the first of equals."""
    cut = round(0.8 * len(train.y))
    (X, y), (held_out, labels) = train.take(slice(cut)), train.take(slice(cut, None))
    return max(models, key=lambda model: model.fit(X, y).score(held_out, labels))


def judged(model: Any, train: Data, test: Data) -> tuple[int, float, float]:
    """(features used, test error in %, seconds of the processor to fit)."""
    start = time.process_time()
    model.fit(train.X, train.y)
    seconds = time.process_time() - start
    weights = model.coef_ if hasattr(model, "coef_") else model[-1].coef_
    return int(np.count_nonzero(weights)), 100.0 * (1.0 - float(model.score(test.X, test.y))), seconds


def cells(smoke: bool) -> list[Cell]:
    """One for each set and method."""
    features, most = ((15, 30), 150) if smoke else (FEATURES, MOST)
    methods = ("SBCW", "sparDCA") if smoke else tuple(STYLES)
    return cells_for(curve, SETS, methods, features, most)


def tables(rows: Sequence[Row]) -> Iterator[str]:
    """A table for each set."""
    allowed = sorted(distinct(rows, "allowed"))
    for name in distinct(rows, "set"):
        own = pick(rows, set=name)
        first, lines = own[0], []
        for method in distinct(own, "method"):
            points = {row["allowed"]: row for row in own if row["method"] == method}
            shown = [f"{points[p]['error']:.1f} ({points[p]['used']})" if p in points else "–" for p in allowed]
            lines.append([method, *shown, f"{points[max(points)]['seconds']:.2f}"])
        head = ["test error in % (features used)", *(f"≤ {p}" for p in allowed), "seconds"]
        size = f"{first['rows']:,} rows to learn from, {first['tests']:,} to test, {first['width']:,} features"
        yield f"**{name}**: {size}; the smaller class is {first['minority']:.1f} %\n\n{markdown(head, lines)}"


def draw(rows: Sequence[Row], figure: Any) -> None:
    """Error above, time below, a column for each set."""
    names = distinct(rows, "set")
    axes = panels(figure, 2, len(names), 3.7 * len(names), 6.6)
    for (upper, lower), name in zip(axes.T, names, strict=True):
        for method, (style, colour) in STYLES.items():
            own = pick(rows, set=name, method=method)
            for panel, measure in ((upper, "error"), (lower, "seconds")):
                x = [row["used" if measure == "error" else "allowed"] for row in own]
                y = [max(row[measure], 1e-3) for row in own]
                panel.plot(x, y, style, ms=4, color=colour, label=method)
        upper.set(title=name, xscale="log", xlabel="features used", ylabel="test error (%)")
        lower.set(xscale="log", yscale="log", xlabel="features allowed", ylabel="seconds to fit")
        lower.set(xlim=(12, 360), ylim=(0.01, 3))
        for panel in (upper, lower):
            panel.set_xticks(TICKS, [str(tick) for tick in TICKS])
            panel.tick_params(axis="x", which="minor", labelbottom=False)
    legend(figure, [axes[0, 0]], 6)


def claims(rows: Sequence[Row]) -> Iterator[Claim]:
    """The statements on the figure: SBCW is comparable or better, in error and in time."""
    found = {(row["set"], row["method"], row["allowed"]): row for row in rows}
    others, ours = ("SOFS", "FGM", "sparDCA", "l1 SVM"), ("SBCW", "SBCW → SVM")
    for mine in ours:
        gaps = []
        for name, p in product(distinct(rows, "set"), sorted(distinct(rows, "allowed"))):
            theirs = [found[name, other, p]["error"] for other in others if (name, other, p) in found]
            if theirs and (name, mine, p) in found:
                gaps.append(found[name, mine, p]["error"] - min(theirs))
        if gaps:
            level = sum(gap <= 1.0 for gap in gaps)
            yield Claim(
                f"{mine} has about the lowest error for the same number of features",
                level == len(gaps),
                f"at most a point above the best other in {level} of {len(gaps)} places; it is {np.median(gaps):+.1f} "
                f"points away in the median, {min(gaps):+.1f} to {max(gaps):+.1f}",
            )
    top = max(distinct(rows, "allowed"))
    pairs = {
        s: (found[s, "SBCW", top], found[s, "FGM", top]) for s in distinct(rows, "set") if (s, "FGM", top) in found
    }
    if pairs:
        yield Claim(
            "SBCW is faster than FGM",
            all(a["seconds"] < b["seconds"] for a, b in pairs.values()),
            f"seconds with {top} features: "
            + ", ".join(f"{s} {a['seconds']:.1f} against {b['seconds']:.1f}" for s, (a, b) in pairs.items()),
        )


EXPERIMENT = Experiment.of(__name__, "p1-fig1")
