"""The loop of `engine.loop` for many lanes: the same rule functions, the same order of summation, lanes side by side.

Work on coordinates runs over lanes in the innermost loop, without branches, so that it becomes SIMD; work on an example
(schedules, decisions) is done lane by lane in 64 bits, as in the single loop.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinstream.engine.loop import FALSE_NEGATIVES, FALSE_POSITIVES, POSITIVES, UPDATES, Rows, T
from thinstream.engine.prefetch import prefetch
from thinstream.engine.questions import (
    begin,
    confidence,
    end,
    keeps,
    move,
    observe,
    observes,
    step,
    stopped,
    tally,
    weight,
)
from thinstream.engine.rule import Example, Step
from thinstream.jit import Compiled, keyed_by
from thinstream.lanes.records import choose, fetch, read, rule_at, store, store_totals, totals_at, write

U0, U1, U4 = np.uint64(0), np.uint64(1), np.uint64(4)

__all__ = ["LaneMemory", "Rows", "Tables", "Work", "loop_for"]


class Tables(NamedTuple):
    """Parameters of the lanes, a row per parameter; class costs; what is not of the model."""

    reals: NDArray[Any]  # in the model's precision
    reals64: NDArray[np.float64]
    codes: NDArray[np.int64]
    negative: NDArray[np.float64]
    positive: NDArray[np.float64]
    balanced: NDArray[np.bool_]


class LaneMemory(NamedTuple):
    """All the lanes know."""

    state: NDArray[Any]  # [coordinate, field, lane]
    clocks: NDArray[np.float64]  # [coordinate, clock, lane]
    counts: NDArray[np.int64]  # [count, lane]
    totals: NDArray[np.float64]  # [total, lane]


class Work(NamedTuple):
    """Room for the numbers of one example."""

    now: NDArray[Any]  # [field of the round, lane], in the model's precision
    now64: NDArray[np.float64]
    now_clocks: NDArray[np.float64]
    s: NDArray[Any]  # [accumulator, lane]
    v: NDArray[Any]
    out: NDArray[Any]  # scores
    size: NDArray[Any]  # of the steps
    c: NDArray[Any]
    change: NDArray[np.int64]
    present: NDArray[np.bool_]
    update: NDArray[np.bool_]


def make_loop(version: str) -> Callable[..., Any]:
    """The loop; ``version`` stands for its sources (see `jit`)."""

    def loop(
        p: Any,
        tables: Any,
        rows: Any,
        y: Any,
        weights: Any,
        memory: Any,
        work: Any,
        confident: Any,
        scores: Any,
    ) -> None:
        """Learns the rows in order. ``weights`` have a column per lane, ``y`` too, or one for all."""
        keyed_by(version)
        state, clocks, counts, totals = memory.state, memory.clocks, memory.counts, memory.totals
        lanes, n = np.uint64(state.shape[2]), len(rows.indptr) - 1
        s, v, out = work.s, work.v, work.out
        flat, line = state.reshape(-1), np.uint64(64 // state.itemsize)
        record = np.uint64(state.shape[1]) * lanes
        own_labels = np.uint64(y.shape[1] > 1)
        c_positive, c_negative = tables.positive, tables.negative
        balancing = False
        for lane in range(lanes):
            balancing |= tables.balanced[lane]
        real = state.dtype.type
        zero = real(0)
        template = begin(rule_at(p, tables.reals64, tables.codes, U0), 1, totals_at(p, totals, U0))
        for i in range(n):
            a, b = np.uint64(rows.indptr[i]), np.uint64(rows.indptr[i + 1])
            grouped = a + (b - a) // U4 * U4  # from here on all go to the first accumulator
            if i + 1 < n:  # the coordinates of the next row, a cache line at a time
                for k in range(b, np.uint64(rows.indptr[i + 2])):
                    start = np.uint64(rows.indices[k]) * record
                    for place in range(start, start + record, line):
                        prefetch(flat, place)
            for lane in range(lanes):
                q = rule_at(p, tables.reals64, tables.codes, lane)
                own = totals_at(p, totals, lane)
                work.present[lane] = (weights[i, lane] != 0.0) & (not stopped(q, own))
                work.change[lane] = 0
                now = begin(q, counts[T, lane] + 1, own)
                store(now, work.now64, work.now_clocks, lane)
                store(now, work.now, work.now_clocks, lane)
            s[:] = zero
            v[:] = zero
            if observes(p):
                for k in range(a, b):
                    x, j = rows.values[k], np.uint64(rows.indices[k])
                    r = (k - a) % U4 if k < grouped else U0
                    for lane in range(lanes):
                        q = rule_at(p, tables.reals, tables.codes, lane)
                        v[r, lane] += confidence(q, read(p, state, clocks, j, lane), x)
                for lane in range(lanes):
                    v[0, lane] = (v[0, lane] + v[1, lane]) + (v[2, lane] + v[3, lane])
                for k in range(a, b):
                    x, j = rows.values[k], np.uint64(rows.indices[k])
                    r = (k - a) % U4 if k < grouped else U0
                    for lane in range(lanes):
                        q = rule_at(p, tables.reals, tables.codes, lane)
                        now = fetch(template, work.now, work.now_clocks, lane)
                        f = read(p, state, clocks, j, lane)
                        g = choose(p, work.present[lane], observe(q, f, x, v[0, lane], now), f)
                        if keeps(p):
                            write(p, state, clocks, j, lane, g)
                        s[r, lane] += weight(q, g, now) * x
            else:
                for k in range(a, b):
                    x, j = rows.values[k], np.uint64(rows.indices[k])
                    r = (k - a) % U4 if k < grouped else U0
                    for lane in range(lanes):
                        q = rule_at(p, tables.reals, tables.codes, lane)
                        now = fetch(template, work.now, work.now_clocks, lane)
                        f = read(p, state, clocks, j, lane)
                        s[r, lane] += weight(q, f, now) * x
                    if confident:
                        for lane in range(lanes):
                            q = rule_at(p, tables.reals, tables.codes, lane)
                            v[r, lane] += confidence(q, read(p, state, clocks, j, lane), x)
                for lane in range(lanes):
                    v[0, lane] = (v[0, lane] + v[1, lane]) + (v[2, lane] + v[3, lane])
            for lane in range(lanes):  # choices of values, not of ways, so that lanes run side by side
                out[lane] = (s[0, lane] + s[1, lane]) + (s[2, lane] + s[3, lane])
                on, positive = work.present[lane], y[i, lane * own_labels] > 0
                counts[T, lane] += on
                counts[POSITIVES, lane] += on & positive
            if balancing:
                for lane in range(lanes):
                    if tables.balanced[lane]:
                        t, positives = counts[T, lane], counts[POSITIVES, lane]
                        c_positive[lane] = max(t - positives, 1) / max(positives, 1)
            moving = False
            for lane in range(lanes):
                score = out[lane]
                on, positive = work.present[lane], y[i, lane * own_labels] > 0
                example = Example(
                    1.0 if positive else -1.0,
                    c_positive[lane] if positive else c_negative[lane],
                    c_positive[lane] / c_negative[lane],
                    weights[i, lane],
                )
                called = score > 0
                counts[FALSE_NEGATIVES, lane] += on & positive & (not called)
                counts[FALSE_POSITIVES, lane] += on & called & (not positive)
                q = rule_at(p, tables.reals64, tables.codes, lane)
                now = fetch(template, work.now64, work.now_clocks, lane)
                decision = step(q, float(score), float(v[0, lane]), example, now)
                totals[0, lane] = totals[0, lane] + decision.loss if on else totals[0, lane]
                update = on & decision.update
                counts[UPDATES, lane] += update
                work.update[lane] = update
                work.size[lane], work.c[lane] = decision.size, decision.c
                moving |= update
            if scores.size:
                for lane in range(lanes):
                    scores[i, lane] = out[lane]
            if moving:
                for k in range(a, b):
                    x, j = rows.values[k], np.uint64(rows.indices[k])
                    for lane in range(lanes):
                        q = rule_at(p, tables.reals, tables.codes, lane)
                        now = fetch(template, work.now, work.now_clocks, lane)
                        f = read(p, state, clocks, j, lane)
                        taken = Step(0.0, True, work.size[lane], work.c[lane])
                        g = move(q, f, x, v[0, lane], taken, now)
                        write(p, state, clocks, j, lane, choose(p, work.update[lane], g, f))
                        work.change[lane] += tally(q, f, g) if work.update[lane] else 0
            for lane in range(lanes):
                if work.present[lane]:
                    q = rule_at(p, tables.reals64, tables.codes, lane)
                    now = fetch(template, work.now64, work.now_clocks, lane)
                    own = end(q, totals_at(p, totals, lane), counts[T, lane], now, work.change[lane])
                    store_totals(p, totals, lane, own)

    return loop


_LOOPS: dict[Any, Compiled] = {}


def loop_for(rule: Any) -> Compiled:
    """The loop compiled for one rule."""
    if rule not in _LOOPS:
        _LOOPS[rule] = Compiled(make_loop, rule.__module__, __name__, "thinstream.lanes.records")
    return _LOOPS[rule]
