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
)
from thinstream.engine.loop import (
    FALSE_NEGATIVES,
    FALSE_POSITIVES,
    POSITIVES,
    UPDATES,
    Costs,
    T,
    bound_guarantees_finite,
    make_example,
    observed_update_is_finite,
    update_is_finite,
)
from thinstream.engine.records import Memory, in_precision
from thinstream.engine.rows import MUCH, REACH, finite, precision
from thinstream.engine.rule import Step
from thinstream.jit import scalar
from thinstream.lanes.cuda.kernels import GROUP
from thinstream.lanes.cuda.package import cuda, kernel
from thinstream.lanes.loop import (
    BALANCED,
    FAILED,
    IMPORTANCE,
    LABEL,
    LOSS,
    NEGATIVE,
    PARAMETERS,
    POSITIVE,
    PRESENT,
    SIZE,
    STRENGTH,
    UPDATED,
    WHOLES,
    choose,
    numbers_of,
    read,
    read_round,
    read_rule,
    read_totals,
    write,
    write_round,
    write_totals,
)

# Tiles of rows in shared memory: how they get there, and how their terms are added up.

# Numbers within a row are of 32 bits and have no sign: those of 64 take two instructions, those with one a comparison.
U0, U1, U4, U8, U12, U16 = (np.uint32(number) for number in (0, 1, 4, 8, 12, 16))


@scalar
def added(total: Any, terms: Any, me: Any, first: Any, size: Any) -> Any:
    """The sum with every fourth of a tile's terms, from the first; what is left of a row goes to sum 0."""
    k, grouped = np.uint32(first), np.uint32(size // U4 * U4)
    while k + U12 < grouped:  # four are on their way at a time; they are added one by one
        t0, t1 = terms[k, me], terms[np.uint32(k + U4), me]
        t2, t3 = terms[np.uint32(k + U8), me], terms[np.uint32(k + U12), me]
        total = (((total + t0) + t1) + t2) + t3
        k = np.uint32(k + U16)
    while k < grouped:
        total += terms[k, me]
        k = np.uint32(k + U4)
    if first == U0:
        k = grouped
        while k < size:
            total += terms[k, me]
            k = np.uint32(k + U1)
    return total


@scalar
def sum_of(sums: Any, first: Any, me: Any) -> Any:
    """The four sums, from the first, as one."""
    second, third, fourth = np.uint32(first + 1), np.uint32(first + 2), np.uint32(first + 3)
    return (sums[first, me] + sums[second, me]) + (sums[third, me] + sums[fourth, me])


@scalar
def fetched(rows: Any, a: Any, k: Any, length: Any) -> Any:
    """Index and value of number k of the row that begins at a, if it has so many; the constant has neither."""
    zero = rows.values.dtype.type(0)
    if k >= length or k < np.uint32(rows.offset):
        return U0, zero
    position = np.uint64(a + np.int64(k) - rows.offset)
    return np.uint32(rows.indices[position]), rows.values[position]


@scalar
def put(
    places: Any, numbers: Any, here: Any, start: Any, thread: Any, index: Any, value: Any, rows: Any, length: Any
) -> None:
    """Puts coordinate and value of number start + thread down in shared memory; behind a row's end the value is 0."""
    one, k = rows.values.dtype.type(1), np.uint32(start + thread)
    constant, inside = k < np.uint32(rows.offset), k < length
    places[here, thread] = np.uint32(index + rows.offset) if inside and not constant else U0
    numbers[here, thread] = one if inside and constant else value


#: Bytes of a tile: the non-zeros of a row that are in shared memory at a time.
TILE = 512
LANES = np.uint64(GROUP)


def shape_of(groups: int, processors: int) -> tuple[int, int]:
    """Warps of a team, and registers of a thread.

    A team that has a processor for itself is fastest large and with all the registers it can use. If there are more
    teams than processors, two or four of half the size share one, the latter with fewer registers than they would use.
    """
    if groups <= processors:
        return 16, 128
    return 8, 128 if groups <= 2 * processors else 64


def can_share(rule: Any) -> bool:
    """Whether a team can run a rule: it asks for nothing that has to be done in the order of the row."""
    plain = getattr(rule, "Base", rule)
    return all(getattr(plain, name).__name__ == "<lambda>" for name in ("tally", "settle"))


@scalar
def _seen(p: Any, work64: Any, counts: Any, me: Any, positive: Any, importance: Any) -> Any:
    """The properties of a lane's next example that its rule may use, in addition to x."""
    costs = Costs(work64[NEGATIVE, me], work64[POSITIVE, me], work64[BALANCED, me] != 0.0)
    return make_example(costs, counts[T, me] + 1, counts[POSITIVES, me] + positive, positive, importance)


@cache
def team(rule: Any, observing: bool, real: Any, workers: int, registers: int) -> Any:
    """The kernel for a rule, with the arguments of `kernels.learning`."""
    both, room = rule.uses_confidence and not observing, TILE // np.dtype(real).itemsize
    one, two, three, four = (np.uint32(number * workers) for number in (1, 2, 3, 4))
    first, second, record, tile = (room, GROUP), (room if both else 1, GROUP), (PARAMETERS, GROUP), np.uint32(room)
    reals, wholes = map(len, numbers_of(rule))
    record64, record_counts, zero = (PARAMETERS + reals, GROUP), (WHOLES + wholes, GROUP), real(0)

    @scalar
    def stage(rows: Any, a: Any, start: Any, length: Any, places: Any, numbers: Any, here: Any, thread: Any) -> None:
        """Puts the next tile of a long row in place; a short one is there already."""
        if length > tile:
            cuda.syncthreads()
            if thread < tile:
                index, value = fetched(rows, a, np.uint32(start + thread), length)
                put(places, numbers, here, start, thread, index, value, rows, length)
            cuda.syncthreads()

    @scalar
    def at(p: Any, state: Any, clocks: Any, places: Any, numbers: Any, here: Any, k: Any, me: Any) -> Any:
        """Place, value and record of a non-zero in shared memory."""
        j = np.uint64(places[here, k])
        return j, numbers[here, k], read(p, state, clocks, j, me, LANES)

    @scalar
    def four_at(p: Any, state: Any, clocks: Any, places: Any, numbers: Any, here: Any, k: Any, me: Any) -> Any:
        """Those of a worker's next four, so that four are on their way from memory at a time."""
        return (
            at(p, state, clocks, places, numbers, here, k, me),
            at(p, state, clocks, places, numbers, here, np.uint32(k + one), me),
            at(p, state, clocks, places, numbers, here, np.uint32(k + two), me),
            at(p, state, clocks, places, numbers, here, np.uint32(k + three), me),
        )

    @scalar
    def look(
        p: Any, q: Any, now: Any, v: Any, on: Any, entry: Any, k: Any, state: Any, clocks: Any, terms: Any, others: Any,
        me: Any,
    ) -> None:  # fmt: skip
        """The terms of a non-zero, which the rule may observe first."""
        j, x, f = entry
        if both:
            others[k, me] = confidence(q, f, x, now)
        if observing:
            f = choose(p, on, observe(q, f, x, v, now), f)
            if keeps(p) and on and x != zero:
                write(p, state, clocks, j, me, LANES, f)
        terms[k, me] = weight(q, f, now) * x

    @scalar
    def moved(p: Any, q: Any, now: Any, v: Any, taken: Any, entry: Any, state: Any, clocks: Any, me: Any) -> None:
        j, x, f = entry
        if x != zero:
            write(p, state, clocks, j, me, LANES, move(q, f, x, v, taken, now))

    @scalar
    def open_round(
        p: Any, largest: Any, length: Any, state: Any, work: Any, work64: Any, counts: Any, me: Any, label: Any,
        importance: Any,
    ) -> Any:  # fmt: skip
        """Begins a lane's round; whether one that observes has to be tried first."""
        positive = label > 0
        p64, own = read_rule(p, work64, counts, me), read_totals(p, work64, me)
        now64 = begin(p64, counts[T, me] + 1, own)
        write_round(now64, work, work64, me)
        on = counts[FAILED, me] < 0 and importance != 0.0 and not stopped(p64, own)
        work[PRESENT, me] = real(1) if on else zero
        work64[IMPORTANCE, me], work64[LABEL, me] = importance, 1.0 if positive else -1.0
        if observing and on:
            example = _seen(p, work64, counts, me, positive, importance)
            return not bound_guarantees_finite(p64, max(largest, 1.0), 0.0, now64, np.uint64(length), example, state)
        return False

    @scalar
    def decide(
        p: Any, q: Any, template: Any, rows: Any, i: Any, largest: Any, memory: Any, group: Any, s: Any, v: Any,
        work: Any, work64: Any, counts: Any, me: Any,
    ) -> None:  # fmt: skip
        """The example, in 64 bits: a step is left in shared memory, or the row in which the lane fails."""
        update = False
        if work[PRESENT, me] != zero:
            positive, p64, own = work64[LABEL, me] > 0.0, read_rule(p, work64, counts, me), read_totals(p, work64, me)
            example = _seen(p, work64, counts, me, positive, work64[IMPORTANCE, me])
            now64 = read_round(template, work64, work64, me)
            decision = step(p64, float(s), float(v), example, now64)
            own = end(p64, own, counts[T, me] + 1, float(v), now64, 0)
            sure = finite_totals(p64, own)
            if not observing:
                near = reach(p64, max(largest, 1.0), 0.0, float(v), decision, now64) <= REACH[precision(memory.state)]
                if not (finite(s + v) & (decision.loss <= MUCH) & near):
                    a, b = np.uint64(rows.indptr[i]), np.uint64(rows.indptr[i + 1])
                    alone = alone_in(memory, group)
                    sure = sure and update_is_finite(p64, q, now64, rows, a, b, s, v, decision, alone)
            if sure:
                update = decision.update
                counts[T, me] += 1
                counts[POSITIVES, me] += positive
                counts[FALSE_NEGATIVES, me] += positive and not s > zero
                counts[FALSE_POSITIVES, me] += s > zero and not positive
                counts[UPDATES, me] += update
                work64[LOSS, me] += decision.loss
                work[SIZE, me], work[STRENGTH, me] = decision.size, decision.c
                write_totals(p, work64, me, own)
            else:
                counts[FAILED, me] = rows.first + i
        elif counts[FAILED, me] < 0 and not finite(s):
            counts[FAILED, me] = rows.first + i
        work[UPDATED, me] = real(1) if update else zero

    @scalar
    def alone_in(memory: Any, group: Any) -> Any:
        """The memory of this thread's lane, as `engine.loop` takes it."""
        me, none = cuda.threadIdx.x, memory.extra[:0, 0]
        return Memory(memory.state[group, me::GROUP], memory.clocks[group, me::GROUP], memory.counts[:0, 0], none, none)

    def learn_together(
        p: Any, tables: Any, rows: Any, columns: Any, largest: Any, memory: Any, failed: Any, scores: Any
    ) -> None:
        # a line each: the simulator distinguishes arrays by their lines
        terms = cuda.shared.array(first, real)
        others = cuda.shared.array(second, real)
        sums = cuda.shared.array((8, GROUP), real)
        work = cuda.shared.array(record, real)
        work64 = cuda.shared.array(record64, np.float64)
        counts = cuda.shared.array(record_counts, np.int64)
        places = cuda.shared.array((2, room), np.uint32)  # of this row (its tile), and of the next
        numbers = cuda.shared.array((2, room), real)
        group, worker, n = cuda.blockIdx.x, np.uint32(cuda.threadIdx.y), rows.indptr.size - 1
        me, thread = np.uint64(cuda.threadIdx.x), np.uint32(cuda.threadIdx.y * GROUP + cuda.threadIdx.x)
        lane = group * GROUP + cuda.threadIdx.x
        there = lane < failed.size  # lanes that fill the last group repeat one, and never see an example
        lane = lane if there else failed.size - 1
        state, clocks = memory.state[group], memory.clocks[group]
        q = in_precision(read_rule(p, tables.reals, tables.wholes, lane), state)
        label_of, weight_of = np.uint64(columns.label_of[lane]), np.uint64(columns.weight_of[lane])
        b, c, d, doubt = rows.indptr[0], rows.indptr[min(1, n)], rows.indptr[min(2, n)], False
        importance, label = 0.0, np.int8(0)
        if worker == U0:
            for row in range(reals):
                work64[PARAMETERS + row, me] = tables.reals[PARAMETERS + row, lane]
            for row in range(wholes):
                counts[WHOLES + row, me] = tables.wholes[WHOLES + row, lane]
            for row in range(5):
                counts[row, me] = memory.counts[row, lane]
            for row in range(memory.totals.shape[0]):
                work64[row, me] = memory.totals[row, lane]
            work64[NEGATIVE, me], work64[POSITIVE, me] = tables.negative[lane], tables.positive[lane]
            work64[BALANCED, me] = 1.0 if tables.balanced[lane] else 0.0
            counts[FAILED, me] = failed[lane] if there else 0
            if n:
                importance, label = columns.weights[0, weight_of], columns.y[0, label_of]
            doubt = open_round(p, largest, c - b, state, work, work64, counts, me, label, importance)
        template = begin(read_rule(p, tables.reals, tables.wholes, lane), 1, read_totals(p, memory.totals, lane))
        if thread < tile:
            length = np.uint32(c - b + rows.offset)
            index, value = fetched(rows, b, thread, length)
            put(places, numbers, U0, U0, thread, index, value, rows, length)
        for i in range(n):
            # the next row is requested here and used when this row is done, so no thread waits for it
            a, b, c, d = b, c, d, rows.indptr[np.uint64(min(i + 3, n))]
            length, here, other = np.uint32(b - a + rows.offset), np.uint32(i & 1), np.uint32(~i & 1)
            ahead = np.uint32(c - b + rows.offset) if i + 1 < n else U0
            index, value = fetched(rows, b, thread, ahead)
            if worker == U0 and i + 1 < n:
                following = np.uint64(i + 1)
                importance, label = columns.weights[following, weight_of], columns.y[following, label_of]
            if observing:
                if cuda.syncthreads_or(np.int32(doubt)):
                    if worker == U0 and doubt:
                        p64, now64 = read_rule(p, work64, counts, me), read_round(template, work64, work64, me)
                        example = _seen(p, work64, counts, me, work64[LABEL, me] > 0.0, work64[IMPORTANCE, me])
                        alone = alone_in(memory, group)
                        if not observed_update_is_finite(
                            p64, q, now64, rows, np.uint64(a), np.uint64(b), example, alone
                        ):
                            counts[FAILED, me] = rows.first + i
                            work[PRESENT, me] = zero
                    cuda.syncthreads()
            else:
                cuda.syncthreads()  # what the last row moved is there, and the round is open
            now, on = read_round(template, work, work64, me), work[PRESENT, me] != zero
            mine = v = zero
            if observing:
                start = U0
                while start < length:
                    k, size = worker, min(np.uint32(length - start), tile)
                    stage(rows, a, start, length, places, numbers, here, thread)
                    while k < size:
                        d0, d1, d2, d3 = four_at(p, state, clocks, places, numbers, here, k, me)
                        terms[k, me] = confidence(q, d0[2], d0[1], now)
                        terms[np.uint32(k + one), me] = confidence(q, d1[2], d1[1], now)
                        terms[np.uint32(k + two), me] = confidence(q, d2[2], d2[1], now)
                        terms[np.uint32(k + three), me] = confidence(q, d3[2], d3[1], now)
                        k = np.uint32(k + four)
                    cuda.syncthreads()
                    if worker < U4:
                        mine = added(mine, terms, me, worker, size)
                        sums[worker, me] = mine
                    cuda.syncthreads()
                    start = np.uint32(start + tile)
                v, mine = sum_of(sums, U0, me) if length else zero, zero
            start = U0
            while start < length:
                k, size = worker, min(np.uint32(length - start), tile)
                stage(rows, a, start, length, places, numbers, here, thread)
                while k < size:
                    d0, d1, d2, d3 = four_at(p, state, clocks, places, numbers, here, k, me)
                    look(p, q, now, v, on, d0, k, state, clocks, terms, others, me)
                    look(p, q, now, v, on, d1, np.uint32(k + one), state, clocks, terms, others, me)
                    look(p, q, now, v, on, d2, np.uint32(k + two), state, clocks, terms, others, me)
                    look(p, q, now, v, on, d3, np.uint32(k + three), state, clocks, terms, others, me)
                    k = np.uint32(k + four)
                cuda.syncthreads()
                if worker < U4:
                    mine = added(mine, terms, me, worker, size)
                    sums[worker, me] = mine
                elif both and worker < U8:
                    mine = added(mine, others, me, np.uint32(worker - U4), size)
                    sums[worker, me] = mine
                cuda.syncthreads()
                start = np.uint32(start + tile)
            if both and length:
                v = sum_of(sums, U4, me)
            if worker == U0:
                s = sum_of(sums, U0, me) if length else zero
                decide(p, q, template, rows, i, largest, memory, group, s, v, work, work64, counts, me)
                if there and scores.size:
                    scores[i, lane] = s if counts[FAILED, me] < 0 else real(np.nan)
            cuda.syncthreads()
            updated, taken = work[UPDATED, me] != zero, Step(0.0, True, work[SIZE, me], work[STRENGTH, me])
            if worker == U0 and i + 1 < n:  # the next round, while the others move
                doubt = open_round(p, largest, c - b, state, work, work64, counts, me, label, importance)
            start = U0
            while start < length:
                k, size = worker, min(np.uint32(length - start), tile)
                stage(rows, a, start, length, places, numbers, here, thread)
                while updated and k < size:
                    d0, d1, d2, d3 = four_at(p, state, clocks, places, numbers, here, k, me)
                    moved(p, q, now, v, taken, d0, state, clocks, me)
                    moved(p, q, now, v, taken, d1, state, clocks, me)
                    moved(p, q, now, v, taken, d2, state, clocks, me)
                    moved(p, q, now, v, taken, d3, state, clocks, me)
                    k = np.uint32(k + four)
                start = np.uint32(start + tile)
            if thread < tile:
                put(places, numbers, other, U0, thread, index, value, rows, ahead)
        if worker == U0 and there:
            failed[lane] = counts[FAILED, me]
            for row in range(5):
                memory.counts[row, lane] = counts[row, me]
            for row in range(memory.totals.shape[0]):
                memory.totals[row, lane] = work64[row, me]

    return kernel(learn_together, registers, (rule.__module__,), (rule.__qualname__, observing, room, workers))
