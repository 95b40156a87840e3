"""Options of commands that take many models over a stream at once."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from thinstream.errors import InvalidParameterError

_MODEL, _LANES, _OUTPUT = "Model", "Lanes", "Output"


@dataclass(frozen=True)
class Studying:
    """What all models share, what they may take, and where what is found goes."""

    intercept: Annotated[
        bool, typer.Option("--intercept", help="Learn a constant feature along.", rich_help_panel=_MODEL)
    ] = False
    dtype: Annotated[str, typer.Option(help="float32 or float64.", rich_help_panel=_MODEL)] = "float32"
    memory: Annotated[
        str | None,
        typer.Option(
            help="What all models may take, as in 500M or 4G (default: half of the machine's); beyond it they go in "
            "several passes.",
            rich_help_panel=_LANES,
            show_default=False,
        ),
    ] = None
    lane_threads: Annotated[int, typer.Option(min=1, help="Threads that learn.", rich_help_panel=_LANES)] = 1
    plot: Annotated[
        Path | None,
        typer.Option(help="Draw into this file (.png, .svg or .html).", rich_help_panel=_OUTPUT, show_default=False),
    ] = None
    csv: Annotated[
        Path | None,
        typer.Option(
            help="Write the table, with all its columns, to this file.", rich_help_panel=_OUTPUT, show_default=False
        ),
    ] = None


def bytes_of(text: str | None) -> int | None:
    """A number of bytes.

    >>> bytes_of("1.5G"), bytes_of("300k"), bytes_of(None)
    (1500000000, 300000, None)
    """
    if text is None:
        return None
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kMGT]?)B?", text)
    if found is None or float(found[1]) == 0:
        raise InvalidParameterError(f"--memory must be a number of bytes as in 500M or 4G, got {text!r}")
    return int(float(found[1]) * 1000 ** " kMGT".index(found[2] or " "))
