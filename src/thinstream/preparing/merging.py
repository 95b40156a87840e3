"""One model out of several that learned under scales of their own: they are brought to common ones first.

Where a feature's scale becomes r times as large, its weight is multiplied by r, so that scores stay, and a variance by
r²; which power of r goes with which field of a coordinate is declared by the rule (`engine.merge_rule`).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thinstream.engine.full import Matrix
from thinstream.engine.merge_rule import MergeRule
from thinstream.errors import MergeError
from thinstream.growing import Growing
from thinstream.learners import Learner
from thinstream.learners.memory import field_views
from thinstream.learners.merging import copy_wide
from thinstream.learners.protocol import AnyLearner
from thinstream.one_vs_rest import learner_of
from thinstream.one_vs_rest import merge as merge_plain
from thinstream.preparing.learner import plain_learner, preparation_of, prepared
from thinstream.preparing.preparation import Preparation
from thinstream.preparing.scales import Scales


def merge(models: Sequence[AnyLearner], join: Callable[[Any], Any] = merge_plain) -> AnyLearner:
    """One learner out of several that learned from disjoint parts of the data; ``join`` merges those inside."""
    first = preparation_of(models[0])
    for other in models[1:]:
        for name, one in first.kinds.items():
            two = preparation_of(other).kinds[name]
            if one != two:
                raise MergeError(
                    f"{models[0].algorithm.name}: models to merge must agree in {name}, got {one!r} and {two!r}"
                )
    if first.scales is None:
        found: AnyLearner = prepared(join([plain_learner(model) for model in models]), first)
        return found
    width = max(model.n_features for model in models)
    merged = type(first.scales).merged(_as_wide([_scales(model) for model in models], width))
    brought = [bring(model, merged) if model.t else plain_learner(model) for model in models]
    together: AnyLearner = prepared(join(brought), first.with_scales(merged))
    return together


def _scales(model: AnyLearner) -> Scales:
    found = preparation_of(model).scales
    assert found is not None
    return found


def _as_wide(scales: Sequence[Scales], width: int) -> list[Scales]:
    """Copies, all cut to one width."""
    return [each.copy(width).cut(width) for each in scales]


def bring(model: AnyLearner, scales: Scales) -> AnyLearner:
    """The learner inside, as if it had learned under these scales: a copy, or itself where they are its own."""
    inner, width = plain_learner(model), model.n_features
    was, now = preparation_of(model).divisors(width), scales.divisors(width)
    ratio = np.divide(now, was, out=np.ones(width), where=was > 0.0)
    if np.all(ratio == 1.0):
        return inner  # type: ignore[no-any-return]
    models = [_brought(one, ratio) for one in inner.models]
    if isinstance(inner, Growing):
        spares = [_brought(spare, ratio) for spare in inner.spares]
        return Growing(models, spares, inner.n_mistakes, inner.spare_costs)
    return learner_of(models, inner.n_mistakes)


def powers_of(model: Learner) -> Mapping[str, int]:
    """How the fields of a model go over to other scales; MergeError of one whose do not."""
    rule: MergeRule = model.rule.merge_rule()
    if rule.powers is None:
        raise MergeError(f"{model.algorithm.name} with scale cannot be merged: its state holds for one scale only")
    return rule.powers


def _brought(model: Learner, ratio: NDArray[np.float64]) -> Learner:
    if not isinstance(model, Learner):  # a blend of some
        changed: Learner = model.changed(lambda one: _brought(one, ratio), ratio)
        return changed
    rule, powers = model.rule.merge_rule(), powers_of(model)
    new, r = copy_wide(model, model.n_features), np.concatenate([np.ones(model.offset), ratio])
    fields: dict[str, Any] = field_views(new.algorithm, new.memory, 0, len(r))._asdict()
    for name, values in model.coordinates(0, len(r))._asdict().items():  # what is to be forgotten by now, forgotten
        fields[name][:] = values
    if rule.weight:  # all thresholds taken
        fields[rule.weight][:] = model._weight_block(0, len(r))
        for name, value in rule.clocks(model.t, model.rule.read_totals(model.memory.totals)).items():
            fields[name][:] = value
    for name, power in powers.items():
        if not (model.full and name != model.algorithm.coordinate._fields[0]):  # there the matrix has the variances
            fields[name][:] *= r**power
    if model.full:
        new.memory.extra[:] = Matrix.of((new.sigma.dense() * np.outer(r, r)).astype(new.dtype)).packed  # type: ignore[attr-defined]
    return new


def common_scales(preparations: Sequence[Preparation], base: Preparation, width: int) -> Scales:
    """Scales after what several workers learned since a common base."""
    first, *others = _as_wide([each.scales for each in (base, *preparations) if each.scales is not None], width)
    return type(first).merged(others, first)
