"""The loop of `engine.loop` taken apart where the coordinates of an example live in several processes.

A process has a slice of the coordinates. What it can say of an example is its share of the score s and of the
confidence v; when these are summed over all processes, each makes the same decision and moves its own coordinates. So a
mini-batch is `confide` (only rules that observe), `score`, `decide`, and between them sums over the processes. Each is
the matching part of the one loop, with the same functions in the same order: one process and one row at a time have its
bits.

The rows of a mini-batch are scored before any of them is learned. Each has its own round t (and thresholds, rates), and
updates are made in order. A rule that observes takes in each row before it scores it, as always, by the v from before
the mini-batch. Whether a model has stopped for good is asked once for all rows of a mini-batch.
"""

from typing import Any

import numpy as np

from thinstream.engine.hooks import begin, end, observes, read_totals, step, stopped, write_totals
from thinstream.engine.loop import (
    FALSE_NEGATIVES,
    FALSE_POSITIVES,
    POSITIVES,
    UPDATES,
    T,
    _confidence,
    _look,
    _move,
    _observe,
)
from thinstream.engine.records import in_precision
from thinstream.engine.rule import Example
from thinstream.jit import Compiled, compiled, scalar


@scalar
def _importance(rows: Any, i: Any) -> Any:
    return rows.weights[i] if rows.weights.size else 1.0


@compiled()
def split(indptr: Any, indices: Any, values: Any, rank: Any, size: Any, offset: Any, out: Any) -> Any:
    """Coordinate c (feature c − offset) is number c // size of rank c % size; returns how many there were.

    ``out`` has room for one more than there can be.
    """
    found, share = 0, 1.0 / size
    out.indptr[0] = 0
    for i in range(len(indptr) - 1):
        if offset and rank == 0:  # the constant feature
            out.indices[found] = 0
            out.values[found] = 1
            found += 1
        for k in range(indptr[i], indptr[i + 1]):
            c = np.int64(indices[k]) + offset
            place = np.int64(c * share)  # c // size or one beside it: dividing would take most of the time
            rest = c - place * size
            place += np.int64(rest >= size) - np.int64(rest < 0)
            # written in any case: which are this rank's cannot be predicted
            out.indices[found] = place
            out.values[found] = values[k]
            found += c - place * size == rank
        out.indptr[i + 1] = found
    return found


def confide(p: Any, rows: Any, first: Any, last: Any, memory: Any, v: Any) -> None:
    """The process's share of v of the rows first:last."""
    q, own = in_precision(p, memory.state), read_totals(p, memory.totals)
    now = in_precision(begin(p, memory.counts[T] + 1, own), memory.state)
    for i in range(first, last):
        a, b = np.uint64(rows.indptr[i]), np.uint64(rows.indptr[i + 1])
        v[i - first] = _confidence(q, now, rows, a, b, memory)


def score(p: Any, rows: Any, first: Any, last: Any, memory: Any, s: Any, v: Any) -> None:
    """The process's share of s of the rows first:last, and of v; a rule that observes is given v instead."""
    state, t = memory.state, memory.counts[T]
    q, own = in_precision(p, state), read_totals(p, memory.totals)
    frozen = stopped(p, own)
    for i in range(first, last):
        a, b = np.uint64(rows.indptr[i]), np.uint64(rows.indptr[i + 1])
        absent = frozen or _importance(rows, i) == 0.0
        now64 = begin(p, t + 1, own)
        now = in_precision(now64, state)
        if observes(q):
            if absent:
                s[i - first], _ = _look(q, now, rows, a, b, memory)
            else:
                s[i - first] = _observe(q, now, rows, a, b, state.dtype.type(v[i - first]), memory)
        else:
            s[i - first], v[i - first] = _look(q, now, rows, a, b, memory)
        if not absent:
            t += 1
            own = end(p, own, t, float(v[i - first]), now64, 0)


def decide(
    p: Any, rows: Any, first: Any, last: Any, costs: Any, memory: Any, s: Any, v: Any, changes: Any, tallies: Any
) -> None:
    """Learns the rows first:last by their sums s and v; ``changes`` takes this process's tally of each row.

    Where ``tallies``, the rule's own totals are left to `conclude`.
    """
    counts, state = memory.counts, memory.state
    real = state.dtype.type
    q, own = in_precision(p, state), read_totals(p, memory.totals)
    frozen = stopped(p, own)
    for i in range(first, last):
        importance = _importance(rows, i)
        changes[i - first] = 0
        if frozen or importance == 0.0:
            continue
        a, b = np.uint64(rows.indptr[i]), np.uint64(rows.indptr[i + 1])
        total, confidence = real(s[i - first]), real(v[i - first])
        now64 = begin(p, counts[T] + 1, own)
        counts[T] += 1
        positive = rows.y[i] > 0
        counts[POSITIVES] += positive
        c_positive, c_negative = costs.positive, costs.negative
        if costs.balanced:
            t, positives = counts[T], counts[POSITIVES]
            c_positive, c_negative = max(t - positives, 1) / max(positives, 1), 1.0
        example = Example(
            1.0 if positive else -1.0,
            c_positive if positive else c_negative,
            c_positive / c_negative,
            importance,
        )
        if positive and not total > 0:
            counts[FALSE_NEGATIVES] += 1
        elif total > 0 and not positive:
            counts[FALSE_POSITIVES] += 1
        decision = step(p, float(total), float(confidence), example, now64)
        memory.totals[0] += decision.loss
        if decision.update:
            counts[UPDATES] += 1
            now = in_precision(now64, state)
            changes[i - first] = _move(q, now, rows, a, b, confidence, in_precision(decision, state), memory)
        own = end(p, own, counts[T], float(confidence), now64, 0)
    if not tallies:
        write_totals(p, memory.totals, own)


def conclude(p: Any, rows: Any, first: Any, last: Any, memory: Any, changes: Any) -> None:
    """The rounds first:last once more, with the tallies of all processes."""
    own, t = read_totals(p, memory.totals), memory.counts[T]
    if stopped(p, own):
        return
    for i in range(first, last):
        t -= _importance(rows, i) != 0.0
    for i in range(first, last):
        if _importance(rows, i) != 0.0:
            t += 1
            own = end(p, own, t, 0.0, begin(p, t, own), changes[i - first])  # what tallies has no confidences
    write_totals(p, memory.totals, own)


_STEPS = {step.__name__: step for step in (confide, score, decide, conclude)}
_PARTS: dict[tuple[str, Any], Compiled] = {}


def compiled_part(name: str, rule: Any) -> Compiled:
    """One part compiled for one rule."""
    key = name, rule
    if key not in _PARTS:
        _PARTS[key] = Compiled(_STEPS[name], rule.__module__)
    return _PARTS[key]
