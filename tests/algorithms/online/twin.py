"""The naive side of every comparison: dense, float64, one example at a time, nothing lazy, nothing from thinstream.

A twin is written from the paper (through docs/specification.md), never from the kernel it judges. It
states one round of the algorithm in full, O(d) and obvious; the bookkeeping every learner shares is done here.
"""

from typing import NamedTuple

import numpy as np


class Example(NamedTuple):
    """One round's input besides x."""

    y: float  # -1 or +1
    c: float  # c_y, the cost of this example's class
    rho: float  # c₊ / c₋
    weight: float  # sample weight, never 0
    c_max: float  # the larger of the class costs


class Round(NamedTuple):
    """What a round answers: the score before the update, the own loss, whether the update condition held."""

    score: float
    loss: float
    updated: bool


def soft(v, a):
    return np.sign(v) * np.maximum(np.abs(v) - a, 0.0)


def hinge(score, y):
    return max(0.0, 1.0 - y * score)


class Twin:
    """Common bookkeeping. A subclass gives ``start``, ``round`` and ``weights`` (and ``variance`` if it has one).

    It also says how two of it become one: vectors that add up, vectors that are averaged by t, or its own ``merge``.
    """

    adds: tuple[str, ...] = ()
    averages: tuple[str, ...] = ()
    half_life = None  # rows, for twins that have ``forget``: §17

    def __init__(self, d, class_weight=None, **parameters):
        self.d = d
        self.class_weight = class_weight  # None, "balanced" or (c₋, c₊)
        self.t = self.mistakes = self.updates = 0
        self.T = 0.0  # t, or with a half-life the rounds that still count
        self.loss = 0.0
        self.positives = self.negatives = 0
        self.scores = []
        self.edge = np.inf  # smallest distance of any decision from its threshold
        for name, value in parameters.items():
            setattr(self, name, value)
        self.start()

    def learn(self, x, y, weight=1.0):
        """Takes one example; a row of weight 0 is as if absent (its score is that of the final weights)."""
        if weight == 0.0:
            self.scores.append(float(self.weights() @ x))
            return
        if self.stopped():
            self.scores.append(float(self.weights() @ x))
            return
        self.t += 1
        self.positives += y > 0
        self.negatives += y < 0
        cost = {None: (1.0, 1.0), "balanced": (1.0, max(self.negatives, 1) / max(self.positives, 1))}
        negative, positive = cost.get(self.class_weight, self.class_weight)
        example = Example(y, positive if y > 0 else negative, positive / negative, weight, max(positive, negative))
        score, loss, updated = self.round(x, example)
        self.T += 1.0
        if self.half_life is not None:
            rho = 2.0 ** (-1.0 / self.half_life)
            self.T *= rho
            self.forget(rho)
        self.decide(score, 0.0)
        self.scores.append(float(score))
        self.loss += loss
        self.updates += bool(updated)
        self.mistakes += (1.0 if score > 0 else -1.0) != y

    def merge(self, other):
        """What the other twin has learned, too, from a part of the stream of its own."""
        t = self.t + other.t
        for name in self.adds:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for name in self.averages:
            if t:
                setattr(self, name, (self.t * getattr(self, name) + other.t * getattr(other, name)) / t)
        for counter in ("t", "mistakes", "updates", "loss", "positives", "negatives", "T"):
            setattr(self, counter, getattr(self, counter) + getattr(other, counter))
        self.edge = min(self.edge, other.edge)

    @classmethod
    def can_merge(cls):
        """Whether it says how two of it become one."""
        return bool(cls.adds or cls.averages) or cls.merge is not Twin.merge

    def decide(self, value, threshold):
        """Remembers how close a comparison came; an exact tie (0 against 0, say) is no rounding accident."""
        if value != threshold:
            self.edge = min(self.edge, abs(value - threshold))

    def start(self):
        raise NotImplementedError

    def round(self, x, example):
        raise NotImplementedError

    def weights(self):
        """w_{T+1}: what the next unseen example would be scored with."""
        raise NotImplementedError

    def forget(self, rho):
        """Discounts every coordinate, after every round."""
        raise NotImplementedError

    def stopped(self):
        return False
