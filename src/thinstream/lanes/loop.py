"""The loop of `engine.loop` for many lanes: the same rule functions, the same order of summation, lanes side by side.

Work on coordinates runs over lanes in the innermost loop, without branches, so that it becomes SIMD; work on an example
(schedules, decisions) is done lane by lane in 64 bits, as in the single loop. Numbers of an example or a
lane, not of a coordinate, are on the stack (see `stack`).
"""

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple, get_type_hints

import numpy as np
from numpy.typing import NDArray

from thinstream.engine.forgetting import declared
from thinstream.engine.hooks import (
    begin,
    calls,
    confidence,
    end,
    finite_coordinate,
    finite_totals,
    keeps,
    move,
    observe,
    reach,
    step,
    stopped,
    tally,
    weight,
)
from thinstream.engine.loop import (
    CACHE,
    FALSE_NEGATIVES,
    FALSE_POSITIVES,
    POSITIVES,
    UPDATES,
    T,
    bound_guarantees_finite,
    prefetch,
)
from thinstream.engine.parameters import OneOf
from thinstream.engine.records import field_names, generate
from thinstream.engine.rows import LARGE, MUCH, REACH, bound_of, finite, precision
from thinstream.engine.rule import Example, Step
from thinstream.jit import Compiled, apart, compiles, not_inlined, scalar

# Reading and writing the records of one lane in arrays where the lanes of a field lie side by side.
#
# As in `engine.records`, the code for a record is generated from its class; here every function also has the lane as
# an argument. numba itself inlines functions of arrays: a call would count references to them.
#
# On the stack the loop keeps three arrays, rows × lanes: in the model's precision, in 64 bits, and of whole numbers.
# The records of a lane (its parameters, its round, its totals) have fixed rows in them.

U0 = np.uint64(0)

# Rows of the stack's array in the model's precision: four sums of the score, four of the confidence, …
V = np.uint64(4)
OUT, SIZE, STRENGTH, PRESENT, UPDATED, UNSURE = range(8, 14)
# and in 64 bits: the cumulative loss, the rule's own totals, …
LOSS = 0
BEFORE, BALANCED, NEGATIVE, POSITIVE, RHO, IMPORTANCE, LABEL = range(9, 16)
# and of counts, behind those of the model.
CHANGE, FAILED = 5, 6

#: Rows from which on the fields of a round and the parameters stand, and how many there are in all.
NOW, PARAMETERS, ROWS = 16, 24, 40
#: The same for whole parameters, behind the counts.
WHOLES, COUNTS = 8, 16


@cache
def numbers_of(rule: Any) -> tuple[list[str], list[str]]:
    """Return the names of the parameters in which lanes may differ, real and whole; a block shares the others."""
    names = [
        p.name for p in declared(rule).parameters if p.name in rule._fields and not isinstance(p.constraint, OneOf)
    ]
    hints = get_type_hints(rule)
    return [name for name in names if hints[name] is float], [name for name in names if hints[name] is int]


def _positions(record: Any) -> list[str]:
    """Return the position of each field of coordinate ``j`` in flat arrays, as source text of unsigned numbers."""
    fields, clocks = field_names(record)
    position = {n: f"state[(j * uint64({len(fields)}) + uint64({i})) * lanes + lane]" for i, n in enumerate(fields)}
    position |= {n: f"clocks[(j * uint64({len(clocks)}) + uint64({i})) * lanes + lane]" for i, n in enumerate(clocks)}
    return [position[name] for name in record._fields]


def _require_rows(record: Any, needed: int, have: int) -> None:
    if needed > have:
        raise TypeError(f"{record.__name__}: lanes have room for {have} such numbers, it has {needed}")


# The code for a class: of a rule, or of the record of a round.


@cache
def _reader(rule: Any) -> Any:
    record = declared(rule).coordinate
    return generate("p, state, clocks, j, lane, lanes", _positions(record), record)


@cache
def _writer(rule: Any) -> Any:
    record = declared(rule).coordinate
    lines = [f"{position} = f.{name}" for name, position in zip(record._fields, _positions(record), strict=True)]
    return generate("p, state, clocks, j, lane, lanes, f", lines)


@cache
def _chooser(rule: Any) -> Any:
    record = declared(rule).coordinate
    return generate("p, on, new, old", [f"new.{name} if on else old.{name}" for name in record._fields], record)


@cache
def _rule_reader(rule: Any) -> Any:
    reals, wholes = numbers_of(rule)
    _require_rows(rule, len(reals), ROWS - PARAMETERS)
    _require_rows(rule, len(wholes), COUNTS - WHOLES)
    position = {name: f"reals[{PARAMETERS + i}, lane]" for i, name in enumerate(reals)}
    position |= {name: f"wholes[{WHOLES + i}, lane]" for i, name in enumerate(wholes)}
    return generate("p, reals, wholes, lane", [position.get(name, f"p.{name}") for name in rule._fields], rule)


@cache
def _round_writer(record: Any) -> Any:
    _require_rows(record, len(record._fields), PARAMETERS - NOW)
    clocks, rows = field_names(record)[1], list(enumerate(record._fields, NOW))
    lines = [f"clocks[{row}, lane] = record.{name}" for row, name in rows]
    lines += [f"reals[{row}, lane] = record.{name}" for row, name in rows if name not in clocks]
    return generate("record, reals, clocks, lane", lines)


@cache
def _round_reader(record: Any) -> Any:
    clocks = field_names(record)[1]
    parts = [f"{'clocks' if n in clocks else 'reals'}[{row}, lane]" for row, n in enumerate(record._fields, NOW)]
    return generate("record, reals, clocks, lane", parts, record)


@cache
def _totals_reader(rule: Any) -> Any:
    record = declared(rule).totals
    return generate("p, totals, lane", [f"totals[{i + 1}, lane]" for i in range(len(record._fields))], record)


@cache
def _totals_writer(rule: Any) -> Any:
    record = declared(rule).totals
    lines = [f"totals[{i + 1}, lane] = own.{name}" for i, name in enumerate(record._fields)]
    return generate("p, totals, lane, own", lines)


# The functions that the loop calls.


@calls(_reader, inline="always")
def read(p: Any, state: Any, clocks: Any, j: Any, lane: Any, lanes: Any) -> Any:
    """Return coordinate j of a lane."""


@calls(_writer, inline="always")
def write(p: Any, state: Any, clocks: Any, j: Any, lane: Any, lanes: Any, f: Any) -> None:
    """Write ``f`` to coordinate j of a lane."""


@calls(_chooser)
def choose(p: Any, on: Any, new: Any, old: Any) -> Any:
    """Return ``new`` if ``on``, else ``old``."""


@calls(_rule_reader, inline="always")
def read_rule(p: Any, reals: Any, wholes: Any, lane: Any) -> Any:
    """Return the rule of a lane: its numbers from the arrays, other parameters from p."""


@calls(_round_writer, inline="always")
def write_round(record: Any, reals: Any, clocks: Any, lane: Any) -> None:
    """Write a round's scalars into arrays, a row per field: in 64 bits, and all but clocks in the model's precision."""


@calls(_round_reader, inline="always")
def read_round(record: Any, reals: Any, clocks: Any, lane: Any) -> Any:
    """Return the round of a lane; ``record`` is any record of its class."""


@calls(_totals_reader, inline="always")
def read_totals(p: Any, totals: Any, lane: Any) -> Any:
    """Return a lane's own totals, which follow its cumulative loss."""


@calls(_totals_writer, inline="always")
def write_totals(p: Any, totals: Any, lane: Any, own: Any) -> None:
    """Write ``own`` to a lane's own totals."""


@scalar
def nonzero_at(rows: Any, a: Any, k: Any) -> Any:
    """Return value and coordinate of number k of the row that begins at a. A constant is number 0."""
    offset = np.uint64(rows.offset)
    if k < offset:
        return rows.values.dtype.type(1), U0
    return rows.values[a + k - offset], np.uint64(rows.indices[a + k - offset]) + offset


# Scratch arrays on the stack of compiled code.
#
# LLVM knows that memory on the stack does not overlap with that of arguments. Loops that read from it and write to
# the state need no check, at every non-zero, that the two do not overlap.

#: Bytes of a cache line, where each array begins.
LINE = 64


def stack(like: Any, rows: int, columns: int) -> Any:
    """Return an array of rows × columns with the dtype of ``like`` and arbitrary content, until the caller returns."""
    return np.empty((max(rows, 1), columns), like.dtype)


@compiles(stack, inline="always")  # the memory must be the caller's
def _stack_compiled(like: Any, rows: Any, columns: Any) -> Any:
    stacked = _lowered_stack()

    def made(like: Any, rows: Any, columns: Any) -> Any:
        return stacked(like, rows, columns)

    return made


@cache
def _lowered_stack() -> Any:
    """Return `stack` in LLVM."""
    from llvmlite import ir
    from numba import types
    from numba.core import cgutils
    from numba.core.errors import TypingError
    from numba.extending import intrinsic
    from numba.np.arrayobj import make_array, populate_array

    @intrinsic(prefer_literal=True)  # type: ignore[untyped-decorator]
    def stacked(typing_context: Any, like: Any, rows: Any, columns: Any) -> Any:
        if not isinstance(rows, types.IntegerLiteral) or not isinstance(columns, types.IntegerLiteral):
            raise TypingError(f"the size of an array on the stack must be known at compile time, got {rows}, {columns}")
        shape = max(rows.literal_value, 1), columns.literal_value
        array_type = types.Array(like.dtype, 2, "C")

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            number = context.get_data_type(like.dtype)
            size = context.get_abi_sizeof(number)
            block = ir.ArrayType(number, shape[0] * shape[1])
            memory = cgutils.alloca_once(builder, block)  # in the entry block: once per call, also inside a loop
            memory.align = LINE
            array = make_array(array_type)(context, builder)
            populate_array(
                array,
                data=builder.bitcast(memory, number.as_pointer()),
                shape=[context.get_constant(types.intp, length) for length in shape],
                strides=[context.get_constant(types.intp, length * size) for length in (shape[1], 1)],
                itemsize=context.get_constant(types.intp, size),
                meminfo=None,
            )
            return array._getvalue()

        return array_type(like, rows, columns), codegen

    return stacked


# Rows tried in a lane first, as `engine.loop` does if a row may leave infinite numbers.


@apart
def update_is_finite(
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
    """Take the round on the stack back for a lane."""
    positive, called = work64[LABEL, lane] > 0.0, work[OUT, lane] > 0
    counts[T, lane] -= 1
    counts[POSITIVES, lane] -= positive
    counts[FALSE_NEGATIVES, lane] -= positive and not called
    counts[FALSE_POSITIVES, lane] -= called and not positive
    counts[UPDATES, lane] -= work[UPDATED, lane] > 0
    work64[LOSS, lane] = work64[BEFORE, lane]
    work[PRESENT, lane] = work[UPDATED, lane] = 0


@apart
def observed_update_is_finite(
    p: Any, template: Any, rows: Any, i: Any, memory: Any, work: Any, work64: Any, counts: Any, lane: Any, lanes: Any
) -> Any:
    """The same for a rule that observes, before it does: the whole round of a lane in advance."""
    not_inlined()
    a, b = np.uint64(rows.indptr[i]), np.uint64(rows.indptr[i + 1])
    state, clocks, large = memory.state, memory.clocks, LARGE[precision(memory.state)]
    q, now = read_rule(p, work, counts, lane), read_round(template, work, work64, lane)
    bound, example = bound_of(rows.values, a, b), example_of(work64, counts, lane)
    q64, now64 = read_rule(p, work64, counts, lane), read_round(template, work64, work64, lane)
    if bound_guarantees_finite(q64, bound, 1.0 / bound, now64, b - a, example, state):
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


U1, U4, U5, U16 = (np.uint64(number) for number in (1, 4, 5, 16))
UP, UW = np.uint64(PARAMETERS), np.uint64(WHOLES)

#: Lanes of a full block, whose number is a constant of its loop; narrower ones have a multiple of STEP.
FULL, STEP = 64, 16


class Tables(NamedTuple):
    """Parameters of the lanes, a row per parameter; class costs."""

    reals: NDArray[Any]  # in the model's precision
    reals64: NDArray[np.float64]
    wholes: NDArray[np.int64]
    negative: NDArray[np.float64]
    positive: NDArray[np.float64]
    balanced: NDArray[np.bool_]


class LaneMemory(NamedTuple):
    """All the lanes know."""

    state: NDArray[Any]  # [coordinate][field][lane], flat
    clocks: NDArray[np.float64]  # [coordinate][clock][lane], flat
    counts: NDArray[np.int64]  # [count, lane]
    totals: NDArray[np.float64]  # [total, lane]


def make_lanes_loop(size: int, observing: bool, confident: bool) -> Callable[..., Any]:
    """The loop for ``size`` lanes."""
    whole, full, summing = size == FULL, np.uint64(size), observing or confident

    def loop(
        p: Any,
        tables: Any,
        rows: Any,
        y: Any,
        weights: Any,
        memory: Any,
        used: Any,
        fields: Any,
        largest: Any,
        failed: Any,
        scores: Any,
    ) -> None:
        """Learns the rows in order. ``weights`` and ``y`` have a column per lane in use, or one for all.

        A row that would leave infinite numbers in a lane is written to ``failed`` (else −1); from there on the lane is
        as if absent, and its scores are NaN. No value of the rows is above ``largest``.
        """
        # a constant, or (in a narrow block) a number of which the compiler knows that it is a multiple of 16
        lanes = full if whole else np.uint64(used + STEP - 1) // U16 * U16
        state, clocks, n = memory.state, memory.clocks, len(rows.indptr) - 1
        real = state.dtype.type
        zero, one = real(0), real(1)
        line, record = np.uint64(64 // state.itemsize), np.uint64(fields) * lanes
        lines = record // line  # counted: a range with a step would divide at every non-zero
        wide, offset = state.nbytes > CACHE, np.uint64(rows.offset)
        work, work64, counts = stack(state, ROWS, size), stack(clocks, ROWS, size), stack(memory.counts, COUNTS, size)
        balancing, bound, reached = False, max(largest, 1.0), REACH[precision(state)]
        for lane in range(lanes):
            for row in range(np.uint64(len(tables.reals))):
                work[UP + row, lane], work64[UP + row, lane] = tables.reals[row, lane], tables.reals64[row, lane]
            for row in range(np.uint64(len(tables.wholes))):
                counts[UW + row, lane] = tables.wholes[row, lane]
            for row in range(U5):
                counts[row, lane] = memory.counts[row, lane]
            for row in range(np.uint64(len(memory.totals))):
                work64[row, lane] = memory.totals[row, lane]
            work64[NEGATIVE, lane], work64[POSITIVE, lane] = tables.negative[lane], tables.positive[lane]
            work64[RHO, lane] = work64[POSITIVE, lane] / work64[NEGATIVE, lane]
            work64[IMPORTANCE, lane], work64[LABEL, lane], work[V, lane] = 0.0, -1.0, zero
            work64[BALANCED, lane], counts[FAILED, lane] = (1.0 if tables.balanced[lane] else 0.0), failed[lane]
            balancing |= tables.balanced[lane]
        template = begin(read_rule(p, work64, counts, U0), 1, read_totals(p, work64, U0))
        own_weights, own_labels = np.uint64(weights.shape[1] > 1), np.uint64(y.shape[1] > 1)
        own_rows, last_weight, last_label = own_weights + own_labels > U0, 0.0, np.int8(0)
        for i in range(n):
            a, b = np.uint64(rows.indptr[i]), np.uint64(rows.indptr[i + 1])
            length = b - a + offset  # with the constant, if any, which is number 0
            grouped = length // U4 * U4  # from here on all go to the first accumulator
            ahead = np.uint64(rows.indptr[i + 2]) if wide and i + 1 < n else b  # the next row is b:ahead
            for k in range(min(b + length, ahead), ahead):  # what its coordinates exceed those of this row
                start = (np.uint64(rows.indices[k]) + offset) * record
                for part in range(lines):
                    prefetch(state, start + part * line)
            if own_rows or weights[i, 0] != last_weight or y[i, 0] != last_label:
                last_weight, last_label = weights[i, 0], y[i, 0]
                for lane in range(np.uint64(used)):
                    work64[IMPORTANCE, lane] = weights[i, lane * own_weights]
                    work64[LABEL, lane] = 1.0 if y[i, lane * own_labels] > 0 else -1.0
            for lane in range(lanes):
                q = read_rule(p, work64, counts, lane)
                own = read_totals(p, work64, lane)
                here = (work64[IMPORTANCE, lane] != 0.0) & (not stopped(q, own)) & (counts[FAILED, lane] < 0)
                work[PRESENT, lane] = one if here else zero
                counts[CHANGE, lane] = 0
                fresh = begin(q, counts[T, lane] + 1, own)
                write_round(fresh, work, work64, lane)
            for lane in range(lanes):
                work[0, lane] = work[1, lane] = work[2, lane] = work[3, lane] = zero
                if summing:
                    work[V, lane] = work[5, lane] = work[6, lane] = work[7, lane] = zero
            if observing:
                for lane in range(lanes):
                    if work[PRESENT, lane] != zero:
                        q = read_rule(p, work64, counts, lane)
                        now, example = read_round(template, work64, work64, lane), example_of(work64, counts, lane)
                        sure = bound_guarantees_finite(q, bound, 0.0, now, b - a, example, state)
                        if not (
                            sure
                            or observed_update_is_finite(
                                p, template, rows, i, memory, work, work64, counts, lane, lanes
                            )
                        ):
                            work[PRESENT, lane], counts[FAILED, lane] = zero, i
                for k in range(length):
                    x, j = nonzero_at(rows, a, k)
                    r = k % U4 if k < grouped else U0
                    if b + k < ahead:
                        start = (np.uint64(rows.indices[b + k]) + offset) * record
                        for part in range(lines):
                            prefetch(state, start + part * line)
                    for lane in range(lanes):
                        q = read_rule(p, work, counts, lane)
                        f = read(p, state, clocks, j, lane, lanes)
                        work[V + r, lane] += confidence(q, f, x, read_round(template, work, work64, lane))
                for lane in range(lanes):
                    work[V, lane] = (work[V, lane] + work[5, lane]) + (work[6, lane] + work[7, lane])
                for k in range(length):
                    x, j = nonzero_at(rows, a, k)
                    r = k % U4 if k < grouped else U0
                    for lane in range(lanes):
                        q = read_rule(p, work, counts, lane)
                        f = read(p, state, clocks, j, lane, lanes)
                        g = choose(
                            p,
                            work[PRESENT, lane] != zero,
                            observe(q, f, x, work[V, lane], read_round(template, work, work64, lane)),
                            f,
                        )
                        if keeps(p):
                            write(p, state, clocks, j, lane, lanes, g)
                        work[r, lane] += weight(q, g, read_round(template, work, work64, lane)) * x
            else:
                for k in range(length):
                    x, j = nonzero_at(rows, a, k)
                    r = k % U4 if k < grouped else U0
                    if b + k < ahead:
                        start = (np.uint64(rows.indices[b + k]) + offset) * record
                        for part in range(lines):
                            prefetch(state, start + part * line)
                    for lane in range(lanes):
                        q = read_rule(p, work, counts, lane)
                        f = read(p, state, clocks, j, lane, lanes)
                        work[r, lane] += weight(q, f, read_round(template, work, work64, lane)) * x
                    if confident:
                        for lane in range(lanes):
                            q = read_rule(p, work, counts, lane)
                            f = read(p, state, clocks, j, lane, lanes)
                            work[V + r, lane] += confidence(q, f, x, read_round(template, work, work64, lane))
                if confident:
                    for lane in range(lanes):
                        work[V, lane] = (work[V, lane] + work[5, lane]) + (work[6, lane] + work[7, lane])
            unsure = 0
            for lane in range(lanes):  # choices of values, not of ways, so that lanes run side by side
                work[OUT, lane] = (work[0, lane] + work[1, lane]) + (work[2, lane] + work[3, lane])
                on, positive = work[PRESENT, lane] != zero, work64[LABEL, lane] > 0.0
                counts[T, lane] += on
                counts[POSITIVES, lane] += on & positive
            if balancing:
                for lane in range(lanes):
                    if tables.balanced[lane]:
                        t, positives = counts[T, lane], counts[POSITIVES, lane]
                        work64[POSITIVE, lane] = max(t - positives, 1) / max(positives, 1)
                        work64[RHO, lane] = work64[POSITIVE, lane] / work64[NEGATIVE, lane]
            moving = 0
            for lane in range(lanes):
                score = work[OUT, lane]
                on, positive = work[PRESENT, lane] != zero, work64[LABEL, lane] > 0.0
                c_positive, c_negative = work64[POSITIVE, lane], work64[NEGATIVE, lane]  # both: no choice of places
                example = Example(
                    work64[LABEL, lane],
                    c_positive if positive else c_negative,
                    work64[RHO, lane],
                    work64[IMPORTANCE, lane],
                )
                called = score > zero
                counts[FALSE_NEGATIVES, lane] += on & positive & (not called)
                counts[FALSE_POSITIVES, lane] += on & called & (not positive)
                q, now = read_rule(p, work64, counts, lane), read_round(template, work64, work64, lane)
                decision = step(q, float(score), float(work[V, lane]), example, now)
                sure = finite(score + work[V, lane]) & (decision.loss <= MUCH)
                if not observing:
                    sure &= reach(q, bound, 0.0, float(work[V, lane]), decision, now) <= reached
                own = end(q, read_totals(p, work64, lane), counts[T, lane], float(work[V, lane]), now, 0)
                sure &= finite_totals(q, own)
                unsure += on & (not sure)
                work[UNSURE, lane] = zero if sure else one
                loss = work64[LOSS, lane]
                work64[BEFORE, lane] = loss
                work64[LOSS, lane] = loss + decision.loss if on else loss
                update = on & decision.update
                counts[UPDATES, lane] += update
                moving += update
                work[UPDATED, lane] = one if update else zero
                work[SIZE, lane], work[STRENGTH, lane] = decision.size, decision.c
            if unsure:
                for lane in range(lanes):
                    if (work[PRESENT, lane] != zero) & (work[UNSURE, lane] != zero) and not update_is_finite(
                        p, template, rows, i, memory, work, work64, counts, lane, lanes
                    ):
                        take_back(work, work64, counts, lane)
                        counts[FAILED, lane] = i
            if scores.size:
                for lane in range(np.uint64(used)):
                    scores[i, lane] = work[OUT, lane] if counts[FAILED, lane] < 0 else real(np.nan)
            if moving:
                for k in range(length):
                    x, j = nonzero_at(rows, a, k)
                    for lane in range(lanes):
                        q = read_rule(p, work, counts, lane)
                        f = read(p, state, clocks, j, lane, lanes)
                        taken = Step(0.0, True, work[SIZE, lane], work[STRENGTH, lane])
                        g = move(q, f, x, work[V, lane], taken, read_round(template, work, work64, lane))
                        update = work[UPDATED, lane] != zero
                        write(p, state, clocks, j, lane, lanes, choose(p, update, g, f))
                        counts[CHANGE, lane] += tally(q, f, g) if update else 0
            for lane in range(lanes):
                if work[PRESENT, lane] != zero:
                    q = read_rule(p, work64, counts, lane)
                    own = end(
                        q,
                        read_totals(p, work64, lane),
                        counts[T, lane],
                        float(work[V, lane]),
                        read_round(template, work64, work64, lane),
                        counts[CHANGE, lane],
                    )
                    write_totals(p, work64, lane, own)
        for lane in range(lanes):
            for row in range(np.uint64(5)):
                memory.counts[row, lane] = counts[row, lane]
            for row in range(np.uint64(len(memory.totals))):
                memory.totals[row, lane] = work64[row, lane]
            failed[lane] = counts[FAILED, lane]

    return loop


_SOURCES = ("thinstream.lanes.loop",)
_LOOPS: dict[Any, Compiled] = {}


def loop_for(p: Any, lanes: int) -> Compiled:
    """The loop compiled for blocks of rules like p: one for full blocks, one for all others."""
    rule, size = type(p), FULL if lanes > FULL - STEP else FULL - STEP
    key = rule, size, bool(p.observes()), bool(rule.uses_confidence)
    if key not in _LOOPS:
        function, made_by = make_lanes_loop(*key[1:]), (loop_for, p, lanes)
        _LOOPS[key] = Compiled(function, rule.__module__, *_SOURCES, constants=key[1:], made_by=made_by)
    return _LOOPS[key]
