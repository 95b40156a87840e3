"""Diagnosis of numerical problems in a model or its data, with advice."""

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from thinstream.algorithms.batch import grades
from thinstream.algorithms.batch.base import Passes
from thinstream.batch import Batch
from thinstream.diagnostics.bounds import batch_of, signs_of
from thinstream.errors import InvalidInputError
from thinstream.models.model import make_learner_like
from thinstream.models.preparation import Preparation
from thinstream.models.products import Products

# Checks: problems of a model, how to detect them, and what to do about them.

Level = Literal["problem", "note", "fine"]  # the worst first

#: Shares below which something counts as rare.
FEW, RARE = 0.1, 0.01
#: The largest ratio between the sizes of features.
APART = 1000.0
SCALE = "scale each feature by its largest value: scale='max', or --scale max on the command line"
PARTS = 4


class Part(NamedTuple):
    """The state of the model after a part of the rows, and its predictions in that part."""

    rows: int
    nnz: int
    error: float  # share of progressive errors
    score: float  # median |score| of rows with a score other than 0
    finite: bool


#: A run in PARTS parts.
Run = tuple[Part, ...]


def share_wrong(run: Run) -> float:
    """Return the progressive error of the run."""
    sizes = np.diff([0, *(part.rows for part in run)])
    return float(np.dot(sizes, [part.error for part in run]) / run[-1].rows)


class Finding(NamedTuple):
    """The result of a check."""

    level: Level
    about: str
    message: str
    advice: str = ""  # what to do, if necessary


def finite(w: NDArray[Any]) -> Finding | None:
    """Check whether all weights are finite."""
    bad = int(np.count_nonzero(~np.isfinite(w)))
    if not bad:
        return None
    return Finding(
        "problem", "divergence", f"{bad:,} of {w.size:,} weights are infinite or not a number", "train again with a "
        "smaller eta (a larger gamma, beta, r), or scale the rows, or use dtype='float64'"
    )  # fmt: skip


def dynamic_range(name: str, w: NDArray[Any], parameters: dict[str, Any], underflown: int = 0) -> Finding:
    """Check how many weights are too small compared with the largest (P2 Table 3)."""
    statistics, about = exponents(w), "dynamic range"
    if not statistics.nonzero:
        return Finding("fine", about, "all weights are 0")
    span = f"from 2^{statistics.smallest} to 2^{statistics.largest} (mean {statistics.mean:.1f} ± {statistics.std:.1f})"
    span += f", and {underflown:,} more have underflowed to 0" if underflown else ""
    within = statistics.within * statistics.nonzero / (statistics.nonzero + underflown)
    if within > 1 - RARE:
        return Finding("fine", about, f"{statistics.nonzero:,} weights have sizes {span}")
    total = statistics.nonzero + underflown
    message = f"only {100 * within:.1f}% of the {total:,} weights are within 2^-{statistics.reach} of the largest"
    advice = "scale the features to similar sizes, or remove the smallest weights with a small l1"
    if name == "SMIDAS":
        advice = _lower_p(parameters.get("p"), w)
    return Finding("problem" if within < 1 - FEW else "note", about, f"{message}; sizes are {span}", advice)


def _lower_p(p: float | None, w: NDArray[Any]) -> str:
    """Return advice on a SMIDAS with too different weights."""
    shown = "p=None (2 ln d)" if p is None else f"p={p:g}"
    lower, plain = max(2.0, 0.5 * math.log(max(w.size, 1))), "an algorithm without a link function, such as FOBOS"
    if p is None or p > 1.2 * lower:
        return f"{shown} is too large: try p={lower:.3g} (0.5 ln d), or {plain}"
    return f"dtype='float64', or {plain}" if w.dtype == np.float32 else f"{shown} is too large: try p=2, or {plain}"


def lost_weights(batch: Batch, w: NDArray[Any]) -> Finding | None:
    """Check how many features never matter, because larger terms of the same sums absorb them."""
    terms = np.abs(w.astype(np.float64)[batch.indices] * batch.values)
    rows = np.repeat(np.arange(len(batch)), np.diff(batch.indptr))
    if not terms.any():
        return None
    top = np.zeros(len(batch))
    np.maximum.at(top, rows, terms)
    weigh = (terms > 0) & (terms >= top[rows] * float(np.finfo(w.dtype if w.dtype.kind == "f" else float).eps) / 2)
    used, effective = (np.unique(batch.indices[mask]) for mask in (terms > 0, weigh))
    lost, about = len(used) - len(effective), "lost weights"
    message = (
        f"{lost:,} of {len(used):,} weights used by these rows are lost: none of them changes a score on its own, "
    )
    message += "because rounding absorbs its term"
    if lost <= RARE * len(used):
        return Finding(
            "fine", about, message if lost else f"all {len(used):,} weights used by these rows have an effect"
        )
    advice = "see dynamic range; without them, the model is smaller and predicts the same up to rounding"
    return Finding("problem" if lost > FEW * len(used) else "note", about, message, advice)


def error(name: str, run: Run | None, y: NDArray[Any] | None) -> Finding | None:
    """Check whether a constant prediction would have fewer errors."""
    if run is None or y is None:
        return None
    positives = float(np.mean(y > 0))
    wrong, constant = share_wrong(run), min(positives, 1.0 - positives)
    message = f"the progressive error on these rows is {wrong:.1%}; a constant prediction would have {constant:.1%}"
    if wrong <= constant:
        return Finding("fine", "error", message)
    advice = "try other parameters or another algorithm (thinstream tune)"
    if name == "Auto":  # it has no such parameters, and no model for a stream that changes
        advice = "if the stream changes, use a model that forgets (thinstream tune -a arow --grid half-life=1000,10000)"
    return Finding("note", "error", message, f"unless class costs explain it, {advice}")


def scales(batch: Batch, run: Run | None, scaled_run: Callable[[], Run | None]) -> Finding | None:
    """Check for features of very different sizes: the large ones dominate, and the small ones hardly learn.

    With labels, run again with scaled features, because some algorithms do not need scaling.
    """
    largest = np.zeros(batch.n_features)
    np.maximum.at(largest, batch.indices, np.abs(batch.values.astype(np.float64)))
    sizes = largest[largest > 0]
    if not len(sizes) or sizes.max() <= APART * np.quantile(sizes, FEW, method="lower"):  # a few tiny ones are harmless
        return None
    statistics, about = exponents(largest), "scales"
    message = f"the largest values of features range from 2^{statistics.smallest} to 2^{statistics.largest}"
    scaled = None if run is None else scaled_run()
    if run is None or scaled is None:
        return Finding("note", about, message, SCALE)
    message += f"; the progressive error is {share_wrong(run):.1%}, and {share_wrong(scaled):.1%} with scaled features"
    if share_wrong(scaled) < (1 - FEW) * share_wrong(run):
        return Finding("problem", about, message, SCALE)
    return Finding("fine", about, message)


def density(name: str, w: NDArray[Any], parameters: dict[str, Any], run: Run | None) -> Finding:
    """Check whether the model keeps growing without getting better."""
    nnz, about = int(np.count_nonzero(w)), "density"
    message = f"{nnz:,} of {w.size:,} weights are not 0 ({100 * nnz / max(w.size, 1):.3g}%)"
    if nnz == 0:
        return Finding("note", about, message, "lower l1" if parameters.get("l1") else "")
    if run is None:
        return Finding("fine", about, message)
    half, end = run[len(run) // 2 - 1], run[-1]
    message += f"; {half.nnz:,} after {half.rows:,} rows (error {half.error:.1%}), {end.nnz:,} after {end.rows:,} "
    message += f"(error {end.error:.1%})"
    if end.nnz < (1 + FEW) * half.nnz or half.nnz == 0 or end.error < (1 - FEW) * half.error:
        return Finding("fine", about, message)
    advice = "raise l1, which is 0 and keeps every weight" if parameters.get("l1") == 0 else "raise l1"
    if "l1" not in parameters:
        advice = "use an algorithm with l1, such as FSOL or SSOL"
    advice += ", or set a limit with StableSparsePerceptron(max_density=…)"
    if name == "Auto":
        advice = "set max_nnz=…, or run thinstream thin"
    return Finding("note", about, f"{message}. The model grows without getting better", advice)


def divergence(run: Run | None) -> Finding | None:
    """Check whether scores grow too fast."""
    if run is None:
        return None
    half, end = run[len(run) // 2 - 1], run[-1]
    message = f"the median |score| changed from {half.score:.3g} to {end.score:.3g} in the second half of these rows"
    if not end.finite:
        message = "scores became infinite"
    elif end.score <= max(10.0, 4 * half.score):  # normally, they grow at most like the square root of t
        return Finding("fine", "divergence", message)
    return Finding("problem", "divergence", message, "lower eta, let it decrease (rate='inv_sqrt'), or scale the rows")


def coordinate_steps(batch: Batch, beta: float) -> Finding:
    """SCD: check whether β bounds the curvature of every coordinate."""
    squares = np.bincount(batch.indices, batch.values.astype(np.float64) ** 2, batch.n_features)
    needed = float(squares.max(initial=0.0)) / max(len(batch), 1) / 4
    if beta >= needed:
        return Finding(
            "fine", "steps", f"beta={beta:g} bounds the curvature {needed:.3g}, so no step increases the objective"
        )
    return Finding("problem", "steps", f"beta={beta:g} is below the curvature {needed:.3g}, so steps overshoot",
                   f"set beta={needed:.3g} or more, or scale features to |x| ≤ 1")  # fmt: skip


def gradient_steps(batch: Batch, gamma: float, potential: NDArray[np.float64]) -> Finding:
    """GraDes: check whether γ is large enough for X (without class weights), and how Ψ changed."""
    norm = grades.squared_norm(Passes.of(batch.labelled(np.ones(len(batch), np.int8))))
    path = f"the potential changed from {potential[0]:.3g} to {potential[-1]:.3g}"
    if potential[-1] > potential[0] or gamma < norm / 2:
        return Finding("problem", "divergence", f"gamma={gamma:.4g} is below half of ‖X‖₂² = {norm:.4g}; {path}"
                       if gamma < norm / 2 else path, "set gamma=None, which uses ‖X‖₂²")  # fmt: skip
    return Finding("fine", "divergence", f"gamma={gamma:.4g} is large enough for ‖X‖₂² = {norm:.4g}; {path}")


# The sizes of weights in powers of 2 (P2 Table 3).


class Exponents(NamedTuple):
    """Statistics of ⌊log₂|w_j|⌋ over the non-zero weights; NaN and 0 if there are none."""

    nonzero: int  # number of non-zero weights
    within: float  # share with an exponent in [largest − reach, largest]; others are lost in sums with the largest
    mean: float
    std: float  # of the population
    largest: int
    smallest: int
    reach: int  # 51 for float64, 22 for float32


def exponents(w: Any, reach: int | None = None) -> Exponents:
    """Return statistics of the exponents of a weight vector.

    A number counts in a sum with the largest if its exponent is at most ``reach`` lower. The default is one less than
    the mantissa bits of w's dtype, as in P2. Numbers that are not finite are ignored.

    Examples
    --------
    >>> sizes = exponents([1.0, -0.3, 0.0, 2.0**-60])
    >>> sizes.nonzero, sizes.largest, sizes.smallest, round(sizes.within, 2), round(sizes.std, 2)
    (3, 0, -60, 0.67, 27.82)

    """
    values = np.ravel(np.asarray(w))
    values = values if values.dtype.kind == "f" else values.astype(np.float64)
    steps = int(np.finfo(values.dtype).nmant) - 1 if reach is None else reach
    powers = np.frexp(values[np.isfinite(values) & (values != 0)])[1].astype(np.int64) - 1  # exact, unlike log2
    if len(powers) == 0:
        return Exponents(0, np.nan, np.nan, np.nan, 0, 0, steps)
    largest, smallest = int(powers.max()), int(powers.min())
    within = float(np.mean(powers >= largest - steps))
    return Exponents(len(powers), within, float(powers.mean()), float(powers.std()), largest, smallest, steps)


# The report on a model.


class Diagnosis(NamedTuple):
    """The findings, the worst first. Printed, it is a report."""

    name: str  # of the model
    findings: tuple[Finding, ...]

    def level(self, about: str) -> Level:
        """Return the level of a check, such as "dynamic range"; "fine" if it was not made."""
        return next((finding.level for finding in self.findings if finding.about == about), "fine")

    def __str__(self) -> str:
        lines = [f"{self.name}: {self._verdict()}"]
        for finding in self.findings:
            lines.append(f"  {finding.level:<8} {finding.about}: {finding.message}")
            if finding.advice:
                lines.append(f"  {'':<8} → {finding.advice}")
        return "\n".join(lines)

    def _verdict(self) -> str:
        levels = [finding.level for finding in self.findings]
        problems, notes = levels.count("problem"), levels.count("note")
        if not problems + notes:
            return "no problems found"
        counts = [(problems, "problem"), (notes, "note")]
        return " and ".join(f"{count} {word}{'s' * (count > 1)}" for count, word in counts if count)


class Subject(NamedTuple):
    """The model for the checks."""

    name: str
    w: NDArray[Any]
    parameters: dict[str, Any]
    learner: Any = None  # of thinstream
    classes: Any = None
    preparation: Preparation | None = None
    products: Products | None = None


def diagnose(model: Any, X: Any, y: Any = None) -> Diagnosis:
    """Check for lost weights, a wide dynamic range, columns of different scales, growing density and divergence.

    With labels, an online learner is trained on the rows from scratch to see its progress, and again with scaled
    features if they have very different sizes.

    Parameters
    ----------
    model : estimator, Model, Learner or array
        A fitted model, any linear model with ``coef_``, or weights.
    X : matrix
        Rows like those from which the model learned. A few thousand are enough.
    y : array, optional
        Labels.

    Examples
    --------
    >>> import thinstream as ts
    >>> train, _ = ts.datasets.sparse_gaussian(2_000, 1, seed=0)
    >>> model = ts.SMIDAS(eta=0.5, p=60, fit_intercept=False).fit(train.X, train.y)
    >>> print(diagnose(model, train.X))  # doctest: +ELLIPSIS
    SMIDAS: 2 problems
      problem  dynamic range: only 4.2% of the 1,000 weights are within 2^-22 of the largest; sizes are from ...
               → p=60 is too large: try p=3.45 (0.5 ln d), or an algorithm without a link function, such as FOBOS
      problem  lost weights: 301 of 346 weights used by these rows are lost: none of them changes a score on its own,
      ...
               → see dynamic range; without them, the model is smaller and predicts the same up to rounding
      fine     density: 346 of 1,000 weights are not 0 (34.6%)

    """
    subject = _subject(model)
    batch = batch_of(X, None if y is None else signs_of(y, subject.classes))
    if subject.learner is None and len(subject.w) != batch.n_features:
        raise InvalidInputError(
            f"diagnose: X must have a column for each of the {len(subject.w)} weights, got {batch.n_features} columns"
        )
    if subject.products is not None:
        batch = subject.products.expand(batch, subject.learner.dtype)
    batch = batch.narrowed(len(subject.w))
    if subject.preparation:  # the rows that the learner gets
        batch = subject.preparation.apply(batch, subject.learner.dtype)
    run = replay(subject.learner, batch) if batch.y is not None else None
    findings = sorted(_findings(subject, batch, run), key=lambda finding: get_args(Level).index(finding.level))
    return Diagnosis(subject.name, tuple(findings))


def _findings(subject: Subject, batch: Batch, run: Run | None) -> list[Finding]:
    name, w, parameters, learner, *_ = subject
    not_finite = finite(w)
    if not_finite is not None:
        return [not_finite]
    findings = [
        dynamic_range(name, w, parameters, _underflown(learner)),
        lost_weights(batch, w),
        error(name, run, batch.y),
        scales(batch, run, lambda: replay(learner, scaled(learner, batch))),
        density(name, w, parameters, run),
        divergence(run),
    ]
    if name == "SCD":
        findings.append(coordinate_steps(batch, parameters["beta"]))
    if name == "GraDes" and learner is not None:
        findings.append(gradient_steps(batch, **learner.found))
    return [finding for finding in findings if finding is not None]


def _subject(model: Any) -> Subject:
    holder = getattr(model, "_model", model)  # an estimator's, or a model itself
    pipeline = getattr(holder, "learner", holder)
    if hasattr(pipeline, "outputs") and pipeline.outputs.is_binary:
        pipeline = pipeline.to_dense()
        classes, preparation = getattr(holder, "classes", None), pipeline.preparation
        learner = pipeline.outputs.one
        name, parameters = learner.algorithm.name, dict(learner.parameters)
        return Subject(name, learner.weights(), parameters, learner, classes, preparation, pipeline.products)
    name = type(model).__name__
    w = getattr(model, "coef_", None if hasattr(model, "get_params") else model)
    if w is None:
        raise InvalidInputError(f"diagnose: the model must be fitted, and this {name} has no coef_")
    w = np.asarray(w.toarray() if hasattr(w, "toarray") else w)
    if w.dtype.kind not in "fiu" or w.size != w.shape[-1]:
        raise InvalidInputError(
            "diagnose: the model must have two classes and one weight per feature, got "
            + (f"an array of shape {w.shape}" if w.size > 1 else f"{type(model).__name__}")
        )
    parameters = model.get_params(deep=False) if hasattr(model, "get_params") else {}
    return Subject("weights" if isinstance(model, np.ndarray | list) else name, w.ravel(), parameters)


def _underflown(learner: Any) -> int:
    """SMIDAS: return the number of features with θ_j ≠ 0 whose weight has underflowed."""
    if learner is None or learner.algorithm.name != "SMIDAS" or learner.weights_only:
        return 0
    state = learner.memory.state
    return int(np.count_nonzero(state[::2])) - int(np.count_nonzero(state[1::2]))


def scaled(learner: Any, batch: Batch) -> Batch:
    """Return the rows as a model with ``scale="max"`` would have learned them."""
    preparation = Preparation("max")
    preparation.widen(batch.n_features)
    return preparation.learn(batch, learner.dtype)[0]


def replay(learner: Any, batch: Batch) -> Run | None:
    """Train a fresh online learner like this one; return None if there is none, or too few rows."""
    if learner is None or learner.algorithm.kind == "batch" or learner.weights_only or len(batch) < 10 * PARTS:
        return None
    fresh = make_learner_like(learner)
    parts, edges = [], np.linspace(0, len(batch), PARTS + 1).astype(int)
    for start, stop in pairwise(edges.tolist()):
        piece, before = batch.until(stop).after(start), fresh.n_mistakes
        sizes = np.abs(fresh.learn(piece).astype(np.float64))
        usable = sizes[np.isfinite(sizes) & (sizes > 0)]
        error = (fresh.n_mistakes - before) / len(piece)
        score = float(np.median(usable)) if len(usable) else 0.0
        parts.append(Part(stop, fresh.nnz, error, score, bool(np.all(np.isfinite(sizes)))))
    return tuple(parts)
