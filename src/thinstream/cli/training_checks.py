"""What is wrong with options of ``thinstream train``, said before anything is read."""

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from thinstream.blend.placing import check_device, place
from thinstream.cli.io import require_model_file, require_not_input, require_outputs, require_writable
from thinstream.cli.options import Distributed, Reading
from thinstream.cli.render import say
from thinstream.errors import DeviceWarning, InvalidParameterError
from thinstream.lanes.devices import chosen_device
from thinstream.plotting import check_picture
from thinstream.streams.brokers import is_address
from thinstream.streams.opening import require_files
from thinstream.streams.sources import resolve

if TYPE_CHECKING:
    from thinstream.cli.commands.train import Training
    from thinstream.learners.protocol import AnyLearner


def check_options(
    data: list[str],
    reading: Reading,
    distributed: Distributed,
    training: "Training",
    algorithm: str | None,
    parameters: dict[str, Any],
) -> None:
    """Raises at once where options do not go together, or something could not be written in the end."""
    live = is_address(data)
    place, files = training.checkpoint_file, [] if live else resolve(data)
    if training.cache:
        require_files(files)
    if live:
        require_writable(training.model)
        require_writable(training.plot)
    else:
        require_outputs(data, training.model, training.plot)
    require_not_input(place, *files)
    require_model_file(training.model, place)
    _check_watching(training, distributed)
    if training.grow_classes and any(each is not None for each in training.deciding):
        raise InvalidParameterError("a threshold is for two classes named by --classes, without --grow-classes")
    if training.admit is not None and training.max_features is None and training.start is None:
        raise InvalidParameterError("--admit is for models with --max-features")
    chosen_device(training.device, 0, 1)  # raises
    if distributed.engine is not None and training.device == "cuda":
        raise InvalidParameterError("--device cuda is for runs in one process, without --engine")
    if distributed.engine is not None and training.max_features is not None:
        raise InvalidParameterError("--max-features is for runs in one process, without --engine")
    if distributed.engine is None:
        require_writable(place)
    elif training.grow_classes:
        raise InvalidParameterError("--grow-classes is for runs in one process, without --engine")
    else:
        from thinstream.cli.distributed_run import require_possible

        require_possible(reading, distributed, training, algorithm, parameters)
    if training.passes > 1 and not all(Path(file).is_file() for file in files):
        raise InvalidParameterError("a pipe can be read once only: --passes needs files")
    if place is None and (training.resume or training.checkpoint_every or training.checkpoint_seconds is not None):
        raise InvalidParameterError("checkpoints need a place: give --model or --checkpoint")


def place_model(learner: "AnyLearner", device: str) -> None:
    """Says where the learner's models may learn, and why they stay on the CPU where a GPU is asked for."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", DeviceWarning)
        check_device(learner, device)
    for warning in told:
        say(f"thinstream: {warning.message}")
    place(learner, device)


def _check_watching(training: "Training", distributed: Distributed) -> None:
    if training.goal is not None and distributed.engine is not None:
        raise InvalidParameterError("--recall and --false-alarms are for runs in one process, without --engine")
    if distributed.engine is not None and (training.monitors or training.plot):
        raise InvalidParameterError("--monitor and --plot are for runs in one process, without --engine")
    if distributed.engine is not None and (training.live or training.report):
        raise InvalidParameterError("--live and --report are for runs in one process, without --engine")
    if training.monitors:
        from thinstream.errors import listed
        from thinstream.monitors import MONITORS

        for name in training.monitors:
            if name not in MONITORS:
                raise InvalidParameterError(f"--monitor must be {listed(MONITORS)}, got {name!r}")
    if training.plot is not None:
        check_picture(training.plot)
