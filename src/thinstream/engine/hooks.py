"""The hooks of a rule: what the loop calls, each an ordinary function that calls the method of its first argument.

Compiled code finds the method at compile time by the type of p, so every rule is inlined into its own copy of the loop;
interpreted code simply calls it. Numba wants the same parameter names in hook and method.
"""

import inspect
from collections.abc import Callable
from operator import attrgetter
from typing import Any, TypeVar

from thinstream.engine.records import check_precision
from thinstream.jit import compiles

Stub = TypeVar("Stub", bound=Callable[..., Any])


def calls(find: Callable[[Any], Any], inline: str = "never", check: Any = None) -> Callable[[Stub], Stub]:
    """Makes a stub call what ``find`` finds for the class of its first argument; compiled, that is found but once.

    ``check``, if given, sees the types of the arguments when a call is compiled.
    """

    def pick(p: Any, *rest: Any) -> Any:
        if not hasattr(p, "instance_class"):  # numba's type of a NamedTuple
            return None  # numba looks further
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
    """Makes ``stub(p, …)`` call ``type(p).stub(p, …)``, interpreted and compiled."""
    inline = "always" if stub.__name__ in ("read", "write") else "never"
    return calls(attrgetter(stub.__name__), inline, _check_write if stub.__name__ == "write" else None)(stub)


def _check_write(p: Any, memory: Any, j: Any, f: Any) -> None:
    check_precision(p.instance_class.__name__, f, memory.types[0])


@hook
def begin(p: Any, t: Any, totals: Any) -> Any:
    """Once per example: the scalars of round t (thresholds, rates), as a record."""


@hook
def confidence(p: Any, f: Any, x: Any, now: Any) -> Any:
    """Summed over the example into v."""


@hook
def observe(p: Any, f: Any, x: Any, v: Any, now: Any) -> Any:
    """The coordinate as the score sees it, with the example taken in before predicting."""


@hook
def observes(p: Any) -> Any:
    """Whether ``observe`` does anything."""


@hook
def keeps(p: Any) -> Any:
    """Whether what ``observe`` returns stays, or was for this score only."""


@hook
def weight(p: Any, f: Any, now: Any) -> Any:
    """w_j, summed times x_j into the score s."""


@hook
def step(p: Any, s: Any, v: Any, e: Any, now: Any) -> Any:
    """Once per example: the loss, whether to update, how far (a ``Step``)."""


@hook
def move(p: Any, f: Any, x: Any, v: Any, step: Any, now: Any) -> Any:
    """The coordinate after the update."""


@hook
def reach(p: Any, x: Any, least: Any, v: Any, step: Any, now: Any) -> Any:
    """No field of a coordinate moves by more than this, in 64 bits, where least ≤ |x_j| ≤ x (see `limits`)."""


@hook
def gain(p: Any) -> Any:
    """No |weight| is more than this times the first field of its coordinate; asked of rules that observe."""


@hook
def tally(p: Any, f: Any, g: Any) -> Any:
    """Summed over the coordinates that moved from f to g, and given to ``end``."""


@hook
def settle(p: Any, memory: Any, rows: Any, a: Any, b: Any) -> Any:
    """After an update on the row a:b, for rules that rank coordinates (see `rows.coordinate`)."""


@hook
def end(p: Any, totals: Any, t: Any, v: Any, now: Any, change: Any) -> Any:
    """The rule's own totals after round t, whose confidences have the sum v."""


@hook
def stopped(p: Any, totals: Any) -> Any:
    """True once the model is frozen for good."""


# Generated from the rule's records by the decorator `algorithm`, never written by a rule itself.


@hook
def read(p: Any, memory: Any, j: Any) -> Any:
    """Coordinate j."""


@hook
def write(p: Any, memory: Any, j: Any, f: Any) -> Any:
    """Coordinate j becomes f."""


@hook
def read_totals(p: Any, totals: Any) -> Any:
    """The rule's own totals."""


@hook
def write_totals(p: Any, totals: Any, own: Any) -> Any:
    """The rule's own totals become ``own``."""


@hook
def finite_coordinate(p: Any, f: Any, large: Any) -> Any:
    """Whether a coordinate is one that a model may keep."""


@hook
def finite_totals(p: Any, own: Any) -> Any:
    """Whether the rule's own totals are."""


@hook
def width(p: Any) -> Any:
    """Numbers per coordinate in ``Memory.state``."""


@hook
def clock_width(p: Any) -> Any:
    """Numbers per coordinate in ``Memory.clocks``."""
