"""The loop of learners with a mean μ and a full covariance Σ (`engine.gaussian`), compiled.

    z = Σx,  s = μ·x,  v = x·z,  step = step(s, v, y);   μ += size·z,  Σ −= c/(1 + c·v)·zzᵀ

While rows are learned Σ is a square, so that a product with few non-zeros is a sum of its rows and all loops run as
SIMD; between calls it is packed. Both triangles are computed as (z_i·z_j)·share, which has the same bits either way
round. Sums over features a model has not met add zeros: neither chunks nor room for more features change a bit.
"""

from math import sqrt
from typing import Any

import numpy as np

from thinstream.engine.hooks import begin, read_totals, step, width
from thinstream.engine.limits import HEAVY, MUCH, REACH, finite, precision
from thinstream.engine.loop import FALSE_NEGATIVES, FALSE_POSITIVES, POSITIVES, UPDATES, T, make_example
from thinstream.jit import Compiled, apart, scalar

U0, U1 = np.uint64(0), np.uint64(1)


@scalar
def _unpack(packed: Any, d: Any, sigma: Any) -> None:
    """The square of a packed triangle."""
    k = U0
    for j in range(d):
        for i in range(j + U1):
            sigma[j * d + i] = packed[k]
            sigma[i * d + j] = packed[k]
            k += U1


@scalar
def _pack(sigma: Any, d: Any, packed: Any) -> None:
    k = U0
    for j in range(d):
        for i in range(j + U1):
            packed[k] = sigma[j * d + i]
            k += U1


@scalar
def _take(rows: Any, i: Any, where: Any, x: Any) -> Any:
    """Coordinates and values of row i, the constant first; returns how many."""
    m = U0
    if rows.offset:
        where[m], x[m] = U0, rows.values.dtype.type(1)
        m += U1
    for k in range(np.uint64(rows.indptr[i]), np.uint64(rows.indptr[i + 1])):
        where[m], x[m] = np.uint64(rows.indices[k]) + np.uint64(rows.offset), rows.values[k]
        m += U1
    return m


@scalar
def _dot(vector: Any, stride: Any, where: Any, x: Any, m: Any) -> Any:
    """Of a row and every so many-th number of a dense vector; four accumulators take turns."""
    s0 = s1 = s2 = s3 = vector.dtype.type(0)
    for k in range(m):
        s0, s1, s2, s3 = s1, s2, s3, s0 + vector[where[k] * stride] * x[k]
    return (s0 + s1) + (s2 + s3)


@scalar
def _times(sigma: Any, d: Any, where: Any, x: Any, m: Any, z: Any) -> None:
    """Z = Σx."""
    for i in range(d):
        z[i] = z.dtype.type(0)
    for k in range(m):
        start, value = where[k] * d, x[k]
        for i in range(d):
            z[i] += sigma[start + i] * value


@scalar
def _reaches(size: Any, c: Any, v: Any, zz: Any, state: Any) -> Any:
    """Whether mean and matrix can be moved so far for good (see `limits`)."""
    most, share = REACH[precision(state)], c / (1.0 + c * v)
    return (abs(size) * sqrt(zz) <= most) & (abs(size) <= HEAVY) & (share * zz <= most) & (share <= HEAVY)


@apart
def _make_certain(sigma: Any, d: Any, z: Any, share: Any, tiny: Any) -> None:
    """Where what is left of a variance is rounding alone, it becomes the least there is, without correlations."""
    for j in range(d):
        if sigma[j * d + j] - z[j] * z[j] * share < tiny:
            for i in range(d):
                sigma[j * d + i] = sigma[i * d + j] = z.dtype.type(0)
            sigma[j * d + j], z[j] = tiny, z.dtype.type(0)


@scalar
def _shrink(sigma: Any, d: Any, z: Any, share: Any, tiny: Any) -> None:
    """Σ −= share·zzᵀ."""
    lost = np.int32(0)
    for j in range(d):
        lost |= np.int32(sigma[j * d + j] - z[j] * z[j] * share < tiny)
    if lost:
        _make_certain(sigma, d, z, share, tiny)
    for j in range(d):
        start, own = j * d, z[j]
        for i in range(d):
            sigma[start + i] -= own * z[i] * share


def full_loop(p: Any, rows: Any, costs: Any, memory: Any, wide: Any, tiny: Any, scores: Any) -> Any:
    """Learns checked rows in order; returns how many, or −1 − i where row i would leave numbers that are not finite.

    ``wide``: features of Σ. ``tiny``: the least variance, in the model's precision. ``scores``, unless empty, takes
    each row's score before its update. A row of weight 0 is scored, and otherwise absent.
    """
    counts, state, packed = memory.counts, memory.state, memory.extra
    d, stride, n = np.uint64(wide), np.uint64(width(p)), len(rows.indptr) - 1
    where, x = np.empty(wide, np.uint64), np.empty(wide, state.dtype)
    z = np.empty_like(x)
    sigma, unpacked = np.empty(0, state.dtype), False
    own = read_totals(p, memory.totals)
    done = n
    for i in range(n):
        importance = rows.weights[min(i, rows.weights.size - 1)] if rows.weights.size else 1.0
        m = _take(rows, i, where, x)
        s = _dot(state, stride, where, x, m)
        if not finite(s):
            done = -1 - i
            break
        if scores.size:
            scores[i] = s
        if importance == 0.0:
            continue

        if not unpacked:
            sigma, unpacked = np.empty(wide * wide, state.dtype), True
            _unpack(packed, d, sigma)
        _times(sigma, d, where, x, m, z)
        v = max(float(_dot(z, U1, where, x, m)), 0.0)  # rounding must not make it negative
        positive = rows.y[i] > 0
        example = make_example(costs, counts[T] + 1, counts[POSITIVES] + positive, positive, importance)
        decision = step(p, float(s), v, example, begin(p, counts[T] + 1, own))
        zz = 0.0
        if decision.update:
            for j in range(d):
                zz += float(z[j]) * float(z[j])
        sure = not decision.update or _reaches(decision.size, decision.c, v, zz, state)
        if not (finite(v) and decision.loss <= MUCH and sure):
            done = -1 - i
            break

        counts[T] += 1
        counts[POSITIVES] += positive
        if positive and not s > 0:
            counts[FALSE_NEGATIVES] += 1
        elif s > 0 and not positive:
            counts[FALSE_POSITIVES] += 1
        memory.totals[0] += decision.loss
        if decision.update:
            counts[UPDATES] += 1
            size = state.dtype.type(decision.size)
            for j in range(d):
                state[j * stride] += size * z[j]
            _shrink(sigma, d, z, state.dtype.type(decision.c / (1.0 + decision.c * v)), tiny)
    if unpacked:
        _pack(sigma, d, packed)
    return done


_LOOPS: dict[Any, Compiled] = {}


def full_loop_for(rule: Any) -> Compiled:
    """The loop compiled for one rule."""
    if rule not in _LOOPS:
        _LOOPS[rule] = Compiled(full_loop, rule.__module__)
    return _LOOPS[rule]
