"""The experiments of P3: their smoke versions on the real sets, and their own logic on made ones."""

import math
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from papers import p3_common, p3_fig1, p3_fig3, p3_table2, p3_table4
from papers.data import Data, is_here, scaled, unit
from papers.keeping import Result
from papers.p3_common import ALGORITHMS, COST, GRID, SUM, Measure, Pass, one_pass
from papers.presenting import pick
from papers.running import run
from papers.writing import write_page, write_summary

EXPERIMENTS = [module.EXPERIMENT for module in (p3_table2, p3_fig1, p3_fig3, p3_table4)]
#: Small sets; the others run in the same way.
FEW = ("svmguide3", "australian")


@pytest.mark.slow  # seven algorithms are compiled, one by one and in lanes
@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda one: one.name)
def test_smoke(experiment, tmp_path):
    """Cells run, and the page follows from their rows."""
    here = [cell for cell in experiment.cells(True) if set(cell.needs) <= set(FEW)]
    if not all(is_here(name) for cell in here for name in cell.needs):
        pytest.skip(f"{experiment.name} needs {', '.join(FEW)} in the data folder (THINSTREAM_DATA)")
    small = replace(experiment, cells=lambda smoke: here)
    done = run(small, tmp_path / "cells", smoke=True)
    assert {row["algorithm"] for row in done.rows} == set(ALGORITHMS)
    write_page(small, Result(done.rows, done.seconds, smoke=True), tmp_path)
    page = (tmp_path / f"{experiment.name}.md").read_text()
    assert "nan" not in page
    assert "| ARCSOGD" in page or ", ARCSOGD |" in page
    assert all(len(claim.evidence) > 10 for claim in experiment.claims(done.rows))


def test_fig1_needs_no_run_after_table2(tmp_path):
    """Its cells are those of the table, kept once."""
    table2, fig1 = EXPERIMENTS[:2]
    kept = run_made(table2, tmp_path)
    again = run_made(fig1, tmp_path)
    assert len(list(tmp_path.iterdir())) == 1
    assert {row["what"] for row in kept.rows} == {"run"}
    assert {row["what"] for row in again.rows} == {"curve"}


def run_made(experiment, folder):
    """An experiment with a single cell that needs no data."""
    cell = p3_table2.Cell("made", made)
    return run(replace(experiment, cells=lambda smoke: [cell]), folder, smoke=True)


def made():
    return [{"what": "run", "value": 1.0}, {"what": "curve", "value": 2.0}]


def test_summary_counts_shared_cells_once(tmp_path):
    folder = tmp_path / "pages"
    folder.mkdir()
    from papers.keeping import keep

    for experiment in EXPERIMENTS[:2]:
        keep(folder, experiment.name, Result([], 600.0))
    experiments = [replace(one, claims=lambda rows: (), compare=lambda rows: ()) for one in EXPERIMENTS[:2]]
    assert "2 of 2 have been run, which took 10.0 min of one core." in write_summary(experiments, folder).read_text()


calls = st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=30)


@given(calls, st.sampled_from(["sum", "cost"]), st.sampled_from([0.1, 0.5, 0.8]))
def test_measures_are_the_papers(calls, kind, weight):
    """Against the definitions, row by row, at every length of the stream."""
    y = np.array([1 if truth else -1 for truth, _ in calls], np.int8)
    one = Pass(y, np.array([called for _, called in calls]), 0.0)
    stops = range(1, len(calls) + 1)
    found = Measure(kind, weight).value(*one.counts(stops))
    for stop, value in zip(stops, found, strict=True):
        seen = calls[:stop]
        positives, negatives = sum(t for t, _ in seen), sum(not t for t, _ in seen)
        missed, false = sum(t and not c for t, c in seen), sum(c and not t for t, c in seen)
        if kind == "cost":
            assert value == pytest.approx(100 * ((1 - weight) * missed + weight * false) / stop)
        elif positives and negatives:
            right = (1 - weight) * (positives - missed) / positives + weight * (negatives - false) / negatives
            assert value == pytest.approx(100 * right)
        else:
            assert math.isnan(value)


def test_rho():
    y = np.array([1, -1, -1, -1], np.int8)
    assert SUM.rho(y) == 3.0
    assert Measure("sum", 0.25).rho(y) == 9.0
    assert COST.rho(y) == pytest.approx(9.0)


def rows_of(n, seed=0):
    """Two features, of which the first tells the class but for noise; one positive in four."""
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(n) < 0.25, 1, -1).astype(np.int8)
    return Data(sp.csr_matrix(np.column_stack([y + rng.normal(size=n), rng.normal(size=n)])), y)


@pytest.mark.slow
def test_csogd_at_rate_1_is_paum():
    """As the equal rows of the paper's table say [E19]; only the sign at equality differs."""
    data = rows_of(200)
    first, second = (one_pass(name, 3.0, 1.0, data) for name in ("CSOGD-I", "PAUM"))
    assert first.positive.tolist() == second.positive.tolist()


@pytest.mark.slow
def test_costs_reach_those_that_take_them():
    data = rows_of(400)
    for name in ALGORITHMS:
        rate = 1.0 if p3_common.RECIPES[name].tuned else None
        plain, costly = (one_pass(name, rho, rate, data).positive.tolist() for rho in (1.0, 9.0))
        assert (costly != plain) == p3_common.RECIPES[name].costs, name


@pytest.mark.slow
def test_tuning_judges_as_a_run_alone():
    """By the rows after the first 256 of 600, the largest power of two that is no more than half."""
    data = rows_of(600)
    scores = p3_common.search("CSOGD-I", COST, data, GRID)
    alone = [one_pass("CSOGD-I", COST.rho(data.y), rate, data) for rate in GRID]
    late = [one._replace(y=one.y[256:], positive=one.positive[256:]).row(COST)["value"] for one in alone]
    assert scores * -100 == pytest.approx(late)


def test_the_full_matrix_tries_the_neighbours_of_the_diagonals_rate(monkeypatch):
    asked = []

    def search(algorithm, measure, data, values):
        asked.append((algorithm, list(values)))
        return -np.abs(np.log10(values) - 5)  # the greatest rate is best

    monkeypatch.setattr(p3_common, "search", search)
    monkeypatch.setattr(p3_common, "load", lambda name, rows: rows_of(50))
    p3_common._choose_rate.cache_clear()
    p3_common.permuted.cache_clear()
    try:
        assert p3_common.choose_rate("made", 1, "Perceptron", SUM) is None
        assert p3_common.choose_rate("made", 1, "ARCSOGD", SUM) == 1e5
    finally:
        p3_common._choose_rate.cache_clear()
        p3_common.permuted.cache_clear()
    assert asked == [("ARCSOGD-diag", GRID), ("ARCSOGD", [1e4, 1e5])]


def test_the_authors_reading():
    """A constant feature for all algorithms, and PA without a bound, which has nothing to choose."""
    assert p3_common.as_the_authors("CSOGD-I") == {"fit_intercept": True}
    assert p3_common.as_the_authors("PA-I") == {"fit_intercept": True, "variant": "PA"}
    assert p3_common.choose_rate("made", 1, "PA-I", SUM, authors=True) is None
    model = p3_common.estimator("PA-I", 3.0, None, **p3_common.as_the_authors("PA-I"))
    assert (model.variant, model.fit_intercept) == ("PA", True)


def test_points_of_curves():
    assert p3_table2.points(1000)[0] == 100
    assert p3_table2.points(1000)[-1] == 1000
    assert p3_table2.points(2) == [1, 2]
    assert p3_table2.points(10**6) == sorted(set(p3_table2.points(10**6)))


def test_claims_count_defeats():
    """A weight where an older algorithm is better is named."""
    rows = [
        {"set": "made", "measure": "sum", "algorithm": name, "weight": weight, "value": 60.0}
        for name in ALGORITHMS
        for weight in (0.3, 0.5)
    ]
    for row in pick(rows, weight=0.5):
        row["value"] = 90.0 if row["algorithm"] in p3_common.PROPOSED else 50.0
    rows += [{**row, "measure": "cost", "value": 100 - row["value"]} for row in rows]
    found = list(p3_fig3.claims(rows))
    assert not any(claim.holds for claim in found)
    assert all("made at 0.3" in claim.evidence and "1 of 2" in claim.evidence for claim in found)


def test_scaled_columns_keep_their_order():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20, 3)) * [1, 100, 1e4]
    found = unit(sp.csr_matrix(scaled(X))).toarray()
    assert np.linalg.norm(found, axis=1) == pytest.approx(1.0)
    assert found.min() == 0.0
