"""Training on many workers: `train` for estimators, and the job behind `thinstream train --engine`."""

from collections.abc import Mapping
from contextlib import closing, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, Self, TypeVar

from thinstream.batch import Position
from thinstream.data.options import Options, how_read
from thinstream.data.stream import START, Stream
from thinstream.distributed.engines.launcher import ENGINES, Launcher, engine_of, launcher_for, require_count
from thinstream.distributed.rounds import learn_examples
from thinstream.distributed.sources import FileSource as SharedFiles
from thinstream.distributed.sources import Source, source_of
from thinstream.errors import FileWriteError, InvalidParameterError, listed
from thinstream.models.file import write
from thinstream.models.model import Model, Names
from thinstream.training.checkpoint import Checkpoints, State
from thinstream.training.job import FileSource, OutputFiles
from thinstream.training.metrics import Progress, Report
from thinstream.training.observer import NullObserver, Observer


class Trainable(Protocol):
    """The interface of estimators that `train` and `learn_stream` fit. They create a `Model`, which is trained.

    All online estimators of thinstream implement it.
    """

    @property
    def dtype(self) -> str:
        """Precision of the values: "float32" or "float64"."""

    @property
    def n_passes(self) -> int:
        """Passes over the source."""

    @property
    def shuffle(self) -> bool:
        """Whether rows are learned in random order, which `train` refuses."""

    @property
    def grow_classes(self) -> bool:
        """Whether new classes may appear later, which `train` refuses."""

    def __thinstream_algorithm__(self) -> tuple[str, dict[str, Any]]:
        """Return the name of the algorithm and its hyperparameters."""

    def __thinstream_model__(self, source: Source | Stream, *, resume: bool = False) -> Model:
        """Return the model to train: a new one for the source, or with ``resume`` a copy of the fitted one, if any."""

    def __thinstream_fitted__(self, model: Model, progressive: Report) -> Self:
        """Set the state from a trained model, and return self."""


def require_trainable(estimator: object) -> None:
    """Raise unless the estimator is an instance of an online estimator."""
    is_trainable = hasattr(estimator, "__thinstream_model__")
    if isinstance(estimator, type) and is_trainable:
        raise InvalidParameterError(f"estimator must be an instance such as {estimator.__name__}(), got the class")
    if not is_trainable:
        name = type(estimator).__name__
        if isinstance(estimator, str):
            name = f"{estimator!r}. thinstream.make({estimator!r}) creates an estimator by name"
        raise InvalidParameterError(f"estimator must be an online learner of thinstream, got {name}")


#: Seconds between checkpoints by default.
SECONDS = 30.0

Estimator = TypeVar("Estimator", bound=Trainable)


def train(
    source: Any,
    estimator: Estimator,
    *,
    engine: str | Launcher = "ray",
    workers: int = 2,
    merge_every: int | None = None,
    merge: str | None = None,
    passes: int | None = None,
    checkpoint: str | Path | None = None,
    resume: bool = False,
    progress: Observer | None = None,
    engine_options: Mapping[str, Any] | None = None,
    **options: Any,
) -> Estimator:
    r"""Fit an estimator of this library on many workers, and return it.

    Parameters
    ----------
    source : path, list of paths, glob, Ray Dataset, Spark DataFrame, or Source
        The rows. Files must have the same names on all machines.
    estimator : estimator
        An online learner of thinstream, such as ``thinstream.SSOL(eta=0.5)``. It learns from scratch.
    engine : {"ray", "spark", "local"} or Launcher
        The engine that runs the workers. "local" starts processes on this machine. A launcher is used and left open.
    workers : int
        The number of workers.
    merge_every : int, optional
        Rows that each worker learns between merges. None: one worker begins alone. Then all learn, in rounds that get
        longer.
    merge : {"sum", "mean", "touched", "root", "precision", "gain"}, optional
        How the workers' changes are combined. None: the method that was best for the algorithm in our measurements.
    passes : int, optional
        Passes over the source. None: the estimator's ``n_passes``.
    checkpoint : path, optional
        A file from which an interrupted run can be resumed. It is removed at the end.
    resume : bool
        Whether to continue from the checkpoint, if it exists.
    progress : Observer, optional
        Receives events of the run.
    engine_options : mapping, optional
        Options of the engine's launcher, such as ``{"address": …}`` for Ray or ``{"session": …}`` for Spark.
    **options
        Reading options, including ``classes``, as for `thinstream.open_stream`. For a Ray Dataset or a Spark DataFrame:
        its columns.

    Returns
    -------
    estimator
        The fitted estimator. ``progressive_`` has its progressive metrics.

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
    require_trainable(estimator)
    algorithm, _ = estimator.__thinstream_algorithm__()
    if estimator.shuffle:
        raise InvalidParameterError(f"{algorithm}: shuffle must be False, because workers read a source in its order")
    if estimator.grow_classes:
        raise InvalidParameterError(
            f"{algorithm}: grow_classes must be False, because workers need to know all classes"
        )
    name = engine if isinstance(engine, str) else engine_of(engine)
    shards = source_of(source, name, dtype=estimator.dtype, **options)
    model = estimator.__thinstream_model__(shards)
    model.learner.grow = True
    checkpoint_path = None if checkpoint is None else Path(checkpoint)
    if isinstance(engine, str) and isinstance(shards, SharedFiles):
        shards.shards(workers)  # before workers start, raise if there are fewer parts than workers
    with _open_launcher(engine, workers, engine_options) as launcher:
        state = learn(
            launcher,
            shards,
            model,
            merge_every=merge_every,
            merge=merge,
            passes=estimator.n_passes if passes is None else passes,
            checkpoint=checkpoint_path,
            resume=resume,
            watch=progress,
        )
    fitted = estimator.__thinstream_fitted__(state.model, state.progress.report())
    if checkpoint_path is not None:
        Checkpoints(checkpoint_path).remove()
    return fitted


def learn(
    launcher: Launcher,
    source: Source,
    model: Model,
    *,
    merge_every: int | None = None,
    merge: str | None = None,
    passes: int = 1,
    checkpoint: Path | None = None,
    checkpoint_every: int | None = None,
    checkpoint_seconds: float | None = None,
    resume: bool = False,
    watch: Observer | None = None,
) -> State:
    """Train a model like `train`, without an estimator. The checkpoint is not removed."""
    model.require_features(source.feature_space, "the source")
    checkpoints = None
    if checkpoint is not None:
        if checkpoint.is_dir():
            raise FileWriteError(f"{checkpoint} is a folder. Give the name of a file for the checkpoint")
        seconds = SECONDS if checkpoint_every is None and checkpoint_seconds is None else checkpoint_seconds
        checkpoints = Checkpoints(checkpoint, checkpoint_every, seconds)
    return learn_examples(
        launcher,
        source,
        model,
        merge_every=merge_every,
        merge=merge,
        passes=require_count(passes, "passes"),
        checkpoints=checkpoints,
        resume=resume,
        watch=watch or NullObserver(),
    )


def _open_launcher(engine: str | Launcher, workers: int, options: Mapping[str, Any] | None) -> Any:
    """Return the launcher as a context, which closes it if it was started here."""
    if not isinstance(engine, str):
        if not hasattr(engine, "run_tasks") or isinstance(engine, type):
            raise InvalidParameterError(f"engine must be {listed(ENGINES)}, or a launcher, got {engine!r}")
        return nullcontext(engine)
    return closing(launcher_for(engine, workers, **(options or {})))


#: The option of each engine for the address of a cluster.
ADDRESS = {"ray": "address", "spark": "master"}


class Unmeasured:
    """The stream of a run whose rows are read by workers. Its size is not known."""

    size, unit = None, "rows"
    names = skipped = None

    def done(self, position: Position) -> None:
        """Return None: it is not known how much has been read."""


@dataclass(frozen=True)
class WorkerSource(FileSource):
    """Files that workers read.

    ``merge`` and ``merge_every`` are those of `train`. ``address`` is the address of the cluster.
    """

    engine: str = "local"
    workers: int = 2
    merge: str | None = None
    merge_every: int | None = None
    address: str | None = None

    def checkpoints(self, outputs: OutputFiles, model: Model) -> Checkpoints | None:
        """Return where and when the driver writes checkpoints."""
        path = outputs.checkpoint_file
        return None if path is None else Checkpoints(path, outputs.every, outputs.seconds)

    def run(self, stream: Any, model: Model, **options: Any) -> "WorkerRun":
        """Create a run on the workers; drift monitors and a goal need a run in one process."""
        return WorkerRun(self, stream, model, options["passes"], options["checkpoints"], options["watch"])


class WorkerRun:
    """One model that learns from files on many workers, with the interface of `Run`."""

    drift = goal = chosen = None
    is_resumed = False
    write_model = staticmethod(write)

    def __init__(
        self,
        source: WorkerSource,
        opened: Any,
        model: Model,
        passes: int = 1,
        checkpoints: Checkpoints | None = None,
        watch: Observer | None = None,
    ) -> None:
        self.source, self.model, self.passes = source, model, passes
        self.checkpoints, self.watch = checkpoints, watch or NullObserver()
        self.stream, self._opened = Unmeasured(), opened
        self.state = State(model, Progress(len(model.classes)), 0, START)
        self._resumes = False
        options: Options = source.options
        options = replace(options, dtype=model.learner.dtype.name, threads=options.threads or 0)
        self._files = SharedFiles(source.paths, **options.given())

    def resume(self) -> bool:
        self._resumes = True
        return self._can_resume()

    @property
    def _path(self) -> Path | None:
        return None if self.checkpoints is None else self.checkpoints.path

    def _can_resume(self) -> bool:
        return self._path is not None and self._path.exists()

    def prepare(self) -> None:
        """Do nothing: workers load their own compiled code."""

    def run(self) -> Model:
        source, checkpoints = self.source, self.checkpoints
        options_ = {} if source.address is None else {ADDRESS[source.engine]: source.address}
        self._files.shards(source.workers)  # before workers start, raise if there are fewer parts than workers
        with closing(launcher_for(source.engine, source.workers, **options_)) as launcher:
            self.state = learn(
                launcher,
                self._files,
                self.model,
                merge_every=source.merge_every,
                merge=source.merge,
                passes=self.passes,
                checkpoint=self._path,
                checkpoint_every=None if checkpoints is None else checkpoints.every,
                checkpoint_seconds=None if checkpoints is None else checkpoints.seconds,
                resume=self._resumes,
                watch=self.watch,
            )
        return self.state.model

    def clear(self) -> None:
        if self._path is not None:
            Checkpoints(self._path).remove()

    @property
    def kept(self) -> str:
        """The state of the checkpoint of an interrupted run, for messages."""
        return "holds all of it"

    @property
    def skipped(self) -> int:
        return self.state.skipped

    def looks_sorted(self) -> bool:
        """Return False: each worker sees only its part of the labels."""
        return False

    def names(self) -> Names | None:
        return self.model.names

    def report(self) -> dict[str, Any] | None:
        """Return the progressive metrics, if rows were scored before the model learned them."""
        progress = self.state.progress
        return progress.report().as_dict() if progress.rows else None

    def result(self) -> Model:
        """Return the trained model with its report and how its rows were read."""
        reading = how_read(self._opened, self.model.reading)
        return replace(self.state.model, names=self.names(), report=self.report(), reading=reading)
