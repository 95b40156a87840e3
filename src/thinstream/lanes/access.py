"""Reading and writing the records of one lane in arrays where the lanes of a field lie side by side.

As in `engine.records`, the code for a record is generated from its class; here every function also has the lane as
an argument. numba itself inlines functions of arrays: a call would count references to them.

On the stack the loop keeps three arrays, rows × lanes: in the model's precision, in 64 bits, and of whole numbers. The
records of a lane (its parameters, its round, its totals) have fixed rows in them.
"""

from functools import cache
from typing import Any, get_type_hints

import numpy as np

from thinstream.engine.forgetting import declared
from thinstream.engine.hooks import calls
from thinstream.engine.parameters import OneOf
from thinstream.engine.records import field_names, generate
from thinstream.jit import compiles, scalar

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
