"""The grid of Auto's members and a model's outputs: views of the rows, and groups of lanes in each view."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from copy import copy
from dataclasses import replace
from functools import partial
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinstream.algorithms.auto import Member
from thinstream.algorithms.registry import find
from thinstream.batch import Batch
from thinstream.engine.covariance import Matrix
from thinstream.engine.rows import EVERY_WEIGHT_1, unit_vectors
from thinstream.jit import compiled
from thinstream.lanes.block import Block, SingleLane
from thinstream.lanes.devices import can_run_on_gpu, run_all
from thinstream.lanes.lanes import Lanes
from thinstream.models.preparation import Preparation
from thinstream.models.products import Products, expanded, feature_columns, n_products, product_columns
from thinstream.models.slots import FewFeatures

# Groups: members of one algorithm on the same rows, for all outputs.

#: Up to this many members of an output run one by one, because a block always reads and writes 16 lanes (docs/auto.md).
FEW = 3
#: Initial room for features in members with a limit. It doubles when a row needs it, so it does not depend on batches.
FIRST_ROOM = 1 << 4
#: Non-zeros from which on several threads learn.
ENOUGH = 1 << 10
#: Groups may learn in separate threads. The GPU runs one at a time.
_gpu = Lock()


class Weights(NamedTuple):
    """The weights of a model at some coordinates."""

    coordinates: NDArray[Any]  # if there is a constant, it comes first
    offset: int

    def weights(self) -> NDArray[Any]:
        return self.coordinates[self.offset :]

    @property
    def intercept(self) -> float:
        return float(self.coordinates[0]) if self.offset else 0.0


class Group(Lanes):
    """Lanes of several outputs, each with the labels of its output.

    On the CPU, the lanes of an output are in blocks, or run one by one if they are few. On a GPU, those of all outputs
    are in the same blocks. The results are bit-identical.

    With ``max_features``, for members with a full covariance, lanes have room for the features that have occurred, and
    never for more than that limit; `make_room` extends it. Their feature k is number ``few.numbers[k]``.
    """

    max_features: int | None = None
    few: FewFeatures | None = None
    of_products = False  #: whether they learn products of features, which stay on the CPU
    owners: list[int]  #: the output of each lane, in ascending order
    _blocks_of: dict[int, list[int]] | None = None  # an output → its blocks

    def __init__(
        self,
        algorithm: str,
        parameters: Sequence[Mapping[str, Any]],
        *,
        max_features: int | None = None,
        few: FewFeatures | None = None,
        of_products: bool = False,
        **options: Any,
    ) -> None:
        self.max_features, self.few, self.of_products = max_features, few, of_products
        self.owners = [0] * len(parameters)
        super().__init__(algorithm, parameters, **options)

    @classmethod
    def joined(cls, parts: Sequence["Group"], owners: Sequence[int]) -> "Group":
        """Return the lanes of several groups on the CPU, each for an output. Their blocks are used, not copied."""
        made = parts[0]._with([], [], [])
        for part, owner in zip(parts, owners, strict=True):
            first = len(made._lanes)
            made._lanes += part._lanes
            made.owners += [owner] * len(part)
            made._blocks += part._blocks
            made._numbers += [[first + number for number in numbers] for numbers in part._numbers]
            made._failed |= {first + lane: row for lane, row in part.failed.items()}
        made.n_features = max(part.n_features for part in parts)
        for block in made._blocks:
            if block.width < made.n_features + block.offset:
                block.widen(made.n_features + block.offset)
        return made

    def _with(self, lanes: Sequence[int], blocks: list[Any], numbers: list[list[int]]) -> "Group":
        """Return a group of some lanes in these blocks."""
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__)
        made._lanes, made.owners = [self._lanes[lane] for lane in lanes], [self.owners[lane] for lane in lanes]
        made._blocks, made._numbers, made._blocks_of = blocks, numbers, None
        made._failed = {k: self._failed[lane] for k, lane in enumerate(lanes) if lane in self._failed}
        return made

    def _selected(self, lanes: Sequence[int], blocks: Sequence[int]) -> "Group":
        """Return a group of some lanes, which are in these blocks. The number of a slot of another lane is -1."""
        number = {lane: k for k, lane in enumerate(lanes)}
        numbers = [[number.get(lane, -1) for lane in self._numbers[block]] for block in blocks]
        used = [k for k, own in enumerate(numbers) if max(own) >= 0]
        return self._with(lanes, [self._blocks[blocks[k]] for k in used], [numbers[k] for k in used])

    def of_output(self, output: int) -> "Group":
        """Return the lanes of an output, to read. Their blocks are used, not copied."""
        if self._blocks_of is None:
            of_output: dict[int, list[int]] = {}
            for k, numbers in enumerate(self._numbers):
                for owner in dict.fromkeys(self.owners[number] for number in numbers):
                    of_output.setdefault(owner, []).append(k)
            self._blocks_of = of_output
        blocks = self._blocks_of[output]
        mine = sorted(lane for k in blocks for lane in self._numbers[k] if self.owners[lane] == output)
        made = self._selected(mine, blocks)
        made.owners = [0] * len(mine)
        return made

    def on(self, device: str) -> "Group":
        """Return a copy on a device."""
        made = self._with(range(len(self)), [], [])
        made._begin_with(list(self), self.threads, device)
        for lane in np.flatnonzero(self.out()).tolist():
            made.fail(lane, self.failed.get(lane, 0))
        return made

    def can_be_on(self, device: str) -> bool:
        """Whether the lanes can be on a device."""
        if self.max_features is not None or self.of_products:
            return False
        return all(can_run_on_gpu(lane.rule, device) for lane in self._lanes)

    def _plan(self) -> list[tuple[Any, list[int]]]:
        if self.device != "cpu":
            return super()._plan()
        plan, mine = [], dict[int, list[int]]()
        for lane, owner in enumerate(self.owners):
            mine.setdefault(owner, []).append(lane)
        for lanes in mine.values():
            if len(lanes) <= FEW:
                plan += [(SingleLane, [lane]) for lane in lanes]
            else:
                own = self._with(lanes, [], [])
                plan += [(block_type, [lanes[k] for k in numbers]) for block_type, numbers in Lanes._plan(own)]
        return plan

    def _build(self) -> None:
        self._blocks_of = None
        super()._build()

    def keep(self, lanes: Sequence[int]) -> None:
        """Keep these lanes, in ascending order; free the memory of the others."""
        if self.device != "cpu":
            owners = [self.owners[lane] for lane in lanes]
            super().keep(lanes)
            self.owners = owners
            return
        kept, parts = set(lanes), []
        owners = list(dict.fromkeys(self.owners[lane] for lane in lanes))
        for owner in owners:
            whole = self.of_output(owner)
            mine = [lane for lane in range(len(self)) if self.owners[lane] == owner]
            part = whole._selected([k for k, lane in enumerate(mine) if lane in kept], range(len(whole._blocks)))
            is_cut = any(min(numbers) < 0 for numbers in part._numbers)
            parts.append(part.on("cpu") if is_cut else part)
        self.__dict__.update(Group.joined(parts, owners).__dict__)

    def put(self, memories: Sequence[Any]) -> None:
        """Replace the state of all lanes by memories of `Learner`s that are as wide."""
        if self.max_features is not None:
            self.make_room(max(Matrix(memory.extra).d for memory in memories) - self._lanes[0].offset)
        for block, numbers in self._pairs():
            block.put([memories[k] for k in numbers], self._width(numbers))

    def out(self) -> NDArray[np.bool_]:
        """Return which lanes have reached a row that they cannot learn and have therefore stopped learning."""
        failed = np.zeros(len(self), np.bool_)
        for block, numbers in self._pairs():
            lanes, slots = _lanes_in(numbers)
            failed[lanes] = block.failed[slots] >= 0
        return failed

    def fail(self, lane: int, row: int = 0) -> None:
        """Stop a lane from learning, from that row on."""
        for block, numbers in self._pairs():
            if lane in numbers:
                failed = block.failed  # of a device: a copy
                failed[numbers.index(lane)] = 0
                block.failed = failed
        self.failed[lane] = row

    def weights_at(self, coordinates: NDArray[Any]) -> NDArray[Any]:
        """Return `Learner.weights_at` of every lane, coordinates × lanes. Lanes that failed have NaN."""
        weights = np.full((len(coordinates), len(self)), np.nan, self.dtype)
        coordinates = self._own(coordinates)
        for block, numbers in self._pairs():
            lanes, slots = _lanes_in(numbers)
            if isinstance(block, Block):
                weights[:, lanes] = _weights_of(block, coordinates)[:, slots]
            elif isinstance(block, SingleLane):
                if block.failed[0] < 0:
                    occurred = coordinates < self._width(numbers)  # later features are in no row so far
                    weights[~occurred, numbers[0]] = 0.0
                    weights[occurred, numbers[0]] = block._model.weights_at(coordinates[occurred])
            else:
                for k in lanes[block.failed[slots] < 0].tolist():
                    weights[:, k] = self[k].weights_at(coordinates)
        return weights

    def _own(self, coordinates: NDArray[Any]) -> NDArray[Any]:
        """Return the coordinates in these lanes. A feature that has not occurred gets one beyond all others."""
        if self.few is None:
            return coordinates
        offset = self._lanes[0].offset
        slots = self.few.find(np.maximum(coordinates - offset, 0)).astype(np.int64)
        beyond = np.iinfo(np.int32).max
        return np.where(coordinates < offset, coordinates, np.where(slots > 0, slots - 1 + offset, beyond))

    def wide(self, n_features: int) -> Iterator[Weights]:
        """Yield the weights of each model by feature number."""
        for lane in range(len(self)):
            block, _ = self._block_of(lane)
            model = block._model if isinstance(block, SingleLane) else self[lane]  # a block's lane has to be copied
            weights = model.all_weights()
            if self.few is not None:
                spread = np.zeros(n_features + model.offset, self.dtype)
                spread[: model.offset] = weights[: model.offset]
                spread[self.few.numbers + model.offset] = weights[model.offset :][: len(self.few)]
                weights = spread
            yield Weights(weights, model.offset)

    def learn_checked(self, batch: Batch, signs: NDArray[np.int8], weights: NDArray[np.float64]) -> NDArray[Any]:
        """Learn checked rows; return the scores before each update, rows × lanes.

        ``signs`` has a column of labels ±1 per output, and ``weights`` one column.
        """
        if self.few is not None:  # these lanes number features in order of occurrence
            slots = self.few.find(batch.indices[: batch.indptr[-1]])
            batch = replace(batch, indices=slots - np.int32(1), n_features=self.n_features)
        if signs.shape[1] > 1:
            signs = np.ascontiguousarray(signs[:, self.owners])
        self._widen(batch.n_features)
        with nullcontext() if self.device == "cpu" else _gpu:
            return self._run(batch, signs, weights)

    def widen(self, n_features: int) -> None:
        """Make room for a number of features, except for lanes that get room row by row."""
        if self.max_features is None:
            self.grow = True
            self._widen(n_features)

    def make_room(self, n_features: int) -> None:
        """Make room for a number of features, and for as many as there may be before it doubles again."""
        self.grow = True
        self._widen(min(max(FIRST_ROOM, 1 << (n_features - 1).bit_length()), self.max_features or n_features))

    def needed(self, n_features: int) -> int:
        """Estimate the bytes of lanes this wide on the CPU."""
        home = self._with(range(len(self)), [], [])
        home.device = "cpu"
        return home._needed(n_features if self.max_features is None else min(n_features, self.max_features))

    def __getstate__(self) -> dict[str, Any]:
        return Lanes.__getstate__(self if self.device == "cpu" else self.on("cpu"))


def _lanes_in(numbers: Sequence[int]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the lanes of a group that are in a block, and their slots there."""
    lanes = np.array(numbers, np.intp)
    slots = np.flatnonzero(lanes >= 0)
    return lanes[slots], slots


def _weights_of(block: Block, coordinates: NDArray[Any]) -> NDArray[Any]:
    """Return weights as the scores of unit vectors with sample weight 0."""
    n, alone = len(coordinates), copy(block)  # with separate counters, because another thread may be learning
    counts, totals = block.memory.counts.copy(), block.memory.totals.copy()
    alone.memory, alone.failed = block.memory._replace(counts=counts, totals=totals), block.failed.copy()
    dtype = block.memory.state.dtype
    scores = np.empty((n, len(block.lanes)), dtype)
    alone.learn(unit_vectors(coordinates, dtype), np.ones((n, 1), np.int8), np.zeros((n, 1)), 1.0, scores)
    return scores


# Views: rows prepared in one way, and the groups that learn them. Parts: views that add up to one weight vector.

#: How rows are scaled and normalized before they are multiplied with a weight vector, and whether they have products.
Kind = tuple[str | None, str | None, bool]


def cell_of(member: Member) -> tuple[Kind, tuple[str, int | None]]:
    """Return what members of one view, and those of one group, have in common."""
    limit = None if member.products else member.max_features
    return (member.scale, member.normalize, member.products), (find(member.algorithm).name, limit)


class View:
    """A view of the rows: how they are prepared, and the groups that learn them."""

    def __init__(self, preparation: Preparation, groups: Sequence[Group]) -> None:
        self.preparation, self.groups = preparation, list(groups)

    def __len__(self) -> int:
        return sum(len(group) for group in self.groups)


class Part:
    """Views that add up to one weight vector, and Σx_j² of the rows that are multiplied with it.

    The vector of a part with products has a weight for each feature in ``few`` and each product of two of them, by the
    numbers that `products` defines.
    """

    def __init__(
        self,
        views: Sequence[View],
        squares: NDArray[np.float64] | None = None,
        few: FewFeatures | None = None,
    ) -> None:
        self.views, self.squares, self.few = list(views), np.zeros(0) if squares is None else squares, few

    @property
    def products(self) -> bool:
        """Whether rows have products."""
        return self.preparation.products

    def width(self, n_features: int) -> int:
        """Return the length of the weight vector for ``n_features`` features."""
        return n_products(len(self.few)) if self.products and self.few is not None else n_features

    def spread(self, vector: NDArray[Any], n_features: int, width: int) -> NDArray[Any]:
        """Return the vector in the order of feature numbers, with products from ``n_features`` on.

        ``width`` weights.
        """
        spread = np.zeros(width, vector.dtype)
        if not self.products or self.few is None:
            spread[: len(vector)] = vector
        else:
            products = product_columns(len(self.few))
            spread[self.few.numbers] = vector[feature_columns(len(self.few))]
            spread[n_features + products] = vector[products]
        return spread

    @property
    def preparation(self) -> Preparation:
        """The preparation of rows before they are multiplied with the vector."""
        first = self.views[0].preparation
        return first if first.normalize else Preparation()

    @property
    def kind(self) -> Kind:
        """The kind of its rows."""
        return self.preparation.kind

    def widen(self, n_features: int) -> None:
        """Make room for a number of features."""
        if n_features > len(self.squares):
            room = max(n_features, len(self.squares) + len(self.squares) // 2)
            self.squares = np.concatenate([self.squares, np.zeros(room - len(self.squares))])

    def needed(self, n_features: int, outputs: int = 1) -> int:
        """Estimate the bytes of a part this wide: for each output its lanes and the vector, then scales and Σx_j²."""
        groups = [group for view in self.views for group in view.groups]
        scales = [view.preparation.scales for view in self.views]
        if self.products and self.few is not None:
            n_features = n_products(min(n_features, self.few.most))
        shared = 1 + sum(scale.width for scale in scales if scale is not None)
        return outputs * (sum(group.needed(n_features) for group in groups) + 8 * n_features) + 8 * shared * n_features

    def add(self, rows: Batch) -> None:
        """Add the squares of rows that were learned, prepared for this part."""
        weights = EVERY_WEIGHT_1 if rows.weights is None else rows.weights
        _add_squares(rows.indptr.astype(np.int64, copy=False), rows.indices, rows.values, weights, self.squares)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if not self.squares.flags.writeable:  # mapped from a file
            self.squares = np.array(self.squares)


@compiled()
def _add_squares(indptr: Any, indices: Any, values: Any, weights: Any, squares: Any) -> None:
    """Add the squares of values. Rows of weight 0 do not count."""
    for i in range(len(indptr) - 1):
        if weights.size == 0 or weights[i] != 0.0:
            for k in range(indptr[i], indptr[i + 1]):
                x = np.float64(values[k])
                squares[np.uint64(indices[k])] += x * x


class Grid:
    """The members of Auto × the outputs of a model. Parts have views, views have groups, groups have a lane per cell.

    Outputs share prepared rows, scales and Σx_j². A cell is removed when its member is dropped for its output. The
    lanes of an output are in the order of the members.
    """

    def __init__(self, parts: Sequence[Part], n_outputs: int = 1, few: FewFeatures | None = None) -> None:
        self.parts, self.n_outputs = list(parts), n_outputs
        self.few = few  #: the features that have occurred, if there are members for few features
        self.n_known = 0 if few is None else len(few)  #: features in rows that were learned
        self._of_outputs: dict[int, Grid] = {}

    @classmethod
    def of(cls, blends: Sequence[Any]) -> "Grid":
        """Return the grid of the blends of all outputs. Blends that have separate grids share one from now on."""
        first = blends[0].grid
        if first.n_outputs == len(blends) and all(b.grid is first and b.number == k for k, b in enumerate(blends)):
            shared: Grid = first
            return shared
        grids = [blend.grid.of_output(blend.number) for blend in blends]
        grid = cls._joined(grids, [cell_of(member) for member in blends[0].record.members])
        for k, blend in enumerate(blends):
            blend.grid, blend.number = grid, k
        return grid

    @classmethod
    def _joined(cls, grids: Sequence["Grid"], cells: Sequence[tuple[Kind, Any]]) -> "Grid":
        """Join grids of one output each. ``cells`` has the view and the group of each member, in order."""
        preparations: dict[Kind, Preparation] = {}
        squares: dict[Kind, NDArray[np.float64]] = {}
        groups: dict[tuple[Kind, Any], tuple[list[Group], list[int]]] = {cell: ([], []) for cell in cells}
        for output, grid in enumerate(grids):
            for part in grid.parts:
                squares.setdefault(part.kind, part.squares)
                for view in part.views:
                    rows = view.preparation.kind
                    preparations.setdefault(rows, view.preparation)
                    for group in view.groups:
                        parts, owners = groups[rows, (group.algorithm.name, group.max_features)]
                        parts.append(group)
                        owners.append(output)
        views = [
            View(
                preparations[rows],
                [Group.joined(*lanes) for cell, lanes in groups.items() if cell[0] == rows and lanes[0]],
            )
            for rows in dict.fromkeys(cell[0] for cell in groups)
            if rows in preparations
        ]
        all_few = [grid.few for grid in grids if grid.few is not None]
        if any(not np.array_equal(few.numbers, all_few[0].numbers) for few in all_few):
            raise ValueError("outputs must number the features of members for few features alike")
        few = all_few[0] if all_few else None
        made = parts_of(views, few)
        for part in made:
            part.squares = squares[part.kind]
        joined = cls(made, len(grids), few)
        for group in joined.groups:
            group.few = None if group.few is None else few
        return joined

    @property
    def views(self) -> list[View]:
        """The views."""
        return [view for part in self.parts for view in part.views]

    @property
    def groups(self) -> list[Group]:
        """The groups of all views."""
        return [group for view in self.views for group in view.groups]

    def of_output(self, output: int) -> "Grid":
        """Return the cells of an output, to read. Nothing is copied."""
        if self.n_outputs == 1:
            return self
        if output not in self._of_outputs:
            parts = []
            for part in self.parts:
                views = []
                for view in part.views:
                    own = [group.of_output(output) for group in view.groups if output in group.owners]
                    views += [View(view.preparation, own)] if own else []
                parts += [Part(views, part.squares, part.few)] if views else []
            has_few = any(part.products for part in parts) or any(
                group.few is not None for part in parts for view in part.views for group in view.groups
            )
            self._of_outputs[output] = Grid(parts, few=self.few if has_few else None)
        return self._of_outputs[output]

    def learn(self, rows: Batch, signs: NDArray[np.int8], dtype: np.dtype[Any], threads: int) -> list[NDArray[Any]]:
        """Learn checked rows; return the scores of each row before its update, rows × members, for each output.

        ``signs`` has a column of labels ±1 per output. If rows cannot be prepared, nothing changes.
        """
        views = self.views
        try:
            ready = _prepared(views, rows, dtype, self.few)
        except BaseException:
            if self.few is not None:
                self.few.numbers = self.few.numbers[: self.n_known].copy()
            raise
        self.n_known = 0 if self.few is None else len(self.few)
        work = [(group, own) for view, own in zip(views, ready, strict=True) for group in view.groups]
        scores: list[Any] = [None] * len(work)
        weights = np.ones((len(rows), 1)) if rows.weights is None else rows.weights[:, np.newaxis]

        def learn(k: int) -> None:
            group, own = work[k]
            scores[k] = group.learn_checked(own, signs, weights)

        tasks: list[Callable[[], None]] = [partial(learn, k) for k in range(len(work))]
        for part in self.parts:
            tasks.append(partial(part.add, ready[views.index(part.views[0])] if part.preparation else rows))
        run_all(tasks, threads if rows.nnz * self.n_outputs >= ENOUGH else 1)
        together = np.concatenate(scores, axis=1)
        if self.n_outputs == 1:
            return [together]
        owners = np.concatenate([group.owners for group, _ in work])
        ends = np.cumsum(np.bincount(owners, minlength=self.n_outputs))
        return [together[:, columns] for columns in np.split(np.argsort(owners, kind="stable"), ends[:-1])]

    def keep(self, members: Mapping[int, NDArray[np.intp]]) -> None:
        """Keep only these members of some outputs, given by the positions of their lanes in the output."""
        seen, kept = [0] * self.n_outputs, {output: set(numbers.tolist()) for output, numbers in members.items()}
        for view in self.views:
            for group in list(view.groups):
                lanes = []
                for lane, owner in enumerate(group.owners):
                    if owner not in kept or seen[owner] in kept[owner]:
                        lanes.append(lane)
                    seen[owner] += 1
                if not lanes:
                    view.groups.remove(group)
                elif len(lanes) < len(group):
                    group.keep(lanes)
        for part in self.parts:
            part.views = [view for view in part.views if view.groups]
        self.parts = [part for part in self.parts if part.views]
        if self.few is not None and not self._needs_few:
            self.few, self.n_known = None, 0
        self._of_outputs.clear()

    @property
    def _needs_few(self) -> bool:
        return any(part.products for part in self.parts) or any(group.few is not None for group in self.groups)

    @property
    def has_products(self) -> bool:
        """Whether members learn products of features."""
        return any(part.products for part in self.parts)

    def products(self, n_features: int) -> Products | None:
        """Return the products that members learn, if any do. They are numbered from ``n_features`` on."""
        return Products(self.few.numbers.copy(), n_features) if self.few is not None and self.has_products else None

    def number_features(self, numbers: NDArray[np.int64]) -> None:
        """Set the features that have occurred, in this order."""
        assert self.few is not None
        self.few.numbers, self.n_known = numbers, len(numbers)
        self.widen_products()

    def widen_products(self) -> None:
        """Make room for the products of all features that have occurred."""
        for part in self.parts:
            if part.products:
                width = part.width(0)
                part.widen(width)
                for view in part.views:
                    view.preparation.widen(width)
                    for group in view.groups:
                        group.widen(width)
        self._of_outputs.clear()

    def values_per_row(self, t: int) -> float:
        """Return the mean number of values in the t rows learned, or 0 without members with products."""
        for part in self.parts:
            scales = part.preparation.scales
            if part.products and part.few is not None and scales is not None:
                return float(scales.columns(feature_columns(len(part.few)))["counts"].sum()) / max(t, 1)
        return 0.0

    def widen(self, n_features: int) -> None:
        """Make room for a number of features."""
        for part in self.parts:
            if part.products:
                continue
            for view in part.views:
                view.preparation.widen(n_features)
                for group in view.groups:
                    group.widen(n_features)
            part.widen(n_features)
        self._of_outputs.clear()

    @property
    def narrow_room(self) -> float:
        """The number of features that fit into members with a limit."""
        return min((group.n_features for group in self.groups if group.max_features is not None), default=np.inf)

    def make_narrow_room(self, n_features: int) -> None:
        """Make room for a number of features in groups that may have that many."""
        for group in self.groups:
            if n_features <= (group.max_features or 0):
                group.make_room(n_features)
        self._of_outputs.clear()

    # Placement on a GPU -----------------------------------------------------------------------------------------------

    def lanes_for(self, device: str) -> int:
        """Return the number of lanes, of all outputs, that can be on a device."""
        return sum(len(group) for group in self.groups if group.can_be_on(device))

    @property
    def n_lanes_on_gpu(self) -> int:
        """The number of lanes that are on a GPU."""
        return sum(len(group) for group in self.groups if group.device == "cuda")

    def to_gpu(self, device: str) -> None:
        """Move the groups that can be on a GPU there; ``device`` is the one that was requested."""
        self._move(lambda group: group.on("cuda") if group.can_be_on(device) else group)

    def to_cpu(self) -> None:
        """Move all groups to the CPU."""
        self._move(lambda group: group if group.device == "cpu" else group.on("cpu"))

    def widen_on_gpu(self, n_features: int) -> None:
        """Make room on the GPU, or raise if there is none."""
        for group in self.groups:
            if group.device == "cuda":
                group.widen(n_features)

    def _move(self, move: Callable[[Group], Group]) -> None:
        new = [[move(group) for group in view.groups] for view in self.views]  # replaced only if all of them fit
        for view, groups in zip(self.views, new, strict=True):
            view.groups = groups
        self._of_outputs.clear()

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_of_outputs": {}}


def _prepared(views: Sequence[View], rows: Batch, dtype: np.dtype[Any], few: FewFeatures | None) -> list[Batch]:
    """Return the rows as each view learns them. If one view raises, no scale changes."""
    prepared: list[tuple[Batch, Any, Batch]] = []
    try:
        for view in views:
            own = expanded(rows, few, dtype) if view.preparation.products and few is not None else rows
            ready, before = view.preparation.learn(own, dtype) if view.preparation else (own, None)
            prepared.append((ready, before, own))
    except BaseException:
        for view, (_, before, own) in zip(views, prepared, strict=False):
            if before is not None:
                view.preparation.take_back(own, before)
        raise
    return [ready for ready, *_ in prepared]


def parts_of(views: Sequence[View], few: FewFeatures | None) -> list[Part]:
    """Return the fewest parts that these views, those without normalization first, add up to."""
    plain = [view for view in views if view.preparation.normalize is None]
    unit = [Part([view], few=few) for view in views if view.preparation.normalize is not None]
    return [*([Part(plain)] if plain else []), *unit]
