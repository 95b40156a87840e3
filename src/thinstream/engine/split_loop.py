"""The loop of `engine.loop`, split into steps for an example whose coordinates are in several processes.

Each process computes its part of the score s and of the confidence v. Once these are summed over all processes, each
makes the same decision and moves its own coordinates. A mini-batch is `confide` (only for rules that observe), `score`,
`decide` and `conclude` (only for rules with a tally), with sums over the processes in between. The steps call the
functions of the loop in the same order, so one process with mini-batches of one row is bit-identical to the loop.

All rows of a mini-batch are scored before the first of them is learned. Each row has its own round t with its
thresholds and rates, and updates are made in order. A rule that observes takes in each row before it scores it, with
the v from before the mini-batch. Whether a model has stopped is checked once per mini-batch.
"""

from functools import cache
from typing import Any, NamedTuple, Self

import numpy as np

from thinstream.engine import rule as rules
from thinstream.engine.covariance import Exact
from thinstream.engine.hooks import begin, end, observes, read_totals, step, stopped, write_totals
from thinstream.engine.loop import (
    FALSE_NEGATIVES,
    FALSE_POSITIVES,
    POSITIVES,
    UPDATES,
    T,
    _confide,
    _look,
    _move,
    _observe,
    _sum,
    make_example,
)
from thinstream.engine.memory import is_full
from thinstream.engine.records import in_precision
from thinstream.jit import Compiled, scalar


@scalar
def _importance(rows: Any, i: Any) -> Any:
    return rows.weights[i] if rows.weights.size else 1.0


def confide(p: Any, rows: Any, first: Any, last: Any, memory: Any, v: Any) -> None:
    """Compute this process's part of v of the rows first:last."""
    q, own = in_precision(p, memory.state), read_totals(p, memory.totals)
    now = in_precision(begin(p, memory.counts[T] + 1, own), memory.state)
    for i in range(first, last):
        a, b = np.uint64(rows.indptr[i]), np.uint64(rows.indptr[i + 1])
        v[i - first] = _sum(_confide, q, now, rows, a, b, 0.0, memory)[1]


def score(p: Any, rows: Any, first: Any, last: Any, memory: Any, s: Any, v: Any) -> None:
    """Compute this process's part of s of the rows first:last, and of v. Rules that observe use v as it was passed."""
    state, t = memory.state, memory.counts[T]
    q, own = in_precision(p, state), read_totals(p, memory.totals)
    frozen = stopped(p, own)
    for i in range(first, last):
        a, b = np.uint64(rows.indptr[i]), np.uint64(rows.indptr[i + 1])
        absent = frozen or _importance(rows, i) == 0.0
        now64 = begin(p, t + 1, own)
        now = in_precision(now64, state)
        if not observes(q):
            s[i - first], v[i - first] = _sum(_look, q, now, rows, a, b, 0.0, memory)
        elif absent:
            s[i - first], _ = _sum(_look, q, now, rows, a, b, 0.0, memory)
        else:
            s[i - first] = _sum(_observe, q, now, rows, a, b, state.dtype.type(v[i - first]), memory)[0]
        if not absent:
            t += 1
            own = end(p, own, t, float(v[i - first]), now64, 0)


def decide(
    p: Any, rows: Any, first: Any, last: Any, memory: Any, s: Any, v: Any, changes: Any, costs: Any, has_tally: Any
) -> None:
    """Learn the rows first:last from their sums s and v; ``changes`` receives this process's tally of each row.

    With ``has_tally``, the rule's own totals are left to `conclude`.
    """
    counts, state = memory.counts, memory.state
    q, own = in_precision(p, state), read_totals(p, memory.totals)
    frozen = stopped(p, own)
    for i in range(first, last):
        importance = _importance(rows, i)
        changes[i - first] = 0
        if frozen or importance == 0.0:
            continue
        a, b = np.uint64(rows.indptr[i]), np.uint64(rows.indptr[i + 1])
        total, confidence = state.dtype.type(s[i - first]), state.dtype.type(v[i - first])
        now64 = begin(p, counts[T] + 1, own)
        counts[T] += 1
        positive = rows.y[i] > 0
        counts[POSITIVES] += positive
        example = make_example(costs, counts[T], counts[POSITIVES], positive, importance)
        counts[FALSE_NEGATIVES] += positive and not total > 0
        counts[FALSE_POSITIVES] += total > 0 and not positive
        decision = step(p, float(total), float(confidence), example, now64)
        memory.totals[0] += decision.loss
        if decision.update:
            counts[UPDATES] += 1
            now = in_precision(now64, state)
            changes[i - first] = _move(q, now, rows, a, b, confidence, in_precision(decision, state), memory)
        own = end(p, own, counts[T], float(confidence), now64, 0)
    if not has_tally:
        write_totals(p, memory.totals, own)


def conclude(p: Any, rows: Any, first: Any, last: Any, memory: Any, changes: Any) -> None:
    """Run through the rounds first:last again, with the tallies of all processes."""
    own, t = read_totals(p, memory.totals), memory.counts[T]
    if stopped(p, own):
        return
    for i in range(first, last):
        t -= _importance(rows, i) != 0.0
    for i in range(first, last):
        if _importance(rows, i) != 0.0:
            t += 1
            own = end(p, own, t, 0.0, begin(p, t, own), changes[i - first])  # rules with a tally use no confidence
    write_totals(p, memory.totals, own)


class Needs(NamedTuple):
    """The sums that processes exchange for a mini-batch, in addition to their parts of s."""

    confidence: bool  # their parts of v
    observing: bool  # v before they score, as the rule observes each row first
    tally: bool

    @classmethod
    def of(cls, rule: Any) -> Self:
        """Return the needs of a rule."""
        observing = bool(rule.observes())
        ignores_v = observing and isinstance(getattr(rule, "diagonal", None), Exact)
        return cls(_has_hook(rule, "confidence") and not ignores_v, observing, _has_hook(rule, "tally"))


def is_separable(rule: Any) -> bool:
    """Whether each coordinate moves by itself, given s and v."""
    return not (is_full(rule) or _has_hook(rule, "settle") or len(rule.extra()))


def _has_hook(rule: Any, name: str) -> bool:
    return bool(getattr(type(rule), name).__module__ != rules.__name__)


@cache
def compiled_step(step: Any, rule: Any) -> Compiled:
    """Return a step compiled for one rule."""
    return Compiled(step, rule.__module__, made_by=(compiled_step, step, rule))
