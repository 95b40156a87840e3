"""Streams and classes from the options of a command line."""

import os
from pathlib import Path
from typing import Any

from thinstream.cli.groups import Reading
from thinstream.errors import FileWriteError, InvalidParameterError, listed
from thinstream.learners import Classes
from thinstream.streams.opening import open_stream
from thinstream.streams.sources import STDIN


def opened(
    data: list[str], reading: Reading, dtype: str, *, cache: bool = False, labels: bool = True, strict: bool = True
) -> Any:
    """The stream the options describe."""
    return open_stream(data, reading.format, cache=cache, labels=labels, strict=strict, **options_of(reading, dtype))


def options_of(reading: Reading, dtype: str) -> dict[str, Any]:
    """Options of `open_stream`."""
    return {
        "classes": None if reading.classes is None else tuple(classes_of(reading)),
        "zero_based": _zero_based(reading.zero_based),
        "normalize": reading.normalize,
        "on_error": reading.on_error,
        "max_errors": reading.max_errors,
        "workers": reading.threads,
        "dtype": dtype,
        "label": reading.label,
        "weight": reading.weight,
        "text": _names(reading.text),
        "categorical": _names(reading.categorical),
        "numeric": _names(reading.numeric),
        "ignore": _names(reading.ignore),
        "header": reading.header,
        "bits": reading.bits,
        "signed": reading.signed,
        "names": reading.names,
    }


def classes_of(reading: Reading) -> Classes:
    """The labels of ``--classes``, numbers where all are; without it −1 and 1."""
    if reading.classes is None:
        return Classes(-1, 1)
    parts = [part.strip() for part in reading.classes.split(",")]
    labels: list[Any] = parts
    try:
        numbers = [float(part) for part in parts]
        labels = [int(number) if number.is_integer() else number for number in numbers]
    except (ValueError, OverflowError):
        pass
    if len(labels) < 2 or not all(parts) or len(set(labels)) < len(labels):
        raise InvalidParameterError(f"--classes must be two labels, NEG,POS, or more, got {reading.classes!r}")
    return Classes(*labels)


def require_place(path: str | Path | None) -> None:
    """Raises at once where a file could not be written in the end; None and - are fine."""
    if path is None or str(path) == STDIN or Path(path).is_fifo() or Path(path).is_char_device():
        return
    folder = Path(os.path.realpath(path)).parent
    if Path(path).is_dir():
        why = "it is a folder; give the name of a file"
    elif not folder.is_dir():
        why = f"there is no folder {folder}"
    elif not os.access(folder, os.W_OK):
        why = f"the folder {folder} is not writable"
    else:
        return
    raise FileWriteError(f"{path}: cannot be written: {why}")


def require_apart(out: str | Path | None, *inputs: str | Path) -> None:
    """Raises where an output would take the place of an input."""
    if out is None or str(out) == STDIN:
        return
    for path in inputs:
        if str(path) != STDIN and os.path.realpath(path) == os.path.realpath(out):
            raise InvalidParameterError(f"{out} is an input: writing to it would destroy it; give another name")


def _zero_based(text: str) -> bool | str:
    allowed: dict[str, bool | str] = {"no": False, "yes": True, "auto": "auto"}
    if text not in allowed:
        raise InvalidParameterError(f"--zero-based must be {listed(allowed)}, got {text!r}")
    return allowed[text]


def _names(text: str | None) -> tuple[str, ...]:
    return () if text is None else tuple(part.strip() for part in text.split(",") if part.strip())
