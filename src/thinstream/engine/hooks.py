"""The hooks of a rule, which the loop calls: functions that call the method of their first argument.

Compiled code resolves the method at compile time by the type of p, so every rule is inlined into its own copy of the
loop. Interpreted code calls it. numba requires the same parameter names in hook and method.
"""

import inspect
from collections.abc import Callable
from operator import attrgetter
from typing import Any, TypeVar

from thinstream.engine.records import check_precision
from thinstream.jit import compiles

Stub = TypeVar("Stub", bound=Callable[..., Any])


def calls(find: Callable[[Any], Any], inline: str = "never", check: Any = None) -> Callable[[Stub], Stub]:
    """Make a stub call the function that ``find`` returns for the class of its first argument.

    Compiled code calls ``find`` once, at compile time. ``check`` receives the types of the arguments then.
    """

    def pick(p: Any, *rest: Any) -> Any:
        if not hasattr(p, "instance_class"):  # numba's type of a NamedTuple
            return None  # numba tries other overloads
        if check is not None:
            check(p, *rest)
        return find(p.instance_class)

    def made(stub: Stub) -> Stub:
        name, names = stub.__name__, ", ".join(inspect.signature(stub).parameters)
        scope: dict[str, Any] = {"find": find, "pick": pick}
        exec(
            f"def {name}({names}):\n return find(type({names.split(',')[0]}))({names})\n"
            f"def picked({names}):\n return pick({names})\n",
            scope,
        )
        function: Stub = scope[name]
        function.__doc__, function.__module__ = stub.__doc__, stub.__module__
        compiles(function, inline)(scope["picked"])
        return function

    return made


def hook(stub: Stub) -> Stub:
    """Make ``stub(p, …)`` call ``type(p).stub(p, …)``, interpreted and compiled."""
    inline = "always" if stub.__name__ in ("read", "write") else "never"
    return calls(attrgetter(stub.__name__), inline, _check_write if stub.__name__ == "write" else None)(stub)


def _check_write(p: Any, memory: Any, j: Any, f: Any) -> None:
    check_precision(p.instance_class.__name__, f, memory.types[0])


@hook
def begin(p: Any, t: Any, totals: Any) -> Any:
    """Return the scalars of round t (thresholds, rates) as a record, once per example."""


@hook
def confidence(p: Any, f: Any, x: Any, now: Any) -> Any:
    """Return the term of a coordinate in v."""


@hook
def observe(p: Any, f: Any, x: Any, v: Any, now: Any) -> Any:
    """Return the coordinate that the score uses, updated by the example before predicting."""


@hook
def observes(p: Any) -> Any:
    """Return whether ``observe`` changes anything."""


@hook
def keeps(p: Any) -> Any:
    """Return whether the result of ``observe`` is stored, or only used for this score."""


@hook
def weight(p: Any, f: Any, now: Any) -> Any:
    """Return w_j. The score s is the sum of w_j·x_j."""


@hook
def step(p: Any, s: Any, v: Any, e: Any, now: Any) -> Any:
    """Return the loss, whether to update, and how far (a ``Step``), once per example."""


@hook
def move(p: Any, f: Any, x: Any, v: Any, step: Any, now: Any) -> Any:
    """Return the coordinate after the update."""


@hook
def stands_still(p: Any) -> Any:
    """Return whether a full covariance leaves out an update that would not be finite, instead of refusing the row."""


@hook
def reach(p: Any, x: Any, least: Any, v: Any, step: Any, now: Any) -> Any:
    """Return a bound, in 64 bits, on how far any field of a coordinate moves if least ≤ |x_j| ≤ x (see `limits`)."""


@hook
def gain(p: Any) -> Any:
    """Return a bound on |weight| over the first field of its coordinate. Only called for rules that observe."""


@hook
def tally(p: Any, f: Any, g: Any) -> Any:
    """Return the term of a coordinate that moved from f to g. ``end`` receives the sum."""


@hook
def settle(p: Any, memory: Any, rows: Any, a: Any, b: Any) -> Any:
    """Run after an update on the row a:b, for rules that rank coordinates (see `rows.coordinate`)."""


@hook
def end(p: Any, totals: Any, t: Any, v: Any, now: Any, change: Any) -> Any:
    """Return the rule's own totals after round t, whose confidences have the sum v."""


@hook
def stopped(p: Any, totals: Any) -> Any:
    """Return whether the model is frozen permanently."""


# Generated from the rule's records by the decorator `algorithm`, never written by a rule itself.


@hook
def read(p: Any, memory: Any, j: Any) -> Any:
    """Return coordinate j."""


@hook
def write(p: Any, memory: Any, j: Any, f: Any) -> Any:
    """Store f as coordinate j."""


@hook
def read_totals(p: Any, totals: Any) -> Any:
    """Return the rule's own totals."""


@hook
def write_totals(p: Any, totals: Any, own: Any) -> Any:
    """Store the rule's own totals."""


@hook
def finite_coordinate(p: Any, f: Any, large: Any) -> Any:
    """Return whether a model may store this coordinate."""


@hook
def finite_totals(p: Any, own: Any) -> Any:
    """Return whether the rule's own totals are finite."""


@hook
def width(p: Any) -> Any:
    """Return the numbers per coordinate in ``Memory.state``."""


@hook
def clock_width(p: Any) -> Any:
    """Return the numbers per coordinate in ``Memory.clocks``."""
