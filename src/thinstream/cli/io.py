"""What a command reads and writes: data, models, places for its output."""

import gc
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from thinstream.cli.options import Reading
from thinstream.cli.render import say
from thinstream.errors import FileWriteError, InvalidParameterError
from thinstream.models.file import looks_like_a_model, read
from thinstream.models.model import Model
from thinstream.streams.formats import find_format, format_of
from thinstream.streams.opening import look_at, open_files, open_like
from thinstream.streams.options import MOST_BITS, as_learned
from thinstream.streams.sources import STDIN, resolve
from thinstream.training import score_stream


def collect_garbage() -> None:
    """From now on, where that was left out so far; what imports have made stays and is not looked through."""
    if not gc.isenabled():
        gc.freeze()
        gc.enable()


def open_data(data: list[str], reading: Reading, dtype: str, *, cache: bool = False) -> Any:
    """The stream the options describe."""
    return open_files(data, replace(reading, dtype=dtype), cache=cache)


def look_first(data: list[str], reading: Reading, *, quiet: bool) -> Reading:
    """The options with what is found by looking at the data, and says what that is."""
    found = look_at(data, reading)
    for told in () if quiet else found.told:
        say(told)
    return found.options


def score_data(data: list[str], reading: Reading, path: Path, *, labels: bool) -> tuple[Model, Any, Iterator[Any]]:
    """The model of a file, the stream, and (batch, scores) of all of it."""
    model = read(path)
    stream = open_like(model, data, replace(reading, labels=labels), str(path))
    collect_garbage()
    return model, stream, score_stream(model, stream, str(path))


def read_as_learned(data: list[str], reading: Reading, model: Model, path: Path) -> Reading:
    """The options with what the model was trained with; a different one on the command line raises."""
    kind = reading.format or format_of(data[0])
    return as_learned(reading, kind, model, str(path))


def with_many_numbers(data: list[str], reading: Reading) -> Reading:
    """The options with as many numbers for names as there can be, unless they say otherwise: no two share one."""
    if reading.bits is not None or not find_format(reading.format or format_of(data[0])).takes("bits"):
        return reading
    return replace(reading, bits=31 if reading.cross else MOST_BITS)


def require_writable(path: str | Path | None) -> None:
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


def require_not_input(out: str | Path | None, *inputs: str | Path) -> None:
    """Raises where an output would take the place of an input."""
    if out is None or str(out) == STDIN:
        return
    for path in inputs:
        if str(path) != STDIN and os.path.realpath(path) == os.path.realpath(out):
            raise InvalidParameterError(f"{out} is an input: writing to it would destroy it; give another name")


def require_outputs(inputs: list[str], *outputs: str | Path | None) -> None:
    """Raises at once where an output could not be written in the end, or would take the place of an input."""
    files = resolve(inputs)
    for path in outputs:
        require_writable(path)
        require_not_input(path, *files)


def require_model_file(*paths: Path | None) -> None:
    """Raises where a model would go to standard output, or take the place of a file that is none."""
    for path in paths:
        if str(path) == STDIN:
            raise InvalidParameterError("a model goes to a file, not to standard output: --model NAME")
        if path is not None and path.is_file() and path.stat().st_size and not looks_like_a_model(path):
            raise InvalidParameterError(f"{path} is there and no model: give another name, or remove it first")
