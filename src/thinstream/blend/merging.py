"""One blend out of several that learned from disjoint parts of the data (specification §15).

Models merge by the rules of their algorithms, heads by their precisions: with H_i = P_i⁻¹, of n shards

    H = Σ H_i − (n − 1)·I;   w = H⁻¹(Σ H_i·w_i − (n − 1)·w₀);   P = H⁻¹          w₀ = 2/K: the prior counts once

Sums, counters and Σx_j² add. Models that one of the shards has left out, or lost, are left out.
"""

from collections.abc import Callable, Sequence
from copy import deepcopy
from functools import partial
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import numpy as np

from thinstream.compact.moving import forget_scales, moved_preparation
from thinstream.errors import MergeError
from thinstream.learners import require_mergeable
from thinstream.one_vs_rest import merge as merge_plain
from thinstream.preparing import merge, plain_learner, preparation_of, prepared

if TYPE_CHECKING:
    from thinstream.blend.head import Head
    from thinstream.blend.learner import Blend


def merged(blends: Sequence["Blend"], average: bool = False) -> "Blend":
    """A new blend; those given are left as they are, and their order does not matter."""
    for other in blends[1:]:
        require_mergeable(blends[0], other)
        if (other.record.members, other.counting) != (blends[0].record.members, blends[0].counting):
            raise MergeError("Auto: models to merge must have begun with the same portfolio")
    seen = sorted((deepcopy(blend) for blend in blends if blend.t), key=_fingerprint)
    if len(seen) < 2:
        return seen[0] if seen else deepcopy(blends[0])
    common = keep_common(seen)
    made = seen[0].like([seen[0].record.members[k] for k in common], max(blend.n_features for blend in seen))
    _merge_models(made, seen, average)
    _merge_heads(made.head, [blend.head for blend in seen], 2.0 / len(seen[0].record.members))
    made.record = deepcopy(seen[0].record)
    for name in ("rows", "mistakes"):
        setattr(made.record, name, np.sum([getattr(blend.record, name) for blend in seen], axis=0))
    made.record.forget_history()
    made.counts = np.sum([blend.counts for blend in seen], axis=0)
    for k, part in enumerate(made.parts):
        for blend in seen:
            own = blend.parts[k].squares[: blend.n_features]
            part.squares[: len(own)] += own
    return made


def keep_common(blends: Sequence["Blend"]) -> list[int]:
    """Leaves those models in all blends that each of them still has; their numbers."""
    common = [k for k in range(len(blends[0].record.members)) if all(_has(blend, k) for blend in blends)]
    if not common:
        raise MergeError("Auto: there is no model that all blends to merge still have")
    for blend in blends:
        blend.keep(np.flatnonzero(np.isin(blend.record.places, common)))
    return common


def changed(blend: "Blend", change: Callable[[Any], Any], ratio: Any) -> "Blend":
    """A copy whose models are changed, as their rows were over ``ratio``: other scales."""
    made = deepcopy(blend)
    for group in made.groups:
        group.put([change(model).memory for model in group])
    for part in made.parts:
        part.squares[: len(ratio)] /= ratio**2
    made.version += 1
    return made


def moved(blend: "Blend", move: Callable[[Any], Any], where: Any, width: int) -> "Blend":
    """A copy of ``width`` features, whose feature j is ``where[j]`` there; ``move`` does so with a model."""
    made = blend.like(blend.members, width)
    for name in ("head", "record", "counts", "weak", "news", "parameters"):
        setattr(made, name, deepcopy(getattr(blend, name)))
    for group, own in zip(made.groups, blend.groups, strict=True):
        group.put([move(model).memory for model in own])
        for lane in np.flatnonzero(own.out()).tolist():
            group.fail(lane, own.failed.get(lane, 0))
    there = np.flatnonzero(where >= 0)
    for part, had in zip(made.parts, blend.parts, strict=True):
        part.squares[where[there]] = had.squares[there]
    for station, before in zip(made.stations, blend.stations, strict=True):
        station.preparation = moved_preparation(before.preparation, where, width)
    return made


def reset(blend: "Blend", forget: Callable[[Any], None], features: Any) -> None:
    """These features become what one is that nobody has learned; ``forget`` does so with a block of models."""
    blend.come_home()
    for group in blend.groups:
        for block in group._blocks:
            forget(block)
    for station in blend.stations:
        forget_scales(station.preparation, features)
    for part in blend.parts:
        part.squares[features] = 0.0
    blend.version += 1


def _has(blend: "Blend", member: int) -> bool:
    return member in blend.record.places[~blend.head.gone]


def _merge_models(made: "Blend", shards: Sequence["Blend"], average: bool) -> None:
    join = partial(merge_plain, average=average)
    for station, *parts in zip(made.stations, *(blend.stations for blend in shards), strict=True):
        for group, *own in zip(station.groups, *(part.groups for part in parts), strict=True):
            memories = []
            for models in zip(*own, strict=True):
                ready = [prepared(model, part.preparation) for model, part in zip(models, parts, strict=True)]
                together = merge(ready, join)
                memories.append(plain_learner(together).memory)
                if station.preparation:
                    station.preparation = preparation_of(together)
            group.put(memories)


def _merge_heads(made: "Head", heads: Sequence["Head"], first: float) -> None:
    more, eye = len(heads) - 1, np.eye(len(made))
    H: Any = -more * eye
    b: Any = np.full(len(made), -more * first)
    for head in heads:
        own = np.linalg.inv(head.P)
        H += own
        b += own @ head.w
        made.sums += head.sums
        made.counts += head.counts
        made.loss += head.loss
    made.P = np.linalg.inv((H + H.T) / 2)
    made.w = made.P @ b


def _fingerprint(blend: "Blend") -> bytes:
    digest = blake2b()
    for array in (blend.counts, blend.head.w, blend.head.P, blend.head.sums, *(part.squares for part in blend.parts)):
        digest.update(np.ascontiguousarray(array).data)
    return digest.digest()
