"""A picture of a trained model: its largest weights by name, and the sizes of all weights."""

import os
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thinstream.export.linear import LinearModel
from thinstream.plotting import below, draw_into, matplotlib

#: The most bars; the longest name in characters; the most points of a curve.
BARS, LONGEST, POINTS = 30, 36, 1000
_POSITIVE, _NEGATIVE = "#2a7f9e", "#c8553d"


def draw(model: LinearModel, path: str | os.PathLike[str]) -> None:
    """Draw the weights of a model into a PNG or SVG file, by its extension. There is one weight per feature.

    The left side has the largest weights, each with the name (or column) of its feature and, with more than two
    classes, its class. The right side has the sizes of all non-zero weights, sorted, on a log scale. The file is
    replaced atomically, and the same model always gives the same bytes.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings(
            "ignore", message="Glyph .* missing"
        )  # a character that the font lacks is drawn as a box
        draw_into(path, lambda: _figure(model.check()))


def _figure(model: LinearModel) -> Any:
    order = model.effects.largest_first()
    shown = order[:BARS]
    figure = matplotlib().figure.Figure(figsize=(12, max(4.2, 1.6 + 0.23 * len(shown))), layout="constrained")
    figure.suptitle(headline(model), fontsize=12, parse_math=False)
    if not len(order):
        figure.text(0.5, 0.5, "all weights are zero", ha="center", va="center", color="0.4")
        return figure
    bars, curves = figure.subplots(1, 2, width_ratios=(3, 2))
    _bars(bars, model, shown)
    _curves(curves, model)
    return figure


def _bars(axes: Any, model: LinearModel, shown: NDArray[np.int64]) -> None:
    """Draw the largest weights, from the most positive on top to the most negative."""
    vector = model.effects
    shown = shown[np.argsort(-vector.weights[shown], kind="stable")]
    weights = vector.weights[shown].astype(np.float64)
    cells = zip(vector.indices[shown].tolist(), vector.rows[shown].tolist(), strict=True)
    of = [""] if model.is_binary else [f" · {shortened(str(label), 24)}" for label in model.classes]
    names = [shortened(model.names.get(j, f"column {j}")) + of[k] for j, k in cells]
    positions = np.arange(len(shown))
    axes.barh(
        positions, weights, color=np.where(weights > 0, _POSITIVE, _NEGATIVE), height=min(0.72, 0.12 * len(shown))
    )
    axes.set_yticks(positions, labels=names, fontsize=8, parse_math=False)
    axes.set_ylim(len(shown) - 0.4, -0.6)
    axes.axvline(0.0, color="0.3", lw=0.8)
    axes.grid(axis="x", alpha=0.3)
    axes.set_axisbelow(True)
    axes.tick_params(axis="y", length=0)
    axes.spines[["top", "right", "left"]].set_visible(False)
    if len(vector.weights) > len(shown):
        axes.set_title(f"the {len(shown)} largest weights", fontsize=10)
    else:
        axes.set_title("the only weight" if len(shown) == 1 else f"all {len(shown)} weights", fontsize=10)
    axes.set_xlabel("weight" if model.per_feature is None else "mean effect on the score, per unit of the feature")
    sides = model.classes if model.is_binary else ("other classes", "this class")
    negative, positive = (shortened(str(label), 24) for label in sides)
    for x, side, towards, colour in ((0, "left", f"◀ {negative}", _NEGATIVE), (1, "right", f"{positive} ▶", _POSITIVE)):
        axes.annotate(
            towards, (x, 0), xycoords="axes fraction", xytext=(0, -36), textcoords="offset points",
            ha=side, va="top", color=colour, parse_math=False,
        )  # fmt: skip


def _curves(axes: Any, model: LinearModel) -> None:
    """Draw |weight| by rank, for each sign."""
    longest, weights = 1, model.effects.weights
    for sign, colour, label in ((1, _POSITIVE, "positive"), (-1, _NEGATIVE, "negative")):
        sizes = np.sort(sign * weights[sign * weights > 0].astype(np.float64))[::-1]
        if not len(sizes):
            continue
        longest = max(longest, len(sizes))
        ranks = np.unique(np.geomspace(1, len(sizes), POINTS).round().astype(np.int64))
        points = {"marker": "o", "ms": 4} if len(sizes) <= BARS else {}
        axes.plot(ranks, sizes[ranks - 1], color=colour, lw=1.6, label=f"{len(sizes):,} {label}", **points)
    axes.set_yscale("log")
    if longest > BARS:
        axes.set_xscale("log")
    else:
        axes.set_xlim(0.5, longest + 0.5)
        axes.locator_params(axis="x", integer=True)
    axes.set_title("all non-zero weights by size", fontsize=10)
    axes.set(xlabel="rank", ylabel="|weight|")
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    below(axes, size=8)


def headline(model: LinearModel) -> str:
    """Return a one-line description of a model.

    >>> nothing, zero = np.empty(0, dtype=np.int64), np.zeros(1, dtype=np.float32)
    >>> headline(LinearModel("FSOL", {}, (-1, 1), 1000, nothing, nothing, zero[1:], zero, {}))
    'FSOL: 0 of 1,000 weights are not zero (100% sparse)'
    """
    nnz, width = model.nnz, model.n_weights
    of = "" if model.is_binary else f" of {len(model.classes)} classes"
    text = f"{model.algorithm}: {nnz:,} of {width:,} weights{of} are not zero"
    if width:
        text += f" ({percent(width - nnz, width)} sparse)"
    return text + (f", intercept {model.intercepts[0]:.3g}" if model.is_binary and model.intercepts[0] else "")


def percent(part: int, whole: int) -> str:
    """Return a share in percent, with enough digits to distinguish it from 0% and 100%.

    >>> percent(1, 3), percent(999_999, 1_000_000), percent(0, 5)
    ('33.3%', '99.9999%', '0%')
    """
    if part in (0, whole):
        return f"{100 if part else 0}%"
    digits = 1
    while digits < 15 and f"{100 * part / whole:.{digits}f}" in (f"{0:.{digits}f}", f"{100:.{digits}f}"):
        digits += 1
    return f"{100 * part / whole:.{digits}f}%"


def shortened(name: str, longest: int = LONGEST) -> str:
    r"""Return a name on one line, with unprintable characters escaped and the middle of a long name left out.

    >>> shortened("a\tb"), shortened("https://example.org/a/long/path?and=query", 17)
    ('a\\tb', 'https://…nd=query')
    """
    name = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in name)
    half = longest // 2
    return name if len(name) <= longest else f"{name[:half]}…{name[len(name) - (longest - half - 1) :]}"
