"""A server that answers and learns at once, and loses nothing: ``thinstream serve``, or an ASGI application."""

from typing import Any

from thinstream.errors import MissingPackageError, no_attribute
from thinstream.serve.settings import Limits, Settings

__all__ = ["Limits", "Settings", "create_app"]


def __getattr__(name: str) -> Any:
    """`create_app` on demand, with the packages it needs."""
    if name != "create_app":
        raise no_attribute(__name__, name, __all__)
    require_packages()
    from thinstream.serve.app import create_app

    return create_app


def require_packages() -> None:
    """Raises, with the command that installs them, if a package that serving needs is not there."""
    import os
    from importlib.util import find_spec

    if os.name != "posix":
        raise MissingPackageError("serving needs Unix sockets, which this system does not have: run it on Linux")
    for package in ("starlette", "uvicorn", "httptools", "msgspec", "prometheus_client"):
        if find_spec(package) is None:
            raise MissingPackageError(f"serving needs {package}: pip install 'thinstream[serve]'")
