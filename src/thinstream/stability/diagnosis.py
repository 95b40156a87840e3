"""What is numerically wrong with a model, in words a user can act on."""

from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinstream.batch import Batch
from thinstream.errors import InvalidInputError
from thinstream.learners import Frozen, Learner
from thinstream.stability import checks
from thinstream.stability.checks import Finding, Level
from thinstream.stability.inputs import batch_of, signs_of
from thinstream.stability.replay import Replay, replay

__all__ = ["Diagnosis", "Finding", "Level", "diagnose"]


class Diagnosis(NamedTuple):
    """What was found, the worst first. Printed, it is a report."""

    name: str  # of the model
    findings: tuple[Finding, ...]

    def level(self, about: str) -> Literal["problem", "note", "fine"]:
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
    learner: Learner | None  # of an online algorithm
    parameters: dict[str, Any]
    model: Any


def diagnose(model: Any, X: Any, y: Any = None) -> Diagnosis:
    """Looks for lost weights, a wide dynamic range, growing density and divergence of a fitted model on some rows.

    With labels an online learner is run once more over the rows, from scratch, to see where it is heading.

    Parameters
    ----------
    model : estimator, Learner or array
        Fitted; any linear model with ``coef_``, or its weights.
    X : matrix
        Rows like those it learns from; some thousands are enough.
    y : array, optional
        Labels.

    Examples
    --------
    >>> import thinstream as ts
    >>> train, _ = ts.datasets.sparse_gaussian(2_000, 1, seed=0)
    >>> model = ts.SMIDAS(eta=0.5, p=60).fit(train.X, train.y)
    >>> print(diagnose(model, train.X))  # doctest: +ELLIPSIS
    SMIDAS: 2 problems
      problem  dynamic range: only 4.2 % of the 1,000 weights are within 2^-22 of the largest; they reach from ...
               → p=60 is too large: try p=3.45 (0.5 ln d), or an algorithm without a link function, as FOBOS
      problem  lost weights: of 346 weights that meet these rows 301 are lost: alone they change no score, ...
               → see dynamic range; without them the model is smaller and predicts the same but for rounding
      fine     density: 346 of 1,000 weights are not 0 (34.6 %)

    """
    subject = _subject(model)
    batch = batch_of(X, None if y is None else signs_of(y, _classes(model))).narrowed(len(subject.w))
    run = replay(subject.learner, batch) if batch.y is not None and _can_learn(subject) else None
    return Diagnosis(subject.name, tuple(sorted(_findings(subject, batch, run), key=checks.severity)))


def _findings(subject: Subject, batch: Batch, run: Replay | None) -> list[Finding]:
    name, w, _, parameters, model = subject
    wrong = checks.finite(w)
    if wrong is not None:
        return [wrong]
    found = [
        checks.dynamic_range(name, w, parameters, _underflown(subject)),
        checks.lost_weights(batch, w),
        checks.scales(batch),
        checks.density(w, parameters, run),
        checks.divergence(run),
    ]
    if name == "SCD":
        found.append(checks.coordinate_steps(batch, parameters["beta"]))
    if name == "GraDes":
        found.append(checks.gradient_steps(batch, model.gamma_, model.potential_))
    return [finding for finding in found if finding is not None]


def _subject(model: Any) -> Subject:
    learner = model if isinstance(model, Learner) else getattr(getattr(model, "_model", None), "learner", None)
    if isinstance(learner, Learner):
        return Subject(learner.algorithm.name, learner.weights(), learner, dict(learner.parameters), model)
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
    return Subject("weights" if isinstance(model, np.ndarray | list) else name, w.ravel(), None, parameters, model)


def _underflown(subject: Subject) -> int:
    """SMIDAS: features of θ_j ≠ 0 whose weight is too small for any number."""
    if subject.learner is None or subject.name != "SMIDAS" or isinstance(subject.learner, Frozen):
        return 0
    state = subject.learner.memory.state
    return int(np.count_nonzero(state[::2])) - int(np.count_nonzero(state[1::2]))


def _can_learn(subject: Subject) -> bool:
    return subject.learner is not None and not isinstance(subject.learner, Frozen)


def _classes(model: Any) -> Any:
    return getattr(getattr(model, "_model", None), "classes", None)
