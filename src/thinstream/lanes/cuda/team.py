"""A loop for few lanes and long rows: a team of warps shares the 32 lanes of a group.

A thread per lane waits for memory at every non-zero. Here warp w weighs and moves every W-th non-zero of a row, four at
a time; the first four warps add the terms up in the order of `engine.loop`'s four sums (the next four those of the
confidence); the first decides, and opens the next round while the others move. Rows whose numbers might not stay
finite are tried by the functions of `engine.loop` itself. For rules that neither tally nor settle.
"""

from functools import cache
from typing import Any

import numpy as np

from thinstream.engine.hooks import (
    begin,
    confidence,
    end,
    finite_totals,
    keeps,
    move,
    observe,
    reach,
    step,
    stopped,
    weight,
    write_totals,
)
from thinstream.engine.hooks import read_totals as totals_of
from thinstream.engine.limits import MUCH, REACH, finite, precision
from thinstream.engine.loop import (
    FALSE_NEGATIVES,
    FALSE_POSITIVES,
    POSITIVES,
    UPDATES,
    Costs,
    T,
    foreseen,
    is_sure,
    make_example,
    would_last,
)
from thinstream.engine.records import Memory, in_precision
from thinstream.engine.rule import Step
from thinstream.jit import scalar
from thinstream.lanes.access import PARAMETERS, choose, read, read_round, read_rule, write, write_round
from thinstream.lanes.cuda.kernels import GROUP
from thinstream.lanes.cuda.package import cuda, kernel
from thinstream.lanes.loop import uses_confidence

#: Warps of a team, and bytes of a tile: the non-zeros of a row that are in shared memory at a time.
WORKERS, TILE = 16, 512
#: Registers a thread may have: a team must fit into a processor.
REGISTERS = 64
LANES = np.uint64(GROUP)
# rows of what is shared, before those of the round
SIZE, STRENGTH, PRESENT, UPDATED = range(4)


def can_share(rule: Any) -> bool:
    """Whether a team can run a rule: it asks for nothing that has to be done in the order of the row."""
    plain = getattr(rule, "Remembering", rule)
    return all(getattr(plain, name).__name__ == "<lambda>" for name in ("tally", "settle"))


@scalar
def _added(total: Any, terms: Any, me: Any, first: Any, size: Any) -> Any:
    """The sum with every fourth of a tile's terms, from the first; what is left of a row goes to sum 0."""
    grouped = size // 4 * 4
    for k in range(first, grouped, 4):
        total += terms[np.uint64(k), me]
    if first == 0:
        for k in range(grouped, size):
            total += terms[np.uint64(k), me]
    return total


@scalar
def _sum(sums: Any, first: Any, me: Any) -> Any:
    return (sums[first, me] + sums[first + 1, me]) + (sums[first + 2, me] + sums[first + 3, me])


@scalar
def _staged(rows: Any, a: Any, k: Any, length: Any) -> Any:
    """Coordinate and value of number k of the row that begins at a; behind its end the value is 0."""
    one = rows.values.dtype.type(1)
    if k >= length:
        return np.int64(0), one - one
    if k < rows.offset:
        return np.int64(0), one
    return np.int64(rows.indices[a + k - rows.offset]) + rows.offset, rows.values[a + k - rows.offset]


@cache
def team(rule: Any, observing: bool, real: Any, workers: int) -> Any:
    """The kernel for a rule, with the arguments of `kernels.learning`."""
    both, four, tile = uses_confidence(rule) and not observing, 4 * workers, TILE // np.dtype(real).itemsize
    first, second, record = (tile, GROUP), (tile if both else 1, GROUP), (PARAMETERS, GROUP)
    zero = real(0)

    @scalar
    def at(p: Any, state: Any, clocks: Any, places: Any, numbers: Any, here: Any, k: Any, me: Any) -> Any:
        """Place, value and record of a non-zero in shared memory."""
        j = np.uint64(places[here, np.uint64(k)])
        return j, numbers[here, np.uint64(k)], read(p, state, clocks, j, me, LANES)

    @scalar
    def look(
        p: Any, q: Any, now: Any, v: Any, on: Any, one: Any, k: Any, state: Any, clocks: Any, terms: Any, others: Any,
        me: Any,
    ) -> None:  # fmt: skip
        """The terms of a non-zero, which the rule may observe first."""
        j, x, f = one
        if both:
            others[np.uint64(k), me] = confidence(q, f, x, now)
        if observing:
            f = choose(p, on, observe(q, f, x, v, now), f)
            if keeps(p) and on and x != zero:
                write(p, state, clocks, j, me, LANES, f)
        terms[np.uint64(k), me] = weight(q, f, now) * x

    @scalar
    def moved(p: Any, q: Any, now: Any, v: Any, taken: Any, one: Any, state: Any, clocks: Any, me: Any) -> None:
        j, x, f = one
        if x != zero:
            write(p, state, clocks, j, me, LANES, move(q, f, x, v, taken, now))

    def learn_together(
        p: Any, tables: Any, rows: Any, columns: Any, largest: Any, memory: Any, failed: Any, scores: Any
    ) -> None:
        # a line each: the simulator tells arrays apart by their lines
        terms = cuda.shared.array(first, real)
        others = cuda.shared.array(second, real)
        sums = cuda.shared.array((8, GROUP), real)
        work = cuda.shared.array(record, real)
        work64 = cuda.shared.array(record, np.float64)
        places = cuda.shared.array((2, tile), np.int64)  # of this row (its tile), and of the next
        numbers = cuda.shared.array((2, tile), real)
        group, worker, n = cuda.blockIdx.x, cuda.threadIdx.y, rows.indptr.size - 1
        me, thread = np.uint64(cuda.threadIdx.x), worker * GROUP + cuda.threadIdx.x
        lane = group * GROUP + cuda.threadIdx.x
        there = lane < failed.size  # lanes that fill the last group repeat one, and never see an example
        lane = lane if there else failed.size - 1
        state, clocks = memory.state[group], memory.clocks[group]
        p64 = read_rule(p, tables.reals, tables.wholes, lane)
        q = in_precision(p64, state)
        costs = Costs(tables.negative[lane], tables.positive[lane], tables.balanced[lane])
        counts, totals = memory.counts[:, lane], memory.totals[:, lane]
        alone = Memory(
            memory.state[group, cuda.threadIdx.x :: GROUP],
            memory.clocks[group, cuda.threadIdx.x :: GROUP],
            counts,
            totals,
            memory.extra[:0, lane],
        )
        y, weights = columns.y[:, columns.label_of[lane]], columns.weights[:, columns.weight_of[lane]]
        t, positives, updates = counts[T], counts[POSITIVES], counts[UPDATES]
        missed, alarms, total = counts[FALSE_NEGATIVES], counts[FALSE_POSITIVES], totals[0]
        own = totals_of(p64, totals)
        template, alive, doubt = begin(p64, 1, own), there and failed[lane] < 0, False
        bound, most = max(largest, 1.0), REACH[precision(state)]
        b, c = rows.indptr[0], rows.indptr[min(1, n)]
        importance = weights[0] if n else 0.0
        positive = y[0] > 0 if n else False
        if worker == 0:
            now64 = begin(p64, t + 1, own)
            write_round(now64, work, work64, me)
            on = alive and importance != 0.0 and not stopped(p64, own)
            work[PRESENT, me] = real(1) if on else zero
            if observing and on:
                example = make_example(costs, t + 1, positives + positive, positive, importance)
                doubt = not is_sure(p64, bound, 0.0, now64, np.uint64(c - b), example, state)
        if thread < tile:
            places[0, thread], numbers[0, thread] = _staged(rows, b, thread, c - b + rows.offset)
        for i in range(n):
            a, b, c = b, c, rows.indptr[min(i + 2, n)]
            length, here, other = b - a + rows.offset, np.uint64(i % 2), np.uint64(1 - i % 2)
            ahead = c - b + rows.offset if i + 1 < n else 0
            place, number = _staged(rows, b, thread, ahead)  # asked for now, put down when this row is done
            if observing:
                if cuda.syncthreads_or(np.int32(doubt)):
                    if worker == 0 and doubt:
                        example = make_example(costs, t + 1, positives + positive, positive, importance)
                        now64 = read_round(template, work64, work64, me)
                        if not foreseen(p64, q, now64, rows, np.uint64(a), np.uint64(b), example, alone):
                            failed[lane] = i
                            alive = False
                            work[PRESENT, me] = zero
                    cuda.syncthreads()
            else:
                cuda.syncthreads()  # what the last row moved is there, and the round is open
            now, on = read_round(template, work, work64, me), work[PRESENT, me] != zero
            mine = v = zero
            if observing:
                for start in range(0, length, tile):
                    size = min(length - start, tile)
                    if length > tile:
                        cuda.syncthreads()
                        if thread < tile:
                            places[here, thread], numbers[here, thread] = _staged(rows, a, start + thread, length)
                        cuda.syncthreads()
                    for k in range(worker, size, four):
                        d0 = at(p, state, clocks, places, numbers, here, k, me)
                        d1 = at(p, state, clocks, places, numbers, here, k + workers, me)
                        d2 = at(p, state, clocks, places, numbers, here, k + 2 * workers, me)
                        d3 = at(p, state, clocks, places, numbers, here, k + 3 * workers, me)
                        terms[np.uint64(k), me] = confidence(q, d0[2], d0[1], now)
                        terms[np.uint64(k + workers), me] = confidence(q, d1[2], d1[1], now)
                        terms[np.uint64(k + 2 * workers), me] = confidence(q, d2[2], d2[1], now)
                        terms[np.uint64(k + 3 * workers), me] = confidence(q, d3[2], d3[1], now)
                    cuda.syncthreads()
                    if worker < 4:
                        mine = _added(mine, terms, me, worker, size)
                        sums[worker, me] = mine
                    cuda.syncthreads()
                v, mine = _sum(sums, 0, me) if length else zero, zero
            for start in range(0, length, tile):
                size = min(length - start, tile)
                if length > tile:
                    cuda.syncthreads()
                    if thread < tile:
                        places[here, thread], numbers[here, thread] = _staged(rows, a, start + thread, length)
                    cuda.syncthreads()
                for k in range(worker, size, four):
                    d0 = at(p, state, clocks, places, numbers, here, k, me)
                    d1 = at(p, state, clocks, places, numbers, here, k + workers, me)
                    d2 = at(p, state, clocks, places, numbers, here, k + 2 * workers, me)
                    d3 = at(p, state, clocks, places, numbers, here, k + 3 * workers, me)
                    look(p, q, now, v, on, d0, k, state, clocks, terms, others, me)
                    look(p, q, now, v, on, d1, k + workers, state, clocks, terms, others, me)
                    look(p, q, now, v, on, d2, k + 2 * workers, state, clocks, terms, others, me)
                    look(p, q, now, v, on, d3, k + 3 * workers, state, clocks, terms, others, me)
                cuda.syncthreads()
                if worker < 4:
                    mine = _added(mine, terms, me, worker, size)
                    sums[worker, me] = mine
                elif both and worker < 8:
                    mine = _added(mine, others, me, worker - 4, size)
                    sums[worker, me] = mine
                cuda.syncthreads()
            if both and length:
                v = _sum(sums, 4, me)
            if worker == 0:  # the example, in 64 bits
                s, update = _sum(sums, 0, me) if length else zero, False
                if on:
                    example = make_example(costs, t + 1, positives + positive, positive, importance)
                    now64 = read_round(template, work64, work64, me)
                    decision = step(p64, float(s), float(v), example, now64)
                    sure = finite_totals(p64, end(p64, own, t + 1, float(v), now64, 0))
                    if not observing:
                        near = reach(p64, bound, 0.0, float(v), decision, now64) <= most
                        sure = sure and (
                            finite(s + v) & (decision.loss <= MUCH) & near
                            or would_last(p64, q, now64, rows, np.uint64(a), np.uint64(b), s, v, decision, alone)
                        )
                    if sure:
                        t += 1
                        positives += positive
                        missed += positive and not s > zero
                        alarms += s > zero and not positive
                        total += decision.loss
                        update = decision.update
                        updates += update
                        work[SIZE, me], work[STRENGTH, me] = decision.size, decision.c
                        own = end(p64, own, t, float(v), now64, 0)
                    else:
                        failed[lane] = i
                        alive = False
                elif alive and not finite(s):
                    failed[lane] = i
                    alive = False
                if there and scores.size:
                    scores[i, lane] = s if alive else real(np.nan)
                work[UPDATED, me] = real(1) if update else zero
            cuda.syncthreads()
            updated, taken = work[UPDATED, me] != zero, Step(0.0, True, work[SIZE, me], work[STRENGTH, me])
            if worker == 0 and i + 1 < n:  # the next round, while the others move
                importance, positive = weights[i + 1], y[i + 1] > 0
                now64 = begin(p64, t + 1, own)
                write_round(now64, work, work64, me)
                on = alive and importance != 0.0 and not stopped(p64, own)
                work[PRESENT, me] = real(1) if on else zero
                doubt = False
                if observing and on:
                    example = make_example(costs, t + 1, positives + positive, positive, importance)
                    doubt = not is_sure(p64, bound, 0.0, now64, np.uint64(c - b), example, state)
            for start in range(0, length, tile):
                size = min(length - start, tile)
                if length > tile:
                    cuda.syncthreads()
                    if thread < tile:
                        places[here, thread], numbers[here, thread] = _staged(rows, a, start + thread, length)
                    cuda.syncthreads()
                if updated:
                    for k in range(worker, size, four):
                        d0 = at(p, state, clocks, places, numbers, here, k, me)
                        d1 = at(p, state, clocks, places, numbers, here, k + workers, me)
                        d2 = at(p, state, clocks, places, numbers, here, k + 2 * workers, me)
                        d3 = at(p, state, clocks, places, numbers, here, k + 3 * workers, me)
                        moved(p, q, now, v, taken, d0, state, clocks, me)
                        moved(p, q, now, v, taken, d1, state, clocks, me)
                        moved(p, q, now, v, taken, d2, state, clocks, me)
                        moved(p, q, now, v, taken, d3, state, clocks, me)
            if thread < tile:
                places[other, thread], numbers[other, thread] = place, number
        if worker == 0 and there:
            counts[T], counts[POSITIVES], counts[UPDATES] = t, positives, updates
            counts[FALSE_NEGATIVES], counts[FALSE_POSITIVES] = missed, alarms
            totals[0] = total
            write_totals(p64, totals, own)

    return kernel(learn_together, REGISTERS)
