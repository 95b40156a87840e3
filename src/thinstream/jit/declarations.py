"""What numba has to know of functions that compiled code calls, declared without importing it."""

import inspect
from collections.abc import Callable
from functools import cache
from types import FunctionType
from typing import Any, NamedTuple, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])

#: Called by compiled code only, they need no wrappers for Python and C.
_OPTIONS = {"error_model": "numpy", "no_cpython_wrapper": True, "no_cfunc_wrapper": True}


class Declaration(NamedTuple):
    """A function that compiled code may call."""

    function: Callable[..., Any]
    pick: Callable[..., Any] | None  # what is run in its place, by the types of its arguments; None: itself
    inline: str  # "never": by LLVM only
    by_force: bool  # whether LLVM must

    def chooser(self) -> Any:
        """What numba asks for the function to run: one of the same parameters."""
        pick = self.pick
        if pick is None:
            return lambda *types: self.function

        def picked(*types: Any) -> Any:
            found = pick(*types)
            return found if found is None else _without_annotations(found)

        return _with_parameters(pick, picked)

    def tell_numba(self) -> None:
        """Makes it known to numba's compiler for the CPU, and to no other."""
        from numba.extending import overload

        options = {"forceinline": self.by_force, **_OPTIONS}
        strict = self.pick is not None
        overload(self.function, options, strict, self.inline, target="cpu")(self.chooser())


#: All there are, in the order of declaration; and those of them numba has not been told of.
declarations: list[Declaration] = []
_untold: list[Declaration] = []


def tell_numba() -> None:
    """Tells numba of everything declared so far, for code of one's own that is to call it compiled."""
    while _untold:
        _untold.pop(0).tell_numba()


def _declare(*given: Any) -> None:
    declarations.append(Declaration(*given))
    _untold.append(declarations[-1])


def scalar(function: Function) -> Function:
    """A small pure function, usable interpreted and inlined into compiled code."""
    _declare(function, None, "never", True)
    return function


def apart(function: Function) -> Function:
    """Like `scalar`, for what is rare and long: not inlined by force (nor at all with `not_inlined` in it)."""
    _declare(function, None, "never", False)
    return function


def compiles(function: Callable[..., Any], inline: str = "never") -> Callable[[Function], Function]:
    """The decorated function picks, from argument types, what compiled code runs in place of ``function``.

    Code is inlined by LLVM; ``inline="always"`` inlines it in numba's own stage already, which spares the counting of
    references where arrays are passed, but costs compile time and takes straight code only (no branches).
    """

    def register(pick: Function) -> Function:
        _declare(function, pick, inline, inline == "never")
        return pick

    return register


def lowers(function: Callable[..., Any], result: str) -> Callable[[Function], Function]:
    """The decorated function writes, in LLVM, what compiled code runs in place of ``function``.

    It is given numba's context and builder, the signature and the arguments; ``result`` names the type it returns.
    """

    def register(lower: Function) -> Function:
        @cache
        def lowered() -> Any:
            from numba import types
            from numba.extending import intrinsic

            def typed(typing_context: Any, *kinds: Any) -> Any:
                return getattr(types, result)(*kinds), lower

            return _with_parameters(function, intrinsic(_with_parameters(function, typed, "typing_context")))

        compiles(function)(_with_parameters(function, lambda *kinds: lowered()))
        return lower

    return register


def not_inlined() -> None:
    """Keeps the compiled function it stands in out of its callers: a rare call must not cost them registers."""


@compiles(not_inlined, inline="always")  # it must be lowered as a part of that function
def _not_inlined() -> Any:
    mark = _noinline()

    def made() -> None:
        mark()

    return made


@cache
def _noinline() -> Any:
    """The same in LLVM."""
    from numba import types
    from numba.extending import intrinsic

    @intrinsic  # type: ignore[untyped-decorator]
    def mark(typing_context: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            builder.function.attributes.add("noinline")
            return context.get_dummy_value()

        return types.void(), codegen

    return mark


def _with_parameters(like: Callable[..., Any], calls: Any, *first: str) -> Any:
    """A function of the same parameters (numba compares names), behind ``first``, that calls another with them."""
    names = ", ".join([*first, *inspect.signature(like).parameters])
    scope = {"calls": calls}
    exec(f"def made({names}):\n return calls({names})", scope)
    return scope["made"]


def _without_annotations(function: Any) -> Any:
    """A copy numba accepts beside any other signature of the same names (it compares annotations, too)."""
    return FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
