"""Our side of the tables for those who come from other libraries: every estimator that is named there learns."""

import re
from pathlib import Path

import numpy as np
import pytest

import thinstream as ts

FOLDER = Path(__file__).parents[2] / "docs" / "coming-from"


def named(page):
    """Estimators in the second column of a page's tables."""
    rows = re.findall(r"^\|(.*)\|$", (FOLDER / page).read_text().replace("\\|", "¦"), flags=re.M)
    return [code for row in rows for code in re.findall(r"`(ts\.[A-Z]\w*\(.*?\))`", row.split("|")[1])]


CASES = [(page, code) for page in ("river.md", "sgdclassifier.md") for code in named(page)]


def test_they_are_found():
    assert len([code for page, code in CASES if page == "river.md"]) > 8
    assert len([code for page, code in CASES if page == "sgdclassifier.md"]) > 10


@pytest.mark.slow
@pytest.mark.parametrize(("page", "code"), CASES)
def test_they_learn(page, code):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(600, 6)).astype(np.float32), np.tile([0, 1], 300)
    X[:, 0] += 3 * y
    model = eval(code, {"ts": ts})
    for rows in (slice(0, 300), slice(300, 600)):
        model = model.partial_fit(X[rows], y[rows], classes=[0, 1])
    assert model.score(X, y) > 0.75
