"""What is numerically wrong with a model, in words a user can act on."""

from itertools import pairwise
from typing import Any, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from thinstream.batch import Batch
from thinstream.blend.learner import Blend
from thinstream.compact import whole
from thinstream.errors import InvalidInputError
from thinstream.learners import Learner, make_learner_like
from thinstream.learners.protocol import OneModel
from thinstream.preparing import Preparation, plain_learner, preparation_of
from thinstream.stability import findings
from thinstream.stability.data import batch_of, signs_of
from thinstream.stability.findings import PARTS, Finding, Level, Part, Run


class Diagnosis(NamedTuple):
    """What was found, the worst first. Printed, it is a report."""

    name: str  # of the model
    findings: tuple[Finding, ...]

    def level(self, about: str) -> Level:
        """How bad one thing is, such as "dynamic range"; "fine" also where it was not looked at."""
        return next((finding.level for finding in self.findings if finding.about == about), "fine")

    def __str__(self) -> str:
        lines = [f"{self.name}: {self._verdict()}"]
        for finding in self.findings:
            lines.append(f"  {finding.level:<8} {finding.about}: {finding.says}")
            if finding.do:
                lines.append(f"  {'':<8} → {finding.do}")
        return "\n".join(lines)

    def _verdict(self) -> str:
        levels = [finding.level for finding in self.findings]
        problems, notes = levels.count("problem"), levels.count("note")
        if not problems + notes:
            return "nothing wrong was found"
        counts = [(problems, "problem"), (notes, "note")]
        return " and ".join(f"{count} {word}{'s' * (count > 1)}" for count, word in counts if count)


class Subject(NamedTuple):
    """The model as the checks see it."""

    name: str
    w: NDArray[Any]
    parameters: dict[str, Any]
    learner: Any = None  # of an algorithm of this library
    classes: Any = None
    preparation: Preparation | None = None


def diagnose(model: Any, X: Any, y: Any = None) -> Diagnosis:
    """Looks for lost weights, a wide dynamic range, columns of different scales, growing density and divergence.

    With labels an online learner is run once more over the rows, from scratch, to see where it is heading, and again
    with scaled features where they are of very different size.

    Parameters
    ----------
    model : estimator, Model, Learner or array
        Fitted; any linear model with ``coef_``, or its weights.
    X : matrix
        Rows like those it learns from; some thousands are enough.
    y : array, optional
        Labels.

    Examples
    --------
    >>> import thinstream as ts
    >>> train, _ = ts.datasets.sparse_gaussian(2_000, 1, seed=0)
    >>> model = ts.SMIDAS(eta=0.5, p=60, fit_intercept=False).fit(train.X, train.y)
    >>> print(diagnose(model, train.X))  # doctest: +ELLIPSIS
    SMIDAS: 2 problems
      problem  dynamic range: only 4.2 % of the 1,000 weights are within 2^-22 of the largest; they reach from ...
               → p=60 is too large: try p=3.45 (0.5 ln d), or an algorithm without a link function, as FOBOS
      problem  lost weights: of 346 weights that meet these rows 301 are lost: alone they change no score, ...
               → see dynamic range; without them the model is smaller and predicts the same but for rounding
      fine     density: 346 of 1,000 weights are not 0 (34.6 %)

    """
    subject = _subject(model)
    batch = batch_of(X, None if y is None else signs_of(y, subject.classes))
    if subject.learner is None and len(subject.w) != batch.n_features:
        raise InvalidInputError(
            f"diagnose: X must have a column for each of the {len(subject.w)} weights, got {batch.n_features} columns"
        )
    batch = batch.narrowed(len(subject.w))
    if subject.preparation:  # rows and weights as they meet
        batch = subject.preparation.apply(batch, subject.learner.dtype)
    run = replay(subject.learner, batch) if batch.y is not None else None
    found = sorted(_findings(subject, batch, run), key=lambda each: get_args(Level).index(each.level))
    return Diagnosis(subject.name, tuple(found))


def _findings(subject: Subject, batch: Batch, run: Run | None) -> list[Finding]:
    name, w, parameters, learner, *_ = subject
    wrong = findings.finite(w)
    if wrong is not None:
        return [wrong]
    found = [
        findings.dynamic_range(name, w, parameters, _underflown(learner)),
        findings.lost_weights(batch, w),
        findings.error(name, run, batch.y),
        findings.scales(batch, run, lambda: replay(learner, scaled(learner, batch))),
        findings.density(name, w, parameters, run),
        findings.divergence(run),
    ]
    if name == "SCD":
        found.append(findings.coordinate_steps(batch, parameters["beta"]))
    if name == "GraDes" and learner is not None:
        found.append(findings.gradient_steps(batch, **learner.found))
    return [finding for finding in found if finding is not None]


def _subject(model: Any) -> Subject:
    holder = getattr(model, "_model", model)  # an estimator's, or a model itself
    learner = getattr(holder, "learner", model)
    if isinstance(learner, OneModel):
        learner = whole(learner)
        classes, preparation = getattr(holder, "classes", None), preparation_of(learner)
        learner = plain_learner(learner)
        name, parameters = learner.algorithm.name, dict(learner.parameters)
        return Subject(name, learner.weights(), parameters, learner, classes, preparation)
    name = type(model).__name__
    w = getattr(model, "coef_", None if hasattr(model, "get_params") else model)
    if w is None:
        raise InvalidInputError(f"diagnose: the model must be fitted, this {name} has no coef_")
    w = np.asarray(w.toarray() if hasattr(w, "toarray") else w)
    if w.dtype.kind not in "fiu" or w.size != w.shape[-1]:
        raise InvalidInputError(
            "diagnose looks at a model of two classes, with one weight per feature; got "
            + (f"an array of shape {w.shape}" if w.size > 1 else f"{type(model).__name__}")
        )
    parameters = model.get_params(deep=False) if hasattr(model, "get_params") else {}
    return Subject("weights" if isinstance(model, np.ndarray | list) else name, w.ravel(), parameters)


def _underflown(learner: Any) -> int:
    """SMIDAS: features of θ_j ≠ 0 whose weight is too small for any number."""
    if learner is None or learner.algorithm.name != "SMIDAS" or learner.weights_only:
        return 0
    state = learner.memory.state
    return int(np.count_nonzero(state[::2])) - int(np.count_nonzero(state[1::2]))


def scaled(learner: Any, batch: Batch) -> Batch:
    """The rows as a model with ``scale="max"`` would have met them."""
    preparation = Preparation("max")
    preparation.widen(batch.n_features)
    return preparation.learn(batch, learner.dtype)[0]


def replay(learner: Any, batch: Batch) -> Run | None:
    """One pass of a fresh online learner like this one; None where there is none, or too few rows to tell anything."""
    if not isinstance(learner, Learner | Blend) or learner.weights_only or len(batch) < 10 * PARTS:
        return None
    fresh = make_learner_like(learner)
    parts, edges = [], np.linspace(0, len(batch), PARTS + 1).astype(int)
    for start, stop in pairwise(edges.tolist()):
        piece, before = batch.until(stop).after(start), fresh.n_mistakes
        sizes = np.abs(fresh.learn(piece).astype(np.float64))
        told = sizes[np.isfinite(sizes) & (sizes > 0)]
        error = (fresh.n_mistakes - before) / len(piece)
        score = float(np.median(told)) if len(told) else 0.0
        parts.append(Part(stop, fresh.nnz, error, score, bool(np.all(np.isfinite(sizes)))))
    return tuple(parts)
