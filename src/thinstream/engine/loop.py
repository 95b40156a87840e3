"""The one loop of the library: reads an example, scores it, asks the rule, moves what the rule says.

    v = Σ confidence,  s = Σ weight·x,  step = step(s, v, y),  coordinate ← move(coordinate)

Cost per example is O(its non-zeros). Sums run in four accumulators that take turns: the order is part of the result. An
intercept is the constant 1 before each row, the first of its sums (see `rows.Rows`). A row of weight 0 is scored with
the final weights and is otherwise absent; so predicting is this same loop over rows of weight 0, and a model's weights
are the scores of the unit vectors.

A row is learned only if all that comes of it is finite (see `limits`); else the loop ends before it.
"""

from typing import Any, NamedTuple

import numpy as np

from thinstream.engine.hooks import (
    begin,
    clock_width,
    confidence,
    end,
    finite_coordinate,
    finite_totals,
    gain,
    keeps,
    move,
    observe,
    observes,
    reach,
    read,
    read_totals,
    settle,
    step,
    stopped,
    tally,
    weight,
    width,
    write,
    write_totals,
)
from thinstream.engine.limits import HEAVY, LARGE, MUCH, REACH, SPAN, bound_of, finite, precision
from thinstream.engine.prefetch import prefetch
from thinstream.engine.records import in_precision
from thinstream.engine.rows import STRETCH, fine_until
from thinstream.engine.rule import Example
from thinstream.jit import Compiled, apart, not_inlined, scalar

U0, U1, U4, U16 = (np.uint64(number) for number in (0, 1, 4, 16))

# Places in Memory.counts.
T, POSITIVES, FALSE_NEGATIVES, FALSE_POSITIVES, UPDATES = range(5)


class Costs(NamedTuple):
    """c₋ and c₊; balanced: c₊ is the running ratio of the class counts, c₋ is 1."""

    negative: float = 1.0
    positive: float = 1.0
    balanced: bool = False


#: Bytes of state that stay in the cache by themselves; fetching ahead would only cost time.
CACHE = 1 << 20


@scalar
def _at(p: Any, rows: Any, k: Any, memory: Any) -> Any:
    """Value, place and record of non-zero k."""
    j = np.uint64(rows.indices[k]) + np.uint64(rows.offset)
    return rows.values[k], j, read(p, memory, j)


@scalar
def _grouped(rows: Any, a: Any, b: Any) -> Any:
    """Where in the row a:b its last group of four ends; the constant, if there is one, begins the first."""
    offset = np.uint64(rows.offset)
    return max(a + (b - a + offset) // U4 * U4, a + offset) - offset


@scalar
def _look(p: Any, now: Any, rows: Any, a: Any, b: Any, memory: Any) -> Any:
    """S and v of the row a:b; nothing changes."""
    s0 = s1 = s2 = s3 = v0 = v1 = v2 = v3 = rows.values.dtype.type(0)
    grouped = _grouped(rows, a, b)
    if rows.offset:
        x, f = rows.values.dtype.type(1), read(p, memory, U0)
        s0 += weight(p, f, now) * x
        v0 += confidence(p, f, x, now)
        if grouped > a:
            s0, s3, v0, v3 = s3, s0, v3, v0
    for k in range(a, grouped):
        x, _, f = _at(p, rows, k, memory)
        s0, s1, s2, s3 = s1, s2, s3, s0 + weight(p, f, now) * x
        v0, v1, v2, v3 = v1, v2, v3, v0 + confidence(p, f, x, now)
    for k in range(grouped, b):
        x, _, f = _at(p, rows, k, memory)
        s0 += weight(p, f, now) * x
        v0 += confidence(p, f, x, now)
    return (s0 + s1) + (s2 + s3), (v0 + v1) + (v2 + v3)


@scalar
def _confidence(p: Any, now: Any, rows: Any, a: Any, b: Any, memory: Any) -> Any:
    """V alone, for rules that need it before they observe."""
    v0 = v1 = v2 = v3 = rows.values.dtype.type(0)
    grouped = _grouped(rows, a, b)
    if rows.offset:
        v0 += confidence(p, read(p, memory, U0), rows.values.dtype.type(1), now)
        if grouped > a:
            v0, v3 = v3, v0
    for k in range(a, grouped):
        x, _, f = _at(p, rows, k, memory)
        v0, v1, v2, v3 = v1, v2, v3, v0 + confidence(p, f, x, now)
    for k in range(grouped, b):
        x, _, f = _at(p, rows, k, memory)
        v0 += confidence(p, f, x, now)
    return (v0 + v1) + (v2 + v3)


@scalar
def _seen(p: Any, now: Any, x: Any, j: Any, f: Any, v: Any, memory: Any) -> Any:
    """The term of a coordinate in the score, after the rule has observed it."""
    f = observe(p, f, x, v, now)
    if keeps(p):
        write(p, memory, j, f)
    return weight(p, f, now) * x


@scalar
def _observe(p: Any, now: Any, rows: Any, a: Any, b: Any, v: Any, memory: Any) -> Any:
    """S of the row a:b, each coordinate observed before it is weighed."""
    s0 = s1 = s2 = s3 = rows.values.dtype.type(0)
    grouped = _grouped(rows, a, b)
    if rows.offset:
        s0 += _seen(p, now, rows.values.dtype.type(1), U0, read(p, memory, U0), v, memory)
        if grouped > a:
            s0, s3 = s3, s0
    for k in range(a, grouped):
        x, j, f = _at(p, rows, k, memory)
        s0, s1, s2, s3 = s1, s2, s3, s0 + _seen(p, now, x, j, f, v, memory)
    for k in range(grouped, b):
        x, j, f = _at(p, rows, k, memory)
        s0 += _seen(p, now, x, j, f, v, memory)
    return (s0 + s1) + (s2 + s3)


@scalar
def _move(p: Any, now: Any, rows: Any, a: Any, b: Any, v: Any, decision: Any, memory: Any) -> Any:
    """The update on the row a:b; returns what the rule tallies over it."""
    change = 0
    if rows.offset:
        f = read(p, memory, U0)
        g = move(p, f, rows.values.dtype.type(1), v, decision, now)
        write(p, memory, U0, g)
        change += tally(p, f, g)
    for k in range(a, b):
        x, j, f = _at(p, rows, k, memory)
        g = move(p, f, x, v, decision, now)
        write(p, memory, j, g)
        change += tally(p, f, g)
    return change


@apart
def _lasts(p: Any, now: Any, rows: Any, a: Any, b: Any, v: Any, decision: Any, memory: Any, observing: Any) -> Any:
    """Whether every coordinate of the row a:b is sound after the update (and, if so asked, observed before)."""
    not_inlined()
    large = LARGE[precision(memory.state)]
    for k in range(b - a + np.uint64(rows.offset)):
        if k < np.uint64(rows.offset):
            x, f = rows.values.dtype.type(1), read(p, memory, U0)
        else:
            x, _, f = _at(p, rows, a + k - np.uint64(rows.offset), memory)
        if observing:
            f = observe(p, f, x, v, now)
        if not finite_coordinate(p, f, large):
            return False
        if decision.update and not finite_coordinate(p, move(p, f, x, v, decision, now), large):
            return False
    return True


@apart
def would_last(
    p: Any, q: Any, now64: Any, rows: Any, a: Any, b: Any, s: Any, v: Any, decision: Any, memory: Any
) -> Any:
    """Whether the round on the row a:b leaves finite numbers only, of which a bound was not enough to be sure."""
    not_inlined()
    if not (finite(s) and finite(v) and decision.loss <= MUCH):
        return False
    x = bound_of(rows.values, a, b)
    if reach(p, x, 1.0 / x, float(v), decision, now64) <= REACH[precision(memory.state)]:
        return True
    now, taken = in_precision(now64, memory.state), in_precision(decision, memory.state)
    return _lasts(q, now, rows, a, b, v, taken, memory, False)


@apart
def _try_observing(p: Any, now: Any, rows: Any, a: Any, b: Any, v: Any, memory: Any) -> Any:
    """What `_observe` returns, without changing anything (a switch in there would slow it down)."""
    s0 = s1 = s2 = s3 = rows.values.dtype.type(0)
    grouped = _grouped(rows, a, b)
    if rows.offset:
        x = rows.values.dtype.type(1)
        s0 += weight(p, observe(p, read(p, memory, U0), x, v, now), now) * x
        if grouped > a:
            s0, s3 = s3, s0
    for k in range(a, grouped):
        x, _, f = _at(p, rows, k, memory)
        s0, s1, s2, s3 = s1, s2, s3, s0 + weight(p, observe(p, f, x, v, now), now) * x
    for k in range(grouped, b):
        x, _, f = _at(p, rows, k, memory)
        s0 += weight(p, observe(p, f, x, v, now), now) * x
    return (s0 + s1) + (s2 + s3)


@apart
def foreseen(p: Any, q: Any, now64: Any, rows: Any, a: Any, b: Any, example: Any, memory: Any) -> Any:
    """The same for a rule that observes, before it does: all of the round in advance, without changing anything."""
    not_inlined()
    x = bound_of(rows.values, a, b)
    if is_sure(p, x, 1.0 / x, now64, b - a, example, memory.state):
        return True
    now = in_precision(now64, memory.state)
    v = _confidence(q, now, rows, a, b, memory)
    s = _try_observing(q, now, rows, a, b, v, memory)
    decision = step(p, float(s), float(v), example, now64)
    if not (finite(v) and finite(s) and decision.loss <= MUCH):
        return False
    return _lasts(q, now, rows, a, b, v, in_precision(decision, memory.state), memory, True)


@scalar
def is_sure(p: Any, x: Any, least: Any, now64: Any, length: Any, example: Any, state: Any) -> Any:
    """Whether a rule that observes leaves finite numbers for sure, whatever s and v; its steps do not hang on them."""
    which, guess = precision(state), step(p, 0.0, 0.0, example, now64)
    return (
        (example.cost * example.importance <= HEAVY)
        & ((length + U1) * x * gain(p) <= SPAN[which])
        & (reach(p, x, least, 0.0, guess, now64) <= REACH[which])
    )


@scalar
def make_example(costs: Any, t: Any, positives: Any, positive: Any, importance: Any) -> Any:
    """What the rule may know of example t besides x."""
    c_positive, c_negative = costs.positive, costs.negative
    if costs.balanced:
        c_positive, c_negative = max(t - positives, 1) / max(positives, 1), 1.0
    return Example(
        1.0 if positive else -1.0, c_positive if positive else c_negative, c_positive / c_negative, importance
    )


@scalar
def _prefetch_row(rows: Any, i: Any) -> None:
    """Asks for row i itself, a cache line (16 numbers of 4 bytes, or two) at a time."""
    for k in range(np.uint64(rows.indptr[i]), np.uint64(rows.indptr[i + 1]), U16):
        prefetch(rows.values, k)
        prefetch(rows.indices, k)


@scalar
def _prefetch_coordinates(p: Any, rows: Any, i: Any, memory: Any) -> None:
    """Asks for the coordinates of row i."""
    for k in range(np.uint64(rows.indptr[i]), np.uint64(rows.indptr[i + 1])):
        j = np.uint64(rows.indices[k]) + np.uint64(rows.offset)
        prefetch(memory.state, np.uint64(width(p)) * j)
        if clock_width(p):
            prefetch(memory.clocks, np.uint64(clock_width(p)) * j)


def loop(p: Any, rows: Any, bounds: Any, costs: Any, memory: Any, scores: Any) -> Any:
    """Learns the rows in order, up to the first that is out of bounds; returns how many.

    At a row i whose score, loss or update is not finite it stops as well, and returns −1 − i. ``scores``, unless empty,
    takes each row's score before its update.
    """
    counts, state, n = memory.counts, memory.state, len(rows.indptr) - 1
    q = in_precision(p, state)  # p for the example's arithmetic, q for the coordinates'
    t, positives, updates = counts[T], counts[POSITIVES], counts[UPDATES]
    missed, alarms = counts[FALSE_NEGATIVES], counts[FALSE_POSITIVES]
    total = memory.totals[0]
    own = read_totals(p, memory.totals)
    wide = (state.nbytes + memory.clocks.nbytes) > CACHE
    done, safe = n, n if bounds.width < 0 else 0
    x, most = max(bounds.limit, 1.0), REACH[precision(state)]
    for i in range(n):
        if i == safe:
            safe = fine_until(rows, i, bounds)
            if safe == i:
                done = i
                break
        a, b = np.uint64(rows.indptr[i]), np.uint64(rows.indptr[i + 1])
        if i + STRETCH < n:
            _prefetch_row(rows, i + STRETCH)
        if wide and i + 1 < n:
            _prefetch_coordinates(q, rows, i + 1, memory)
        importance = rows.weights[min(i, rows.weights.size - 1)] if rows.weights.size else 1.0
        absent = importance == 0.0 or stopped(p, own)
        now64 = begin(p, t + 1, own)
        now = in_precision(now64, state)
        if observes(q) and not absent:
            positive = rows.y[i] > 0
            example = make_example(costs, t + 1, positives + positive, positive, importance)
            sure = is_sure(p, x, 0.0, now64, b - a, example, state)
            if not (sure or foreseen(p, q, now64, rows, a, b, example, memory)):
                done = -1 - i
                break
            v = _confidence(q, now, rows, a, b, memory)
            s = _observe(q, now, rows, a, b, v, memory)
        else:
            s, v = _look(q, now, rows, a, b, memory)
        if scores.size:
            scores[i] = s
        if absent:
            if finite(s):
                continue
            done = -1 - i
            break

        positive = rows.y[i] > 0
        example = make_example(costs, t + 1, positives + positive, positive, importance)
        decision = step(p, float(s), float(v), example, now64)
        sure = finite_totals(p, end(p, own, t + 1, float(v), now64, 0))
        if not observes(q):
            near = reach(p, x, 0.0, float(v), decision, now64) <= most
            sure = sure and (
                finite(s + v) & (decision.loss <= MUCH) & near
                or would_last(p, q, now64, rows, a, b, s, v, decision, memory)
            )
        if not sure:
            done = -1 - i
            break

        t += 1
        positives += positive
        if positive and not s > 0:
            missed += 1
        elif s > 0 and not positive:
            alarms += 1
        total += decision.loss
        change = 0
        if decision.update:
            updates += 1
            change = _move(q, now, rows, a, b, v, in_precision(decision, state), memory)
            settle(q, memory, rows, int(a), int(b))
        own = end(p, own, t, float(v), now64, change)

    counts[T], counts[POSITIVES], counts[UPDATES] = t, positives, updates
    counts[FALSE_NEGATIVES], counts[FALSE_POSITIVES] = missed, alarms
    memory.totals[0] = total
    write_totals(p, memory.totals, own)
    return done


_LOOPS: dict[Any, Compiled] = {}


def loop_for(rule: Any) -> Compiled:
    """The loop compiled for one rule; editing that rule's file recompiles it alone."""
    if rule not in _LOOPS:
        _LOOPS[rule] = Compiled(loop, rule.__module__)
    return _LOOPS[rule]
