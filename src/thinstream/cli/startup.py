"""A quick start."""

import sys
from contextlib import suppress
from typing import Any, cast


def hide_linear_algebra() -> None:
    """Loads numba without scipy, which it would import for functions that nothing here compiles: 0.2 s."""
    name, modules = "scipy", cast(dict[str, Any], sys.modules)
    if name in modules or "numba.np.arraymath" in modules:
        return
    modules[name] = None
    try:
        with suppress(ImportError):  # numba's own matter: it may move
            import numba.np.arraymath  # noqa: F401
    finally:
        del modules[name]
