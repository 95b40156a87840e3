"""Kernels on disk: compiled once, and not by every process that runs them.

numba-cuda's own cache knows nothing of an edit in a rule's file. `KeptKernels` stands in its place: it has the few
methods a dispatcher calls, and keeps code as `jit.keeping` keeps that of the CPU, by all that it depends on.
"""

import pickle
from collections.abc import Callable
from typing import Any

from thinstream.jit.keeping import Kept
from thinstream.jit.versions import sources_of, surroundings

#: Where code of every kernel comes from, beside the engine's; an edit there compiles it again.
_COMMON = tuple(
    f"thinstream.lanes.{name}"
    for name in ("access", "loop", "cuda.kernels", "cuda.package", "cuda.team", "cuda.tiles", "cuda.counting")
)


class KeptKernels:
    """What has been compiled of one kernel.

    Parameters
    ----------
    function : callable
        The kernel as it is written.
    modules : tuple of str
        Where further code it calls is.
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

    def _kept(self, signature: Any) -> Kept:
        from importlib.metadata import version

        from numba.cuda.dispatcher import get_current_device

        around = version("numba-cuda"), get_current_device().compute_capability, surroundings()
        sources = sources_of((*_COMMON, *self._modules))
        return Kept(self._name, f"{self._constants} {signature} {around}", sources)
