"""Single things that can be wrong with a model: how each is recognised, and what can be done about it."""

import math
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinstream.batch import Batch
from thinstream.batch_learners import grades
from thinstream.batch_learners.repeating import Passes

Level = Literal["problem", "note", "fine"]  # the worst first

#: Shares below which something counts as rare.
FEW, RARE = 0.1, 0.01
#: How many times as large as others features may be.
APART = 1000.0
SCALE = "scale the features, each by its largest value: scale='max', --scale max of the command line"
PARTS = 4


class Part(NamedTuple):
    """What is known of the model at the end of a part of the rows, and of its predictions in it."""

    rows: int
    nnz: int
    error: float  # share called wrong before their update
    score: float  # median |score| of rows not scored 0
    finite: bool


#: A run, looked at in PARTS parts.
Run = tuple[Part, ...]


def share_wrong(run: Run) -> float:
    """Of all its rows."""
    sizes = np.diff([0, *(part.rows for part in run)])
    return float(np.dot(sizes, [part.error for part in run]) / run[-1].rows)


class Finding(NamedTuple):
    """One thing that was looked at."""

    level: Level
    about: str
    says: str
    do: str = ""  # what can be done, if anything has to be


def finite(w: NDArray[Any]) -> Finding | None:
    """Whether all weights are numbers."""
    bad = int(np.count_nonzero(~np.isfinite(w)))
    if not bad:
        return None
    return Finding(
        "problem", "divergence", f"{bad:,} of {w.size:,} weights are infinite or not a number", "learn anew with a "
        "smaller eta (a larger gamma, beta, r), or scale the rows, or use dtype='float64'"
    )  # fmt: skip


def dynamic_range(name: str, w: NDArray[Any], parameters: dict[str, Any], underflown: int = 0) -> Finding:
    """How many weights are so small that they are lost beside the largest (P2 Table 3)."""
    found, about = exponents(w), "dynamic range"
    if not found.nonzero:
        return Finding("fine", about, "no weight is other than 0")
    span = f"from 2^{found.smallest} to 2^{found.largest} (mean {found.mean:.1f} ± {found.std:.1f})"
    span += f", and {underflown:,} more are so small that they are 0" if underflown else ""
    within = found.within * found.nonzero / (found.nonzero + underflown)
    if within > 1 - RARE:
        return Finding("fine", about, f"{found.nonzero:,} weights reach {span}")
    total = found.nonzero + underflown
    says = f"only {100 * within:.1f} % of the {total:,} weights are within 2^-{found.reach} of the largest"
    do = "scale the features to similar sizes; a small l1 takes the smallest weights away"
    if name == "SMIDAS":
        do = _lower_p(parameters.get("p"), w)
    return Finding("problem" if within < 1 - FEW else "note", about, f"{says}; they reach {span}", do)


def _lower_p(p: float | None, w: NDArray[Any]) -> str:
    """What to do about a SMIDAS whose weights are too far apart."""
    shown = "p=None, that is 2 ln d," if p is None else f"p={p:g}"
    lower, plain = max(2.0, 0.5 * math.log(max(w.size, 1))), "an algorithm without a link function, as FOBOS"
    if p is None or p > 1.2 * lower:
        return f"{shown} is too large: try p={lower:.3g} (0.5 ln d), or {plain}"
    return f"dtype='float64', or {plain}" if w.dtype == np.float32 else f"{shown} is too large: try p=2, or {plain}"


def lost_weights(batch: Batch, w: NDArray[Any]) -> Finding | None:
    """How many features never matter: wherever they occur another term of the same sum is out of their reach."""
    terms = np.abs(w.astype(np.float64)[batch.indices] * batch.values)
    rows = np.repeat(np.arange(len(batch)), np.diff(batch.indptr))
    if not terms.any():
        return None
    top = np.zeros(len(batch))
    np.maximum.at(top, rows, terms)
    weigh = (terms > 0) & (terms >= top[rows] * float(np.finfo(w.dtype if w.dtype.kind == "f" else float).eps) / 2)
    used, heard = (np.unique(batch.indices[mask]) for mask in (terms > 0, weigh))
    lost, about = len(used) - len(heard), "lost weights"
    says = f"of {len(used):,} weights that meet these rows {lost:,} are lost: alone they change no score, larger terms "
    says += "of the sum swallow theirs"
    if lost <= RARE * len(used):
        return Finding("fine", about, says if lost else f"all {len(used):,} weights that meet these rows count")
    return Finding("problem" if lost > FEW * len(used) else "note", about, says, "see dynamic range; without "
                   "them the model is smaller and predicts the same but for rounding")  # fmt: skip


def error(name: str, run: Run | None, y: NDArray[Any] | None) -> Finding | None:
    """Whether always answering the same would be wrong less often."""
    if run is None or y is None:
        return None
    positives = float(np.mean(y > 0))
    wrong, constant = share_wrong(run), min(positives, 1.0 - positives)
    says = f"{wrong:.1%} of these rows were called wrong before they were learned, {constant:.1%} would be by always "
    says += "answering the same"
    if wrong <= constant:
        return Finding("fine", "error", says)
    do = "other parameters, or another algorithm (thinstream tune)"
    if name == "Auto":  # has none; what it has no model for is a stream that changes
        do = "a model that forgets, if the stream changes (thinstream tune -a arow --grid half-life=1000,10000)"
    return Finding("note", "error", says, f"where no class costs ask for it: {do}")


def scales(batch: Batch, run: Run | None, scaled_run: Callable[[], Run | None]) -> Finding | None:
    """Features of very different sizes: the large ones decide, the small ones hardly learn.

    With labels it is tried what scaling changes; some algorithms do without.
    """
    largest = np.zeros(batch.n_features)
    np.maximum.at(largest, batch.indices, np.abs(batch.values.astype(np.float64)))
    sizes = largest[largest > 0]
    if not len(sizes) or sizes.max() <= APART * np.quantile(sizes, FEW, method="lower"):  # a few tiny ones do no harm
        return None
    found, about = exponents(largest), "scales"
    says = f"the largest values of features reach from 2^{found.smallest} to 2^{found.largest}"
    scaled = None if run is None else scaled_run()
    if run is None or scaled is None:
        return Finding("note", about, says, SCALE)
    says += (
        f"; {share_wrong(run):.1%} of these rows were called wrong, {share_wrong(scaled):.1%} where features are scaled"
    )
    if share_wrong(scaled) < (1 - FEW) * share_wrong(run):
        return Finding("problem", about, says, SCALE)
    return Finding("fine", about, says)


def density(name: str, w: NDArray[Any], parameters: dict[str, Any], run: Run | None) -> Finding:
    """Whether the model goes on growing without getting better."""
    nnz, about = int(np.count_nonzero(w)), "density"
    says = f"{nnz:,} of {w.size:,} weights are not 0 ({100 * nnz / max(w.size, 1):.3g} %)"
    if nnz == 0:
        return Finding("note", about, says, "lower l1" if parameters.get("l1") else "")
    if run is None:
        return Finding("fine", about, says)
    half, end = run[len(run) // 2 - 1], run[-1]
    says += f"; {half.nnz:,} after {half.rows:,} rows, {end.nnz:,} after {end.rows:,}, errors {half.error:.1%} and "
    says += f"{end.error:.1%}"
    if end.nnz < (1 + FEW) * half.nnz or half.nnz == 0 or end.error < (1 - FEW) * half.error:
        return Finding("fine", about, says)
    do = "raise l1: it is 0, which keeps every weight" if parameters.get("l1") == 0 else "raise l1"
    if "l1" not in parameters:
        do = "an algorithm with l1, as FSOL or SSOL"
    do += ", or set a limit with StableSparsePerceptron(max_density=…)"
    if name == "Auto":
        do = "max_nnz=…, or thinstream thin"
    return Finding("note", about, f"{says}: it grows and does not get better", do)


def divergence(run: Run | None) -> Finding | None:
    """Whether scores grow faster than the examples do."""
    if run is None:
        return None
    half, end = run[len(run) // 2 - 1], run[-1]
    says = f"the median |score| went from {half.score:.3g} to {end.score:.3g} in the second half of these rows"
    if not end.finite:
        says = "scores became infinite"
    elif end.score <= max(10.0, 4 * half.score):  # they grow like the root of t at worst, if all is well
        return Finding("fine", "divergence", says)
    return Finding("problem", "divergence", says, "lower eta, or let it fall (rate='inv_sqrt'), or scale the rows")


def coordinate_steps(batch: Batch, beta: float) -> Finding:
    """SCD: whether β bounds the curvature of every coordinate."""
    squares = np.bincount(batch.indices, batch.values.astype(np.float64) ** 2, batch.n_features)
    needed = float(squares.max(initial=0.0)) / max(len(batch), 1) / 4
    if beta >= needed:
        return Finding(
            "fine", "steps", f"beta={beta:g} bounds the curvature, {needed:.3g}: no step raises the objective"
        )
    return Finding("problem", "steps", f"beta={beta:g} is below the curvature, {needed:.3g}: steps overshoot",
                   f"beta={needed:.3g} or more, or features scaled to |x| ≤ 1")  # fmt: skip


def gradient_steps(batch: Batch, gamma: float, potential: NDArray[np.float64]) -> Finding:
    """GraDes: whether γ is large enough for X (without class weights), and what Ψ did."""
    norm = grades.squared_norm(Passes.of(batch.labelled(np.ones(len(batch), np.int8))))
    path = f"the potential went from {potential[0]:.3g} to {potential[-1]:.3g}"
    if potential[-1] > potential[0] or gamma < norm / 2:
        return Finding("problem", "divergence", f"gamma={gamma:.4g} is below half of ‖X‖₂² = {norm:.4g}; {path}"
                       if gamma < norm / 2 else path, "gamma=None, which takes ‖X‖₂²")  # fmt: skip
    return Finding("fine", "divergence", f"gamma={gamma:.4g} is large enough for ‖X‖₂² = {norm:.4g}; {path}")


# How far apart the sizes of weights are, in powers of 2 (P2 Table 3) --------------------------------------------------


class Exponents(NamedTuple):
    """Statistics of ⌊log₂|w_j|⌋ over the non-zero weights; NaN and 0 where there are none."""

    nonzero: int  # how many there are
    within: float  # share whose exponent is in [largest − reach, largest]: the others are lost beside the largest
    mean: float
    std: float  # of the population
    largest: int
    smallest: int
    reach: int  # 51 for float64, 22 for float32


def exponents(w: Any, reach: int | None = None) -> Exponents:
    """The exponents of a weight vector.

    ``reach`` is how far below the largest a number still counts in a sum with it: by default one less than the bits of
    the mantissa of w's type, as P2 has it. Numbers that are not finite have no exponent and are left out.

    Examples
    --------
    >>> found = exponents([1.0, -0.3, 0.0, 2.0**-60])
    >>> found.nonzero, found.largest, found.smallest, round(found.within, 2), round(found.std, 2)
    (3, 0, -60, 0.67, 27.82)

    """
    values = np.ravel(np.asarray(w))
    values = values if values.dtype.kind == "f" else values.astype(np.float64)
    steps = int(np.finfo(values.dtype).nmant) - 1 if reach is None else reach
    found = np.frexp(values[np.isfinite(values) & (values != 0)])[1].astype(np.int64) - 1  # exact, unlike log2
    if len(found) == 0:
        return Exponents(0, np.nan, np.nan, np.nan, 0, 0, steps)
    largest, smallest = int(found.max()), int(found.min())
    within = float(np.mean(found >= largest - steps))
    return Exponents(len(found), within, float(found.mean()), float(found.std()), largest, smallest, steps)
