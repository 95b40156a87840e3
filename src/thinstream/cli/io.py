"""Input and output of commands: data, models, and checks of output files."""

import gc
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from thinstream.cli.options import Reading
from thinstream.cli.render import say
from thinstream.data.formats import find_format, format_of
from thinstream.data.opening import infer_options, open_files, open_like
from thinstream.data.options import MOST_BITS, as_learned
from thinstream.data.sources import STDIN, resolve
from thinstream.errors import FileWriteError, InvalidParameterError
from thinstream.models.file import looks_like_a_model, read
from thinstream.models.model import Model
from thinstream.training.run import score_stream


def collect_garbage() -> None:
    """Enable garbage collection, without the objects that imports created."""
    if not gc.isenabled():
        gc.freeze()
        gc.enable()


def open_data(data: list[str], reading: Reading, dtype: str, *, cache: bool = False) -> Any:
    return open_files(data, replace(reading, dtype=dtype), cache=cache)


def look_first(data: list[str], reading: Reading, *, quiet: bool) -> Reading:
    """Infer options from the first rows, print what was inferred, and return the options."""
    inferred = infer_options(data, reading)
    for message in () if quiet else inferred.messages:
        say(message)
    return inferred.options


def score_data(
    data: list[str], reading: Reading, path: Path, *, labels: bool, names: int = 0
) -> tuple[Model, Any, Iterator[Any]]:
    """Return the model of a file, the stream, and its batches with scores. Remember ``names`` names of features."""
    model = read(path)
    stream = open_like(model.reading_spec, data, replace(reading, labels=labels), str(path), names)
    collect_garbage()
    return model, stream, score_stream(model, stream, str(path))


def read_as_learned(data: list[str], reading: Reading, model: Model, path: Path) -> Reading:
    """Return the options that the model was trained with. Raise if the command line specifies different ones."""
    return as_learned(reading, reading.format or format_of(_first_file(data)), model.reading_spec, str(path))


def with_many_numbers(data: list[str], reading: Reading) -> Reading:
    """Return the options with the largest hash space, unless ``--bits`` is set, so that names do not collide."""
    if reading.bits is not None or not find_format(reading.format or format_of(_first_file(data))).takes("bits"):
        return reading
    return replace(reading, bits=31 if reading.cross else MOST_BITS)


def with_names(data: list[str], reading: Reading, names: int, rows: int) -> Reading:
    """Return the options with names of features to remember, if the format has names."""
    format_name = reading.format or format_of(_first_file(data))
    if format_name == "cache" or not find_format(format_name).takes("names"):
        return reading
    return replace(reading, names=names, names_rows=rows)


def _first_file(data: list[str]) -> str:
    return resolve(data[0])[0] if Path(data[0]).is_dir() else data[0]


def require_writable(path: str | Path | None) -> None:
    """Raise now if a file could not be written at the end. None and - are allowed."""
    if path is None or str(path) == STDIN or Path(path).is_fifo() or Path(path).is_char_device():
        return
    folder = Path(os.path.realpath(path)).parent
    if Path(path).is_dir():
        why = "it is a folder. Pass the name of a file"
    elif not folder.is_dir():
        why = f"the folder {folder} does not exist"
    elif not os.access(folder, os.W_OK):
        why = f"the folder {folder} is not writable"
    else:
        return
    raise FileWriteError(f"{path}: cannot be written: {why}")


def require_not_input(out: str | Path | None, *inputs: str | Path) -> None:
    """Raise if an output would overwrite an input."""
    if out is None or str(out) == STDIN:
        return
    for path in inputs:
        if str(path) != STDIN and os.path.realpath(path) == os.path.realpath(out):
            raise InvalidParameterError(f"{out} is an input file, and the output would overwrite it. Pass another name")


def require_outputs(inputs: list[str], *outputs: str | Path | None) -> None:
    """Raise now if an output could not be written at the end, or would overwrite an input."""
    files = resolve(inputs)
    for path in outputs:
        require_writable(path)
        require_not_input(path, *files)


def require_model_file(*paths: Path | None) -> None:
    """Raise if a model would go to standard output, or overwrite a file that is not a model."""
    for path in paths:
        if str(path) == STDIN:
            raise InvalidParameterError("a model cannot be written to standard output. Pass a file: --model FILE")
        if path is not None and path.is_file() and path.stat().st_size and not looks_like_a_model(path):
            raise InvalidParameterError(
                f"{path} exists and is not a thinstream model. Pass another path for --model, or delete the file"
            )
