"""Generated parts of the docs, each stamped with a digest of the learners that it measures."""

import hashlib
import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import thinstream as ts
from thinstream.algorithms.registry import algorithms

ROOT = Path(__file__).parent.parent
#: The learners that a part measures. "thin" is the selection of features that `model.thin(n, X, y)` makes.
MEASURED: dict[str, tuple[str, ...]] = {
    "defaults": ("Auto", *(algorithm.name for algorithm in algorithms("online"))),
    "rare classes": ("Auto", "AdaRDA", "AROW", "FTRLProximal", "ARCSOGD"),
    "interactions": ("Auto",),
    "budgets": ("AROW",),
    "thin models": ("Auto", "AROW", "AdaRDA", "FSOL", "thin"),
    "quality": ("FSOL", "AROW", "SSOL"),
}


def put(page: Path, part: str, text: str) -> None:
    """Replace the text of a page between ``<!-- part: begin … -->`` and ``<!-- part: end -->``, and stamp it."""
    marked = re.compile(
        rf"<!-- {re.escape(part)}: begin \(([^;)]*)[^>]*-->\n.*?(<!-- {re.escape(part)}: end -->)", re.DOTALL
    )
    old = page.read_text(encoding="utf-8")
    if not marked.search(old):
        raise SystemExit(f"{page} has no part {part!r}: <!-- {part}: begin (command) --> … <!-- {part}: end -->")
    stamp = f"; code {digest(*MEASURED[part])}" if part in MEASURED else ""
    new = marked.sub(lambda match: f"<!-- {part}: begin ({match[1]}{stamp}) -->\n{text.strip()}\n{match[2]}", old)
    page.write_text(new, encoding="utf-8")


def stamps(text: str) -> dict[str, str]:
    """Return the stamp of each generated part of a page. A part without a stamp has an empty one.

    >>> stamps("<!-- a: begin (make a; code 12ab) --><!-- b: begin (make b) -->")
    {'a': '12ab', 'b': ''}
    """
    return {
        part: stamp or "" for part, stamp in re.findall(r"<!-- ([\w -]+): begin \([^;)]*(?:; code (\w+))?\) -->", text)
    }


def digest(*learners: str) -> str:
    """Return a digest of the results of learners with default parameters on generated streams.

    It changes if a default or an update changes, and stays the same if code is only moved or renamed.
    """
    results = repr([_behavior(name) for name in learners])
    return f"v{hashlib.sha256(results.encode()).hexdigest()[:7]}"  # a letter first, so that a table keeps it as text


@cache
def _behavior(name: str) -> tuple[Any, ...]:
    if name == "thin":
        (X, y), *_ = _streams()
        small = ts.Auto().fit(X, y).thin(20, X, y)
        return name, np.flatnonzero(small.coef_[0]).tolist(), _rounded(small.coef_)
    results = []
    for X, y in _streams():
        model = ts.make(name)
        scores = model.learn(X, y)
        results.append((int(model.n_mistakes_), _rounded(scores), _rounded(model.decision_function(X))))
    return name, results


def _rounded(numbers: Any) -> str:
    return f"{np.abs(numbers).mean():.4g}"


def _streams() -> Iterator[tuple[Any, Any]]:
    """Return three streams: many features, few dense features with a product, and one positive in a hundred."""
    rng = np.random.RandomState(7)  # its numbers are the same in all versions of numpy
    wide = sp.random(5_000, 1_000, density=0.02, format="csr", random_state=rng)
    yield wide, np.asarray(wide[:, :50].sum(axis=1)).ravel() > 0.55
    dense = rng.normal(size=(5_000, 8))
    yield dense, dense[:, 0] + dense[:, 1] * dense[:, 2] + 0.3 * rng.normal(size=5_000) > 0
    rare = rng.normal(size=(5_000, 20))
    yield rare, rare[:, 0] + rare[:, 1] > 3.3


def table(head: list[str], rows: Sequence[Sequence[str]], numbers_from: int = 1) -> str:
    """Return a table in Markdown. Columns from the given one on are numbers."""
    rule = ["--:" if k >= numbers_from else "---" for k in range(len(head))]
    return "\n".join(["| " + " | ".join(cells) + " |" for cells in [head, *rows]]).replace(
        "\n", "\n|" + "|".join(rule) + "|\n", 1
    )
