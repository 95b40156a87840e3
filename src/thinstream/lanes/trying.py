"""Rows tried in a lane before they are learned: what `engine.loop` does where a row may leave infinite numbers."""

from typing import Any

import numpy as np

from thinstream.engine.hooks import confidence, end, finite_coordinate, finite_totals, move, observe, step, weight
from thinstream.engine.limits import LARGE, MUCH, bound_of, finite, precision
from thinstream.engine.loop import FALSE_NEGATIVES, FALSE_POSITIVES, POSITIVES, UPDATES, T, is_sure
from thinstream.engine.rule import Example, Step
from thinstream.jit import apart, not_inlined, scalar
from thinstream.lanes.access import (
    BALANCED,
    BEFORE,
    IMPORTANCE,
    LABEL,
    LOSS,
    NEGATIVE,
    OUT,
    POSITIVE,
    PRESENT,
    SIZE,
    STRENGTH,
    U0,
    UPDATED,
    V,
    nonzero_at,
    read,
    read_round,
    read_rule,
    read_totals,
)
from thinstream.lanes.stack import stack

U4 = np.uint64(4)


@apart
def would_last(
    p: Any, template: Any, rows: Any, i: Any, memory: Any, work: Any, work64: Any, counts: Any, lane: Any, lanes: Any
) -> Any:
    """Whether the round on row i, whose decision is on the stack, leaves finite numbers only in a lane."""
    not_inlined()
    if not (finite(work[OUT, lane]) and finite(work[V, lane]) and work64[LOSS, lane] - work64[BEFORE, lane] <= MUCH):
        return False
    q64, now64 = read_rule(p, work64, counts, lane), read_round(template, work64, work64, lane)
    own = end(q64, read_totals(p, work64, lane), counts[T, lane], float(work[V, lane]), now64, 0)
    if not finite_totals(q64, own):
        return False
    a, b = np.uint64(rows.indptr[i]), np.uint64(rows.indptr[i + 1])
    state, clocks, large = memory.state, memory.clocks, LARGE[precision(memory.state)]
    q, now = read_rule(p, work, counts, lane), read_round(template, work, work64, lane)
    taken = Step(0.0, True, work[SIZE, lane], work[STRENGTH, lane])
    for k in range(b - a + np.uint64(rows.offset) if work[UPDATED, lane] > 0 else U0):
        x, j = nonzero_at(rows, a, k)
        if not finite_coordinate(
            q, move(q, read(p, state, clocks, j, lane, lanes), x, work[V, lane], taken, now), large
        ):
            return False
    return True


@apart
def take_back(work: Any, work64: Any, counts: Any, lane: Any) -> None:
    """The round on the stack is none of a lane's."""
    positive, called = work64[LABEL, lane] > 0.0, work[OUT, lane] > 0
    counts[T, lane] -= 1
    counts[POSITIVES, lane] -= positive
    counts[FALSE_NEGATIVES, lane] -= positive and not called
    counts[FALSE_POSITIVES, lane] -= called and not positive
    counts[UPDATES, lane] -= work[UPDATED, lane] > 0
    work64[LOSS, lane] = work64[BEFORE, lane]
    work[PRESENT, lane] = work[UPDATED, lane] = 0


@apart
def foreseen(
    p: Any, template: Any, rows: Any, i: Any, memory: Any, work: Any, work64: Any, counts: Any, lane: Any, lanes: Any
) -> Any:
    """The same for a rule that observes, before it does: the whole round of a lane in advance."""
    not_inlined()
    a, b = np.uint64(rows.indptr[i]), np.uint64(rows.indptr[i + 1])
    state, clocks, large = memory.state, memory.clocks, LARGE[precision(memory.state)]
    q, now = read_rule(p, work, counts, lane), read_round(template, work, work64, lane)
    bound, example = bound_of(rows.values, a, b), example_of(work64, counts, lane)
    q64, now64 = read_rule(p, work64, counts, lane), read_round(template, work64, work64, lane)
    if is_sure(q64, bound, 1.0 / bound, now64, b - a, example, state):
        return True
    length = b - a + np.uint64(rows.offset)
    grouped = length // U4 * U4
    sums = stack(state, 1, 4)
    for k in range(U4):
        sums[0, k] = 0
    for k in range(length):
        x, j = nonzero_at(rows, a, k)
        sums[0, k % U4 if k < grouped else U0] += confidence(q, read(p, state, clocks, j, lane, lanes), x, now)
    v = (sums[0, 0] + sums[0, 1]) + (sums[0, 2] + sums[0, 3])
    for k in range(U4):
        sums[0, k] = 0
    for k in range(length):
        x, j = nonzero_at(rows, a, k)
        f = observe(q, read(p, state, clocks, j, lane, lanes), x, v, now)
        if not finite_coordinate(q, f, large):
            return False
        sums[0, k % U4 if k < grouped else U0] += weight(q, f, now) * x
    s = (sums[0, 0] + sums[0, 1]) + (sums[0, 2] + sums[0, 3])
    decision = step(q64, float(s), float(v), example, now64)
    if not (finite(v) and finite(s) and decision.loss <= MUCH):
        return False
    taken = Step(0.0, True, state.dtype.type(decision.size), state.dtype.type(decision.c))
    for k in range(length if decision.update else U0):
        x, j = nonzero_at(rows, a, k)
        f = observe(q, read(p, state, clocks, j, lane, lanes), x, v, now)
        if not finite_coordinate(q, move(q, f, x, v, taken, now), large):
            return False
    return True


@scalar
def example_of(work64: Any, counts: Any, lane: Any) -> Any:
    """The example on the stack as a lane sees it, before it is counted."""
    positive = work64[LABEL, lane] > 0.0
    c_positive, c_negative = work64[POSITIVE, lane], work64[NEGATIVE, lane]
    if work64[BALANCED, lane] != 0.0:
        t, positives = counts[T, lane] + 1, counts[POSITIVES, lane] + positive
        c_positive = max(t - positives, 1) / max(positives, 1)
    return Example(
        work64[LABEL, lane], c_positive if positive else c_negative, c_positive / c_negative, work64[IMPORTANCE, lane]
    )
