"""Endless input: a model that learns the micro-batches of Structured Streaming, each of them once.

A micro-batch is learned by partitions, each from the common base, and the increments are merged. Model and number of
the micro-batch are written in one step; one that Spark replays after a crash is known by its number and passed over.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from numpy.typing import NDArray

from thinstream.batch import Position
from thinstream.budget.learner import require_all_features
from thinstream.compact import fitting
from thinstream.distributed.by_examples.deltas import Change, copy_learner, delta, merge_deltas
from thinstream.distributed.engines.spark.frames import FrameColumns, vectors_to_lists
from thinstream.distributed.engines.spark.package import slots_of
from thinstream.distributed.engines.spark.tasks import pack_answer, run_stage, unpack_answers
from thinstream.distributed.engines.tables import INDICES, VALUES
from thinstream.errors import InvalidInputError
from thinstream.evaluate.progress import Progress
from thinstream.models.model import Model
from thinstream.streams.tables.arrow_package import pyarrow
from thinstream.training.checkpoint import Checkpoints, State

_QUERY = "sql.streaming.queryId"  # Spark's name for the property of the thread that runs a micro-batch


class Query(NamedTuple):
    """A query of Structured Streaming, and what learns from it."""

    query: Any
    learning: "BatchLearner"


def learn_stream(frame: Any, estimator: Any, folder: str | Path, **options: Any) -> Query:
    """Starts to learn from a streaming DataFrame; goes on if the folder has what it learned before.

    Parameters
    ----------
    frame : pyspark.sql.DataFrame
        Of a stream, e.g. ``spark.readStream.schema(…).parquet(…)``; its columns as in `DataFrameSource`.
    estimator : estimator of thinstream
        What is to learn; it is left as it is.
    folder : path
        For the model, ``model.ts`` (`thinstream.load` reads it at any time), and Spark's own notes.
    **options
        ``trigger``: a dict, as `DataStreamWriter.trigger` takes it. The others are those of `foreach_batch`.

    Examples
    --------
    Learns whatever files there are and new ones as they come::

        rows = spark.readStream.schema("label int, indices array<int>, values array<float>").parquet("incoming")
        query, learning = learn_stream(rows, ts.FSOL(l1=10.0), "learned", trigger={"processingTime": "1 minute"})

    """
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    trigger = options.pop("trigger", None)
    learning = foreach_batch(estimator, place / "model.ts", **options)
    writer = frame.writeStream.foreachBatch(learning).option("checkpointLocation", str(place / "spark"))
    return Query((writer.trigger(**trigger) if trigger else writer).start(), learning)


class BatchLearner:
    """What `DataStreamWriter.foreachBatch` can be given, to learn from each micro-batch.

    Parameters
    ----------
    estimator : estimator of thinstream
        What is to learn: fresh, or fitted to go on from. It is left as it is.
    checkpoint : path
        Of the model, written after each micro-batch. If it is there, learning goes on from it.
    merge : str or None
        How increments become one, see `thinstream.distributed.train`.
    workers : int or None
        Parts of a micro-batch that are learned side by side; None: as many as Spark runs at once. One learns exactly as
        without Spark.
    **columns
        What the columns mean, see `DataFrameSource` (all but ``folder``).

    """

    def __init__(
        self,
        estimator: Any,
        checkpoint: str | Path,
        *,
        merge: str | None = None,
        workers: int | None = None,
        **columns: Any,
    ) -> None:
        self._columns, self._merge, self._workers = FrameColumns.of(columns), merge, workers
        self._checkpoints, self._source = Checkpoints(Path(checkpoint)), _described(self._columns)
        model = _model(estimator, self._columns)
        require_all_features(model.learner)
        state = self._checkpoints.read(self._source, model.learner)
        self._state = state or State(model, Progress(len(model.classes), model.threshold), 0, Position(part=0))

    @property
    def batch(self) -> int:
        """Number of the last micro-batch that was learned; −1: none was."""
        return self._state.position.part - 1

    @property
    def estimator(self) -> Any:
        """What was learned so far, as a fitted estimator."""
        from thinstream.estimators.factory import estimator_of

        return estimator_of(self._state.model.copy())

    @property
    def progressive(self) -> Any:
        """Metrics of the scores that rows got before they were learned from."""
        return self._state.progress.report()

    def __call__(self, frame: Any, number: int) -> None:
        """Learns a micro-batch and writes the model, unless it has done so before."""
        model = self._of_query(frame)
        if number <= self.batch:
            return
        names, vector = self._columns.names(frame), self._columns.vector(frame)
        if model.learner.t == 0:
            model = replace(model, feature_space=self._columns.rows([], names, vector is not None).feature_space)
        session = frame.sparkSession
        base = session.sparkContext.broadcast((model.learner, self._state.progress))
        try:
            parts = max(1, self._workers or slots_of(session))
            task = _Learn(base, self._columns, tuple(names), vector)
            found = unpack_answers(run_stage(self._columns.select(frame).coalesce(parts), task))
        finally:
            base.destroy()
        learned = [answer for answer in found if answer is not None]
        learner = merge_deltas(model.learner, [change for change, _ in learned], self._merge)
        progress = add_progress(self._state.progress, [arrays for _, arrays in learned])
        state = State(replace(model, learner=learner), progress, 0, Position(part=number + 1, row=progress.rows))
        self._checkpoints.write(state, self._source)  # nothing here has changed if this, or anything before, fails
        self._state = state

    def _of_query(self, frame: Any) -> Model:
        """The model, as one of this query, whose numbers would mean others than those of another."""
        query, model = frame.sparkSession.sparkContext.getLocalProperty(_QUERY), self._state.model
        known = model.extra.get("query", query)
        if query is not None and known != query:
            raise InvalidInputError(
                f"{self._checkpoints.path} is of the query {known}, this one is {query}, with other numbers of "
                "micro-batches: give a new checkpoint, and to go on from this one, its model as the estimator"
            )
        return model if query is None else replace(model, extra={**model.extra, "query": query})


@dataclass(frozen=True)
class _Learn:
    """Runs in the worker of a partition: its rows, from the base on."""

    base: Any
    columns: FrameColumns
    names: tuple[str, ...]
    vector: str | None

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        yield pack_answer(lambda worker: self._learned(batches))

    def _learned(self, batches: Iterator[Any]) -> tuple[Change, dict[str, NDArray[Any]]] | None:
        base, counted = self.base.value  # which this process may meet again
        learner, progress, rows = copy_learner(base), Progress.from_arrays(counted.arrays()), 0
        learner.grow = True
        for records in batches:
            width = 0
            if self.vector is not None:
                records, width = vectors_to_lists(records, self.vector)
            table = pyarrow().Table.from_batches([records])
            stream = self.columns.rows(
                [(lambda table=table: table, len(table))], self.names, self.vector is not None, width
            )
            for batch in stream.batches():
                labels = batch.require_labels()
                learner = fitting(learner, batch.n_features, "hashing" in stream.feature_space)
                progress.update(learner.learn(batch), labels, batch.weights)
                rows += len(batch)
        return (delta(base, learner), progress.arrays()) if rows else None


foreach_batch = BatchLearner  # called by Spark with each micro-batch and its number


def add_progress(base: Progress, parts: Sequence[dict[str, NDArray[Any]]]) -> Progress:
    """What several counted who went on from the same base; of one only, bit for bit what it counted."""
    if len(parts) == 1:
        return Progress.from_arrays(parts[0])
    before = base.arrays()
    now = {name: array + sum(part[name] - array for part in parts) for name, array in before.items()}
    return Progress.from_arrays(now)


def _model(estimator: Any, columns: FrameColumns) -> Model:
    """An estimator, fresh or fitted, as a model of its own."""
    from sklearn.base import clone

    from thinstream.estimators.base import model_of

    stream = columns.rows([], [INDICES, VALUES], False)
    if estimator.__sklearn_is_fitted__():
        return model_of(estimator).copy()
    fresh = clone(estimator)
    fresh._check_common_parameters()
    return model_of(fresh._adopt(fresh._model_of_stream(stream, None)))


def _described(columns: FrameColumns) -> dict[str, Any]:
    reading = {**columns.reading, "hasher": columns.reading["hasher"].as_dict()}
    return {"kind": "structured streaming", "features": columns.features, "reading": repr(sorted(reading.items()))}
