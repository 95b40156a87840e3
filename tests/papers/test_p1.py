"""The experiments of P1: each runs on tiny pieces of its data, and their own pieces of logic."""

import numpy as np
import pytest
import scipy.sparse as sp
from papers import p1_fig1, p1_table2
from papers.data import Data, is_here
from papers.keeping import Result
from papers.presenting import published
from papers.running import run
from papers.writing import write_page


@pytest.mark.slow  # every algorithm it compares is compiled
@pytest.mark.parametrize(("module", "row"), [(p1_table2, "| BCW-L1 |"), (p1_fig1, "| SBCW |")])
def test_smoke(module, row, tmp_path):
    experiment = module.EXPERIMENT
    missing = {name for cell in experiment.cells(True) for name in cell.needs if not is_here(name)}
    if missing:
        pytest.skip(f"data sets that are not here: {', '.join(sorted(missing))}")
    found = run(experiment, tmp_path / "cells", smoke=True)
    assert {row["set"] for row in found.rows} == {cell.arguments[0] for cell in experiment.cells(True)}
    write_page(experiment, Result(found.rows, found.seconds, smoke=True), tmp_path)
    assert row in (tmp_path / f"{experiment.name}.md").read_text()


def test_every_method_has_the_papers_numbers():
    paper = published("p1-table2")
    assert {name for set_, name, _ in paper if set_ == "covtype"} == set(p1_table2.METHODS)
    assert paper["covtype", "BCW-L1", "error"].value == 24.02


def test_epsilon_like_rows_are_of_unit_length_and_seeded():
    X, y = p1_table2.epsilon_like(40, 50)
    assert np.linalg.norm(X, axis=1) == pytest.approx(np.ones(40))
    assert set(np.unique(y)) == {-1, 1}
    assert np.array_equal(X, p1_table2.epsilon_like(40, 50).X)


def rows_of(errors, seconds):
    common = {"set": "covtype", "parameters": "C = 1", "learned": 5, "tested": 5}
    return [
        {**common, "method": method, "order": order, "error": error, "seconds": seconds[method]}
        for method, own in errors.items()
        for order, error in enumerate(own)
    ]


def test_means_and_verdicts_of_table2():
    rows = rows_of(
        {"AROW": [24.0, 26.0], "DCD": [24.0], "BCW-L1": [24.2, 24.4]}, {"AROW": 9.0, "DCD": 0.5, "BCW-L1": 1.0}
    )
    found = p1_table2.means(rows)
    assert found["covtype", "AROW"] == (25.0, 1.0, 9.0)
    assert np.isnan(found["covtype", "DCD"][1])
    error, second, dcd = p1_table2.claims(rows)
    assert error.holds
    assert second.holds
    assert not dcd.holds
    compared = p1_table2.compare(rows)
    assert [(one.ours, one.paper) for one in compared] == [(25.0, 24.61), (24.0, 24.60), (pytest.approx(24.3), 24.02)]
    assert "| AROW | 25.00 ± 1.00 | 9.00 | – | 24.61 | 21.72 | C = 1 |" in "".join(p1_table2.tables(rows))


def test_the_variants_of_libol_have_a_column():
    """They are compared under the paper's name, and are no methods of their own."""
    rows = rows_of({"CW": [32.0], "CW in LIBOL": [43.0, 44.0]}, {"CW": 9.0, "CW in LIBOL": 8.0})
    (one,) = p1_table2.compare(rows)
    assert (one.ours, one.paper, one.reading) == (32.0, 43.30, 43.5)
    page = "".join(p1_table2.tables(rows))
    assert "| CW | 32.00 | 9.00 | 43.50 ± 0.50 | 43.30 | 19.13 | C = 1 |" in page
    assert "in LIBOL" not in page


class Told:
    """Scores what it is told."""

    def __init__(self, good):
        self.good, self.rows = good, 0

    def fit(self, X, y):
        self.rows = len(y)
        return self

    def score(self, X, y):
        assert (self.rows, len(y)) == (8, 2)  # the last fifth is held out
        return self.good


def test_the_best_is_chosen_on_the_last_fifth():
    data = Data(sp.csr_matrix(np.eye(10)), np.array([1, -1] * 5, dtype=np.int8))
    models = [Told(0.5), Told(0.9), Told(0.9)]
    assert p1_fig1.best(models, data) is models[1]


def test_claims_of_fig1_compare_at_the_same_number_of_features():
    common = {"set": "s", "allowed": 15, "used": 15, "seconds": 1.0}
    rows = [
        {**common, "method": "SBCW", "error": 10.0},
        {**common, "method": "SOFS", "error": 9.5},
        {**common, "method": "FGM", "error": 8.0, "seconds": 0.5},
    ]
    level, faster = p1_fig1.claims(rows)
    assert not level.holds
    assert "in 0 of 1 places" in level.evidence
    assert "+2.0" in level.evidence
    assert not faster.holds
    rows[2] |= {"error": 9.5, "seconds": 2.0}
    level, faster = p1_fig1.claims(rows)
    assert level.holds
    assert faster.holds
