"""Pictures. This is the only module that imports matplotlib, and only when it draws."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from thinstream.errors import MissingPackageError, UnknownNameError, install, listed
from thinstream.files import replacing

EXTENSIONS = (".png", ".svg")


def matplotlib() -> Any:
    """Import matplotlib, or raise."""
    try:
        import matplotlib.figure
        import matplotlib.ticker
    except ImportError:
        raise MissingPackageError(
            f"pictures need the package matplotlib, which is not installed: {install('plot')}"
        ) from None
    return matplotlib


def check_picture(path: str | os.PathLike[str], extensions: Sequence[str] = EXTENSIONS) -> Path:
    """Return the path of a picture, or raise if its format is unknown or matplotlib is missing."""
    path = Path(path)
    if path.suffix.lower() not in extensions:
        raise UnknownNameError(f"{path}: the extension must be {listed(extensions)}, got {path.suffix!r}")
    matplotlib()
    return path


def draw_into(path: str | os.PathLike[str], figure: Callable[[], Any]) -> None:
    """Draw a figure into a PNG or SVG file, which is replaced atomically. Equal figures give identical files."""
    path = check_picture(path)
    extension = path.suffix.lower()[1:]
    with matplotlib().rc_context({"svg.hashsalt": "thinstream"}), replacing(path) as new:
        figure().savefig(new, format=extension, dpi=130, metadata={"Date": None} if extension == "svg" else None)


def below(axes: Any, columns: int = 2, size: int = 9) -> None:
    """Put the legend below the axes, where it covers no curve."""
    labels = axes.get_legend_handles_labels()[1]
    if labels:
        axes.legend(
            loc="upper center",
            bbox_to_anchor=(0.5, -0.17),
            ncols=min(columns, len(labels)),
            frameon=False,
            fontsize=size,
        )
