"""A server that predicts and learns at the same time, without losing rows: ``thinstream serve``, or an ASGI app."""

from typing import Any

from thinstream.errors import MissingPackageError, install, no_attribute
from thinstream.serve.settings import Limits, Settings

__all__ = ["Limits", "Settings", "create_app"]


def __getattr__(name: str) -> Any:
    """Import `create_app` on first use, because it needs optional packages."""
    if name != "create_app":
        raise no_attribute(__name__, name, __all__)
    require_packages()
    from thinstream.serve.predictor import create_app

    return create_app


def require_packages() -> None:
    """Raise, with the command that installs it, if a package that the server needs is missing."""
    import os
    from importlib.util import find_spec

    if os.name != "posix":
        raise MissingPackageError(
            "the server needs Unix sockets, which this system does not have. Run it on Linux or macOS"
        )
    for package in ("starlette", "uvicorn", "httptools", "msgspec", "prometheus_client"):
        if find_spec(package) is None:
            raise MissingPackageError(f"the server needs {package}: {install('serve')}")
