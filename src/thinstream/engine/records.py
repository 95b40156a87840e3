"""State as records: a coordinate's fields are a NamedTuple, stored interleaved, read and written by name.

A field annotated ``float`` is stored in the model's precision, and a ``Clock`` always in 64 bits (a float32 clock stops
at 2^24). The code that reads and writes a record is generated from its class.
"""

from collections.abc import Callable
from typing import Annotated, Any, NamedTuple, get_args, get_type_hints

import numpy as np
from numpy.typing import NDArray

from thinstream.jit import compiles

Clock = Annotated[float, "64 bits"]


class Memory(NamedTuple):
    """The state of a model as flat arrays. The loop uses them, and they are saved, grown and copied."""

    state: NDArray[Any]  # [coordinate][field], the model's dtype
    clocks: NDArray[np.float64]  # [coordinate][clock]
    counts: NDArray[np.int64]  # see Counts
    totals: NDArray[np.float64]  # cumulative loss, then the rule's own totals
    extra: NDArray[Any]  # a rule's own array (SOFS: its heap, a full covariance: the packed matrix)


def field_names(record: type) -> tuple[list[str], list[str]]:
    """Return the names of the fields in the model's precision, and of the clocks. Codes are neither."""
    hints = get_type_hints(record, include_extras=True)
    clocks = [name for name, hint in hints.items() if hint == Clock]
    floats = [name for name, hint in hints.items() if float in (hint, *get_args(hint)[:1]) and name not in clocks]
    return floats, clocks


def generate(parameters: str, parts: list[str], record: Any = None, **names: Any) -> Any:
    """Generate a function that returns a record of these parts, or, without a record, has these lines."""
    lines = [f"return Record({', '.join(parts)})"] if record is not None else parts or ["pass"]
    scope: dict[str, Any] = {"uint64": np.uint64, "Record": record, **names}
    exec(f"def made({parameters}):\n " + "\n ".join(lines), scope)
    return scope["made"]


def _positions(record: Any) -> list[str]:
    """Return the source text of the position in memory of each field of coordinate j."""
    fields, clocks = field_names(record)
    positions = {n: f"memory.state[uint64({len(fields)}) * j + uint64({i})]" for i, n in enumerate(fields)}
    positions |= {n: f"memory.clocks[uint64({len(clocks)}) * j + uint64({i})]" for i, n in enumerate(clocks)}
    return [positions[name] for name in record._fields]


def reader(record: Any) -> Callable[[Any, Any], Any]:
    """Generate ``read(memory, j)``, which returns the record of coordinate j."""
    return generate("p, memory, j", _positions(record), record)


def writer(record: Any) -> Callable[[Any, Any, Any], None]:
    """Generate ``write(memory, j, f)``, which stores the record f as coordinate j."""
    lines = [f"{position} = f.{name}" for name, position in zip(record._fields, _positions(record), strict=True)]
    return generate("p, memory, j, f", lines)


def totals_reader(record: Any) -> Callable[[Any], Any]:
    """Generate ``read_totals(totals)``, which returns the rule's own totals. The cumulative loss comes before them."""
    return generate("p, totals", [f"totals[{i + 1}]" for i in range(len(record._fields))], record)


def totals_writer(record: Any) -> Callable[[Any, Any], None]:
    """Generate ``write_totals(totals, own)``."""
    return generate("p, totals, own", [f"totals[{i + 1}] = own.{n}" for i, n in enumerate(record._fields)])


def finiteness(record: Any) -> Callable[[Any, Any], bool]:
    """Generate ``finite_coordinate(f, large)``: all fields are finite, and |first field| (like a weight) ≤ large."""
    first, *others = record._fields
    tests = [f"abs(f.{first}) <= large", *(f"f.{name} - f.{name} == 0" for name in others)]
    return generate("p, f, large", [f"return {' and '.join(tests)}"])


def totals_finiteness(record: Any) -> Callable[[Any], bool]:
    """Generate ``finite_totals(own)``: the rule's own totals are finite."""
    tests = [f"own.{name} - own.{name} == 0" for name in record._fields]
    return generate("p, own", [f"return {' and '.join(tests) or True}"])


def in_precision(record: Any, state: Any) -> Any:
    """Return the record with its plain floats in the precision of the state. Clocks and codes do not change."""
    real, floats = state.dtype.type, field_names(type(record))[0]
    return type(record)(*[real(value) if name in floats else value for name, value in record._asdict().items()])


@compiles(in_precision)
def _in_precision_compiled(record: Any, state: Any) -> Any:
    cls = record.instance_class
    floats = field_names(cls)[0]
    parts = [f"real(record.{n})" if n in floats else f"record.{n}" for n in cls._fields]
    return generate("record, state", parts, cls, real=state.dtype)


def check_precision(rule: str, record: Any, state: Any) -> None:
    """Refuse, at compile time, a coordinate with more bits than its storage (usually because of a bare literal)."""
    from numba.core.errors import TypingError

    for name, dtype in zip(record.fields, record.types, strict=True):
        if name in field_names(record.instance_class)[0] and dtype != state.dtype:
            raise TypingError(
                f"{rule}: field {name} is computed as {dtype}, but the state is {state.dtype}; "
                "use like(literal, reference) for literals in coordinate functions"
            )
