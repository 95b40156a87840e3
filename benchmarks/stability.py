"""The numerical troubles of P2 on 20 newsgroups, and bounds beside what was measured: the numbers of docs/stability.md.

    THINSTREAM_DATA=folder python benchmarks/stability.py

Caveats first. These 20 newsgroups tasks are tf-idf with rows of length 1 and other preprocessing than P2's, so spectral
radii are smaller. SMIDAS takes one pass with an l1 that gives a density of about 40 %. Training rows only, float64.
"""

import numpy as np

import thinstream as ts
from thinstream.cli.commands.scoring import first
from thinstream.datasets import find
from thinstream.diagnostics.bounds import matrix_of, spectral_radius
from thinstream.diagnostics.diagnosis import diagnose, exponents
from thinstream.diagnostics.regret import regret

#: Task → the l1 of SMIDAS.
TASKS = {"20news-comp-vs-rec": 1e-4, "20news-sci-vs-talk": 1e-4, "20news-pcmac": 3e-4}
PLAIN = {"fit_intercept": False}  # as the papers


def main():
    data = {name: rows(name) for name in TASKS}
    print("SMIDAS: exponents of the weights (P2 Table 3)\n")
    for name, (X, y) in data.items():
        for factor in (2.0, 0.5):
            print(line(name, spread(X, y, factor, TASKS[name])))
    print("\nGraDes: spectral radius at the start and after 10 iterations, and the potential (P2 Figures 1 to 4)\n")
    for name, (X, y) in data.items():
        for gamma in (3.0, 100.0, None):
            print(line(name, ends(X, y, gamma)))
    task = next(iter(data))
    X, y = data[task]
    print(f"\nRegret and bound (P0 Theorems 2 and 3, P3 Theorem 1) on {task}\n")
    for model in (
        ts.FSOL(eta=0.25, **PLAIN),
        ts.SSOL(eta=4.0, diagonal="exact", **PLAIN),
        ts.ARCSOGD(eta=4.0, **PLAIN),
    ):
        found = regret(model, X, y)
        numbers = [found.loss, found.comparator_loss, found.regret, found.bound.total]
        print(line(repr(model), [f"{number:,.0f}" for number in numbers]))
    print(f"\nDiagnosis on {task}\n")
    for model in (
        ts.SMIDAS(eta=0.5, **PLAIN),
        ts.SMIDAS(eta=0.5, p=5, dtype="float64", **PLAIN),
        ts.FSOL(**PLAIN),
        ts.GraDes(gamma=3.0, **PLAIN),
    ):
        print(diagnose(model.fit(X, y), X, y), "\n")


def rows(name):
    batch = first(ts.open_stream(find(name)[0], dtype="float64").batches(), 10**9)
    return matrix_of(batch), batch.y


def spread(X, y, factor, l1):
    """p, l1, density and the statistics of Table 3."""
    p = factor * np.log(X.shape[1])
    model = ts.SMIDAS(eta=0.5, l1=l1, p=p, dtype="float64", **PLAIN).fit(X, y)
    found = exponents(model.coef_)
    told = [f"p = {p:.1f}", f"l1 = {l1:g}", f"density {model.density_:.3f}", f"within {found.within:.3f}"]
    return [*told, f"{found.mean:.1f} ± {found.std:.1f}"]


def ends(X, y, gamma):
    """γ, the radii of the first and the last iteration's matrix, the first and the last potential."""
    model = ts.GraDes(gamma=gamma, n_nonzero=2000, **PLAIN).fit(X, y)
    kept = np.flatnonzero(model.coef_)
    radii = [spectral_radius(X, model.gamma_), spectral_radius(X, model.gamma_, support=kept)]
    told = [f"γ = {model.gamma_:.4g}", *(f"ρ {radius:.3g}" for radius in radii)]
    return [*told, *(f"Ψ {potential:.4g}" for potential in model.potential_[[0, -1]])]


def line(head, cells):
    return f"{head:<40}" + "".join(f"{cell:>18}" for cell in cells)


if __name__ == "__main__":
    main()
