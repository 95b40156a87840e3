"""A training job: a model learns from a source, and the results go to files. All training runs as a job."""

import signal
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from thinstream.algorithms.auto import Member
from thinstream.algorithms.registry import find
from thinstream.data.labels import Classes, GrowingClasses, warn_of_sorted
from thinstream.data.opening import open_files
from thinstream.data.options import Options
from thinstream.data.stream import Stream
from thinstream.errors import InvalidInputError, InvalidParameterError, ThinstreamWarning, WeightsOnlyError
from thinstream.jit import compile_ahead
from thinstream.models.explain import with_largest_names
from thinstream.models.model import Model, score_of
from thinstream.models.slots import ADMIT
from thinstream.training.checkpoint import Checkpoints
from thinstream.training.metrics import progress_for
from thinstream.training.monitors import DriftWatch
from thinstream.training.observer import NullObserver, Observer
from thinstream.training.run import Interrupted, Run, learn_nothing
from thinstream.training.threshold import Goal


@dataclass(frozen=True)
class ModelSpec:
    """A model that has not learned yet.

    None is the default, or any value in a comparison with a saved model.

    Parameters
    ----------
    algorithm : str or None
    classes : Classes or None
    class_weight : "balanced", dict or None
    parameters : mapping
        Parameters of the algorithm.
    n_features : int or None
        The number of features. None: the model grows with the rows.
    dtype, fit_intercept, scale, normalize, max_features, admit
        As in `Model.fresh`.
    calibrate : bool
        Whether to calibrate the scores. The model is then a blend with one member.
    seed : int
        The seed of randomized batch methods.

    Examples
    --------
    >>> model = ModelSpec("fsol", Classes("ham", "spam"), parameters={"eta": 0.5}).create()
    >>> model.learner.parameters["eta"], model.learner.t
    (0.5, 0)

    """

    algorithm: str | None = None
    classes: Classes | None = None
    class_weight: Any = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    n_features: int | None = None
    dtype: str | None = None
    fit_intercept: bool | None = None
    scale: str | None = None
    normalize: str | None = None
    max_features: int | None = None
    admit: int | None = None
    calibrate: bool = False
    seed: int = 0

    @property
    def is_batch(self) -> bool:
        """Whether the algorithm is a batch method: its rows are prepared when they are read."""
        return self.algorithm is not None and find(self.algorithm).kind == "batch"

    def create(self) -> Model:
        """Create the model."""
        assert self.algorithm is not None
        classes = Classes(-1, 1) if self.classes is None else self.classes
        if isinstance(classes, GrowingClasses):
            classes = GrowingClasses(*classes, class_weight=self.class_weight)
        algorithm, parameters = self.algorithm, dict(self.parameters)
        if self.calibrate:
            member = Member(find(algorithm).name.lower(), parameters)
            algorithm, parameters = "auto", {"portfolio": [member], "drop": False}
        model = Model.fresh(
            algorithm,
            classes,
            self.class_weight,
            n_features=self.n_features or 0,
            dtype=self.dtype or "float32",
            grow=self.n_features is None,
            fit_intercept=not self.is_batch if self.fit_intercept is None else self.fit_intercept,
            parameters=parameters,
            scale=self.scale,
            normalize=None if self.is_batch else self.normalize,
            max_features=self.max_features,
            admit=self.admit or ADMIT,
        )
        for learner in model.learner.outputs if self.is_batch else ():
            learner.random = np.random.RandomState(self.seed)
        return model

    def rehearse(self) -> None:
        """Call the functions that training the model calls (see `jit.compile_ahead`)."""
        if not self.is_batch:
            model = self.create()
            learn_nothing(model, model.learner.dtype.name, progress_for(model.classes), n_rows=1)
            _ = model.learner.nnz

    def continued(self, model: Model, path: Path) -> Model:
        """Return a saved model, ready to continue its training; raise if it contradicts the specification."""
        learner, classes = model.learner, self.classes
        if learner.weights_only:
            raise WeightsOnlyError(f"{path} has weights only and cannot continue to learn")
        if classes is not None and classes.grow and not model.classes.grow:
            raise InvalidParameterError(f"{path} was trained without --grow-classes, and cannot continue with it")
        if classes is not None and not model.classes.grow and classes != model.classes:
            raise InvalidParameterError(
                f"{path} has the classes {', '.join(map(repr, model.classes))}, and cannot continue with "
                f"{','.join(map(str, classes))}"
            )
        if self.algorithm is not None and self.algorithm.lower() != learner.algorithm.name.lower():
            raise InvalidParameterError(
                f"{path} is a model of {learner.algorithm.name}, and cannot continue as {self.algorithm}"
            )
        saved: dict[str, Any] = {
            **learner.parameters,
            "class weights": _class_weights(model),
            "dtype": learner.dtype.name,
            "intercept": bool(learner.offset),
            "scale": model.preparation.scale,
            "normalize": model.preparation.normalize or model.feature_space.get("normalize"),
            **model.budget,
        }
        weights = self.class_weight
        wanted: dict[str, Any] = {
            **self.parameters,
            "class weights": ",".join(f"{w:g}" for w in weights.values()) if isinstance(weights, dict) else weights,
            "dtype": self.dtype,
            "intercept": self.fit_intercept,
            "scale": self.scale,
            "normalize": self.normalize,
            "max_features": self.max_features,
            "admit": self.admit,
        }
        for name, value in wanted.items():
            if value is not None and saved[name] != value:
                raise InvalidParameterError(
                    f"{path} was trained with {name} {saved[name]}, and cannot continue with {value}"
                )
        learner.grow = True
        return model


def _class_weights(model: Model) -> str:
    """Return the class weights of a model, written as on the command line."""
    costs = model.learner.costs
    if costs[0].balanced:
        return "balanced"
    weights = costs[0][:2] if len(costs) == 1 else [cost.positive for cost in costs]
    return ",".join(f"{weight:g}" for weight in weights)


@dataclass(frozen=True)
class OutputFiles:
    """The output files of a job.

    Parameters
    ----------
    model : path or None
        The model file.
    weights_only : bool
        Whether the model file holds only what predicting needs.
    checkpoint : path or None
        The checkpoint. None: the model file with ``.checkpoint`` appended.
    every, seconds : int, float or None
        Examples or seconds between checkpoints. None: only when a signal stops the run.
    resume : bool
        Whether to continue from the checkpoint, if there is one.
    names : int or None
        The number of feature names in the model file, those with the largest effects. None: all known names.

    """

    model: Path | None = None
    weights_only: bool = False
    checkpoint: Path | None = None
    every: int | None = None
    seconds: float | None = None
    resume: bool = False
    names: int | None = None

    @property
    def checkpoint_file(self) -> Path | None:
        """The path of the checkpoint."""
        return self.checkpoint or (Path(f"{self.model}.checkpoint") if self.model else None)

    @property
    def wants_checkpoints(self) -> bool:
        """Whether an option asks for checkpoints."""
        return bool(self.every or self.seconds is not None or self.resume or self.checkpoint)


class Source:
    """A source of labeled rows. It is opened once the model is known, and decides how a run reads it."""

    @property
    def name(self) -> str:
        """The name of the source in error messages."""
        return "the data"

    def create(self, spec: ModelSpec) -> Model:
        """Create a model that learns from this source."""
        return spec.create()

    def device(self, device: str) -> str:
        """Return where models learn from this source: "cpu", "cuda" or "auto"."""
        return device

    def open(self, model: Model) -> Any:
        """Open the stream of rows for a model."""
        raise NotImplementedError

    def checkpoints(self, outputs: OutputFiles, model: Model) -> Checkpoints | None:
        """Return the checkpoints of a run, if it has any. Batch methods have none by default."""
        path = outputs.checkpoint_file
        if path is None or not (model.learner.reads == "once" or outputs.wants_checkpoints):
            return None
        return Checkpoints(path, outputs.every, outputs.seconds)

    def run(self, stream: Any, model: Model, **options: Any) -> Any:
        """Create the run of a model over the opened stream."""
        return Run(stream, model, **options)


@dataclass(frozen=True)
class OpenSource(Source):
    """A stream that is open already."""

    stream: Stream

    def open(self, model: Model) -> Stream:
        """Return the stream."""
        return self.stream


@dataclass(frozen=True)
class FileSource(Source):
    """Files and standard input.

    Parameters
    ----------
    paths : list of str
    options : Options
        How they are read.
    cache : bool
        Whether to write a binary copy of each file on the first pass and to read it afterwards.

    """

    paths: list[str]
    options: Options
    cache: bool = False

    @property
    def name(self) -> str:
        """The paths."""
        return ", ".join(self.paths)

    def open(self, model: Model) -> Stream:
        """Open the files in the precision of the model."""
        return open_files(self.paths, replace(self.options, dtype=model.learner.dtype.name), cache=self.cache)


@dataclass(frozen=True)
class Job:
    r"""A model that learns from a source.

    Parameters
    ----------
    source : Source
    model : ModelSpec or Model
        A fresh model, or one that continues to learn and is changed in place.
    outputs : OutputFiles
    observer : Observer or None
        Receives the events of the run.
    passes : int
        Passes over the source.
    monitors : sequence of str or None
        Names of drift monitors. (): only the error along the stream is recorded. None: not even that.
    threshold : float or None
        The decision threshold: a probability if the model has probabilities, otherwise a score.
    goal : Goal or None
        The goal of the threshold, which is chosen at the end of the run.
    device : {"cpu", "cuda", "auto"} or None
        The device of the lanes. None: unchanged.
    threads : int or None
        The number of threads for the members of Auto. None: unchanged.
    model_name : str
        The name of the model in error messages.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "mail.svm"
    >>> _ = path.write_text("+1 3:0.5 7:1\n-1 2:1\n" * 50)
    >>> model = Job(FileSource([str(path)], Options()), ModelSpec("arow"), passes=2).run()
    >>> model.learner.t, model.report["rows"]
    (200, 200)

    """

    source: Source
    model: ModelSpec | Model
    outputs: OutputFiles = OutputFiles()
    observer: Observer | None = None
    passes: int = 1
    monitors: Sequence[str] | None = None
    threshold: float | None = None
    goal: Goal | None = None
    device: str | None = None
    threads: int | None = None
    model_name: str = "the model"

    def start(self) -> Any:
        """Set up the run, from the checkpoint if the outputs specify it. Nothing is learned yet."""
        is_fresh = isinstance(self.model, ModelSpec)
        model = self.source.create(self.model) if isinstance(self.model, ModelSpec) else self.model
        if self.device is not None:
            device = self.source.device(self.device)
            model.learner.outputs.check_device(device)
            model.learner.outputs.place(device)
        if self.threads is not None:
            model.set_threads(self.threads)
        if self.threshold is not None:
            model = model.with_threshold(score_of(self.threshold, model))
        stream = self.source.open(model)
        if is_fresh:
            model = replace(model, feature_space=stream.feature_space)
        model.require_features(stream.feature_space, self.source.name, self.model_name)
        observer = self.observer or NullObserver()
        run = self.source.run(
            stream,
            model,
            passes=self.passes,
            checkpoints=self.source.checkpoints(self.outputs, model),
            watch=observer,
            drift=self._drift(model),
            goal=self.goal,
        )
        observer.started(run)
        run.is_resumed = self.outputs.resume and run.resume()
        return run

    def _drift(self, model: Model) -> DriftWatch | None:
        if self.monitors is None:
            return None
        if model.learner.reads != "once":
            name = model.learner.algorithm.name
            raise InvalidParameterError(
                f"{name} is a batch method and has no progressive error for --monitor and --plot"
            )
        return DriftWatch(self.monitors)

    def finish(self, run: Any) -> Model:
        """Finish a run: write the model file, remove the checkpoint, and return the trained model."""
        model: Model = run.result()
        model.learner.outputs.to_cpu()
        if self.outputs.names is not None:
            model = with_largest_names(model, self.outputs.names)
        if self.outputs.model is not None:
            run.write_model(
                self.outputs.model, replace(model, extra={}), "weights" if self.outputs.weights_only else "full"
            )
        run.clear()
        return model

    def run(self) -> Model:
        """Run the job and return the trained model."""
        with compile_ahead(self.model.rehearse if isinstance(self.model, ModelSpec) else None):
            run = self.start()
            _learn(run)
            return self.finish(run)


def _learn(run: Any) -> Model:
    """Learn the stream. A signal ends the process as usual."""
    try:
        model: Model = run.run()
    except Interrupted as stopped:
        raise KeyboardInterrupt if stopped.number == signal.SIGINT else SystemExit(128 + stopped.number) from None
    return model


def learn_stream(model: Model, stream: Stream, passes: int = 1) -> Model:
    """Train a model on a stream in place, and let it grow with the stream.

    Raise if the stream has no rows, and warn of unusual data.
    """
    first = model.learner
    grow, first.grow = first.grow, True
    job = Job(OpenSource(stream), model, passes=passes)
    run = job.start()
    try:
        model = _learn(run)
    finally:
        first.grow = run.state.model.learner.grow = grow
    if model.learner.t == 0:
        raise InvalidInputError("the stream has no rows")
    for remark in getattr(stream, "remarks", []):
        warnings.warn(remark, ThinstreamWarning, stacklevel=3)
    if run.looks_sorted():
        warn_of_sorted("shuffle the rows first (thinstream shuffle)", stacklevel=3)
    return job.finish(run)
