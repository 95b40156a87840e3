"""Thin models compared with the l1 models of other tools: the comparison, what the page counts, and a run."""

import numpy as np
import pytest
from benchmarks.versus import keeping, page_thin, thinned
from benchmarks.versus.__main__ import main
from benchmarks.versus.contest import open_contest
from benchmarks.versus.tools import ours_running

from tests.benchmarks.test_versus import data, row  # noqa: F401 (a fixture)
from thinstream.data.labels import Classes
from thinstream.models.model import Model
from thinstream.training.refit import refit

OURS = [
    row("thinstream", "thin", error=error, nnz=n)
    for n, error in ((30, 30.0), (100, 20.0), (300, 12.0), (1_000, 10.0), (3_000, 9.0))
]
SWEEPS = [
    row("Vowpal Wabbit", "tuned", error=1.0, nnz=90),  # not an l1 model
    row("Vowpal Wabbit", "sparse", error=25.0, nnz=100),
    row("Vowpal Wabbit", "sparse", error=26.0, nnz=101),
    row("Vowpal Wabbit", "sparse", error=10.0, nnz=900),
    row("liblinear", "sparse", error=11.0, nnz=200),
    row("liblinear", "sparse", error=9.5, nnz=2_000),
]


def test_models_of_at_most_that_size_are_compared():
    (cases,) = thinned.thin_sets([*OURS, *SWEEPS]).values()
    assert [(case.size, case.ours, case.others) for case in cases] == [
        (100, 20.0, {"Vowpal Wabbit": 25.0}),
        (300, 12.0, {"Vowpal Wabbit": 25.0, "liblinear": 11.0}),
        (1_000, 10.0, {"Vowpal Wabbit": 10.0, "liblinear": 11.0}),
        (3_000, 9.0, {"Vowpal Wabbit": 10.0, "liblinear": 9.5}),
    ]
    assert [case.is_best for case in cases] == [True, False, True, True]


def test_the_page_counts_them():
    text = page_thin.thin([*OURS, *SWEEPS])
    assert "| **20.00** · 25.00 (Vowpal Wabbit) | 12.00 · 11.00 (liblinear) |" in text
    assert "| **geometric mean** | 20.00 · 25.00 | 12.00 · 11.00 | 10.00 · 10.00 | 9.00 · 9.50 |" in text
    assert "| **at or below all** | 1 of 1 | 0 of 1 | 1 of 1 | 1 of 1 |" in text
    assert page_thin.thin(SWEEPS) == ""


@pytest.mark.slow  # every algorithm of the portfolio is compiled
def test_what_is_measured_is_auto_refitted(data, monkeypatch):  # noqa: F811 (the fixture)
    monkeypatch.setattr(thinned, "SIZES", (3, 10))
    measured = thinned.measured("farm-ads", "thinstream", data, smoke=False)
    assert [each["nnz"] for each in measured] == [3, 10]
    contest = open_contest("farm-ads", data / "text", smoke=False)
    model = Model.fresh("auto", Classes(-1, 1), grow=True, fit_intercept=True)
    for batch in ours_running.batches(contest, "train"):
        model, _ = model.learn(batch, model.classes, scores=False)
    refitted = refit(model, lambda: ours_running.batches(contest, "train"), (3, 10))
    for each, (small, _) in zip(measured, refitted, strict=True):
        scores = np.concatenate([small.learner.scores(batch) for batch in ours_running.batches(contest, "test")])
        assert each["error"] == pytest.approx(100 * np.mean((scores > 0) != contest.y_test))
    assert thinned.measured("mammography", "thinstream", data, smoke=False) == []


@pytest.mark.slow
def test_one_command_writes_it_next_to_what_is_there(data, monkeypatch):  # noqa: F811 (the fixture)
    monkeypatch.setattr(thinned, "SIZES", (3, 10, 100))
    out = data / "docs" / "versus"
    line = ["--sets", "farm-ads", "--scratch", str(data / "build"), "--out", str(out), "--smoke"]
    main([*line, "--tools", "scikit-learn"])
    main([*line, "--thin"])
    page = (data / "docs" / "versus.md").read_text()
    assert page.index("caveats first") < page.index("## Thin models")
    columns = {one["column"] for one in keeping.load(data / "docs" / "versus.csv")}
    assert columns >= {"tuned", "sparse", "thin"}
