"""The models of a blend, as commands show them."""

from typing import TYPE_CHECKING, Any

import numpy as np

from thinstream.blend.serving import blends_of

if TYPE_CHECKING:
    from thinstream.models.model import Model

#: Models that are named, and what weights must carry together to be enough for a thin model.
SHOWN, ENOUGH = 3, 0.99
#: Weights below which a model is small already.
SMALL = 1000
SHARE = f"{ENOUGH:.0%} of what weights do to scores".replace("%", " %")


def lanes_of(model: "Model") -> list[dict[str, Any]]:
    """A line for each model; of more than two classes with its class."""
    blends = blends_of(model.learner)[: model.classes.n_models]
    if len(blends) == 1:
        return blends[0].table()
    pairs = zip(model.classes, blends, strict=True)
    return [{"class": label} | line for label, blend in pairs for line in blend.table()]


def largest_shares(model: "Model") -> str:
    """The models with the largest shares, and how many there are; of more than two classes their mean share.

    >>> from thinstream.learners import Classes
    >>> from thinstream.models.model import Model
    >>> model = Model.fresh("auto", Classes(-1, 1), n_features=3, parameters={"portfolio": ["arow", "fsol"]})
    >>> largest_shares(model)
    'none has a share yet'
    """
    blends = blends_of(model.learner)[: model.classes.n_models]
    total: dict[str, float] = {}
    for blend in blends:
        for member, share in zip(blend.members, blend.head.share().tolist(), strict=True):
            total[str(member)] = total.get(str(member), 0.0) + share / len(blends)
    best = sorted(total, key=lambda name: -total[name])[:SHOWN]
    if not best or not total[best[0]]:
        return "none has a share yet"
    shown = ", ".join(f"{name} {100 * total[name]:.0f} %" for name in best if total[name])
    began = len(blends[0].record.members)
    return f"{shown} ({len(total)} of {began} are left)" if len(total) < began else f"{shown} (of {began})"


def few_weights(model: "Model") -> int | None:
    """The fewest weights that carry 99 % of Σ v_j²·Σx_j²: what they do to scores of the rows learned.

    None of a model that is small already: its weights are likely to be of columns that all rows have, where one makes
    up for the other, so that few without the rest are worth nothing.
    """
    from thinstream.thinning import importance

    if model.learner.nnz < SMALL:
        return None

    carried = np.sort(importance(model.learner, 1.0).ravel() ** 2)[::-1].cumsum()
    return int(np.searchsorted(carried, ENOUGH * carried[-1])) + 1 if len(carried) else None
