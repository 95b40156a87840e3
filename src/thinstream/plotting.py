"""The one module that imports matplotlib, when a picture is asked for."""

from typing import Any

from thinstream.errors import MissingPackageError


def matplotlib() -> Any:
    """The package, its figures loaded."""
    try:
        import matplotlib.figure
        import matplotlib.ticker
    except ImportError:
        raise MissingPackageError(
            "pictures need the package matplotlib, which is not installed: pip install 'thinstream[plot]'"
        ) from None
    return matplotlib
