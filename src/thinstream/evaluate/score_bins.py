"""Scores in bins, in constant memory: what follows from how many negatives and positives are in each.

A bin holds the scores of one sign that agree in exponent and the leading bits of the mantissa. All functions take the
negatives and the positives of each bin, the lowest scores first, and take the scores of one bin as equal.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thinstream.jit import scalar

#: Bins of scores: sign, 8 bits of exponent and 5 of mantissa of a float32, in the order of the numbers.
BINS = 1 << 14
LARGEST = float(np.finfo(np.float32).max)
#: Bits of a float32 that are not looked at.
SHIFT = np.uint32(32 - BINS.bit_length() + 1)
_SIGN = np.uint32(1 << 31)
#: All bits but that of the sign; those of infinity, and of the highest number below it.
_SIZE, _INFINITE, _HIGHEST = np.uint32((1 << 31) - 1), np.uint32(0x7F800000), np.uint32(0x7F7FFFFF)


def bins_of(scores: NDArray[Any], shift: np.uint32 = SHIFT) -> NDArray[np.intp]:
    """The bin of each score: its bits as a float32, those at the end left out; higher scores are in no lower one."""
    bits = (np.clip(scores, -LARGEST, LARGEST).astype(np.float32) + np.float32(0)).view(np.uint32)
    ordered = np.where(bits >= _SIGN, ~bits, bits | _SIGN)  # patterns grow with |s|: below zero their order is turned
    found: NDArray[np.intp] = (ordered >> shift).astype(np.intp)
    return found


@scalar
def is_number(bits: Any) -> Any:
    """Whether the bits of a float32 are not those of NaN."""
    return (bits & _SIZE) <= _INFINITE


@scalar
def bin_of(bits: Any) -> Any:
    """What `bins_of` has for the score whose bits, as a float32, these are; not NaN."""
    size, below = min(bits & _SIZE, _HIGHEST), (bits & _SIGN) != 0
    ordered = np.uint32(_SIZE - size) if below and size else np.uint32(size | _SIGN)
    return np.int64(ordered >> SHIFT)


def below_bin(place: int, shift: np.uint32 = SHIFT) -> float:
    """The highest float32 below all scores of a bin.

    >>> [below_bin(int(bins_of(np.array([score]))[0])) for score in (1.0, 0.0)]
    [0.9999999403953552, -1.401298464324817e-45]
    """
    ordered = (place << int(shift)) - 1
    ordered -= ordered == 0x7FFFFFFF  # that is -0, which is not below 0
    bits = np.uint32(ordered ^ (1 << 31) if ordered >> 31 else ordered ^ 0xFFFFFFFF)
    return float(bits.view(np.float32))


def middles() -> NDArray[np.float64]:
    """The score in the middle of each bin; bins that no finite score is in have none, NaN."""
    ordered = (np.arange(BINS, dtype=np.uint32) << SHIFT) + (np.uint32(1) << (SHIFT - np.uint32(1)))
    bits = np.where(ordered >= _SIGN, ordered ^ _SIGN, ~ordered)
    with np.errstate(invalid="ignore"):  # patterns that are no number
        found = bits.view(np.float32).astype(np.float64)
    return np.where(np.isfinite(found), found, np.nan)


def area_under_roc(negatives: NDArray[Any], positives: NDArray[Any]) -> tuple[float, float]:
    """The AUC, and how far it can be from that of the scores.

    Pairs of different bins are ordered as their scores are. A pair in one bin counts ½ where the truth is 0, ½ or 1, so
    the AUC is off by at most half the share of such pairs.
    """
    n, p = negatives.astype(np.float64), positives.astype(np.float64)  # products of counts do not fit 64 bits
    pairs = float(n.sum() * p.sum())
    if not pairs:
        return math.nan, math.nan
    below = np.cumsum(n) - n
    together = float((p * n).sum()) / 2
    return (float((p * below).sum()) + together) / pairs, together / pairs


def average_precision(negatives: NDArray[Any], positives: NDArray[Any]) -> tuple[float, float]:
    """The mean precision at the scores of the positives, and how far it can be from that of the scores.

    At a positive the precision is that of the rows with its score or a higher one. With f false and t true positives in
    higher bins, the p positives of a bin with n negatives have between Σ_i (t + i)/(t + f + n + i), all negatives being
    above them, which is at least p times the mean of its first and last term, as that is concave in i, and
    p·(t + p)/(t + f + p), all positives being equal and no negative above them.
    """
    kept = np.flatnonzero(positives)[::-1]  # the highest scores first
    if not len(kept):
        return math.nan, math.nan
    at_least = [np.cumsum(counts[::-1], dtype=np.float64)[::-1][kept] for counts in (negatives, positives)]
    n, p = negatives[kept].astype(np.float64), positives[kept].astype(np.float64)
    f, t = at_least[0] - n, at_least[1] - p
    total = float(p.sum())
    precision = float((p * (t + p) / (t + p + f + n)).sum()) / total
    lowest = float((p * ((t + 1) / (t + f + n + 1) + (t + p) / (t + f + n + p)) / 2).sum()) / total
    highest = float((p * (t + p) / (t + f + p)).sum()) / total
    return precision, max(highest - precision, precision - lowest, 0.0)
