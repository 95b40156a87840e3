"""Thin models beside the peers' l1 models: who is compared with whom, what the page counts, and a run of it."""

import numpy as np
import pytest
from benchmarks.versus import keeping, page_thin, thinned
from benchmarks.versus.__main__ import main
from benchmarks.versus.contest import open_contest
from benchmarks.versus.tools import ours_running

from tests.benchmarks.test_versus import data, row  # noqa: F401 (a fixture)
from thinstream.learners import Classes, make_learner
from thinstream.models.model import Model
from thinstream.thinning import thin

PEER = row("River", error=10.0, nnz=1000, test_rows=900)  # its standard error is 1
OURS = [row("thinstream", "thin", error=error, nnz=n) for n, error in ((3, 30.0), (10, 20.0), (30, 14.0), (100, 10.9))]
SWEEPS = [
    row("Vowpal Wabbit", "tuned", error=12.0, nnz=900, test_rows=900),
    row("liblinear", "tuned", error=9.0, nnz=800, test_rows=900),
    row("Vowpal Wabbit", "sparse", error=25.0, nnz=9),
    row("Vowpal Wabbit", "sparse", error=26.0, nnz=10),
    row("Vowpal Wabbit", "sparse", error=10.9, nnz=100),
    row("liblinear", "sparse", error=13.0, nnz=30),
    row("thinstream", "sparse", error=1.0, nnz=1),
]


def test_models_of_at_most_that_size_are_compared():
    (found,) = thinned.thin_sets([PEER, *OURS, *SWEEPS, row("thinstream", error=9.0, nnz=10)])
    assert [case[1:] for case in found.cases] == [
        (30.0, None, None), (20.0, 25.0, None), (14.0, 25.0, 13.0), (10.9, 10.9, 13.0), (10.9, 10.9, 13.0),
    ]  # fmt: skip
    assert [case.below_one_pass for case in found.cases] == [True, True, True, False, False]
    assert found.standard_error == pytest.approx(1.0)
    assert found.is_met  # 10.9 is within 10 ± 1
    (worse,) = thinned.thin_sets([PEER | {"error": 9.8}, *OURS, *SWEEPS])
    assert not worse.is_met


def test_the_page_counts_them():
    text = page_thin.thin([PEER, *OURS, *SWEEPS])
    assert "on\n  1 of 1 text sets" in text
    assert "size in 3 of\n  5 cases (1 of them because no peer has a model that small)" in text
    assert "liblinear's l1 in 2 of the 3 it ran" in text
    assert "| **30.00** · – · – | **20.00** · 25.00 · – | 14.00 · 25.00 · 13.00 | 10.90 · 10.90 · 13.00 |" in text
    assert page_thin.thin([PEER, *SWEEPS]) == ""


@pytest.mark.slow  # every algorithm of the portfolio is compiled
def test_what_is_measured_is_auto_thinned(data, monkeypatch):  # noqa: F811 (the fixture)
    monkeypatch.setattr(thinned, "PAGE", data / "peers.csv")
    keeping.save(data / "peers.csv", [row("River", error=10.0, nnz=30, test_rows=120)])
    found = thinned.measured("farm-ads", "thinstream", data, smoke=False)
    assert [each["nnz"] for each in found] == [1, 3, 9, 30]
    contest = open_contest("farm-ads", data / "text", smoke=False)
    model = Model(make_learner("auto", n_features=0, grow=True, fit_intercept=True), Classes(-1, 1))
    for batch in ours_running.batches(contest, "train"):
        model.learner.learn(batch, scores=False)
    for each in found:
        small = thin(model, each["nnz"])
        scores = np.concatenate([small.learner.scores(batch) for batch in ours_running.batches(contest, "test")])
        assert each["error"] == pytest.approx(100 * np.mean((scores > 0) != contest.y_test))
    assert thinned.measured("mammography", "thinstream", data, smoke=False) == []


@pytest.mark.slow
def test_one_command_writes_it_beside_what_is_there(data):  # noqa: F811 (the fixture)
    out = data / "docs" / "versus"
    line = ["--sets", "farm-ads", "--scratch", str(data / "build"), "--out", str(out), "--smoke"]
    main([*line, "--tools", "scikit-learn"])
    main([*line, "--thin"])
    page = (data / "docs" / "versus.md").read_text()
    assert page.index("Caveats first") < page.index("## Thin models")
    assert "of 1 text sets" in page
    columns = {one["column"] for one in keeping.load(data / "docs" / "versus.csv")}
    assert columns >= {"tuned", "sparse", "thin"}
