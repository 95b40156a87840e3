"""State as records: a coordinate's fields are a NamedTuple, stored interleaved, read and written by name.

A field annotated ``float`` is kept in the model's precision; one annotated ``Clock`` always in 64 bits (a float32 clock
stops at 2^24). Nothing here knows an algorithm: the code to read and write a record is generated from its class.
"""

from collections.abc import Callable
from typing import Annotated, Any, NamedTuple, get_args, get_type_hints

import numpy as np
from numpy.typing import NDArray

from thinstream.jit import compiles

Clock = Annotated[float, "64 bits"]


class Memory(NamedTuple):
    """All a model knows, as flat arrays: what is saved, grown, copied and carried into the loop."""

    state: NDArray[Any]  # [coordinate][field], the model's dtype
    clocks: NDArray[np.float64]  # [coordinate][clock]
    counts: NDArray[np.int64]  # see Counts
    totals: NDArray[np.float64]  # cumulative loss, then the rule's own totals
    extra: NDArray[Any]  # a rule's own array (SOFS: its heap, a full covariance: the packed matrix)


def field_names(record: type) -> tuple[list[str], list[str]]:
    """Names of the fields in the model's precision, and of the clocks; codes and kinds are neither."""
    hints = get_type_hints(record, include_extras=True)
    clocks = [name for name, hint in hints.items() if hint == Clock]
    floats = [name for name, hint in hints.items() if float in (hint, *get_args(hint)[:1]) and name not in clocks]
    return floats, clocks


def generate(parameters: str, parts: list[str], record: Any = None, **names: Any) -> Any:
    """A function of these parameters that returns a record of the parts, or (without one) has them as its lines."""
    lines = [f"return Record({', '.join(parts)})"] if record is not None else parts or ["pass"]
    scope: dict[str, Any] = {"uint64": np.uint64, "Record": record, **names}
    exec(f"def made({parameters}):\n " + "\n ".join(lines), scope)
    return scope["made"]


def _places(record: Any) -> list[str]:
    """Where each field of a record stands in memory, as source text over ``memory`` and coordinate ``j``."""
    fields, clocks = field_names(record)
    place = {n: f"memory.state[uint64({len(fields)}) * j + uint64({i})]" for i, n in enumerate(fields)}
    place |= {n: f"memory.clocks[uint64({len(clocks)}) * j + uint64({i})]" for i, n in enumerate(clocks)}
    return [place[name] for name in record._fields]


def reader(record: Any) -> Callable[[Any, Any], Any]:
    """``read(memory, j)`` → the record of coordinate j."""
    return generate("p, memory, j", _places(record), record)


def writer(record: Any) -> Callable[[Any, Any, Any], None]:
    """``write(memory, j, f)``: the record f becomes coordinate j."""
    lines = [f"{place} = f.{name}" for name, place in zip(record._fields, _places(record), strict=True)]
    return generate("p, memory, j, f", lines)


def totals_reader(record: Any) -> Callable[[Any], Any]:
    """``read_totals(totals)`` → the rule's own totals, which stand behind the cumulative loss."""
    return generate("p, totals", [f"totals[{i + 1}]" for i in range(len(record._fields))], record)


def totals_writer(record: Any) -> Callable[[Any, Any], None]:
    """``write_totals(totals, own)``."""
    return generate("p, totals, own", [f"totals[{i + 1}] = own.{n}" for i, n in enumerate(record._fields)])


def finiteness(record: Any) -> Callable[[Any, Any], bool]:
    """``finite_coordinate(f, large)``: whether all fields are finite and |first|, which is like a weight, ≤ large."""
    first, *others = record._fields
    tests = [f"abs(f.{first}) <= large", *(f"f.{name} - f.{name} == 0" for name in others)]
    return generate("p, f, large", [f"return {' and '.join(tests)}"])


def totals_finiteness(record: Any) -> Callable[[Any], bool]:
    """``finite_totals(own)``: whether the rule's own totals are finite."""
    tests = [f"own.{name} - own.{name} == 0" for name in record._fields]
    return generate("p, own", [f"return {' and '.join(tests) or True}"])


def in_precision(record: Any, state: Any) -> Any:
    """The record with its plain floats in the precision of the state; clocks, codes and kinds as they are."""
    real, floats = state.dtype.type, field_names(type(record))[0]
    return type(record)(*[real(value) if name in floats else value for name, value in record._asdict().items()])


@compiles(in_precision)
def _in_precision_compiled(record: Any, state: Any) -> Any:
    cls = record.instance_class
    floats = field_names(cls)[0]
    parts = [f"real(record.{n})" if n in floats else f"record.{n}" for n in cls._fields]
    return generate("record, state", parts, cls, real=state.dtype)


def check_precision(rule: str, record: Any, state: Any) -> None:
    """Refuses at compile time a coordinate computed in more bits than it is kept in (a bare literal, usually)."""
    from numba.core.errors import TypingError

    for name, kind in zip(record.fields, record.types, strict=True):
        if name in field_names(record.instance_class)[0] and kind != state.dtype:
            raise TypingError(
                f"{rule}: field {name} comes out as {kind} where the state is {state.dtype}; "
                "use like(literal, reference) for literals in coordinate functions"
            )
