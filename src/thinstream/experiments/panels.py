"""Panels of figures, and one legend for all of them."""

from collections.abc import Iterable
from typing import Any


def grid_of_axes(
    figure: Any, count: int, columns: int, width: float = 3.3, height: float = 2.5, more: float = 0.7
) -> Any:
    """Axes for so many panels; those left over are switched off."""
    lines = -(-count // columns)
    figure.set_size_inches(width * columns, height * lines + more)
    axes = figure.subplots(lines, columns, squeeze=False).ravel().tolist()
    for axis in axes[count:]:
        axis.axis("off")
    return axes[:count]


def legend(figure: Any, axes: Iterable[Any], columns: int = 7, place: str = "lower", **style: Any) -> None:
    """One for all panels, below or above them; names that several have stand there once."""
    found: dict[str, Any] = {}
    for axis in axes:
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    look = style or {"frameon": False}
    figure.legend(list(found.values()), list(found), loc=f"outside {place} center", ncols=columns, **look)
