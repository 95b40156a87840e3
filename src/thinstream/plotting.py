"""The one module that imports matplotlib, when a picture is asked for."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from thinstream.atomic import replacing
from thinstream.errors import MissingPackageError, UnknownNameError, listed

EXTENSIONS = (".png", ".svg")


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


def check_picture(path: str | os.PathLike[str], extensions: Sequence[str] = EXTENSIONS) -> Path:
    """The path of a picture, if its kind is known and can be drawn here; else raises."""
    path = Path(path)
    if path.suffix.lower() not in extensions:
        raise UnknownNameError(f"{path}: the extension must be {listed(extensions)}, got {path.suffix!r}")
    matplotlib()
    return path


def draw_into(path: str | os.PathLike[str], figure: Callable[[], Any]) -> None:
    """Draws a figure into a PNG or SVG file, which is replaced as a whole; the same figure gives the same bytes."""
    path = check_picture(path)
    kind = path.suffix.lower()[1:]
    with matplotlib().rc_context({"svg.hashsalt": "thinstream"}), replacing(path) as new:
        figure().savefig(new, format=kind, dpi=130, metadata={"Date": None} if kind == "svg" else None)
