"""Training on many workers, from one call."""

from collections.abc import Mapping
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Any

from thinstream.distributed.by_examples.driver import learn_examples
from thinstream.distributed.by_features.blueprint import require_separable
from thinstream.distributed.engines.launcher import ENGINES, Launcher, engine_of, launcher_for, require_count
from thinstream.distributed.sources import Source, source_of
from thinstream.errors import FileWriteError, InvalidParameterError, listed
from thinstream.models.model import Model
from thinstream.training.checkpoint import Checkpoints, State
from thinstream.training.run import NullObserver, Observer

MODES = ("examples", "features")

#: Rows of a mini-batch in mode features, if nothing else is said: with more, accuracy falls (docs/distributed.md).
BATCH = 64
#: Seconds between checkpoints, if nothing else is said.
SECONDS = 30.0


def train(
    source: Any,
    estimator: Any,
    *,
    engine: str | Launcher = "ray",
    workers: int = 2,
    mode: str = "examples",
    merge_every: int | None = None,
    merge: str | None = None,
    batch: int | None = None,
    passes: int | None = None,
    checkpoint: str | Path | None = None,
    resume: bool = False,
    progress: Observer | None = None,
    engine_options: Mapping[str, Any] | None = None,
    **options: Any,
) -> Any:
    r"""Fits an estimator of this library on many workers, and returns it.

    Parameters
    ----------
    source : path, list of paths, glob, Ray Dataset, Spark DataFrame, or Source
        What to learn from. Files must have the same names on all machines.
    estimator : estimator or str
        ``thinstream.SSOL(eta=0.5)``, or the name of an algorithm, with its default parameters. It learns from scratch.
    engine : {"ray", "spark", "local"} or Launcher
        Who places the workers; "local": processes of this machine. A launcher is used and left open.
    workers : int
        How many.
    mode : {"examples", "features"}
        Whether each worker has a part of the examples and models are merged now and then, or a part of the features
        and scores are summed for each mini-batch. The second is experimental: for models wider than one machine.
    merge_every : int, optional
        Mode "examples": rows each worker learns between merges. None: one begins alone, then all learn half as much as
        is known, and more and more.
    merge : {"sum", "mean", "touched", "root", "precision", "gain"}, optional
        Mode "examples": how increments become one. None: what was measured to be best for the algorithm.
    batch : int, optional
        Mode "features": rows of a mini-batch; 1 is the serial algorithm, and slow. None: 64.
    passes : int, optional
        Over the source; None: the estimator's ``n_passes``.
    checkpoint : path, optional
        A file (mode "examples") or a folder (mode "features") that a run can go on from. It is removed at the end.
    resume : bool
        Whether to go on from the checkpoint, if there is one.
    progress : Observer, optional
        Is told of the run as it goes.
    engine_options : mapping, optional
        For the engine's launcher: ``{"address": …}`` of a Ray cluster, ``{"session": …}`` of Spark.
    **options
        How the source is read, ``classes`` among them, as `thinstream.open_stream` takes them; of a Ray
        Dataset or Spark DataFrame its columns.

    Returns
    -------
    estimator
        Fitted; ``progressive_`` is a report of the scores rows got before they were learned from.

    Examples
    --------
    >>> import tempfile
    >>> import thinstream as ts
    >>> path = Path(tempfile.mkdtemp()) / "mail.svm"
    >>> _ = path.write_text("+1 3:0.5 7:1\n-1 2:1\n" * 50)
    >>> model = train(path, ts.FSOL(), engine="local", workers=1)
    >>> model.t_, model.progressive_.rows
    (100, 100)

    """
    estimator = _estimator(estimator)
    parameters = estimator.get_params(deep=False)
    if parameters["shuffle"]:
        raise InvalidParameterError(f"{estimator._algorithm}: a source is taken in its order, shuffle must be False")
    if parameters["grow_classes"]:
        raise InvalidParameterError(
            f"{estimator._algorithm}: workers learn classes that are known, grow_classes must be False"
        )
    estimator._check_common_parameters()
    _require_mode(mode)
    if mode == "features":
        require_separable(estimator._algorithm, {name: parameters[name] for name in estimator._own_parameters})
    name = engine if isinstance(engine, str) else engine_of(engine)
    found = source_of(source, name, dtype=parameters["dtype"], **options)
    model = estimator._model_of_stream(found, None)
    model.learner.grow = True
    place = None if checkpoint is None else Path(checkpoint)
    with _open_launcher(engine, workers, engine_options) as launcher:
        state = learn(
            launcher,
            found,
            model,
            mode=mode,
            merge_every=merge_every,
            merge=merge,
            batch=batch,
            passes=parameters["n_passes"] if passes is None else passes,
            checkpoint=place,
            resume=resume,
            watch=progress,
        )
    state.model.learner.grow = parameters["grow"]
    fitted = estimator._adopt(state.model)
    fitted.progressive_ = state.progress.report()
    if place is not None:
        clear(place, mode)
    return fitted


def learn(
    launcher: Launcher,
    source: Source,
    model: Model,
    *,
    mode: str = "examples",
    merge_every: int | None = None,
    merge: str | None = None,
    batch: int | None = None,
    passes: int = 1,
    checkpoint: Path | None = None,
    checkpoint_every: int | None = None,
    checkpoint_seconds: float | None = None,
    resume: bool = False,
    watch: Observer | None = None,
) -> State:
    """`train` without estimators: what the command line does. The checkpoint stays; see `clear`."""
    _require_mode(mode)
    common: dict[str, Any] = {
        "passes": require_count(passes, "passes"),
        "resume": resume,
        "watch": watch or NullObserver(),
    }
    model.require_features(source.feature_space, "the source")
    if checkpoint is not None:
        require_checkpoint_kind(checkpoint, mode)
    if mode == "features":
        from thinstream.distributed.by_features.driver import SEGMENT, learn_features

        require_separable(model.learner.algorithm.name, model.learner.parameters)  # which may be that of a blend
        if merge_every is not None or merge is not None:
            raise InvalidParameterError("merge and merge_every are for mode 'examples'; by features nothing is merged")
        batch, segment = BATCH if batch is None else batch, SEGMENT if checkpoint_every is None else checkpoint_every
        return learn_features(launcher, source, model, batch=batch, segment=segment, checkpoint=checkpoint, **common)
    if batch is not None:
        raise InvalidParameterError(
            f"batch is for mode 'features'; by examples merge_every says how often, got {batch}"
        )
    checkpoints = None
    if checkpoint is not None:
        seconds = SECONDS if checkpoint_every is None and checkpoint_seconds is None else checkpoint_seconds
        checkpoints = Checkpoints(checkpoint, checkpoint_every, seconds)
    common |= {"merge_every": merge_every, "merge": merge, "checkpoints": checkpoints}
    return learn_examples(launcher, source, model, **common)


def require_checkpoint_kind(checkpoint: Path, mode: str) -> None:
    """Raises if a checkpoint of this mode cannot be at that place, as something else is there."""
    if mode == "features" and checkpoint.exists() and not checkpoint.is_dir():
        raise FileWriteError(f"{checkpoint}: it is a file, but a checkpoint of mode features is a folder")
    if mode == "examples" and checkpoint.is_dir():
        raise FileWriteError(f"{checkpoint}: it is a folder, but a checkpoint of mode examples is a file")


def can_resume(checkpoint: Path, mode: str) -> bool:
    """Whether there is anything to go on from."""
    from thinstream.distributed.by_features.slice_files import MANIFEST

    return (checkpoint / MANIFEST if mode == "features" else checkpoint).exists()


def clear(checkpoint: Path, mode: str) -> None:
    """Removes a checkpoint whose run is over and safe."""
    if mode == "features":
        from thinstream.distributed.by_features.slice_files import clear as clear_folder

        clear_folder(checkpoint)
    else:
        Checkpoints(checkpoint).remove()


def _open_launcher(engine: str | Launcher, workers: int, options: Mapping[str, Any] | None) -> Any:
    """The engine's workers, ended at the end if they were started here."""
    if not isinstance(engine, str):
        if not hasattr(engine, "run_tasks") or isinstance(engine, type):
            raise InvalidParameterError(f"engine must be {listed(ENGINES)}, or a launcher, got {engine!r}")
        return nullcontext(engine)
    return closing(launcher_for(engine, workers, **(options or {})))


def _require_mode(mode: str) -> None:
    if mode not in MODES:
        raise InvalidParameterError(f"mode must be {listed(MODES)}, got {mode!r}")


def _estimator(given: Any) -> Any:
    if isinstance(given, str):
        from thinstream.estimators import make

        return make(given)
    if isinstance(given, type) and hasattr(given, "_algorithm"):
        raise InvalidParameterError(f"estimator must be an instance, {given.__name__}(), got the class")
    if not hasattr(given, "_model_of_stream") or not hasattr(given, "_algorithm"):
        raise InvalidParameterError(
            f"estimator must be an online learner of thinstream, or the name of one, got {type(given).__name__}"
        )
    return given
