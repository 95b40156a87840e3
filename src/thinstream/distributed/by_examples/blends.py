"""Blends of workers as one: each model by the increments of its algorithm, the head by those of its precision.

With H = P⁻¹, b the base and i the workers: H = H_b + Σ (H_i − H_b), H·w likewise; sums, counters and Σx_j² by what was
added to them. Models that a worker has left out or lost in its round are out. Blends are sent whole: the head decides
which of their models matter, and a change of most coordinates is no smaller than they are.
"""

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thinstream.blend.head import Head
from thinstream.blend.learner import Blend
from thinstream.blend.merging import keep_common
from thinstream.blend.serving import blends_of
from thinstream.errors import MergeError
from thinstream.one_vs_rest import AnyLearner, learner_of
from thinstream.preparing import plain_learner, preparation_of, prepared

#: One learner out of a base and what workers made of it.
Join = Callable[[AnyLearner, Sequence[AnyLearner]], AnyLearner]


@dataclass(frozen=True, eq=False)
class WholeBlend:
    """The learner of a worker after its round."""

    learner: AnyLearner

    @property
    def n_features(self) -> int:
        """Its width."""
        return self.learner.n_features

    @property
    def nbytes(self) -> int:
        """About what it takes to send it."""
        return sum(group.needed(blend.n_features) for blend in blends_of(self.learner) for group in blend.groups)


def merge_wholes(base: AnyLearner, workers: Sequence[AnyLearner], join: Join) -> AnyLearner:
    """A new learner of what workers have learned since the base; ``join`` does so for a model of one algorithm."""
    seen = [worker for worker in workers if worker.t > base.t]
    if len(seen) < 2:
        return deepcopy(seen[0] if seen else base)
    if preparation_of(base).scale is not None:
        raise MergeError("Auto: scale is its models' own with workers, scale= of all cannot be merged; leave it out")
    each = zip(blends_of(base), *(blends_of(worker) for worker in seen), strict=True)
    merged = [_merged(one, others, join) for one, *others in each]
    mistakes = base.n_mistakes + sum(worker.n_mistakes - base.n_mistakes for worker in seen)
    found: AnyLearner = prepared(learner_of(merged, mistakes), preparation_of(base))
    return found


def _merged(base: Blend, workers: Sequence[Blend], join: Join) -> Blend:
    blends = [deepcopy(blend) for blend in (base, *workers)]
    keep_common(blends)
    base, *workers = blends
    made = base.like(base.members, max(blend.n_features for blend in blends))
    for station, *others in zip(made.stations, *(blend.stations for blend in blends), strict=True):
        for group, *own in zip(station.groups, *(other.groups for other in others), strict=True):
            memories = []
            for models in zip(*own, strict=True):
                ready = [prepared(model, each.preparation) for model, each in zip(models, others, strict=True)]
                together = join(ready[0], ready[1:])
                memories.append(plain_learner(together).memory)
                if station.preparation:
                    station.preparation = preparation_of(together)
            group.put(memories)
    _merge_heads(made.head, base.head, [blend.head for blend in workers])
    made.record, made.counts = deepcopy(base.record), _added([blend.counts for blend in blends])
    for name in ("rows", "mistakes"):
        setattr(made.record, name, _added([getattr(blend.record, name) for blend in blends]))
    for k, part in enumerate(made.parts):
        squares = [blend.parts[k].squares[: made.n_features] for blend in blends]
        part.squares[: made.n_features] = _added([np.pad(q, (0, made.n_features - len(q))) for q in squares])
    return made


def _merge_heads(made: Head, base: Head, heads: Sequence[Head]) -> None:
    all_heads = [base, *heads]
    precisions = [np.linalg.inv(head.P) for head in all_heads]
    H = _added(precisions)
    made.P = np.linalg.inv((H + H.T) / 2)
    made.w = made.P @ _added([own @ head.w for own, head in zip(precisions, all_heads, strict=True)])
    for name in ("sums", "counts", "loss"):
        setattr(made, name, _added([getattr(head, name) for head in all_heads]))


def _added(values: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """The first, and what the others have added to it."""
    base, *others = values
    found: NDArray[Any] = base + np.sum([other - base for other in others], axis=0)
    return found
