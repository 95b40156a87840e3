"""The only module that imports numba-cuda; it declares the engine's functions to it.

A lane is bit-identical to a CPU run only if no multiplication is fused with an addition. numba-cuda has no option
for that; the one function that calls NVVM is wrapped, and what is compiled within `unfused` is compiled so.
"""

import importlib.util
import math
import pickle
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any

import numpy as np

from thinstream.engine.loop import prefetch
from thinstream.errors import MissingPackageError, install
from thinstream.jit import declarations, not_inlined
from thinstream.jit.cache import CodeFile, abi, numba_settings, sources_of

# Kernels on disk: compiled once, and not by every process that runs them.
#
# numba-cuda's own cache knows nothing of an edit in a rule's file. `KeptKernels` replaces it: it has the few
# methods a dispatcher calls, and keeps code as `jit.cache` keeps that of the CPU, by all that it depends on.

#: Modules with code of every kernel, in addition to the engine's; an edit there compiles it again.
_COMMON = tuple(f"thinstream.lanes.{name}" for name in ("loop", "cuda.kernels", "cuda.package", "cuda.team"))


class KeptKernels:
    """The compiled forms of one kernel.

    Parameters
    ----------
    function : callable
        The kernel's Python function.
    modules : tuple of str
        Modules with further code that it calls.
    constants : tuple
        All it closes over that makes a difference.
    before : callable
        Called before something is compiled.

    """

    def __init__(
        self, function: Callable[..., Any], modules: tuple[str, ...], constants: tuple[Any, ...], before: Any
    ) -> None:
        self._name = f"cuda-{function.__name__}"
        self._modules, self._constants, self._before = (function.__module__, *modules), constants, before

    def load_overload(self, signature: Any, context: Any) -> Any:
        """The kernel for arguments of these types, or None where it has to be compiled."""
        from numba.cuda.dispatcher import _Kernel

        code = self._kept(signature).find()
        if code is None:
            self._before()
            return None
        context.refresh()
        return _Kernel._rebuild(**pickle.loads(code))

    def save_overload(self, signature: Any, kernel: Any) -> None:
        """Keeps a kernel that was just compiled."""
        from numba.cuda.serialize import dumps

        kept = self._kept(signature)
        with kept.locked() as folder:
            if folder is not None:
                kept.write(folder, dumps(kernel._reduce_states()))

    def _kept(self, signature: Any) -> CodeFile:
        from importlib.metadata import version

        from numba.cuda.dispatcher import get_current_device

        versions = version("numba-cuda"), version("numba")
        around = versions, get_current_device().compute_capability, abi(), numba_settings()
        sources = sources_of((*_COMMON, *self._modules))
        return CodeFile(self._name, f"{self._constants} {signature} {around}", sources)


_INSTALL = install("cuda")

if importlib.util.find_spec("numba_cuda") is None:
    raise MissingPackageError(f"device='cuda' needs the package numba-cuda, which is not installed: {_INSTALL}")

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # of a newer numpy, for what numba-cuda does with it
    from numba import config
    from numba import cuda as cuda


#: Whether kernels run in numba's simulator, as plain Python.
SIMULATED = bool(config.ENABLE_CUDASIM)
_exact: ContextVar[bool] = ContextVar("_exact", default=False)
#: Replacements of functions that only help a CPU; on a GPU, other warps hide the time that memory needs.
_INSTEAD = {prefetch: lambda array, index: lambda array, index: None, not_inlined: lambda: lambda: None}
#: The number of declarations passed to numba-cuda, and of those passed to numba by then.
_told = 0, 0


def require_device() -> None:
    """Raises unless there is a GPU to run on."""
    if not cuda.is_available():
        raise MissingPackageError(
            "device='cuda' needs an NVIDIA GPU with its driver and the CUDA libraries, but numba-cuda does not find "
            f"all of them (run 'numba -s' for details). Install the libraries with {_INSTALL}, or use device='cpu' "
            "(--device cpu)"
        )


def free_memory() -> int:
    """Return the free bytes of the device."""
    if SIMULATED:
        return 1 << 40
    context = cuda.current_context()
    context.deallocations.clear()  # what is given up is returned now and then only
    return int(context.get_memory_info()[0])


def processors() -> int:
    """How many blocks of threads run at the same time, each with all there is for one."""
    return 1 if SIMULATED else int(cuda.get_current_device().MULTIPROCESSOR_COUNT)


def kernel(
    function: Any, registers: int | None = None, modules: tuple[str, ...] = (), constants: tuple[Any, ...] = ()
) -> Any:
    """A kernel, compiled when it is first launched (within `unfused`), and kept; see `KeptKernels` for the last two."""
    if SIMULATED:
        return cuda.jit(function)
    made = cuda.jit(function, lto=False, max_registers=registers)  # linking it later would fuse after all
    made._cache = KeptKernels(function, modules, (registers, *constants), tell_cuda)
    return made


@contextmanager
def unfused() -> Iterator[None]:
    """Kernels compiled meanwhile have no fused multiply-add."""
    _load_numpy()
    token = _exact.set(True)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*low occupancy")  # a few lanes are fine
            yield
    finally:
        _exact.reset(token)


def tell_cuda() -> None:
    """Declare everything declared so far to numba-cuda, like `jit.register_declarations` for numba."""
    global _told
    if SIMULATED:
        return
    from numba.core.typing.templates import builtin_registry
    from numba.cuda.extending import overload

    all_there_is = len(declarations), len(builtin_registry.globals)
    if _told == all_there_is:
        return
    if not _told[0]:
        _wrap_compiler()
        for function, pick in _INSTEAD.items():
            overload(function, jit_options={"forceinline": True})(pick)
        _add_ufuncs()
    for declaration in declarations[_told[0] :]:
        if declaration.function in _INSTEAD:
            continue
        options = {"forceinline": declaration.by_force or declaration.inline == "always"}
        overload(declaration.function, options, strict=declaration.pick is not None)(declaration.chooser())
    _hide_from_cuda()
    _told = all_there_is


@cache
def _load_numpy() -> None:
    """Has numba-cuda load what it knows of numpy, of which it may name a function that a newer numpy lacks."""
    if SIMULATED:
        return
    from numba.cuda.descriptor import cuda_target

    lacking = {"row_stack": np.vstack} if not hasattr(np, "row_stack") else {}
    vars(np).update(lacking)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of numpy, for what numba-cuda does with it
            cuda_target.typing_context.refresh()
            cuda_target.target_context.refresh()
    finally:
        for name in lacking:
            del vars(np)[name]


def _hide_from_cuda() -> None:
    """Keep numba's declarations of the same functions out of kernels: numba-cuda would inline code for the CPU."""
    from numba.cuda.descriptor import cuda_target

    context = cuda_target.typing_context
    context.refresh()
    for declaration in declarations:
        function = context._lookup_global(declaration.function)
        own = [template for template in function.templates if template.metadata.get("target") == "cuda"]
        if len(own) < len(function.templates):
            context._remove_global(declaration.function)
            context._insert_global(declaration.function, type(function)(own))


def _add_ufuncs() -> None:
    """Those of the rules that numba-cuda has no code for."""
    from numba.cuda.mathimpl import get_unary_impl_for_fn_and_ty
    from numba.cuda.np.npyfuncs import np_real_reciprocal_impl
    from numba.cuda.ufuncs import ufunc_db

    def lowering(function: Any) -> Any:
        def lower(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            implementation = get_unary_impl_for_fn_and_ty(function, signature.args[0])
            return implementation(context, builder, signature, arguments)

        return lower

    lacking = {np.sqrt: math.sqrt, np.absolute: math.fabs, np.exp: math.exp, np.log1p: math.log1p}
    lowered = {ufunc: lowering(function) for ufunc, function in lacking.items()}
    for ufunc, lower in {**lowered, np.reciprocal: np_real_reciprocal_impl}.items():
        ufunc_db().setdefault(ufunc, {"f->f": lower, "d->d": lower})


def _wrap_compiler() -> None:
    from numba.cuda.cudadrv import nvvm

    compile_ir = nvvm.compile_ir
    nvvm.compile_ir = lambda source, **options: compile_ir(
        source, **(options | ({"fma": False} if _exact.get() else {}))
    )
