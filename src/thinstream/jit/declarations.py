"""Declarations of the functions that compiled code calls, which numba reads when it compiles something."""

import inspect
from collections.abc import Callable
from functools import cache
from types import FunctionType
from typing import Any, NamedTuple, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])

#: Only compiled code calls these functions: they need no wrappers for Python and C.
_OPTIONS = {"error_model": "numpy", "no_cpython_wrapper": True, "no_cfunc_wrapper": True}


class Declaration(NamedTuple):
    """A function that compiled code may call."""

    function: Callable[..., Any]
    pick: Callable[..., Any] | None  # returns the function that runs in its place, by types of arguments. None: itself
    inline: str  # "never": only LLVM inlines it. "always": numba does
    by_force: bool  # whether LLVM has to inline it

    def chooser(self) -> Any:
        """Return the function that numba asks which function to run. It has the same parameters."""
        pick = self.pick
        if pick is None:
            return lambda *types: self.function

        def picked(*types: Any) -> Any:
            function = pick(*types)
            return function if function is None else _without_annotations(function)

        return _with_parameters(pick, picked)

    def register(self) -> None:
        """Register the function with numba's compiler for the CPU."""
        from numba.extending import overload

        options = {"forceinline": self.by_force, **_OPTIONS}
        strict = self.pick is not None
        overload(self.function, options, strict, self.inline, target="cpu")(self.chooser())


#: All declarations, in order, and those that numba does not have yet.
declarations: list[Declaration] = []
_waiting: list[Declaration] = []


def register_declarations() -> None:
    """Register all declared functions with numba, so that code compiled by ``numba.njit`` can call them."""
    while _waiting:
        _waiting.pop(0).register()


def _declare(*fields: Any) -> None:
    declarations.append(Declaration(*fields))
    _waiting.append(declarations[-1])


def scalar(function: Function) -> Function:
    """Declare a small pure function, which runs as Python and is inlined into compiled code."""
    _declare(function, None, "never", True)
    return function


def apart(function: Function) -> Function:
    """Declare a long or rarely called function. LLVM decides whether to inline it (never with `not_inlined`)."""
    _declare(function, None, "never", False)
    return function


def compiles(function: Callable[..., Any], inline: str = "never") -> Callable[[Function], Function]:
    """Declare that the decorated function returns what compiled code runs in place of ``function``, by argument types.

    LLVM inlines the code. With ``inline="always"``, numba inlines it earlier. Then references to arrays that are passed
    are not counted, but compiling takes longer, and the code must not have branches.
    """

    def register(pick: Function) -> Function:
        _declare(function, pick, inline, inline == "never")
        return pick

    return register


def lowers(function: Callable[..., Any], result: str) -> Callable[[Function], Function]:
    """Declare that the decorated function writes the LLVM code that runs in place of ``function``.

    It receives numba's context and builder, the signature and the arguments. ``result`` names the type of the result.
    """

    def register(lower: Function) -> Function:
        @cache
        def lowered() -> Any:
            from numba import types
            from numba.extending import intrinsic

            def typed(typing_context: Any, *arguments: Any) -> Any:
                return getattr(types, result)(*arguments), lower

            return _with_parameters(function, intrinsic(_with_parameters(function, typed, "typing_context")))

        compiles(function)(_with_parameters(function, lambda *arguments: lowered()))
        return lower

    return register


def not_inlined() -> None:
    """Keep the calling function out of its callers when compiled: a rare call must not cost them registers."""


@compiles(not_inlined, inline="always")  # it must become a part of that function
def _not_inlined() -> Any:
    mark = _noinline()

    def call_mark() -> None:
        mark()

    return call_mark


@cache
def _noinline() -> Any:
    """Return `not_inlined` as LLVM code."""
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
    """Return a function that calls another, with the parameters of ``like`` after ``first``: numba compares names."""
    names = ", ".join([*first, *inspect.signature(like).parameters])
    scope = {"calls": calls}
    exec(f"def function({names}):\n return calls({names})", scope)
    return scope["function"]


def _without_annotations(function: Any) -> Any:
    """Return a copy without annotations, which numba would compare with those of other signatures."""
    return FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
