"""What commands that take many models over a stream share: tune, path and costs."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from thinstream.cli.io import collect_garbage, open_data, require_model_file, require_outputs
from thinstream.cli.options import Output, Reading, Study, classes_of, parse_bytes
from thinstream.cli.progress import Bar, say_placed
from thinstream.cli.render import say
from thinstream.errors import InvalidParameterError
from thinstream.evaluate.observer import Observer, Step
from thinstream.lanes.devices import chosen_device
from thinstream.learners import find
from thinstream.models.model import Model, Names
from thinstream.preparing import Preparation
from thinstream.streams.options import how_read
from thinstream.tune.figures import check_picture_path
from thinstream.tune.multipass import in_words
from thinstream.tune.trials import StudyConfig


def open_binary_stream(data: list[str], reading: Reading, dtype: str) -> Any:
    """The stream of a study of the costs of two classes."""
    classes = classes_of(reading)
    if len(classes) > 2:
        raise InvalidParameterError(
            f"costs are weighed between two classes, --classes {','.join(map(str, classes))} are {len(classes)}; "
            "label one class against the rest"
        )
    return open_data(data, reading, dtype)


def require_online(algorithm: str) -> None:
    """Raises of a batch method, which cannot learn beside others while rows pass."""
    found = find(algorithm)
    if found.name == "Auto":
        raise InvalidParameterError(
            "Auto has nothing to tune or sweep: it compares its models as it learns (thinstream train), and thinstream "
            "thin makes it small; leave -a out, or name an algorithm"
        )
    if found.kind == "batch":
        name = found.name
        raise InvalidParameterError(
            f"{name} is a batch method, and only models that learn row by row are compared on a stream; "
            f"thinstream train -a {name.lower()} learns one"
        )


def study_config(algorithm: str, study: Study, reading: Reading, stream: Any) -> StudyConfig:
    """How the models are compared."""
    return StudyConfig(
        algorithm,
        n_features=getattr(stream, "n_features", None) or 0,
        dtype=study.dtype,
        threads=reading.threads or 1,
        memory=parse_bytes(study.memory),
        device=study.device,
        scale=study.scale,
        normalize=study.normalize,
        classes=len(classes_of(reading)),
    )


def study_model(learner: Any, reading: Reading, stream: Any, report: dict[str, Any] | None = None) -> Model:
    """A learner of the study with all that its file keeps."""
    names, kept = Names.from_stream(stream), how_read(stream)
    return Model(learner, classes_of(reading), stream.feature_space, names, reading=kept, report=report)


def require_study_outputs(inputs: list[str], study: Study, model: Path | None) -> None:
    """Raises at once where something of a study is not allowed, or could not be written in the end."""
    parse_bytes(study.memory)
    chosen_device(study.device, 1, 1)
    Preparation(study.scale, study.normalize)
    if study.plot is not None:
        check_picture_path(study.plot)
    require_outputs(inputs, model, study.plot, study.csv)
    require_model_file(model)


class _Passes(Observer):
    """Says why there are several passes; shows a bar where there is a terminal."""

    def __init__(self, stream: Any, quiet: bool) -> None:
        self._stream, self._quiet = stream, quiet
        self._bar: Bar | None = None
        self._of = self._number = self._rows = self._before = 0

    def split(self, passes: int, needed: int, limit: int) -> None:
        """All lanes at once would need too much memory."""
        if not self._quiet:
            sizes = f"all models at once need {in_words(needed)}, the limit is {in_words(limit)}"
            say(f"thinstream: {sizes}: {passes} passes")

    def placed(self, device: str, lanes: int) -> None:
        """Says so, where it is not the CPU."""
        if not self._quiet:
            say_placed(device, lanes)

    def moved(self, step: Step) -> None:
        """Moves the bar; a new one, where passes have become more."""
        if self._quiet or not sys.stderr.isatty():
            return
        rows, position, number, of, _ = step
        if self._bar is None or of != self._of:
            self.close()
            self._bar, self._of = Bar(self._stream, of), of
            self._number = self._rows = self._before = 0
        if number > self._number:
            self._number, self._before = number, self._before + self._rows
        self._rows = rows
        self._bar.move(self._before + rows, position, number)

    def close(self) -> None:
        """Takes the bar away."""
        if self._bar is not None:
            self._bar.close()


@contextmanager
def show_progress(stream: Any, output: Output) -> Iterator[Observer]:
    """A watch for the length of the block."""
    collect_garbage()
    watch = _Passes(stream, output.quiet)
    try:
        yield watch
    finally:
        watch.close()


def say_places(study: Study, model: Path | None) -> None:
    """Where what was asked for is."""
    for what, path in (("model", model), ("picture", study.plot), ("table", study.csv)):
        if path is not None:
            print(f"  {what:<8} {path} ({path.stat().st_size:,} bytes)")
