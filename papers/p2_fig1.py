"""P2 Figures 1 to 4: gradient descent with a hard threshold diverges, compared with the stable sparse perceptron."""

import math
from collections.abc import Iterator, Sequence
from itertools import islice, pairwise
from typing import Any

import numpy as np

from papers.data import Data, batch_of
from papers.experiment import Cell, Claim, Experiment, Row, markdown
from papers.p2_common import CORPUS, SIZES, TASK_COLOURS, errors, task
from papers.presenting import distinct, legend, panels, plot_rows
from thinstream.algorithms.batch import grades
from thinstream.algorithms.batch.base import Passes
from thinstream.diagnostics.bounds import safe_gamma
from thinstream.lanes.learner import Learner

WORDS, KEPT, ITERATIONS = 5_000, 2_000, 10
GAMMAS = (3.0, 100.0, 0.0)  # 0: ‖X‖₂²
FORMS = ("unit", "tf-idf")
STABLE: dict[str, Any] = {"eta": 0.5, "l1": 1e-3, "margin": 1e-2}  # the middle of P2's grids


def followed(name: str, form: str, iterations: int, limit: int) -> list[Row]:
    """GraDes with each γ, then the stable method: a row for each iteration, or pass."""
    data = task(name, form, WORDS, limit).train
    norm, rows = safe_gamma(data.X), []
    for gamma in GAMMAS:
        for row in descended(data, gamma or norm, iterations):
            rows.append({"task": name, "rows": form, "method": "GraDes", "gamma": gamma, "norm": norm, **row})
    rows += [{"task": name, "rows": form, "method": "stable", "norm": norm, **row} for row in passed(data, iterations)]
    return rows


def descended(data: Data, gamma: float, iterations: int) -> list[Row]:
    """The potential, the spectral radius of the matrix of the features kept, and the training error.

    A radius of at most 1 is given as 1: its digits take minutes, for the lower end of the spectrum is crowded.
    """
    passes, columns = Passes.of(batch_of(data)), data.X.tocsc()
    found: list[Row] = []
    for w, potential, wrong in islice(grades.path(passes, gamma, KEPT), iterations + 1):
        if not (math.isfinite(potential) and np.all(np.isfinite(w))):
            break
        radius = max(1.0, safe_gamma(columns[:, np.flatnonzero(w)] if found else data.X) / gamma - 1.0)
        error = 100.0 * float(wrong.sum()) / len(data.y)
        found.append({"iteration": len(found), "potential": potential, "radius": radius, "error": error})
    return found


def passed(data: Data, passes: int) -> list[Row]:
    """The training error after each pass, and ‖w‖²/(kη²R²) after k updates, which P2 Theorem 1 keeps below 1."""
    order = np.random.default_rng(0).permutation(len(data.y))
    batch, found = batch_of(data, order), []
    largest = float(data.X.multiply(data.X).sum(axis=1).max())
    model = Learner(
        "StableSparsePerceptron", n_features=data.X.shape[1], dtype="float64", fit_intercept=False, **STABLE
    )
    for done in range(passes + 1):
        if done:
            model.learn(batch)
        w = np.asarray(model.weights(), dtype=np.float64)
        error = 100.0 * float(errors(data.X, data.y, w[:, np.newaxis])[0])
        size = float(w @ w) / (max(model.n_updates, 1) * STABLE["eta"] ** 2 * largest)
        found.append({"iteration": done, "error": error, "size": size, "density": float(np.mean(w != 0))})
    return found


def cells(smoke: bool) -> list[Cell]:
    """One for each task and scaling of rows."""
    tasks, work = (("comp vs rec",), (2, 60)) if smoke else (tuple(SIZES), (ITERATIONS, 0))
    return [Cell(f"{name} {form}", followed, (name, form, *work), (CORPUS,)) for name in tasks for form in FORMS]


def path(rows: Sequence[Row], name: str, form: str, gamma: float | None) -> list[Row]:
    """Iterations of GraDes with a γ, or passes of the stable method (None)."""
    own = [row for row in rows if row["task"] == name and row["rows"] == form]
    method = "stable" if gamma is None else "GraDes"
    return [row for row in own if row["method"] == method and (gamma is None or row["gamma"] == gamma)]


def told(gamma: float) -> str:
    """γ in words.

    >>> told(3.0), told(0.0)
    ('3', '‖X‖₂²')
    """
    return f"{gamma:g}" if gamma else "‖X‖₂²"


def tables(rows: Sequence[Row]) -> Iterator[str]:
    """A table for each scaling."""
    for form in FORMS:
        lines = []
        for name in distinct(rows, "task"):
            for gamma in GAMMAS:
                own = path(rows, name, form, gamma)
                first, last = own[0], own[-1]
                numbers = [f"{row[key]:.3g}" for key in ("radius", "potential") for row in (first, last)]
                lines.append([f"{name}, γ = {told(gamma)}", f"{first['norm']:.3g}", *numbers, f"{last['error']:.1f}"])
            last = path(rows, name, form, None)[-1]
            lines.append([f"{name}, stable", "", "", "", "", "", f"{last['error']:.1f}"])
        head = ["", "‖X‖₂²", "ρ at the start", "ρ at the end", "Ψ at the start", "Ψ at the end", "training error in %"]
        yield f"**Rows: {form}**\n\n{markdown(head, lines)}"


def draw(rows: Sequence[Row], figure: Any) -> None:
    """Above rows of length 1, below unscaled tf-idf; P2's four figures from the left, training errors at the right."""
    axes = panels(figure, 2, 5, 17.0, 7.0)
    kinds = [(gamma, measure) for measure in ("radius", "potential") for gamma in (3.0, 100.0)]
    for line, form in zip(axes, FORMS, strict=True):
        for name in distinct(rows, "task"):
            look = {"color": TASK_COLOURS[name]}
            for panel, (gamma, measure) in zip(line, kinds, strict=False):
                own = path(rows, name, form, gamma)
                plot_rows(panel, own, "iteration", measure, "o-", ms=3, label=name, **look)
                what = "spectral radius" if measure == "radius" else "potential Ψ"
                panel.set(title=f"{what}, γ = {gamma:g}", xlabel="iteration", yscale="log")
            plot_rows(line[4], path(rows, name, form, None), "iteration", "error", "-", **look)
            plot_rows(line[4], path(rows, name, form, 100.0), "iteration", "error", "--", **look)
        line[0].set_ylabel(f"rows: {form}")
        line[4].set(
            title="training error (%)\n— stable, - - GraDes, γ = 100", xlabel="pass, or iteration", ylim=(0, 60)
        )
    legend(figure, [axes[0, 0]], 6)


def claims(rows: Sequence[Row]) -> Iterator[Claim]:
    """Section 4.2, for each scaling of the rows, and the stable method."""
    tasks = distinct(rows, "task")
    for gamma in (3.0, 100.0):
        for form in FORMS:
            ends = [path(rows, name, form, gamma) for name in tasks]
            grew = [one[-1]["potential"] > one[0]["potential"] for one in ends]
            radii = [row["radius"] for one in ends for row in one]
            last = [one[-1]["potential"] for one in ends]
            yield Claim(
                f"GraDes diverges with γ = {gamma:g} (rows: {form})",
                all(grew),
                f"the potential grew in {sum(grew)} of {len(grew)} tasks, and ends at {min(last):.2g} to "
                f"{max(last):.2g}; ρ {min(radii):.3g} to {max(radii):.3g}",
            )
    safe = [path(rows, name, form, 0.0) for name in tasks for form in FORMS]
    falls = [all(b["potential"] <= a["potential"] for a, b in pairwise(one)) for one in safe]
    yield Claim("(ours) with γ = ‖X‖₂² the potential never rises", all(falls), f"in {sum(falls)} of {len(falls)} runs")
    stable = {form: [path(rows, name, form, None) for name in tasks] for form in FORMS}
    every = [one for own in stable.values() for one in own]
    size = max(row["size"] for one in every for row in one)
    errors_now = {form: [one[-1]["error"] for one in own] for form, own in stable.items()}
    yield Claim(
        "the stable method converges: ‖w‖² stays below kR² after k updates, and the training error falls",
        size < 1 and all(one[-1]["error"] < one[0]["error"] / 5 for one in every),
        f"‖w‖²/(kη²R²) is at most {size:.2f}; training error at the end: "
        + "; ".join(f"{form} {min(own):.1f} to {max(own):.1f} %" for form, own in errors_now.items()),
    )


EXPERIMENT = Experiment.of(__name__, "p2-fig1")
