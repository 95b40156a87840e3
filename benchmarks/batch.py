"""BCW against the one matrix product it cannot do without, and against full AROW, side by side in one process.

    python benchmarks/batch.py [--rows N] [--features D] [--full] [--stream N] [--arow-rows N] [--examples N]

Caveats first. Generated data like epsilon (dense, unit rows, correlated features), one batch, BLAS with all its
threads on both sides; "syrk" is BLAS's own XᵀX of the same shape and precision, one triangle, into fresh memory.
Contestants take turns, medians are shown, and this measures one machine on one day: read the ratios. By default
15,000 × 1,500 and three turns; --full is the 50,000 × 2,000 of the target (4 GB, minutes). "outer products" is AROW as
one would write it in numpy: Σ −= β·(Σx)(Σx)ᵀ, d × d numbers made for each example. It and full AROW learn the same 200
examples (--examples) of 2,000 features in float64, and it is checked that they end with the same weights; BCW learns
all rows in one fit, and its time per example falls with their number. For the test error AROW and BCW learn the same
rows, all unless --arow-rows says fewer. --stream N learns N rows of D features in batches of 8,192 and reports the peak
of what Python, numpy and BLAS's results hold, in features × features matrices and batches.
"""

import argparse
import statistics
import time
import tracemalloc

import numpy as np
from scipy.linalg import blas

import thinstream as ts

BATCH = 8_192
TARGETS = {"float64": 2.7, "float32": 2.4}
#: Full AROW: how many times as fast as outer products, at how many features; by how many points BCW may be worse.
FASTER, WIDTH, WORSE = 8.0, 2_000, 0.3


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=15_000)
    parser.add_argument("--features", type=int, help="default: 1,500, and 2,000 for AROW")
    parser.add_argument("--full", action="store_true", help="50,000 x 2,000")
    parser.add_argument("--stream", type=int, default=0, metavar="N", help="peak memory of N rows in batches")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--arow-rows", type=int, default=0, metavar="N", help="rows for the test errors (default: all)")
    parser.add_argument("--examples", type=int, default=200, metavar="N", help="examples of the race with AROW")
    options = parser.parse_args()
    print(__doc__.split("\n\n")[2], "\n")
    rows, features = (50_000, 2_000) if options.full else (options.rows, options.features or 1_500)
    if options.stream:
        stream(options.stream, features)
        return
    make = maker(features)
    X, y = make(rows)
    test = make(5_000)
    ts.BCW(fit_intercept=False).fit(X[:3_000], y[:3_000])  # compiles
    for dtype, target in TARGETS.items():
        against_syrk(X.astype(dtype, copy=False), y, test, target, options.turns)
    if features != (width := WIDTH if options.full else options.features or WIDTH):
        make = maker(width)
        X, y = make(rows)
        test = make(5_000)
    against_arow(X, y, options.examples, options.turns)
    errors(X, y, test, options.arow_rows or rows)


def maker(d):
    """Makes epsilon-like rows: a few common factors under noise, unit length, labels of a noisy linear rule."""
    rng = np.random.default_rng(0)
    mixing, plane = rng.standard_normal((20, d)) / 3.0, rng.standard_normal(d)

    def make(n):
        X = rng.standard_normal((n, 20)) @ mixing
        X += rng.standard_normal((n, d), dtype=np.float32)
        X /= np.sqrt(np.einsum("ij,ij->i", X, X))[:, np.newaxis]
        scores = X @ plane
        return X, np.where(scores + 0.3 * scores.std() * rng.standard_normal(n) > 0, 1, -1)

    return make


def against_syrk(X, y, test, target, turns):
    """Medians of BCW's fit and of syrk, taking turns."""
    product = blas.get_blas_funcs("syrk", (X,))
    contestants = {
        "syrk": lambda: product(1.0, X.T, lower=1),
        "BCW hinge": lambda: ts.BCW(fit_intercept=False, dtype=X.dtype.name).fit(X, y),
        "BCW squared_hinge": lambda: ts.BCW(fit_intercept=False, dtype=X.dtype.name, loss="squared_hinge").fit(X, y),
    }
    took = {name: [] for name in contestants}
    for _ in range(turns):
        for name, run in contestants.items():
            start = time.perf_counter()
            run()
            took[name].append(time.perf_counter() - start)
    medians = {name: statistics.median(times) for name, times in took.items()}
    print(f"{X.shape[0]:,} x {X.shape[1]:,} {X.dtype.name}")
    for name, seconds in medians.items():
        ratio = seconds / medians["syrk"]
        goal = "" if name == "syrk" else f"  (target {target}: {'met' if ratio <= target else 'MISSED'})"
        print(f"  {name:18s} {seconds:7.3f} s  {ratio:5.2f} x syrk{goal}")
    error = 100.0 * (1.0 - ts.BCW(fit_intercept=False, dtype=X.dtype.name).fit(X, y).score(*test))
    print(f"  test error of BCW hinge: {error:.2f} %\n")


def against_arow(X, y, n, turns):
    """Medians per example of AROW written in numpy, of full AROW and of BCW, taking turns."""
    d, warm = X.shape[1], min(10, n)
    n = min(n, len(y) - warm)
    took, weights = {"outer products": [], "full AROW": [], "BCW hinge": []}, {}
    for _ in range(turns):
        sigma = np.eye(d)
        w = outer_products(X[:warm], y[:warm], np.zeros(d), sigma)
        start = time.perf_counter()
        weights["numpy"] = outer_products(X[warm : warm + n], y[warm : warm + n], w, sigma)
        took["outer products"].append((time.perf_counter() - start) / n)
        model = ts.AROW(covariance="full", fit_intercept=False, dtype="float64").partial_fit(
            X[:warm], y[:warm], classes=[-1, 1]
        )
        start = time.perf_counter()
        model.partial_fit(X[warm : warm + n], y[warm : warm + n])
        took["full AROW"].append((time.perf_counter() - start) / n)
        weights["AROW"] = model.coef_[0]
        start = time.perf_counter()
        ts.BCW(fit_intercept=False, dtype="float64").fit(X, y)
        took["BCW hinge"].append((time.perf_counter() - start) / len(y))
    np.testing.assert_allclose(weights["AROW"], weights["numpy"], rtol=1e-6, atol=1e-9)
    medians = {name: statistics.median(times) for name, times in took.items()}
    print(f"per example of {d:,} features, float64; {n:,} examples, BCW {len(y):,} rows")
    for name, seconds in medians.items():
        times = medians["outer products"] / seconds, medians["full AROW"] / seconds
        verdict = ": met" if times[0] >= FASTER else ": MISSED"
        goal = (
            f"  (target {FASTER:g} at {WIDTH:,} features{verdict if d == WIDTH else ''})" if name == "full AROW" else ""
        )
        fast = f"{times[0]:6.1f} times as fast as outer products, {times[1]:6.1f} as full AROW"
        print(f"  {name:18s} {1e3 * seconds:9.4f} ms  {fast}{goal}")
    print()


def outer_products(X, y, w, sigma):
    """AROW with r = 1 and a full covariance, as it is written down; returns w, changes Σ."""
    w = w.copy()
    for x, label in zip(X, y, strict=True):
        loss = max(0.0, 1.0 - label * (w @ x))
        if loss > 0.0:
            z = sigma @ x
            beta = 1.0 / (x @ z + 1.0)
            w += loss * beta * label * z
            sigma -= beta * np.outer(z, z)
    return w


def errors(X, y, test, rows):
    """Test error of full AROW and of BCW on the same rows."""
    few, X, y = rows < len(y), X[:rows], y[:rows]
    print(f"test error, {'only the first ' if few else ''}{len(y):,} x {X.shape[1]:,}")
    found = {}
    for name, model in {
        "full AROW": ts.AROW(covariance="full", fit_intercept=False, dtype="float64"),
        "BCW hinge": ts.BCW(fit_intercept=False, dtype="float64"),
    }.items():
        start = time.perf_counter()
        model.fit(X, y)
        seconds = time.perf_counter() - start
        found[name] = 100.0 * (1.0 - model.score(*test))
        print(f"  {name:18s} {found[name]:6.2f} %  {seconds:8.2f} s")
    met = found["BCW hinge"] <= found["full AROW"] + WORSE
    print(f"  target: BCW at most {WORSE} points worse: {'met' if met else 'MISSED'}\n")


def stream(n, d):
    """Peak memory of a long stream in batches."""
    make, model = maker(d), ts.BCW(batch_size=BATCH, fit_intercept=False, dtype="float64")
    peak = 0
    start = time.perf_counter()
    for first in range(0, n, BATCH // 2):
        X, y = make(min(BATCH // 2, n - first))
        tracemalloc.start()
        model.partial_fit(X, y, classes=[-1, 1])
        peak = max(peak, tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    seconds = time.perf_counter() - start
    state, batch = 8 * d * d, 8 * d * BATCH
    # what was there before the call is not traced: P and half a batch that waits
    held = peak + state + batch // 2
    allowed = 4 * state + 2 * batch
    print(f"{n:,} rows x {d:,} in batches of {BATCH:,}: {seconds:.0f} s, generating them included")
    print(f"  peak {held / 1e6:,.0f} MB; four matrices and two batches are {allowed / 1e6:,.0f} MB: ", end="")
    print("met" if held <= allowed else "MISSED")


if __name__ == "__main__":
    main()
