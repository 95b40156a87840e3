"""The pipeline of a fitted model: feature numbers -> slots -> prepared rows -> one learner per output -> scores."""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thinstream.batch import Batch
from thinstream.engine import rule as rules
from thinstream.engine.memory import is_plain, physical_memory
from thinstream.engine.protocol import require_range
from thinstream.engine.rows import row_blocks
from thinstream.errors import InvalidInputError, InvalidParameterError, NumericalError, TooWideError
from thinstream.models.head import frozen, preparation_of_kinds
from thinstream.models.importance import feature_importance
from thinstream.models.outputs import Outputs, class_numbers
from thinstream.models.preparation import Preparation, Several
from thinstream.models.products import Products, costs
from thinstream.models.slots import BudgetTable, SlotTable

#: Non-zeros that are prepared together. They still fit into the cache when they are learned.
BLOCK = 1 << 17


def _of_outputs(name: str) -> Any:
    """Return a property that reads an attribute of the outputs."""
    return property(lambda self: getattr(self.outputs, name))


class Pipeline:
    """The parts that rows pass through when a model learns or scores them. They are not copied.

    The results are bit-identical to those of a pipeline without an encoder.

    Parameters
    ----------
    outputs : Outputs
        One learner, or one per class.
    preparation : Preparation, optional
        How rows are scaled and normalized for all learners. Weights and variances are in the units of the caller:
        v_j/m_j and σ_j/m_j². With ``normalize``, the score of a row is weights·x over the length of the (scaled) row,
        plus the intercept.
    encoder : SlotTable or BudgetTable, optional
        Maps each feature that occurred to a slot, so that only these features have state. A budget has a limited
        number of slots and evicts the least important features. By default a feature number is its own slot.
    n_features : int
        With an encoder, the number of features: all feature numbers are below it.
    grow : bool
        With an encoder, whether a wider batch extends the model instead of raising.
    products : Products, optional
        The products of features that rows are extended by, for a model that only predicts. Their feature numbers and
        slots come after those of the features.

    Examples
    --------
    >>> from thinstream.lanes.learner import Learner
    >>> rows = Batch.of(np.arange(3), np.arange(2), np.array([2.0, 400.0]), 2, y=np.array([-1, 1], np.int8))
    >>> model = Pipeline(Outputs([Learner("fsol", n_features=2)]), Preparation("max"))
    >>> _ = model.learn(rows)
    >>> model.outputs.weights(), model.weights()
    (array([-1.,  1.], dtype=float32), array([-0.5   ,  0.0025], dtype=float32))

    >>> rows = Batch.of(np.arange(3), np.array([7, 4_000_000]), np.ones(2), 1 << 22, y=np.array([-1, 1], np.int8))
    >>> model = Pipeline.of(Learner("fsol", n_features=0, grow=True)).compacted()
    >>> _ = model.learn(rows)
    >>> model.n_features, model.outputs.weights(), next(iter(model.models)).sparse_weights()
    (4194304, array([ 0., -1.,  1.], dtype=float32), (array([      7, 4000000]), array([-1.,  1.], dtype=float32)))

    """

    algorithm: Any = _of_outputs("algorithm")
    parameters: Any = _of_outputs("parameters")
    reads: Any = _of_outputs("reads")
    dtype: Any = _of_outputs("dtype")
    offset: Any = _of_outputs("offset")
    costs: Any = _of_outputs("costs")
    weights_only: Any = _of_outputs("weights_only")
    has_variance: Any = _of_outputs("has_variance")
    nnz: Any = _of_outputs("nnz")
    t: Any = _of_outputs("t")
    n_mistakes: Any = _of_outputs("n_mistakes")
    n_updates: Any = _of_outputs("n_updates")
    cumulative_loss: Any = _of_outputs("cumulative_loss")

    def __init__(
        self,
        outputs: Outputs,
        preparation: Preparation | None = None,
        encoder: SlotTable | BudgetTable | None = None,
        n_features: int = 0,
        grow: bool = False,
        products: Products | None = None,
    ) -> None:
        self.outputs, self.preparation = outputs, preparation or Preparation()
        self.encoder, self._n_features, self._grow = encoder, n_features, grow
        if self.preparation and not is_online(outputs):
            raise InvalidParameterError(
                f"{outputs.algorithm.name} needs many rows at once, but scale and normalize are for algorithms that "
                "learn "
                "one row after another. Scale the rows before you pass them"
            )
        if encoder is not None:
            outputs.grow = True
        self.preparation.widen(outputs.n_features)
        stops = getattr(type(outputs.rule), "stopped", None)
        self._may_stop = stops is not None and stops.__module__ != rules.__name__  # permanently, during a stream
        self.products = products
        self._is_direct = encoder is None and not self.preparation and products is None
        if products is not None and isinstance(self.preparation, Several):
            inputs = products.base
            if encoder is not None:
                inputs = 1 + int(np.count_nonzero(encoder.numbers < products.base))
            self.preparation.n_inputs = inputs

    @classmethod
    def of(cls, learner: Any, preparation: Preparation | None = None) -> "Pipeline":
        """Return the pipeline of a learner, of the learners of all outputs, or a pipeline itself."""
        if isinstance(learner, Pipeline):
            return learner
        return cls(learner if isinstance(learner, Outputs) else Outputs([learner]), preparation)

    # Learning and predicting ------------------------------------------------------------------------------------------

    def learn(self, batch: Batch, scores: bool = True) -> NDArray[Any]:
        """Learn the examples in order; return the score of each before its update.

        Invalid input raises before anything is learned. If a row cannot be learned, the model ends with the rows before
        it.
        """
        if self._is_direct:
            return self.outputs.learn(batch, scores)
        if self.encoder is None:
            return self._learn(batch.check(), scores)
        batch = self._checked(batch)
        self._require_width(batch)
        scores_of_blocks = []
        with self.outputs.adding_classes(batch) if self.outputs.grows else nullcontext():
            for rows in self.encoder.encode(batch, self._evict):
                self._require_room(rows.n_features)
                scores_of_blocks.append(self._learn(rows, scores))
        self._n_features = max(self._n_features, batch.n_features)
        return scores_of_blocks[0] if len(scores_of_blocks) == 1 else np.concatenate(scores_of_blocks)

    def _learn(self, rows: Batch, scores: bool) -> NDArray[Any]:
        """Learn encoded rows."""
        outputs = self.outputs
        if not self.preparation:
            return outputs.learn(rows, scores)
        if not (outputs.is_binary or outputs.grows):
            class_numbers(rows, len(outputs))
        if rows.n_features > outputs.n_features:  # if it is too wide, raise before the scales get room
            outputs.learn(replace(rows.until(0), largest=0.0), scores=False)
            self.preparation.widen(outputs.n_features)
        scores_of_blocks = [self._learn_block(block, scores) for block in self._blocks(rows)]
        return scores_of_blocks[0] if len(scores_of_blocks) == 1 else np.concatenate(scores_of_blocks)

    def _blocks(self, rows: Batch) -> Iterator[Batch]:
        """Yield the rows of a batch in blocks, or all at once if there can be new classes."""
        if self.outputs.grows:
            yield rows
            return
        for start, stop in row_blocks(rows, BLOCK):
            yield rows if stop - start == len(rows) else rows.until(stop).after(start)

    def _learn_block(self, rows: Batch, scores: bool) -> NDArray[Any]:
        """Prepare and learn rows. Scales learn exactly the rows that the learners learn."""
        outputs, preparation = self.outputs, self.preparation
        learned_before = outputs.t if self._may_stop else 0
        ready, before = preparation.learn(rows, self.dtype)
        try:
            out: NDArray[Any] = outputs.learn(ready, scores)
        except NumericalError as error:
            row = error.row - rows.first_row
            if not outputs.is_binary:  # the other outputs have learned all rows up to the next cut
                row = next(stop for _, stop in outputs.cuts(rows) if row < stop)
            preparation.take_back(rows, before, row)
            raise
        except BaseException:
            preparation.take_back(rows, before)
            raise
        if self._may_stop:
            present = np.arange(len(rows)) if rows.weights is None else np.flatnonzero(rows.weights)
            done = outputs.t - learned_before
            if done < len(present):  # the algorithm has stopped permanently, so later rows are only scored
                stop = int(present[done])
                preparation.take_back(rows, before, stop)
                if scores:
                    rest = preparation.apply(rows.after(stop).check(), self.dtype)
                    out[stop:] = outputs.scores(rest)
        return out

    def finish(self) -> None:
        """Learn the rows that were held until the end of the stream."""
        self.outputs.finish()

    def scores(self, batch: Batch) -> NDArray[Any]:
        """Return the scores of each row with the current weights. Nothing changes."""
        if self.products is None or len(batch) < 2:
            return self.outputs.scores(batch if self._is_direct else self.ready(batch))
        batch, start, scores = batch.check(), 0, list[NDArray[Any]]()
        ends = costs(batch)
        while start < len(batch) or not scores:  # in blocks, because products need much memory
            stop = max(int(np.searchsorted(ends, ends[start] + BLOCK, side="right")) - 1, start + 1)
            scores.append(self.outputs.scores(self.ready(batch.until(stop).after(start))))
            start = stop
        return np.concatenate(scores)

    def ready(self, batch: Batch) -> Batch:
        """Return the rows as the learners score them: encoded and prepared."""
        rows = batch.check()
        if self.products is not None:
            rows = self.products.expand(self._checked(rows), self.dtype)
        if self.encoder is not None:
            rows = self.encoder.find(self._checked(rows), self.n_columns)
        return self.preparation.apply(rows, self.dtype) if self.preparation else rows

    def _checked(self, batch: Batch) -> Batch:
        """Return checked rows. Errors name feature numbers, not slots."""
        batch, preparation = batch.check(), self.preparation
        preparation.require_range(batch, self.dtype) if preparation else require_range(batch, self.dtype)
        return batch

    def _require_width(self, batch: Batch) -> None:
        if batch.n_features > self.n_features and not self._grow:
            raise InvalidInputError(
                f"X has {batch.n_features} features, but the model has {self.n_features}; pass grow=True to extend it"
            )

    def _require_room(self, n_slots: int) -> None:
        """Raise if the state of a number of features would not fit into memory."""
        if n_slots <= self.outputs.n_features:
            return
        needed, have = self.estimate_nbytes(n_slots), physical_memory()
        if needed > 0.7 * have:
            raise InvalidInputError(
                f"{self.algorithm.name} needs {needed / 1e9:,.1f} GB of memory for {n_slots - 1:,} features, but this "
                f"machine has {have / 1e9:,.1f} GB. Hash features into fewer numbers, use max_features, or train fewer "
                "models"
            )

    def _evict(self, budget: BudgetTable) -> None:
        """Make room in a budget: reset the least important features and release their slots."""
        gone = budget.least_important(feature_importance(self))
        self.reset_features(gone)
        budget.release(gone)

    def estimate_nbytes(self, n_features: int) -> int:
        """Estimate the bytes of state for a number of features, without allocating them."""
        scales = self.preparation.scales
        return self.outputs.estimate_nbytes(n_features) + n_features * (8 * scales.width if scales is not None else 0)

    # Reading ----------------------------------------------------------------------------------------------------------

    @property
    def blends(self) -> list[Any]:
        """The blends of Auto, one per output, then the spares; empty for other algorithms and for weights only."""
        return self.outputs.blends

    @property
    def n_slots(self) -> int:
        """The width of the learners: the features that occurred and slot 0, or all features without an encoder."""
        return self.outputs.n_features // self.preparation.vectors

    @property
    def n_columns(self) -> int:
        """The number of features and products, each of which has a weight in every vector."""
        return self.n_slots if self.encoder is None else self._n_features

    @property
    def n_features(self) -> int:
        """The number of features of the rows."""
        return self.n_columns - (0 if self.products is None else len(self.products))

    @n_features.setter
    def n_features(self, n_features: int) -> None:
        self._n_features = n_features

    @property
    def grow(self) -> bool:
        """Whether a wider batch extends the model instead of raising."""
        return self.outputs.grow if self.encoder is None else self._grow

    @grow.setter
    def grow(self, grow: bool) -> None:
        self._grow = grow
        if self.encoder is None:
            self.outputs.grow = grow

    @property
    def drops_unknown(self) -> bool:
        """Whether features without a slot are left out of rows, as with a feature budget."""
        return self.encoder is not None and self.encoder.drops_unknown

    @property
    def models(self) -> Iterable[Any]:
        """A `OneModel` for each row of ``coef_``."""
        return iter(self.outputs) if self._is_direct else (Output(self, one) for one in self.outputs)

    @property
    def n_weights(self) -> int:
        """The number of weights, zero or not, including features that have not occurred, without intercepts."""
        if self.encoder is None:
            return self.outputs.n_weights
        return self.n_columns * (self.outputs.n_weights // max(self.n_slots, 1))

    @property
    def n_features_met(self) -> int | None:
        """The number of features that occurred, or None if it is not known."""
        if self.encoder is not None:
            return len(self.encoder) - 1
        first = next(iter(self.outputs))
        met: int | None = getattr(first, "n_features_met", getattr(first, "n_met", None))
        return met

    @property
    def n_met(self) -> int | None:
        """The number of weights that examples have changed, without intercepts.

        None if the learners cannot count them.
        """
        met: list[Any] = [getattr(one, "n_met", None) for one in self.outputs]
        return None if None in met else sum(met)

    def weights(self) -> NDArray[Any]:
        """Return dense weights in the caller's units, by feature number."""
        return self._spread(self._in_units(self.outputs.weights(), self._divisors()))

    def feature_weights(self) -> NDArray[Any]:
        """Return one dense weight per feature: the mean effect of one unit on the scores of the rows with the feature.

        It is the sum of the weights for all kinds of rows, each divided by the mean length of the rows in which the
        feature occurs, or of all rows if that is not known. Products of features are left out.
        """
        if not self._has_lengths:
            return self.weights()
        weights = self._in_units(self.outputs.weights(), self._divisors())
        by_kind = weights.reshape(*weights.shape[:-1], -1, self.n_slots).astype(np.float64)
        with np.errstate(over="ignore"):
            by_kind /= self._feature_lengths()
            totals = self._spread(np.asarray(np.add.reduce(by_kind, axis=-2).astype(self.dtype)))
            return totals[..., : self.n_features]

    def sparse_feature_weights(self, products: bool = False) -> Iterator[tuple[NDArray[np.int64], NDArray[Any]]]:
        """Yield, for each output, the features with non-zero `feature_weights`, and these weights.

        With ``products``, products of features have weights as well.
        """
        lengths = self._feature_lengths() if self._has_lengths else None
        for one in self.models:
            if lengths is None or not isinstance(one, Output):
                yield one.sparse_weights()
            else:
                yield one.sparse_feature_weights(lengths, products)

    def _feature_lengths(self) -> NDArray[np.float64]:
        """Return the mean length of the rows with each slot's feature, a row for each kind of rows."""
        return np.array([one.feature_lengths(self.n_slots) for one in self.preparation.each])

    @property
    def _has_lengths(self) -> bool:
        """Whether weights for several kinds of rows, or for rows of a known mean length, are to be added."""
        return self.preparation.vectors > 1 or self.preparation.length is not None

    def variance(self) -> NDArray[Any]:
        """Return the variance of every weight in the caller's units, by feature number."""
        m = self._divisors()
        m[m == 0.0] = 1.0
        return self._spread(self._in_units(self.outputs.variance(), m, m))

    def _divisors(self) -> NDArray[np.float64]:
        return self.preparation.divisors(self.n_slots) if self.preparation.is_scaled else np.empty(0)

    def _in_units(self, values: NDArray[Any], *divisors: NDArray[np.float64]) -> NDArray[Any]:
        """Divide values by divisors. The result is 0 if a divisor is 0."""
        if not self.preparation.is_scaled:
            return values
        quotients = values.astype(np.float64)
        with np.errstate(over="ignore"):
            for m in divisors:
                quotients = np.divide(quotients, m, out=np.zeros_like(quotients), where=m > 0.0)
            quotients = quotients.astype(self.dtype)
        if not np.isfinite(quotients).all():
            raise NumericalError(
                f"{self.algorithm.name}: a weight or variance, in the units of its feature, is not finite in "
                f"{self.dtype.name}. Use dtype='float64'"
            )
        return quotients

    def _spread(self, values: NDArray[Any]) -> NDArray[Any]:
        """Reorder values of slots by feature number. Features without a slot get the value of slot 0."""
        if self.encoder is None:
            return values
        size, have = values.itemsize * self.n_weights, physical_memory()
        if size > 0.7 * have:
            raise TooWideError(
                f"dense weights of {self.n_columns:,} features need {size / 1e9:,.1f} GB of memory, but this machine "
                "has "
                f"{have / 1e9:,.1f} GB. Use sparse weights (sparsify(), thinstream export)"
            )
        by_kind = values.reshape(*values.shape[:-1], -1, self.n_slots)
        spread = np.empty((*by_kind.shape[:-1], self.n_columns), values.dtype)
        spread[...] = by_kind[..., :1]
        numbers = self.numbers
        used = numbers >= 0
        spread[..., numbers[used]] = by_kind[..., 1:][..., used]
        return spread.reshape(*values.shape[:-1], -1)

    @property
    def numbers(self) -> NDArray[np.int64]:
        """Feature numbers of the learners' slots from 1 on. The encoder can have more, from rows that were refused."""
        assert self.encoder is not None
        return self.encoder.numbers[: max(self.n_slots - 1, 0)]

    # The same state on other slots ------------------------------------------------------------------------------------

    def decoded(self) -> "Pipeline":
        """Return the same pipeline without its encoder, for rows with slots."""
        return self if self.encoder is None else Pipeline(self.outputs, self.preparation)

    def encoded(self, encoder: SlotTable | BudgetTable, n_features: int, grow: bool) -> "Pipeline":
        """Return the same pipeline with an encoder. Products of slots become products of features."""
        if self.products is None:
            return Pipeline(self.outputs, self.preparation, encoder, n_features, grow)
        slots = encoder.numbers[: self.products.base - 1]
        products = Products(slots[self.products.numbers - 1], n_features)
        width = n_features + len(products)
        table = SlotTable.of(np.concatenate([slots, np.arange(n_features, width)]))
        return Pipeline(self.outputs, self.preparation, table, width, grow, products)

    def with_products(self, products: Products | None) -> "Pipeline":
        """Return the same pipeline with products of features, which have been part of its features so far."""
        return Pipeline(self.outputs, self.preparation, self.encoder, self._n_features, self._grow, products)

    def moved(self, where: NDArray[np.int64], width: int) -> "Pipeline":
        """Return a copy without encoder and with ``width`` features.

        Slot j becomes ``where[j]``, or is dropped for -1.
        """
        vectors = range(self.preparation.vectors)
        targets = np.concatenate([np.where(where >= 0, where + k * width, -1) for k in vectors])
        outputs = self.outputs.mapped(lambda one: one.moved(targets, width * len(vectors)))
        return Pipeline(outputs, self.preparation.moved(where, width))

    def compacted(self) -> "Pipeline":
        """Return a copy with slots for the features whose state an example has changed."""
        marks = np.zeros(self.n_slots, np.bool_)
        for one in (self.preparation, *self.outputs.all):
            one.mark_touched(marks)
        numbers = np.flatnonzero(marks)
        where = np.full(self.n_slots, -1, np.int64)
        where[numbers] = np.arange(1, len(numbers) + 1)
        made = self.moved(where, len(numbers) + 1).encoded(SlotTable.of(numbers), self.n_columns, self.grow)
        return made.with_products(self.products)

    def to_dense(self) -> "Pipeline":
        """Return the pipeline at full width: itself, or a copy without encoder."""
        if self.encoder is None:
            return self
        dense = self.moved(np.concatenate([[-1], self.numbers]), self.n_columns).with_products(self.products)
        dense.grow = self.grow
        return dense

    def on_slots_of(self, numbers: NDArray[np.int64]) -> "Pipeline":
        """Return a copy without encoder, with slots for these numbers from 1 on.

        They are sorted and include its own.
        """
        own = self.numbers
        where = np.where(own >= 0, 1 + np.searchsorted(numbers, own), -1)
        return self.moved(np.concatenate([[-1], where]), len(numbers) + 1)

    def in_order(self) -> "Pipeline":
        """Return the pipeline with slots in the order of feature numbers: itself, or a copy."""
        if self.encoder is None:
            return self
        numbers = self.numbers
        numbers = np.sort(numbers[numbers >= 0])
        names = self.encoder.names_of(numbers) if self.drops_unknown else None
        table = SlotTable.of(numbers, names, self.drops_unknown)
        return self.on_slots_of(numbers).encoded(table, self.n_columns, self.grow).with_products(self.products)

    def reset_features(self, slots: NDArray[np.int64]) -> None:
        """Reset features to those of a fresh model."""
        self.preparation.reset_features(slots)
        self.outputs.reset_features(slots)

    def served(self) -> "Pipeline":
        """Return the pipeline for predictions, in which each blend is replaced by its weight vectors."""
        if not self.blends:
            return self
        blends = self.blends[: len(self.outputs)]
        products = max((blend.products for blend in blends if blend.products), key=len, default=None)
        width = self.n_slots + (0 if products is None else len(products))
        rows = preparation_of_kinds([blend.parts for blend in blends], self.n_slots, width, self.t)
        kinds = [one.kind for one in rows.each]

        def vectors_of(blend: Any) -> Any:
            vectors = [blend.vector_of(rows_kind) for rows_kind in kinds]
            padded = [(np.pad(weights, (0, width - len(weights))), intercept) for weights, intercept in vectors]
            return frozen(blend, padded)

        outputs = self.outputs.mapped(vectors_of, spares=False)
        served = Pipeline(outputs, self.preparation or rows, products=products)
        return served if self.encoder is None else served.encoded(self.encoder, self._n_features, self._grow)

    @property
    def n_kinds(self) -> int:
        """The number of kinds of prepared rows. Each output has a weight vector for each."""
        blends = self.blends
        return len({part.kind for blend in blends for part in blend.parts}) if blends else self.preparation.vectors

    @property
    def n_members(self) -> int:
        """The largest number of members behind one output."""
        return max((len(blend.head) for blend in self.blends), default=1)

    def drop_narrow_members(self) -> None:
        """Drop members for few features, because they need the same features during the whole stream."""
        for blend in self.blends:
            blend.make_narrow_room(1 << 62)

    @property
    def can_be_compact(self) -> bool:
        """Whether the model can have slots: nothing depends on the number of features or the order of their numbers."""
        if not is_online(self.outputs):
            return False
        if self.blends:
            return all(blend.most is None and all(map(is_plain, blend.rules)) for blend in self.blends)
        return self.algorithm.kind == "blend" or is_plain(self.outputs.rule)


class Output:
    """One output of a pipeline, to read: weights by feature number, in the units of the caller."""

    def __init__(self, pipeline: Pipeline, learner: Any) -> None:
        self._pipeline, self._learner = pipeline, learner

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._learner, name)

    @property
    def _alone(self) -> Pipeline:
        """A pipeline of this output."""
        pipeline, outputs = self._pipeline, Outputs([self._learner])
        more = pipeline.encoder, pipeline._n_features, pipeline._grow, pipeline.products
        return Pipeline(outputs, pipeline.preparation, *more)

    @property
    def n_features(self) -> int:
        """The number of features of the rows."""
        return self._pipeline.n_features

    def weights(self) -> NDArray[Any]:
        """Return dense weights in the caller's units, by feature number."""
        return self._alone.weights()

    def variance(self) -> NDArray[Any]:
        """Return the variance of every weight in the caller's units, by feature number."""
        return self._alone.variance()

    def scores(self, batch: Batch) -> NDArray[Any]:
        """Return the score of each row."""
        return self._alone.scores(batch)

    def sparse_weights(self) -> tuple[NDArray[np.int64], NDArray[Any]]:
        """Return the features of non-zero weight, and their weights in the caller's units."""
        where, values = self._in_slots()
        pipeline = self._pipeline
        if pipeline.encoder is None:
            return where, values
        vector, slot = np.divmod(where, pipeline.n_slots)
        numbers = vector * pipeline.n_columns + pipeline.encoder.numbers[slot - 1]
        order = np.argsort(numbers)
        return numbers[order], values[order]

    def sparse_feature_weights(
        self, lengths: NDArray[np.float64], products: bool
    ) -> tuple[NDArray[np.int64], NDArray[Any]]:
        """Return the features with non-zero `Pipeline.feature_weights` for these lengths, and these weights."""
        where, values = self._in_slots()
        slots, positions = np.unique(where % lengths.shape[1], return_inverse=True)
        with np.errstate(over="ignore"):
            totals = np.bincount(positions, values.astype(np.float64) / lengths.ravel()[where], len(slots))
            weights = totals.astype(values.dtype)
        encoder = self._pipeline.encoder
        numbers = slots if encoder is None else encoder.numbers[slots - 1]
        width = self._pipeline.n_columns if products else self._pipeline.n_features
        kept = np.flatnonzero((weights != 0) & (numbers < width))
        kept = kept[np.argsort(numbers[kept], kind="stable")]
        return numbers[kept], weights[kept]

    def _in_slots(self) -> tuple[NDArray[np.int64], NDArray[Any]]:
        """Return the slots of non-zero weights, vector after vector, and these weights in the caller's units."""
        where, values = self._learner.sparse_weights()
        pipeline = self._pipeline
        if pipeline.preparation.is_scaled:
            values = pipeline._in_units(values, pipeline._divisors()[where])
        return where, values


def is_online(outputs: Outputs) -> bool:
    """Return whether the learners learn one row after another."""
    return bool(outputs.reads == "once" and outputs.algorithm.kind != "batch")


# Deciding whether a model has slots, and how wide models of a given size can be.

#: Models of hashed features get slots if their full state needs more bytes than this. Most hashed features never occur.
HASHED = 1 << 26
#: The same for numbered features, most of which occur.
NUMBERED = 1 << 28
#: Up to this many features, models never get slots.
FEW = 1 << 16
#: If a larger share of all features occurs, the model returns to full width.
MANY = 1 / 3


def state_limit(hashed: bool) -> int:
    """Return the bytes of the full state above which a model gets slots."""
    return HASHED if hashed else NUMBERED


def needs_much(model: Pipeline, n_features: int, hashed: bool) -> bool:
    """Return whether a model becomes much wider, and its full state would need much memory."""
    wider = model.encoder is None and n_features >= 2 * model.n_features and n_features > 0
    return wider and is_online(model.outputs) and model.estimate_nbytes(n_features) > state_limit(hashed)


def compact_if_large(model: Pipeline, n_features: int, hashed: bool) -> Pipeline:
    """Return the model, with slots if it becomes much wider and would need much memory."""
    return model.compacted() if needs_much(model, n_features, hashed) and model.can_be_compact else model


def create(make: Callable[[int, bool], Pipeline], n_features: int, grow: bool, hashed: bool) -> Pipeline:
    """Create a model with ``make(width, grow)``, with slots if it would need much memory otherwise."""
    if n_features < FEW:
        return make(n_features, grow)
    try:
        narrow = make(0, True)
    except InvalidParameterError:
        return make(n_features, grow)  # raises if the problem is not that it cannot grow
    compact = compact_if_large(narrow, n_features, hashed)
    if compact.encoder is None:
        return make(n_features, grow)
    return compact.encoded(compact.encoder, n_features, grow)


def expand_if_dense(model: Pipeline) -> Pipeline:
    """Return the model, at full width if many of its features have occurred and there is enough memory."""
    if model.encoder is None or model.drops_unknown or len(model.encoder) <= MANY * model.n_features:
        return model
    if model.estimate_nbytes(model.n_features) > 0.3 * physical_memory():
        return model
    return model.to_dense()


def on_common_slots(models: Sequence[Pipeline]) -> tuple[NDArray[np.int64], list[Pipeline]]:
    """Return the feature numbers of all models, sorted, and copies without encoder, with slots in that order."""
    encoded = [model if model.encoder is not None else model.compacted() for model in models]
    numbers = np.unique(np.concatenate([model.encoder.numbers for model in encoded if model.encoder is not None]))
    numbers = numbers[numbers >= 0]
    return numbers, [model.on_slots_of(numbers) for model in encoded]


def on_numbers(model: Pipeline, numbers: NDArray[np.int64], n_features: int, grow: bool) -> Pipeline:
    """Return a merged model with slots for these numbers. The state of slot 0 is fresh again."""
    where = np.concatenate([[-1], np.arange(1, len(numbers) + 1)])
    return model.moved(where, len(where)).encoded(SlotTable.of(numbers), n_features, grow)


def budgeted(model: Pipeline, table: BudgetTable, n_features: int = 0, grow: bool = True) -> Pipeline:
    """Return the model with a feature budget."""
    if not model.can_be_compact:
        raise InvalidParameterError(
            f"{model.algorithm.name}: max_features needs an algorithm that learns online and updates each weight "
            "independently"
        )
    return model.encoded(table, n_features, grow)


def require_all_features(model: Pipeline) -> None:
    """Raise if a model has a feature budget: each worker would keep different features."""
    if model.drops_unknown:
        raise InvalidParameterError(
            "max_features needs training in one process, because workers would keep different features"
        )


def widest(model: Pipeline, most_bytes: int, most: int) -> int:
    """Return the largest width, up to ``most``, whose state fits into some bytes.

    A model that can have slots only has state for features that occur, so any width fits.
    """
    if model.encoder is not None or model.can_be_compact:
        return most
    return max(bisect_right(range(most + 1), most_bytes, key=model.estimate_nbytes) - 1, 0)
