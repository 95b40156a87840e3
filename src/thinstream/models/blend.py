"""The blend behind Auto: its members, how they learn from rows, and the record of their errors."""

from collections.abc import Iterator, Mapping, Sequence
from copy import copy, deepcopy
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from thinstream.algorithms.auto import Member, MemberLike
from thinstream.algorithms.registry import find, rule_of
from thinstream.batch import Batch
from thinstream.engine.loop import (
    EQUAL_COSTS,
    FALSE_NEGATIVES,
    FALSE_POSITIVES,
    POSITIVES,
    UPDATES,
    Costs,
    T,
)
from thinstream.engine.memory import physical_memory
from thinstream.engine.protocol import ReadsOnce, SingleModel, dtype_of, require_range, require_signs
from thinstream.errors import InvalidInputError, InvalidParameterError
from thinstream.lanes.learner import Learner
from thinstream.models.head import (
    ALIKE,
    AllFeatures,
    Counting,
    FeaturesOfRows,
    Head,
    Vector,
    frozen,
    preparation_of_kinds,
    vectors_of,
)
from thinstream.models.members import FIRST_ROOM, Grid, Group, Kind, Part, View, cell_of, parts_of
from thinstream.models.outputs import Outputs
from thinstream.models.pipeline import Pipeline
from thinstream.models.preparation import Preparation, side_by_side
from thinstream.models.products import Products, costs, expanded
from thinstream.models.slots import FewFeatures

# Fresh members of a portfolio, grouped by view and by algorithm.


def views_of(
    portfolio: Sequence[Member], costs: Costs, few: FewFeatures | None, **options: Any
) -> tuple[list[View], list[Member]]:
    """Make the views, and list the members in the order of their lanes; ``options`` are those of `Lanes`."""
    views, ordered = list[View](), list[Member]()
    cells: dict[Kind, dict[Any, list[Member]]] = {}
    for member in portfolio:
        rows, group = cell_of(member)
        cells.setdefault(rows, {}).setdefault(group, []).append(member)
    for rows in sorted(cells, key=lambda rows: rows[1] is not None):  # so that the views of a part are together
        groups = []
        for (name, limit), own in cells[rows].items():
            room = options
            if rows[2]:
                room = options | {"n_features": 1, "of_products": True}
            elif limit is not None:
                room = options | {"n_features": min(FIRST_ROOM, limit), "few": few, "max_features": limit}
            parameters = [member.parameters for member in own]
            groups.append(Group(name, parameters, costs=[costs] * len(own), **room))
            ordered += own
        views.append(View(Preparation(rows[0], rows[1], products=rows[2]), groups))
    return views, ordered


# The history of each member: its mistakes, its shares, and when it was dropped.

#: Rows after which shares are recorded for the first time. Then they are recorded whenever the rows have doubled.
FIRST_NOTE = 1 << 6


class Record:
    """The history of all members that a blend began with.

    Examples
    --------
    >>> record = Record([Member("fsol", {}), Member("arow", {})])
    >>> record.count(np.array([[1.0, -1.0], [2.0, np.nan]]), np.array([True, True]))
    >>> record.rows, record.mistakes
    (array([2, 1]), array([0, 1]))

    """

    def __init__(self, members: Sequence[Member]) -> None:
        self.members, many = list(members), len(members)
        self.places = np.arange(many)  # positions in `members` of those that were not dropped
        self.rows, self.mistakes = (
            np.zeros(many, np.int64),
            np.zeros(many, np.int64),
        )  # of scored rows
        self.until = np.full(many, -1)  # t if it was dropped after t rows, −2 − t if rows became too wide for it then
        self.noted: NDArray[np.int64]  # rows at each record, and the blend's mistakes until then
        self.noted_mistakes: NDArray[np.int64]  # and those of all members
        self.noted_shares: NDArray[np.float64]
        self.forget_history()

    def count(self, scores: NDArray[Any], positive: NDArray[np.bool_]) -> None:
        """Count mistakes from the progressive scores of the members that were not dropped."""
        finite = np.isfinite(scores)
        wrong = finite & ((scores > 0.0) != positive[:, np.newaxis])
        self.rows[self.places] += np.count_nonzero(finite, axis=0)
        self.mistakes[self.places] += np.count_nonzero(wrong, axis=0)

    def note(self, t: int, mistakes: int, shares: NDArray[np.float64]) -> None:
        """Record the shares after t rows. Members that were dropped have none."""
        of_all = np.zeros(len(self.members))
        of_all[self.places] = shares
        self.noted = np.vstack([self.noted, [[t, mistakes]]])
        self.noted_mistakes = np.vstack([self.noted_mistakes, self.mistakes])
        self.noted_shares = np.vstack([self.noted_shares, of_all])

    def until_now(self, t: int, mistakes: int, shares: NDArray[np.float64]) -> Self:
        """Return a copy that ends with these shares."""
        record = deepcopy(self)
        if t and (not len(record.noted) or record.noted[-1, 0] < t):
            record.note(t, mistakes, shares)
        return record

    def keep(self, models: NDArray[np.intp], t: int, too_wide: bool = False) -> None:
        """Keep only these of the remaining members, after t rows."""
        self.until[np.delete(self.places, models)] = -2 - t if too_wide else t
        self.places = self.places[models]

    def forget_history(self) -> None:
        """Remove the recorded shares: those of one part of the data do not hold for all of it."""
        many = len(self.members)
        self.noted, self.noted_mistakes = np.empty((0, 2), np.int64), np.empty((0, many), np.int64)
        self.noted_shares = np.empty((0, many))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return everything except the members."""
        return {name: value for name, value in vars(self).items() if isinstance(value, np.ndarray)}

    def table(self, shares: NDArray[np.float64], gone: NDArray[np.bool_]) -> list[dict[str, Any]]:
        """Return a row for each member. ``shares`` and ``gone`` are those of the remaining members."""
        rows = []
        present = dict(zip(self.places.tolist(), zip(shares.tolist(), gone.tolist(), strict=True), strict=True))
        for k, member in enumerate(self.members):
            share, is_gone = present.get(k, (0.0, False))
            out = None
            if self.until[k] != -1:
                t, wide = int(self.until[k]), f"more than {member.max_features} features"
                wide += f" or {MOST_VALUES} values per row" if member.products else ""
                out = f"no share after {t:,} rows" if t >= 0 else f"{wide} after {-2 - t:,} rows"
            rows.append(
                {
                    **{name: value for name, value in member.described.items() if value is not None},
                    "error": int(self.mistakes[k]) / int(self.rows[k]) if self.rows[k] else None,
                    "share": share,
                    "out": f"not finite after {self.rows[k]:,} rows" if is_gone else out,
                }
            )
        return rows


# The default members: algorithm, parameters, preparation of rows.
#
# `benchmarks/portfolio` chose them from 276 candidates on training rows of 27 datasets; docs/auto-portfolio.md shows
# the effect of each. Nothing here is tuned to a stream, because the head weights the members. The blend has two weight
# vectors: one for rows without normalization and one for rows of unit length.

#: AdaGrad steps of full size from the first row on. By default, they are small until Σg² reaches 1.
_AT_ONCE = {"delta": 0.001, "loss": "logistic"}
#: Features divided by their root mean square, then rows scaled to unit length.
_UNIT = ("rms", "l2")
#: Limit of features for a full covariance, whose cost per row grows with their square.
FEW_FEATURES = 300
#: How much rows count in the head, chosen together with the members: later rows count more.
COUNTING = Counting(later=128.0, flat=0.003, prior=3.0)

PORTFOLIO = (
    # Rows without preparation: tf-idf, counts, anything whose scale is meaningful.
    Member("scw", {"C": 1.0}),
    Member("arow", {"r": 10.0}),
    Member("arow", {"r": 1.0, "covariance": "full"}, max_features=FEW_FEATURES),
    # Rows of unit length: texts of different lengths, columns of different units.
    Member("scw", {"C": 1.0}, *_UNIT),
    Member("arow", {"r": 0.1}, *_UNIT),
    Member("narow", {"b": 20.0}, *_UNIT),
    Member("adafobos", {"eta": 2.0, **_AT_ONCE}, *_UNIT),
    Member("adarda", {"eta": 0.5, **_AT_ONCE}, *_UNIT),
    Member("ftrlproximal", {"alpha": 0.5}, *_UNIT),
)

#: Largest mean number of values per row for which products of features are affordable.
MOST_VALUES = 40
#: Additional members for data with few features: rows with products of all features, at unit length.
INTERACTIONS = (
    Member("scw", {"C": 1.0}, *_UNIT, max_features=FEW_FEATURES, products=True),
    Member("adafobos", {"eta": 2.0, **_AT_ONCE}, *_UNIT, max_features=FEW_FEATURES, products=True),
)


def members_of(portfolio: Sequence[MemberLike]) -> list[Member]:
    """Return checked members from estimators, members or descriptions."""
    return [_member(member) for member in portfolio]


def same_portfolio(one: Any, two: Any) -> bool:
    """Return whether two values of the parameter have the same members in the same order."""
    if one is None or two is None:
        return one is two
    first, second = ([member.described for member in members_of(portfolio)] for portfolio in (one, two))
    return first == second


def _member(value: MemberLike) -> Member:
    """Return a checked member."""
    if isinstance(value, Member):
        member = value
    elif isinstance(value, str):
        member = Member(value.lower(), {})
    elif isinstance(value, Mapping):
        member = Member.from_description(value)
    else:
        member = value.__thinstream_member__()
    declared = find(member.algorithm)
    if declared.kind != "online":
        raise InvalidParameterError(f"portfolio: members must learn online, but {declared.name} does not")
    rule_of(declared, member.parameters)
    Preparation(member.scale, member.normalize)
    if member.scale is not None and member.max_features is not None and not member.products:
        raise InvalidParameterError(f"portfolio: a member with max_features cannot have a scale, got {member}")
    if member.products and (member.max_features is None or member.normalize is None):
        raise InvalidParameterError(f"portfolio: a member with products needs max_features and normalize, got {member}")
    return member


# A blend: members learn the same rows in one pass, and a head learns how to weight them (specification §15).
#
# All members score a row before any of them learns it. The head computes z from their scores, and then head and members
# learn the row. At any time the blend is one linear model, v = Σ (w_k/m_k)·v_k.

#: Rows after which members without a share can be dropped for the first time, and then whenever the rows have doubled.
FIRST_DROP = 1 << 12
#: A member is dropped if its share of the blend is below this twice in a row.
WORTH = 0.005
#: Non-zeros that all members learn before the head does. They still fit into the cache.
BLOCK = 1 << 18
#: Cost of a call that reads a few weights, in weights.
CALL_COST = 1 << 12
_NAME = "Auto"


class Blend(ReadsOnce, SingleModel):
    """Models that train side by side on the same rows, and their head.

    Parameters
    ----------
    portfolio : sequence of Member (or of estimators), or None
        The members. None: the default portfolio, with a head in which later rows count more.
    n_features, costs, dtype, grow, fit_intercept
        Like those of a `Learner`, for all members. The head also uses the costs.
    drop : bool
        Whether members without a share of the blend are dropped during the stream.
    interactions : bool
        Whether additional default members learn products of features if there are few features.
    max_nnz, max_density : int or None, float or None
        Largest number of weights of the linear model, and their largest share. The members keep all their weights.
    threads : int
        Number of threads that a call may use.

    Examples
    --------
    >>> from thinstream.models.blend import members_of
    >>> from thinstream.algorithms.auto import Member
    >>> rows = Batch.of(np.arange(5), np.array([0, 1, 0, 1]), np.ones(4), 2, y=np.array([-1, 1, -1, 1], np.int8))
    >>> model = Blend([Member("fsol", {}), Member("arow", {})], n_features=2, dtype="float64")
    >>> model.learn(rows).round(2)
    array([0., 0., 0., 6.])
    >>> model.weights()[0] < 0 < model.weights()[1]
    np.True_

    """

    weights_only = has_variance = False
    first_pass = True  #: whether the rows are new to the members: the head learns from these rows only

    def __init__(
        self,
        portfolio: Sequence[Any] | None = None,
        *,
        n_features: int,
        costs: Costs = EQUAL_COSTS,
        dtype: str = "float32",
        grow: bool = False,
        fit_intercept: bool = False,
        drop: bool = True,
        interactions: bool = True,
        max_nnz: int | None = None,
        max_density: float | None = None,
        threads: int = 1,
    ) -> None:
        self.algorithm = find(_NAME)
        parameters = {"portfolio": portfolio, "max_nnz": max_nnz, "max_density": max_density, "drop": drop}
        parameters["interactions"] = interactions
        self.rule: Any = rule_of(self.algorithm, parameters)
        members = None if portfolio is None else members_of(self.rule.portfolio)
        described = None if members is None else [member.described for member in members]
        flags = {"drop": self.rule.drop, "interactions": self.rule.interactions}
        self.parameters: dict[str, Any] = parameters | {"portfolio": described, **flags}
        self.dtype, self.costs, self.offset = dtype_of(dtype, _NAME), costs, int(fit_intercept)
        self.grow, self.threads, self.n_features = grow, threads, n_features
        self.counting = COUNTING if members is None else ALIKE
        defaults = [*PORTFOLIO, *(INTERACTIONS if self.rule.interactions else ())]
        self._begin(defaults if members is None else members)

    def _begin(self, portfolio: Sequence[Member]) -> None:
        """Create fresh members, grouped by view and algorithm."""
        options: dict[str, Any] = {"n_features": self.n_features, "dtype": self.dtype.name, "grow": self.grow}
        options["fit_intercept"] = bool(self.offset)
        limits = [member.max_features for member in portfolio if member.max_features is not None]
        few = FewFeatures(max(limits)) if limits else None
        views, ordered = views_of(portfolio, self.costs, few, **options)
        self.grid, self.number, self.record = Grid(parts_of(views, few), few=few), 0, Record(ordered)
        self.require_room(self.n_features)
        self.grid.widen(self.n_features)
        self.grid.widen_products()
        self.head = Head(len(self.record.members), self.costs, self.counting)
        self.counts = np.zeros(5, np.int64)
        self.weak = np.zeros(len(self.head), np.bool_)  # whether each had a negligible share the last time
        self.news: list[str] = []  # messages that were not read yet
        self.version = 0  # it differs after every change
        self._linear: tuple[int, Any, Any] = (-1, None, None)  # version, vectors by kind of rows, linear model
        self._read = (-1, 0)  # version, and weights read for few features

    def like(self, portfolio: Sequence[Member], n_features: int) -> Self:
        """Return a fresh blend of these members. All other options stay."""
        made = copy(self)
        made.n_features = n_features
        made._begin(portfolio)
        return made

    def alone(self) -> Self:
        """Return a copy that has a separate grid."""
        blend = copy(self)
        blend.grid, blend.number = self.grid.of_output(self.number), 0
        return deepcopy(blend)

    # Changing features ------------------------------------------------------------------------------------------------

    def moved(self, where: NDArray[np.int64], width: int) -> Self:
        """Return a copy with ``width`` features: feature j becomes ``where[j]``, or is left out if that is -1."""
        made = self.like(self.members, width)
        for name in ("head", "record", "counts", "weak", "news", "parameters"):
            setattr(made, name, deepcopy(getattr(self, name)))
        if made.few is not None and self.few is not None:
            made.grid.number_features(where[self.few.numbers])
        kept = np.flatnonzero(where >= 0)
        for part, old in zip(made.parts, self.parts, strict=True):
            if part.products:
                part.squares[: part.width(width)] = old.squares[: part.width(width)]
            else:
                part.squares[where[kept]] = old.squares[kept]
        for view, before in zip(made.views, self.views, strict=True):
            is_own = before.preparation.products  # numbers of products do not depend on those of features
            view.preparation = before.preparation.copy() if is_own else before.preparation.moved(where, width)
            for group, old_group in zip(view.groups, before.groups, strict=True):
                stays = is_own or old_group.few is not None
                group.put([(model if stays else model.moved(where, width)).memory for model in old_group])
                for lane in np.flatnonzero(old_group.out()).tolist():
                    group.fail(lane, old_group.failed.get(lane, 0))
        return made

    def reset_features(self, features: NDArray[np.int64]) -> None:
        """Reset features to those of a fresh model."""
        for group in self.groups:
            for block in group._blocks:
                block.reset_features(features)
        for view in self.views:
            view.preparation.reset_features(features)
        for part in self.parts:
            part.squares[features] = 0.0
        self.version += 1

    def mark_touched(self, marks: NDArray[np.bool_]) -> None:
        """Mark the features whose state differs from that of a feature that never occurred."""
        for part in self.parts:
            if part.products:
                continue
            marks |= part.squares[: len(marks)] != 0.0
            for view in part.views:
                view.preparation.mark_touched(marks)
                for model in (model for group in view.groups if group.few is None for model in group):
                    model.mark_touched(marks)
        if self.few is not None:
            marks[self.few.numbers] = True

    def remove_preparation(self) -> None:
        """Let fresh members learn unprepared rows. The caller prepares rows for all of them."""
        members = [member for member in self.record.members if not member.products]
        plain = [member._replace(scale=None, normalize=None) for member in members]
        self._begin([member for k, member in enumerate(plain) if member not in plain[:k]])

    # Learning and predicting ------------------------------------------------------------------------------------------

    def learn(self, batch: Batch, scores: bool = True) -> NDArray[Any]:
        """Learn the examples in order; return the blend's score of each before its update.

        A member whose numbers would not be finite is out of the blend from then on.
        """
        batch = batch.check()
        signs = require_signs(batch)[:, np.newaxis]
        require_range(batch, self.dtype)
        z = self.learn_together([self], batch, signs)[:, 0]
        return z.astype(self.dtype) if scores else np.empty(0, self.dtype)

    @staticmethod
    def learn_together(blends: Sequence["Blend"], batch: Batch, signs: NDArray[np.int8]) -> NDArray[np.float64]:
        """Let the blends of all outputs learn checked rows; return their scores before the update, rows × outputs.

        ``signs`` has a column of labels ±1 per output.
        """
        z = np.empty(signs.shape)
        for blend in blends:
            blend.version += 1
        try:
            grid = Grid.of(blends)
            _widen(blends, batch.n_features)
            for start, stop in _pieces(blends, batch):
                rows = batch if stop - start == len(batch) else batch.until(stop).after(start)
                scores = grid.learn(rows, signs[start:stop], blends[0].dtype, blends[0].threads)
                kept = {}
                for k, (blend, own) in enumerate(zip(blends, scores, strict=True)):
                    y = np.ascontiguousarray(signs[start:stop, k])
                    z[start:stop, k], members = blend._learn(own, y, rows.weights)
                    if members is not None:
                        kept[k] = members
                is_noted = blends[0].t == _doubling(blends[0].t)
                if is_noted and grid.values_per_row(blends[0].t) > MOST_VALUES:
                    _drop_products(blends)
                    kept = {}
                _keep(blends, kept)
        finally:
            for blend in blends:
                blend.version += 1  # weights that another thread computed meanwhile are out of date
        return z

    def _learn(
        self, scores: NDArray[Any], y: NDArray[np.int8], weights: NDArray[np.float64] | None
    ) -> tuple[NDArray[np.float64], NDArray[np.intp] | None]:
        """Let the head learn the members' scores of rows.

        Return the blend's score of each before its update, and the members to keep if some are to be dropped.
        """
        before, gone = self.t, self.head.gone.copy()
        z = self.head.learn(scores, y, weights, self.first_pass)
        counts = np.ones(len(y), np.bool_) if weights is None else weights != 0.0
        positive, predicted = y[counts] > 0, z[counts] > 0.0
        self.counts[T] += len(positive)
        self.counts[UPDATES] += len(positive)
        self.counts[POSITIVES] += np.count_nonzero(positive)
        self.counts[FALSE_NEGATIVES] += np.count_nonzero(positive & ~predicted)
        self.counts[FALSE_POSITIVES] += np.count_nonzero(predicted & ~positive)
        self.record.count(scores[counts], positive)
        for k in np.flatnonzero(self.head.gone & ~gone).tolist():
            self.news.append(f"{self.members[k]} is no longer part of the blend: its numbers would not be finite")
        if self.t == before or self.t != _doubling(self.t):
            return z, None
        self.record.note(self.t, self.n_mistakes, self.head.share())
        can_drop = self.rule.drop and self.first_pass and self.t >= FIRST_DROP
        return z, self._worth_keeping() if can_drop else None

    def _worth_keeping(self) -> NDArray[np.intp] | None:
        """Return the members to keep if some have a negligible share, and had one when the stream was half as long.

        At least one member stays.
        """
        share = self.head.share()
        worthless = (share < WORTH) | self.head.gone
        dropped = worthless & self.weak
        dropped[np.argmax(share)] = False
        self.weak = worthless
        return np.flatnonzero(~dropped) if dropped.any() else None

    def make_narrow_room(self, n_features: int) -> None:
        """Make room for a number of features in members with a limit, or drop them."""
        _make_narrow_room([self], n_features)

    def keep(self, models: NDArray[np.intp], too_wide: bool = False) -> None:
        """Continue with these members only; the memory of others is freed.

        ``too_wide``: they are dropped because a row has more features than they may have.
        """
        _keep([self], {0: models}, too_wide)

    def _counts(self) -> NDArray[np.int64]:
        return self.counts

    # Reading ----------------------------------------------------------------------------------------------------------

    def scores(self, batch: Batch) -> NDArray[Any]:
        """Return v·x + b of each row. Nothing changes."""
        return self._few_scores(batch.check()) if self._is_few(batch) else self.linear().scores(batch)

    def _is_few(self, batch: Batch) -> bool:
        """Return whether it has been cheaper, since the last update, to read only the weights of the rows' features."""
        if self._linear[0] == self.version or self.most is not None:
            return False
        before = self._read[1] if self._read[0] == self.version else 0
        self._read = (self.version, before + batch.nnz + CALL_COST)
        return self._read[1] <= self.n_features

    def _few_scores(self, batch: Batch) -> NDArray[Any]:
        """Return the scores from the weights of the rows' features.

        They are bit-identical to those from all weights.
        """
        plain = batch.narrowed(self.n_features)
        batch = batch if self.products is None else plain
        of_plain = FeaturesOfRows(plain, self.offset)
        few, features = list[Batch](), list[FeaturesOfRows]()
        for part in self.parts:
            own, ready = of_plain, batch
            if part.products and part.few is not None:
                ready = expanded(plain, part.few, self.dtype)
                own = FeaturesOfRows(ready, self.offset)
            ready = part.preparation.apply(ready, self.dtype) if part.preparation else ready
            require_range(ready, self.dtype)  # before columns are renumbered, so that errors name them
            features.append(own)
            few.append(own.renumbered(ready.narrowed(part.width(self.n_features))))
        vectors = vectors_of(self.parts, self.head.coefficients(), features, self.dtype)
        width = max(own.n_features for own in features)
        rows = few[0] if len(few) == 1 else side_by_side(few, width, self.dtype)
        padded = [(np.pad(weights, (0, width - len(weights))), intercept) for weights, intercept in vectors]
        return frozen(self, padded).scores(rows)

    @property
    def _own(self) -> Grid:
        """The cells of this output."""
        return self.grid.of_output(self.number)

    @property
    def few(self) -> FewFeatures | None:
        """The features that have occurred, if there are members for few features."""
        return self._own.few

    @property
    def products(self) -> Products | None:
        """The products of features that members learn, if any do."""
        return self._own.products(self.n_features)

    @property
    def n_columns(self) -> int:
        """The number of features and products in one weight vector."""
        products = self.products
        return self.n_features + (0 if products is None else len(products))

    @property
    def members(self) -> list[Member]:
        """The remaining members."""
        return [self.record.members[k] for k in self.record.places]

    @property
    def parts(self) -> list[Part]:
        """The weight vectors that the members add up to."""
        return self._own.parts

    @property
    def views(self) -> list[View]:
        """The views of the rows, with the members of this output."""
        return self._own.views

    @property
    def groups(self) -> list[Group]:
        """The members of this output in each view by their algorithm."""
        return self._own.groups

    @property
    def rules(self) -> Iterator[Any]:
        """The rules of the members, without those for few features, which number features themselves."""
        groups = (group for group in self.groups if group.few is None and not group.of_products)
        return (lane.rule for group in groups for lane in group._lanes)

    @property
    def lanes(self) -> Iterator[Learner]:
        """A copy of each member's model."""
        return (model for group in self.groups for model in group)

    def table(self) -> list[dict[str, Any]]:
        """Return a row per member: algorithm, parameters, progressive error, signed share, and why it was dropped."""
        return self.record.table(self.head.signed_share(), self.head.gone)

    def history(self) -> Record:
        """Return a copy of the record that includes the current shares."""
        return self.record.until_now(self.t, self.n_mistakes, self.head.share())

    def linear(self) -> Pipeline:
        """Return the pipeline for predictions. It has a weight vector per kind of prepared rows, one after another."""
        return self._folded()[1]

    def _folded(self) -> tuple[dict[Kind, Vector], Pipeline]:
        """Return the vector of each part, and the linear model made of them.

        They are computed if the blend has changed. The version is read first: if another thread learns meanwhile, they
        are computed again.
        """
        cached, version = self._linear, self.version
        if cached[0] != version:
            parts, width = self.parts, self.n_columns
            every = [AllFeatures(part.width(self.n_features)) for part in parts]
            sums = vectors_of(parts, self.head.coefficients(), every, self.dtype, self.most)
            vectors = {
                part.kind: (part.spread(weights, self.n_features, width), intercept)
                for part, (weights, intercept) in zip(parts, sums, strict=True)
            }
            kinds = preparation_of_kinds([parts], self.n_features, width)
            pipeline = Pipeline(Outputs([frozen(self, list(vectors.values()))]), kinds, products=self.products)
            cached = self._linear = version, vectors, pipeline
        return cached[1:]

    def vector_of(self, rows: Kind) -> Vector:
        """Return weights and intercept of the part for a kind of rows, or zeros if there is none."""
        return self._folded()[0].get(rows, (np.zeros(self.n_columns, self.dtype), 0.0))

    def squares_of(self, rows: Kind) -> NDArray[np.float64]:
        """Return Σx_j² of rows of a kind."""
        width = self.n_columns
        for part in self.parts:
            if part.kind == rows:
                return part.spread(part.squares[: part.width(self.n_features)], self.n_features, width)
        return np.zeros(width)

    @property
    def most(self) -> int | None:
        """The largest number of weights of the linear model, or None."""
        counts = [self.parameters["max_nnz"]]
        if self.parameters["max_density"] is not None:
            counts.append(int(self.parameters["max_density"] * self.n_weights))
        return min((count for count in counts if count is not None), default=None)

    @property
    def n_weights(self) -> int:
        """The number of weights, zero or not: one per feature and product, for each kind of rows."""
        return sum(part.width(self.n_features) for part in self.parts)

    def weights(self) -> NDArray[Any]:
        """Return v, dense. Vectors for several kinds of rows follow one another."""
        return self.linear().weights()

    def sparse_weights(self) -> tuple[NDArray[np.int64], NDArray[Any]]:
        """Return the positions and values of the non-zero weights."""
        [output] = self.linear().models
        weights: tuple[NDArray[np.int64], NDArray[Any]] = output.sparse_weights()
        return weights

    def variance(self) -> NDArray[Any]:
        """Raise: only the members have variances, and those belong to other weights."""
        raise AttributeError("Auto has no variances: its weights are sums over its members")

    @property
    def intercept(self) -> float:
        """The intercept b."""
        return float(self.linear().outputs.one.intercept)

    @property
    def nnz(self) -> int:
        """The number of non-zero weights, without the intercept."""
        return int(self.linear().nnz)

    @property
    def n_met(self) -> int:
        """The number of weights that examples have changed."""
        return sum(int(np.count_nonzero(part.squares)) for part in self.parts)

    @property
    def n_features_met(self) -> int:
        """The number of features that occurred."""
        return max((int(np.count_nonzero(part.squares)) for part in self.parts if not part.products), default=0)

    @property
    def cumulative_loss(self) -> float:
        """The sum of the progressive logistic loss, with costs and weights."""
        return float(self.head.loss[0])

    # Room -------------------------------------------------------------------------------------------------------------

    def needed(self, n_features: int, outputs: int = 1) -> int:
        """Estimate the bytes of a number of outputs of this width, which share views of the rows."""
        return sum(part.needed(n_features, outputs) for part in self.parts)

    def require_room(self, n_features: int, models: int = 1) -> None:
        """Raise if a number of blends of this width would not fit into memory."""
        needed = self.needed(n_features, models)
        if needed > 0.7 * physical_memory():
            of = f" of {models} classes" if models > 1 else ""
            raise InvalidInputError(
                f"{_NAME}{of} with {sum(map(len, self.groups))} models and {n_features:,} features needs "
                f"{needed / 1e9:,.1f} GB of memory, but this machine has "
                f"{physical_memory() / 1e9:,.1f} GB. Use a smaller portfolio, number the "
                "features from 0 without gaps, or hash them into fewer"
            )

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__ | {"_linear": (-1, None, None)}
        state.pop("algorithm", None)  # classes of a rule are found by name
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.algorithm = find(_NAME)
        for part in (self, self.head, self.record):
            for name, value in vars(part).items():
                if isinstance(value, np.ndarray) and not value.flags.writeable:  # mapped from a file
                    setattr(part, name, np.array(value))


def _widen(blends: Sequence[Blend], n_features: int) -> None:
    """Make room for ``n_features`` features in all blends, which share a grid."""
    first = blends[0]
    if n_features <= first.n_features:
        return
    if not first.grow:
        raise InvalidInputError(
            f"X has {n_features} features, but the model has {first.n_features}; pass grow=True to extend it"
        )
    first.require_room(n_features)
    first.grid.widen(n_features)
    for blend in blends:
        blend.n_features = n_features


def _pieces(blends: Sequence[Blend], batch: Batch) -> Iterator[tuple[int, int]]:
    """Yield the bounds of each run of rows that is learned in one go.

    They end at rows after which members may be dropped, and before a row that is too wide for some members. These
    members get more room, or are dropped.
    """
    seen = np.arange(len(batch) + 1) if batch.weights is None else np.append(0, np.cumsum(batch.weights != 0.0))
    start, first = 0, blends[0].t
    ends = costs(batch) if blends[0].grid.has_products else batch.indptr
    while start < len(batch):
        stop = max(int(np.searchsorted(ends, ends[start] + BLOCK, side="right")) - 1, start + 1)
        stop = min(stop, int(np.searchsorted(seen, _doubling(first + int(seen[start]) + 1) - first)), len(batch))
        stop = _before_wide(blends, batch, start, stop)
        yield start, stop
        start = stop


def _before_wide(blends: Sequence[Blend], batch: Batch, start: int, stop: int) -> int:
    """Return the first row, or ``stop``, with too many features for members with a limit; row ``start`` fits."""
    grid, rows = blends[0].grid, batch.until(stop).after(start)
    while grid.few is not None:
        before = grid.few.admit(rows, int(min(grid.narrow_room, grid.few.most)))
        grid.widen_products()
        if before:
            return start + before
        fits = grid.few.admit(rows.until(1), grid.few.most)
        _make_narrow_room(blends, len(grid.few) if fits else grid.few.most + 1)
    return stop


def _drop_products(blends: Sequence[Blend]) -> None:
    """Drop members with products, which rows with many values would make expensive."""
    kept = {}
    for k, blend in enumerate(blends):
        members = np.flatnonzero([not member.products for member in blend.members])
        if len(members) < len(blend.members):
            kept[k] = members
    _keep(blends, kept, too_wide=True)


def _make_narrow_room(blends: Sequence[Blend], n_features: int) -> None:
    """Make room for a number of features in members with a limit, or drop them."""
    blends[0].grid.make_narrow_room(n_features)
    kept = {}
    for k, blend in enumerate(blends):
        limits = np.array([member.max_features or n_features for member in blend.members])
        if limits.min() < n_features:
            kept[k] = np.flatnonzero(limits >= n_features)
    _keep(blends, kept, too_wide=True)


def _keep(blends: Sequence[Blend], kept: Mapping[int, NDArray[np.intp]], too_wide: bool = False) -> None:
    """Keep these members of some blends only, which share a grid."""
    for k in kept:
        blends[k].version += 1
    if kept:
        blends[0].grid.keep({blends[k].number: members for k, members in kept.items()})
    for k, members in kept.items():
        blend = blends[k]
        blend.version += 1
        blend.head, blend.weak = blend.head.keep(members), blend.weak[members]
        blend.record.keep(members, blend.t, too_wide)


def _doubling(t: int) -> int:
    """The first row at or after t at which shares are noted.

    >>> [_doubling(t) for t in (1, 64, 65, 9000)]
    [64, 64, 128, 16384]
    """
    return max(FIRST_NOTE, 1 << (t - 1).bit_length()) if t > 0 else FIRST_NOTE
