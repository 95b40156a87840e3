"""The questions the loop asks of a rule. Each is an ordinary function that asks the type of its first argument.

Compiled code resolves a question at compile time by the type of p, so every rule is inlined into its own copy of the
loop; interpreted code simply calls the method. Numba wants the same parameter names in question and answer.
"""

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from numba import types

from thinstream.engine.records import check_precision
from thinstream.jit import compiles

Stub = TypeVar("Stub", bound=Callable[..., Any])


def question(stub: Stub) -> Stub:
    """Makes ``stub(p, …)`` answer with ``type(p).stub(p, …)``, interpreted and compiled."""
    name, names = stub.__name__, list(inspect.signature(stub).parameters)
    arguments = ", ".join(names)
    scope: dict[str, Any] = {"answer": _answer}
    exec(
        f"def {name}({arguments}):\n return type({names[0]}).{name}({arguments})\n"
        f"def pick({arguments}):\n return answer({name!r}, {arguments})\n",
        scope,
    )
    ask: Stub = scope[name]
    ask.__doc__, ask.__module__ = stub.__doc__, stub.__module__
    compiles(ask, inline="always" if name in ("read", "write") else "never")(scope["pick"])
    return ask


def _answer(name: str, p: Any, *rest: Any) -> Any:
    """The function that answers for a compiled p; None tells numba that there is none."""
    if not isinstance(p, types.BaseNamedTuple):
        return None
    if name == "write":
        memory, _, f = rest
        check_precision(p.instance_class.__name__, f, memory.types[0])
    return getattr(p.instance_class, name, None)


@question
def begin(p: Any, t: Any, totals: Any) -> Any:
    """Once per example: the scalars of round t (thresholds, rates), as a record."""


@question
def confidence(p: Any, f: Any, x: Any) -> Any:
    """Summed over the example into v."""


@question
def observe(p: Any, f: Any, x: Any, v: Any, now: Any) -> Any:
    """The coordinate as the score sees it, with the example taken in before predicting."""


@question
def observes(p: Any) -> Any:
    """Whether ``observe`` has anything to say."""


@question
def keeps(p: Any) -> Any:
    """Whether what ``observe`` answers stays, or was for this score only."""


@question
def weight(p: Any, f: Any, now: Any) -> Any:
    """w_j, summed times x_j into the score s."""


@question
def step(p: Any, s: Any, v: Any, e: Any, now: Any) -> Any:
    """Once per example: the loss, whether to update, how far (a ``Step``)."""


@question
def move(p: Any, f: Any, x: Any, v: Any, step: Any, now: Any) -> Any:
    """The coordinate after the update."""


@question
def tally(p: Any, f: Any, g: Any) -> Any:
    """Summed over the coordinates that moved from f to g, and given to ``end``."""


@question
def settle(p: Any, memory: Any, indices: Any, a: Any, b: Any) -> Any:
    """After an update, with the row's indices[a:b]: for rules that rank coordinates."""


@question
def end(p: Any, totals: Any, t: Any, now: Any, change: Any) -> Any:
    """The rule's own totals after round t."""


@question
def stopped(p: Any, totals: Any) -> Any:
    """True once the model is frozen for good."""


# Answered from the rule's records by the decorator `algorithm`, never by a rule itself.


@question
def read(p: Any, memory: Any, j: Any) -> Any:
    """Coordinate j."""


@question
def write(p: Any, memory: Any, j: Any, f: Any) -> Any:
    """Coordinate j becomes f."""


@question
def read_totals(p: Any, totals: Any) -> Any:
    """The rule's own totals."""


@question
def write_totals(p: Any, totals: Any, own: Any) -> Any:
    """The rule's own totals become ``own``."""


@question
def width(p: Any) -> Any:
    """Numbers per coordinate in ``Memory.state``."""


@question
def clock_width(p: Any) -> Any:
    """Numbers per coordinate in ``Memory.clocks``."""
