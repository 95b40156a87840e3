"""The learning loop of all online rules: score an example, let the rule decide, move its coordinates.

    v = Σ confidence,  s = Σ weight·x,  step = step(s, v, y),  coordinate ← move(coordinate)

The cost per example is O(non-zeros). Sums run in four interleaved accumulators: the order is part of the result. The
intercept is a constant 1 before each row, the first term of its sums (see `rows.Rows`). A row of weight 0 is scored
with the current weights and changes nothing. So predicting is this loop over rows of weight 0, and the weights of a
model are the scores of the unit vectors.

A row is learned only if every resulting number is finite (see `limits`). Otherwise the loop ends before it.
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
from thinstream.engine.records import in_precision
from thinstream.engine.rows import (
    CHECKED_ROWS,
    HEAVY,
    LARGE,
    MUCH,
    REACH,
    SPAN,
    bound_of,
    checked_until,
    finite,
    precision,
)
from thinstream.engine.rule import Example
from thinstream.jit import Compiled, apart, lowers, not_inlined, scalar

# A hint to the memory system, ten lines of LLVM: the coordinates of the next example are fetched during this one.


def prefetch(array: Any, index: Any) -> None:
    """Prefetch ``array[index]``. Interpreted code does nothing."""


@lowers(prefetch, "void")
def _prefetch(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    from llvmlite import ir
    from numba.core import cgutils

    array_type = signature.args[0]
    view = context.make_array(array_type)(context, builder, args[0])
    pointer = cgutils.get_item_pointer(context, builder, array_type, view, [args[1]], wraparound=False)
    byte, flag = ir.IntType(8).as_pointer(), ir.IntType(32)
    hint = cgutils.get_or_insert_function(
        builder.module, ir.FunctionType(ir.VoidType(), [byte, flag, flag, flag]), "llvm.prefetch.p0"
    )
    # for writing, into every cache level, data
    builder.call(hint, [builder.bitcast(pointer, byte), flag(1), flag(3), flag(1)])
    return context.get_dummy_value()


U0, U1, U4, U16 = (np.uint64(number) for number in (0, 1, 4, 16))

# Positions in Memory.counts.
T, POSITIVES, FALSE_NEGATIVES, FALSE_POSITIVES, UPDATES = range(5)


class Costs(NamedTuple):
    """c₋ and c₊. With ``balanced``, c₊ is the running ratio of the class counts and c₋ is 1."""

    negative: float = 1.0
    positive: float = 1.0
    balanced: bool = False


#: Both classes cost the same.
EQUAL_COSTS = Costs()


#: Bytes of state that stay in the cache without prefetching.
CACHE = 1 << 20


@scalar
def _at(p: Any, rows: Any, k: Any, memory: Any) -> Any:
    """Return the value, coordinate and record of non-zero k."""
    j = np.uint64(rows.indices[k]) + np.uint64(rows.offset)
    return rows.values[k], j, read(p, memory, j)


@scalar
def _grouped(rows: Any, a: Any, b: Any) -> Any:
    """Return the end of the last group of four in the row a:b. The constant, if there is one, starts the first."""
    offset = np.uint64(rows.offset)
    return max(a + (b - a + offset) // U4 * U4, a + offset) - offset


@scalar
def _sum(terms: Any, p: Any, now: Any, rows: Any, a: Any, b: Any, v: Any, memory: Any) -> Any:
    """Sum over the row a:b of the two numbers that ``terms`` returns for a coordinate. The order is part of the result.

    A sum that the caller ignores costs nothing: the compiler removes it.
    """
    s0 = s1 = s2 = s3 = v0 = v1 = v2 = v3 = rows.values.dtype.type(0)
    grouped = _grouped(rows, a, b)
    if rows.offset:
        s, c = terms(p, now, rows.values.dtype.type(1), U0, read(p, memory, U0), v, memory)
        s0 += s
        v0 += c
        if grouped > a:
            s0, s3, v0, v3 = s3, s0, v3, v0
    for k in range(a, grouped):
        x, j, f = _at(p, rows, k, memory)
        s, c = terms(p, now, x, j, f, v, memory)
        s0, s1, s2, s3 = s1, s2, s3, s0 + s
        v0, v1, v2, v3 = v1, v2, v3, v0 + c
    for k in range(grouped, b):
        x, j, f = _at(p, rows, k, memory)
        s, c = terms(p, now, x, j, f, v, memory)
        s0 += s
        v0 += c
    return (s0 + s1) + (s2 + s3), (v0 + v1) + (v2 + v3)


@scalar
def _look(p: Any, now: Any, x: Any, j: Any, f: Any, v: Any, memory: Any) -> Any:
    """Return the terms of a coordinate in s and in v."""
    return weight(p, f, now) * x, confidence(p, f, x, now)


@scalar
def _confide(p: Any, now: Any, x: Any, j: Any, f: Any, v: Any, memory: Any) -> Any:
    """Return the term in v alone, for rules that need v before they observe."""
    return x, confidence(p, f, x, now)


@scalar
def _observe(p: Any, now: Any, x: Any, j: Any, f: Any, v: Any, memory: Any) -> Any:
    """Return the term in s of a coordinate that the rule observes first."""
    f = observe(p, f, x, v, now)
    if keeps(p):
        write(p, memory, j, f)
    return weight(p, f, now) * x, x


@scalar
def _try_observing(p: Any, now: Any, x: Any, j: Any, f: Any, v: Any, memory: Any) -> Any:
    """Return what `_observe` returns, without changing anything (a switch in there would slow it down)."""
    return weight(p, observe(p, f, x, v, now), now) * x, x


@scalar
def _move(p: Any, now: Any, rows: Any, a: Any, b: Any, v: Any, decision: Any, memory: Any) -> Any:
    """Update the coordinates of the row a:b; return the sum of the rule's tally."""
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
def _stays_finite(
    p: Any, now: Any, rows: Any, a: Any, b: Any, v: Any, decision: Any, memory: Any, observing: Any
) -> Any:
    """Return whether all coordinates of the row a:b stay finite in the update (with ``observing``, observed first)."""
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
def update_is_finite(
    p: Any, q: Any, now64: Any, rows: Any, a: Any, b: Any, s: Any, v: Any, decision: Any, memory: Any
) -> Any:
    """Return whether all numbers stay finite after the row a:b, if the bound for all rows does not guarantee it."""
    not_inlined()
    if not (finite(s) and finite(v) and decision.loss <= MUCH):
        return False
    x = bound_of(rows.values, a, b)
    if reach(p, x, 1.0 / x, float(v), decision, now64) <= REACH[precision(memory.state)]:
        return True
    now, taken = in_precision(now64, memory.state), in_precision(decision, memory.state)
    return _stays_finite(q, now, rows, a, b, v, taken, memory, False)


@apart
def observed_update_is_finite(p: Any, q: Any, now64: Any, rows: Any, a: Any, b: Any, example: Any, memory: Any) -> Any:
    """Return the same for a rule that observes, by computing the whole round without changing anything."""
    not_inlined()
    x = bound_of(rows.values, a, b)
    if bound_guarantees_finite(p, x, 1.0 / x, now64, b - a, example, memory.state):
        return True
    now = in_precision(now64, memory.state)
    v = _sum(_confide, q, now, rows, a, b, 0.0, memory)[1]
    s = _sum(_try_observing, q, now, rows, a, b, v, memory)[0]
    decision = step(p, float(s), float(v), example, now64)
    if not (finite(v) and finite(s) and decision.loss <= MUCH):
        return False
    return _stays_finite(q, now, rows, a, b, v, in_precision(decision, memory.state), memory, True)


@scalar
def bound_guarantees_finite(p: Any, x: Any, least: Any, now64: Any, length: Any, example: Any, state: Any) -> Any:
    """Return whether bounds guarantee finite numbers for a rule that observes, for any s and v."""
    which, guess = precision(state), step(p, 0.0, 0.0, example, now64)
    return (
        (example.cost * example.importance <= HEAVY)
        & ((length + U1) * x * gain(p) <= SPAN[which])
        & (reach(p, x, least, 0.0, guess, now64) <= REACH[which])
    )


@scalar
def make_example(costs: Any, t: Any, positives: Any, positive: Any, importance: Any) -> Any:
    """Return what the rule may use of example t in addition to x."""
    c_positive, c_negative = costs.positive, costs.negative
    if costs.balanced:
        c_positive, c_negative = max(t - positives, 1) / max(positives, 1), 1.0
    return Example(
        1.0 if positive else -1.0, c_positive if positive else c_negative, c_positive / c_negative, importance
    )


@scalar
def _prefetch_row(rows: Any, i: Any) -> None:
    """Prefetch row i, one or two cache lines (16 numbers) at a time."""
    for k in range(np.uint64(rows.indptr[i]), np.uint64(rows.indptr[i + 1]), U16):
        prefetch(rows.values, k)
        prefetch(rows.indices, k)


@scalar
def _prefetch_coordinates(p: Any, rows: Any, i: Any, memory: Any) -> None:
    """Prefetch the coordinates of row i."""
    for k in range(np.uint64(rows.indptr[i]), np.uint64(rows.indptr[i + 1])):
        j = np.uint64(rows.indices[k]) + np.uint64(rows.offset)
        prefetch(memory.state, np.uint64(width(p)) * j)
        if clock_width(p):
            prefetch(memory.clocks, np.uint64(clock_width(p)) * j)


def loop(p: Any, rows: Any, bounds: Any, costs: Any, memory: Any, scores: Any) -> Any:
    """Learn the rows in order, up to the first that is out of bounds; return how many were learned.

    At a row i whose score, loss or update is not finite, the loop stops and returns −1 − i. Unless it is empty,
    ``scores`` receives the score of each row before its update.
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
            safe = checked_until(rows, i, bounds)
            if safe == i:
                done = i
                break
        a, b = np.uint64(rows.indptr[i]), np.uint64(rows.indptr[i + 1])
        if i + CHECKED_ROWS < n:
            _prefetch_row(rows, i + CHECKED_ROWS)
        if wide and i + 1 < n:
            _prefetch_coordinates(q, rows, i + 1, memory)
        importance = rows.weights[min(i, rows.weights.size - 1)] if rows.weights.size else 1.0
        absent = importance == 0.0 or stopped(p, own)
        now64 = begin(p, t + 1, own)
        now = in_precision(now64, state)
        if observes(q) and not absent:
            positive = rows.y[i] > 0
            example = make_example(costs, t + 1, positives + positive, positive, importance)
            sure = bound_guarantees_finite(p, x, 0.0, now64, b - a, example, state)
            if not (sure or observed_update_is_finite(p, q, now64, rows, a, b, example, memory)):
                done = -1 - i
                break
            v = _sum(_confide, q, now, rows, a, b, 0.0, memory)[1]
            s = _sum(_observe, q, now, rows, a, b, v, memory)[0]
        else:
            s, v = _sum(_look, q, now, rows, a, b, 0.0, memory)
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
                or update_is_finite(p, q, now64, rows, a, b, s, v, decision, memory)
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
    """Return the loop compiled for one rule. An edit of the rule's file recompiles only this one."""
    if rule not in _LOOPS:
        _LOOPS[rule] = Compiled(loop, rule.__module__, made_by=(loop_for, rule))
    return _LOOPS[rule]
