"""P0's experiments: their recipes on made-up data, and each of them in its smoke version where the data are there."""

import math

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from papers import p0_fig2
from papers.catalogue import experiments
from papers.data import Data, batch_of, is_here
from papers.experiment import Claim
from papers.keeping import Result
from papers.p0_common import (
    LEVELS,
    MODELS,
    SPARSE,
    WIDE,
    Contestant,
    Measured,
    at_sparsity,
    choose_parameters,
    curve_rows,
    ends,
    for_both_readings,
    l1_values,
    learned,
    level_table,
    level_values,
    measured,
    permuted,
    weights_of,
    whole_periods,
)
from papers.p0_imbalance import Contest, rare
from papers.running import run
from papers.writing import write_page

from thinstream.engine.loop import Costs
from thinstream.models.model import make_learner

ALL = [experiment for name, experiment in experiments().items() if name.startswith("p0-")]


def made_up(n=200, d=40, seed=0):
    rng = np.random.default_rng(seed)
    X = sp.random(n, d, density=0.2, format="csr", random_state=np.random.default_rng(seed), dtype=np.float64)
    X.data = X.data + 0.1
    return Data(X, np.where(X @ rng.standard_normal(d) > 0, 1, -1).astype(np.int8))


def test_claims_are_judged_for_both_readings_of_ssol():
    def judge(rows):
        errors = {row["algorithm"]: row["error"] for row in rows}
        yield Claim("FSOL errs", errors["FSOL"] > 0, f"{errors['FSOL']}")
        yield Claim("SSOL is best", min(errors, key=errors.get) == "SSOL", f"{errors['SSOL']}")

    rows = [{"algorithm": name, "error": error} for name, error in (("FSOL", 2), ("SSOL", 3), ("SSOL on loss", 1))]
    assert list(for_both_readings(judge)(rows)) == [
        Claim("FSOL errs", True, "2"),
        Claim("SSOL is best (SSOL as printed)", False, "3"),
        Claim("SSOL is best (SSOL on loss)", True, "1"),
    ]


@pytest.mark.slow  # every algorithm it compares is compiled
@pytest.mark.parametrize("experiment", ALL, ids=lambda experiment: experiment.name)
def test_smoke(experiment, tmp_path):
    needed = {name for cell in experiment.cells(True) for name in cell.needs}
    missing = sorted(name for name in needed if not is_here(name))
    if missing:
        pytest.skip(f"data sets that are not here: {', '.join(missing)} (THINSTREAM_DATA names their folder)")
    found = run(experiment, tmp_path / "cells", smoke=True)
    assert not found.missing
    write_page(experiment, Result(found.rows, found.seconds, smoke=True), tmp_path)
    page = (tmp_path / f"{experiment.name}.md").read_text()
    assert "numbers mean nothing" in page
    assert "nan" not in page
    assert (tmp_path / f"{experiment.name}.png").stat().st_size > 10_000
    assert {cell.key for cell in experiment.cells(True)} <= {cell.key for cell in experiment.cells(False)}


@given(st.lists(st.tuples(st.integers(0, 50), st.floats(0, 100)), min_size=1, max_size=12), st.floats(1, 99.9))
def test_a_value_at_a_sparsity(points, level):
    found = at_sparsity(*(np.array(column, np.float64) for column in zip(*points, strict=True)), 50, level)
    wanted, before = round((100 - level) * 50 / 100, 9), None
    for n, value in points:  # as l1 grows
        if n == 0:
            continue
        if n <= wanted:
            break
        before = n, value
    else:  # no model is so sparse
        assert math.isnan(found)
        return
    if before is None:
        assert found == value
    else:
        share = math.log(wanted / n) / math.log(before[0] / n)
        assert found == pytest.approx(value + share * (before[1] - value), abs=1e-6)


def test_a_sparsity_reached_twice_counts_the_first_time():
    nnz, value = np.array([100.0, 10.0, 50.0, 10.0, 1.0]), np.array([1.0, 2.0, 3.0, 40.0, 50.0])
    assert at_sparsity(nnz, value, 1000, 99.0) == 2.0
    assert at_sparsity(nnz[::-1], value[::-1], 1000, 99.0) == 50.0  # in the other order all is sparse from the start
    assert math.isnan(at_sparsity(nnz[:-1], value[:-1], 1000, 99.9))


def test_ends_of_a_sweep():
    assert ends(np.array([100.0, 100.0, 50.0, 0.0, 0.0])) == (0, 2)
    assert ends(np.array([100.0, 10.0, 10.0, 10.0])) == (0, 2)  # all there is to see
    assert ends(np.zeros(5)) == (0, 3)


def test_models_are_those_of_single_runs():
    train, test = made_up(), made_up(100, seed=1)
    rows, l1 = batch_of(train), [0.0, 0.3, 2.0]
    result = measured(learned(SPARSE["FSOL"], {"eta": 0.5}, l1, rows), test)
    for k, value in enumerate(l1):
        model = make_learner("fsol", n_features=40, dtype="float64", eta=0.5, l1=value)
        model.learn(rows)
        w = model.weights()
        predicted = np.where(test.X @ w > 0, 1, -1)
        assert result.nnz[k] == np.count_nonzero(w)
        assert result.error[k] == pytest.approx(100.0 * (predicted != test.y).mean())
        assert result.sensitivity[k] == pytest.approx(100.0 * (predicted[test.y > 0] > 0).mean())
        assert result.balanced[k] == pytest.approx(
            50.0 * ((predicted[test.y > 0] > 0).mean() + (predicted[test.y < 0] < 0).mean())
        )


def test_sweeps_go_from_dense_to_empty():
    rows = batch_of(made_up())
    l1 = l1_values(SPARSE["FSOL"], {"eta": 1.0}, rows, smoke=True)
    nnz = (weights_of(learned(SPARSE["FSOL"], {"eta": 1.0}, l1, rows)) != 0).sum(axis=0)
    assert l1[0] == 0.0
    assert nnz[1] >= 0.95 * nnz[0] > 1 >= nnz[-1]
    assert l1_values(Contestant("paum", is_sparse=False), {}, rows) == [0.0]


def test_sweeps_go_on_where_weights_are_left():
    rows = batch_of(made_up())
    own = {"eta": 1e9, "l1_schedule": "inv_t"}  # steps so long that an l1 of 1e8 takes next to nothing
    l1 = l1_values(SPARSE["FSOL"], own, rows, smoke=True)
    nnz = (weights_of(learned(SPARSE["FSOL"], own, l1, rows)) != 0).sum(axis=0)
    assert l1[-1] > WIDE[-1]
    assert nnz[1] >= 0.95 * nnz[0] > 1 >= nnz[-1]


def test_tuning_is_cross_validation():
    train = made_up(100)
    rows, fold = batch_of(train), np.arange(100) % 5
    wrong = {}
    for eta in (2.0**4, 2.0**5):  # the smoke version's grid
        wrong[eta] = 0.0
        for k in range(5):
            model = make_learner("fsol", n_features=40, dtype="float64", eta=eta)
            model.learn(batch_of(train.take(np.flatnonzero(fold != k))))
            held_out = train.take(np.flatnonzero(fold == k))
            wrong[eta] += float(((held_out.X @ model.weights() > 0) != (held_out.y > 0)).mean())
    best = min(wrong, key=lambda eta: wrong[eta])
    assert wrong[choose_parameters(SPARSE["FSOL"], rows, smoke=True)["eta"]] == wrong[best]


def test_costs_reach_the_models():
    train = made_up()
    plain, costly = (
        weights_of(learned(Contestant("fsol"), {"eta": 1.0}, [0.0], batch_of(train), costs))
        for costs in (Costs(), Costs(1.0, 99.0))
    )
    assert costly.sum() > plain.sum()


def test_truncation_ends_with_a_truncation():
    rows = batch_of(made_up(57))
    assert len(whole_periods(SPARSE["STG"], rows)) == 50
    assert len(whole_periods(SPARSE["FSOL"], rows)) == 57


@given(st.integers(1, 60), st.integers(1, 60), st.integers(1, 20), st.integers(0, 3))
def test_rare_positives(positives, negatives, ratio, seed):
    y = np.array([1] * positives + [-1] * negatives, np.int8)
    data = Data(sp.csr_matrix(np.arange(1.0, len(y) + 1).reshape(-1, 1)), y)
    found = rare(data, seed, ratio)
    kept = found.X.toarray().ravel()
    assert len(set(kept)) == len(kept)  # no row twice
    assert (found.y < 0).sum() == negatives
    assert (found.y > 0).sum() == min(max(round(negatives / ratio), 1), positives)
    assert np.array_equal(found.y, y[kept.astype(int) - 1])


def test_permutations_keep_rows_together():
    data = made_up(30)
    found = permuted(data, 3)
    assert not np.array_equal(found.y, data.y)
    assert sorted(zip(found.X.sum(axis=1).A1, found.y, strict=True)) == sorted(
        zip(data.X.sum(axis=1).A1, data.y, strict=True)
    )


def two_algorithms():
    """Rows of SSOL at half the error of FSOL, on two sets."""
    l1, nnz = [0.0, 1.0, 2.0], np.array([1000.0, 10.0, 1.0])
    rows = []
    for name in ("a", "b"):
        for label, factor in (("FSOL", 2.0), ("SSOL", 1.0)):
            runs = [Measured(nnz, nnz, nnz, factor * np.array([1.0, 2.0, 3.0 + k])) for k in (0, 1)]
            rows += curve_rows({"set": name, "algorithm": label}, l1, runs, 1000, "error")
    return rows


def test_rows_of_a_curve():
    values = level_values(two_algorithms(), "error")
    assert values["a", "FSOL", 0.0] == (2.0, 0.0)
    assert values["b", "SSOL", 99.0] == pytest.approx((2.0, 0.0))
    assert values["b", "SSOL", 99.9][0] == pytest.approx(3.5)
    assert values["b", "SSOL", 99.9][1] == pytest.approx(math.sqrt(0.5))
    table = level_table(values, ["a"], ["FSOL", "SSOL"], 99.0, least=True)
    assert table.splitlines()[-1] == "| a | 4.00 ± 0.00 | **2.00 ± 0.00** |"


def test_long_sweeps_have_every_other_row():
    nnz = np.array([*np.linspace(1000.0, 5.0, MODELS - 9), *np.zeros(9)])
    found = curve_rows({}, list(range(MODELS)), [Measured(nnz, nnz, nnz, nnz / 3)], 1000, "error", "sensitivity")
    curve = [row for row in found if row["kind"] == "curve"]
    assert [row["l1"] for row in curve] == list(range(0, MODELS - 9, 2))
    assert curve[1]["error"] == float(f"{nnz[2] / 3:.6g}")
    assert curve[1]["sensitivity"] == float(f"{nnz[2]:.6g}")
    levels = {row["level"]: row["error"] for row in found if row["kind"] == "level"}
    assert levels[99.0] == pytest.approx(at_sparsity(nnz, nnz / 3, 1000, 99.0), rel=1e-5)  # of all models
    assert math.isnan(levels[99.9])


def test_claims_follow_the_rows():
    rows = two_algorithms()
    contest = p0_fig2.Contest(rows)
    assert contest.wins(["SSOL"], ["FSOL"], 99.0) == 2
    assert contest.wins(["FSOL"], ["SSOL"], 99.0) == 0
    assert "behind by more than that on 2: a, b" in contest.told(["FSOL"], ["SSOL"], 99.0)
    verdicts = [claim.holds for claim in p0_fig2.claims(rows)]
    assert verdicts[0]
    swapped = [{**row, "algorithm": {"FSOL": "SSOL", "SSOL": "FSOL"}[row["algorithm"]]} for row in rows]
    verdicts = [claim.holds for claim in p0_fig2.claims(swapped)]
    assert not verdicts[0]
    assert not verdicts[2]


def test_claims_on_costs():
    rows = [
        {"set": "a", "algorithm": label, "kind": "level", "level": level, "balanced": value, "spread": 1.0}
        for label, value in (("FSOL", 60.0), ("SSOL", 70.0), ("CS-FSOL", 80.0), ("CS-SSOL", 75.0))
        for level in LEVELS
    ]
    contest = Contest(rows)
    assert contest.costs_help().holds
    assert contest.second_order_helps().holds
    best = contest.best_is_ours()
    assert not best.holds
    assert "a at 99 %: CS-FSOL 80.0, CS-SSOL 75.0" in best.evidence


def test_claims_compare_where_all_have_models():
    values = {"FSOL": {0.0: 80.0, 90.0: 80.0, 99.0: 79.0}, "SSOL": {0.0: 81.0, 90.0: 81.0}, "CS-SSOL": {0.0: 90.0}}
    rows = []
    for label, levels in {**values, "CPA": {0.0: 95.0}}.items():
        for level in (0.0, *LEVELS):
            kind = {"kind": "level", "level": level} if level else {"kind": "curve", "l1": 0.0}
            rows.append(
                {"set": "a", "algorithm": label, "balanced": levels.get(level, math.nan), "spread": 1.0, **kind}
            )
    contest = Contest(rows)
    assert contest.reached("a", ["FSOL", "SSOL", "CPA", "PAUM"]) == [0.0, 90.0]
    assert contest.reached("a", contest.labels) == [0.0]
    second = contest.second_order_helps()
    assert second.holds
    assert "a 81.0 against 80.0 (l1 = 0, 90 %)" in second.evidence
    best = contest.best_is_ours()
    assert not best.holds
    assert "best at 0 of the 1 sparsities that all with l1 reach (at 1 if" in best.evidence
