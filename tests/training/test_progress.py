"""Progressive metrics of two and of more classes against naive twins, in any chunks, and what they refuse."""

import json
import math
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from thinstream.errors import InvalidInputError, InvalidParameterError
from thinstream.training.formatting import describe
from thinstream.training.metrics import BINS, MOST_CLASSES, KnownProgress, Progress, Tradeoff

FLOAT32_MAX = float(np.finfo(np.float32).max)
corners = [0.0, -0.0, 1.0, -1.0, 5e-324, -5e-324, 1e-40, -1e-40, FLOAT32_MAX, -FLOAT32_MAX, 1e300, -1e300]
scores_64 = st.one_of(st.sampled_from(corners), st.floats(-40, 40), st.floats(-1e300, 1e300))
rows_64 = st.lists(st.tuples(scores_64, st.sampled_from([-1, 1]), st.sampled_from([0.0, 0.5, 1.0, 7.0])), max_size=60)


def arrays_of(rows, dtype=np.float64):
    s, y, w = ([row[k] for row in rows] for k in range(3))
    return np.array(s, dtype), np.array(y, np.int8), np.array(w, np.float64)


def naive(rows, alpha_p=0.5, alpha_n=0.5, c_p=0.95, c_n=0.05):
    """The definitions, one at a time, on rows (score, label, weight)."""
    rows = [(float(s), y) for s, y, w in rows if w != 0]
    positives, negatives = [s for s, y in rows if y == 1], [s for s, y in rows if y == -1]

    def mean(values):
        values = list(values)
        return math.fsum(values) / len(values) if values else math.nan

    sensitivity = mean(s > 0 for s in positives)
    specificity = mean(s <= 0 for s in negatives)
    return {
        "rows": len(rows),
        "positives": len(positives),
        "error": mean((s > 0) != (y == 1) for s, y in rows),
        "sensitivity": sensitivity,
        "specificity": specificity,
        "weighted_sum": alpha_p * sensitivity + alpha_n * specificity,
        "cost": c_p * sum(s <= 0 for s in positives) + c_n * sum(s > 0 for s in negatives),
        "balanced_accuracy": 0.5 * (sensitivity + specificity),
        "log_loss": mean(math.log1p(math.exp(-y * s)) if y * s > -700 else -y * s for s, y in rows),
        "hinge": mean(max(0.0, 1 - y * s) for s, y in rows),
        "auc": mean(1.0 if p > n else 0.5 if p == n else 0.0 for p in positives for n in negatives),
    }


def check(rows, report, tradeoff=None):
    for name, expected in naive(rows, **(tradeoff or {})).items():
        found = getattr(report, name)
        if name == "auc" and not math.isnan(expected):
            assert abs(found - expected) <= report.auc_bound + 1e-12
            assert 0 <= report.auc_bound <= 0.5
        elif math.isnan(expected):
            assert math.isnan(found), name
        else:
            assert found == pytest.approx(expected, rel=1e-12, abs=1e-300), name


def same(a, b):
    a, b = a.arrays(), b.arrays()
    return a.keys() == b.keys() and all(a[k].dtype == b[k].dtype and a[k].tobytes() == b[k].tobytes() for k in a)


@pytest.mark.twin
@given(rows_64, st.booleans())
def test_the_definitions(rows, narrow):
    if narrow:
        rows = [(s, y, w) for s, y, w in rows if abs(s) <= FLOAT32_MAX]
    s, y, w = arrays_of(rows, np.float32 if narrow else np.float64)
    progress = Progress()
    progress.update(s, y, w)
    check(list(zip(s, y.tolist(), w)), progress.report())


@pytest.mark.twin
@given(rows_64, st.lists(st.integers(0, 60), max_size=6))
def test_any_chunks_give_the_same_bits(rows, cuts):
    s, y, w = arrays_of(rows)
    whole, pieces = Progress(), Progress()
    whole.update(s, y, w)
    edges = sorted({0, len(rows), *(cut for cut in cuts if cut < len(rows))})
    for start, stop in pairwise(edges):
        pieces.update(s[start:stop], y[start:stop], w[start:stop])
    assert same(whole, pieces)


@given(rows_64, rows_64)
def test_since_the_mark_is_the_rest(before, after):
    """Losses of moderate scores: a huge loss before the mark would leave no bits for the rest."""
    before, after = ([(math.remainder(s, 40.0), y, w) for s, y, w in rows] for rows in (before, after))
    progress = Progress()
    assert progress.since_mark().rows == 0
    progress.update(*arrays_of(before))
    progress.mark()
    progress.update(*arrays_of(after))
    check_rest, expected = progress.since_mark(), naive(after)
    for name in ("rows", "positives", "error", "sensitivity", "specificity", "cost"):
        assert getattr(check_rest, name) == pytest.approx(expected[name], nan_ok=True), name
    for name in ("log_loss", "hinge"):
        assert getattr(check_rest, name) == pytest.approx(expected[name], abs=1e-11, nan_ok=True), name
    check(before + after, progress.report())
    alone = Progress()
    alone.update(*arrays_of(after))
    assert check_rest.auc == pytest.approx(alone.report().auc, nan_ok=True)


@given(rows_64, rows_64)
def test_arrays_round_trip(before, after):
    progress = Progress()
    progress.update(*arrays_of(before))
    progress.mark()
    progress.update(*arrays_of(after))
    stored = progress.arrays()
    for array in stored.values():
        array.flags.writeable = False  # as mapped from a file
    again = Progress.from_arrays(stored)
    assert same(progress, again)
    for one in (progress, again):  # and they go on alike
        one.update(*arrays_of(before))
    assert same(progress, again)


def test_auc_of_scores_in_bins_of_their_own_is_exact():
    """Ties included; only scores within 1/32 of each other are taken as equal."""
    rng = np.random.default_rng(1)
    s = rng.choice([-8.0, -1.0, -0.5, 0.0, 0.25, 1.0, 1.5, 64.0], 400)
    rows = list(zip(s, rng.choice([-1, 1], 400), np.ones(400)))
    progress = Progress()
    progress.update(*arrays_of(rows))
    assert progress.report().auc == pytest.approx(naive(rows)["auc"], abs=1e-15)


def test_auc_of_a_dense_sample_is_near_the_exact_one():
    rng = np.random.default_rng(2)
    y = rng.choice([-1, 1], 2_000, p=[0.9, 0.1]).astype(np.int8)
    s = rng.normal(size=2_000) + 0.7 * y
    progress = Progress()
    progress.update(s, y)
    report = progress.report()
    assert abs(report.auc - naive(list(zip(s, y, np.ones(2_000))))["auc"]) <= report.auc_bound < 0.01


def test_the_bound_is_reached():
    """Two scores of one bin: the pair counts one half, the truth is 1."""
    progress = Progress()
    progress.update(np.array([1.0, 1.001]), np.array([-1, 1], np.int8))
    assert (progress.report().auc, progress.report().auc_bound) == (0.5, 0.5)


def test_bins_keep_the_order_of_scores():
    s = np.sort(np.concatenate([corners, np.random.default_rng(3).standard_cauchy(300) ** 9]))
    places = []
    for score in s:
        progress = Progress()
        progress.update(np.array([score]), np.array([1], np.int8))
        places.append(int(np.argmax(progress.arrays()["bins"][1])))
    assert places == sorted(places)
    assert len(set(places)) > 200
    assert 0 <= places[0] < places[-1] < BINS


def test_minus_zero_is_zero():
    progress = Progress()
    progress.update(np.array([0.0, -0.0]), np.array([-1, 1], np.int8))
    assert progress.report().auc == 0.5
    assert progress.report().sensitivity == 0.0  # positive only above zero


def test_small_log_losses_are_not_lost():
    """Log(1 + e^-40) is e^-40, not 0."""
    progress = Progress()
    progress.update(np.array([40.0, -30.0]), np.array([1, -1], np.int8))
    assert progress.report().log_loss == pytest.approx((math.exp(-40) + math.exp(-30)) / 2, rel=1e-12)


def test_costs_and_weights_of_the_classes():
    rows = [(1.0, 1, 1.0), (-1.0, 1, 1.0), (2.0, -1, 1.0), (-2.0, -1, 1.0), (-3.0, -1, 1.0)]
    chosen = {"alpha_p": 0.8, "alpha_n": 0.2, "c_p": 0.6, "c_n": 0.4}
    progress = Progress()
    progress.update(*arrays_of(rows))
    check(rows, progress.report(Tradeoff(**chosen)), chosen)
    assert progress.report(Tradeoff(**chosen)).weighted_sum == pytest.approx(0.8 / 2 + 0.2 * 2 / 3)
    assert progress.since_mark(Tradeoff(**chosen)).cost == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("given_", "message"),
    [
        ({"alpha_p": 0.6}, "alpha_p and alpha_n must be numbers >= 0 whose sum is 1, got 0.6 and 0.5"),
        ({"c_p": 1.5, "c_n": -0.5}, "c_p and c_n .* got 1.5 and -0.5"),
        ({"c_p": math.nan}, "got nan"),
        ({"c_p": "much"}, "got 'much'"),
    ],
)
def test_tradeoffs_refused(given_, message):
    with pytest.raises(InvalidParameterError, match=message):
        Tradeoff(**given_)


def test_nothing_yet_is_undefined_and_json():
    report = Progress().report()
    assert (report.rows, report.cost) == (0, 0.0)
    assert math.isnan(report.auc)
    assert math.isnan(report.error)
    found = json.loads(json.dumps(report.as_dict(), allow_nan=False))
    assert found["auc"] is None
    assert found["rows"] == 0


@pytest.mark.parametrize(
    ("s", "y", "w", "message"),
    [
        ([0.0, math.nan], [1, 1], None, "scores must be finite, got nan in row 1"),
        ([-math.inf, 1.0], [1, 1], None, "scores must be finite, got -inf in row 0"),
        ([1.0, 1.0], [1, 0], None, "y must be -1 or 1, got 0 in row 1"),
        ([1.0, 1.0], [-128, 1], None, "y must be -1 or 1, got -128 in row 0"),
        ([1.0], [257], None, "got 257"),
        ([1.0], [0.5], None, "y must be -1 or 1, got 0.5"),
        ([1.0], ["spam"], None, "y must be numbers"),
        ([1.0, 2.0], [1, 1], [1.0, -1.0], "weights must be finite and >= 0, got -1.0 in row 1"),
        ([1.0], [1], [math.inf], "got inf"),
        ([1.0], [1], [math.nan], "got nan"),
        ([1.0, 2.0], [1], None, r"vectors of one length, got shapes \(2,\), \(1,\) and None"),
        ([[1.0]], [[1]], None, "vectors"),
        ([1.0, 2.0], [1, 1], [1.0], "vectors"),
    ],
)
def test_bad_rows_raise_and_count_nothing(s, y, w, message):
    progress, before = Progress(), Progress()
    for one in (progress, before):
        one.update(np.array([1.0]), np.array([1], np.int8))
    with pytest.raises(InvalidInputError, match=message):
        progress.update(np.array(s), np.array(y), None if w is None else np.array(w))
    assert same(progress, before)


def test_other_types_and_strides_are_taken():
    a, b = Progress(), Progress()
    s, y = np.arange(-6, 6), np.tile([-1, 1], 6)
    a.update(s[::2], y[::2], np.ones(6, np.float32))
    b.update(s[::2].astype(float), y[::2].astype(np.int8))
    assert same(a, b)
    a.update(np.empty(0), np.empty(0, np.int8))
    assert same(a, b)


def test_sums_beyond_the_largest_float_are_infinite():
    progress = Progress()
    progress.update(np.full(4, -1.7e308), np.ones(4, np.int8))
    progress.mark()
    progress.update(np.array([1.0]), np.array([1], np.int8))
    assert progress.report().hinge == math.inf
    assert progress.report().as_dict()["hinge"] is None
    assert math.isnan(progress.since_mark().hinge)
    assert same(progress, Progress.from_arrays(progress.arrays()))


def test_arrays_refused():
    stored = Progress().arrays()
    with pytest.raises(InvalidInputError, match="must include 'mark_bins'"):
        Progress.from_arrays({name: array for name, array in stored.items() if name != "mark_bins"})
    with pytest.raises(InvalidInputError, match=r"totals of a Progress must be float64 of shape \(2,\), got float32"):
        Progress.from_arrays({**stored, "totals": np.zeros(2, np.float32)})
    with pytest.raises(InvalidInputError, match="must be numbers >= 0, got nan"):
        Progress.from_arrays({**stored, "totals": np.array([0.0, math.nan])})
    for name in ("classes", "mark_classes"):
        with pytest.raises(InvalidInputError, match="contradict"):
            Progress.from_arrays({**stored, name: np.array([[1, 1], [1, 1], [1, 1]])})


def test_runs_in_threads_do_not_disturb_each_other():
    rng = np.random.default_rng(4)
    s, y = rng.normal(size=5_000), rng.choice([-1, 1], 5_000).astype(np.int8)

    def run(_):
        progress = Progress()
        for start in range(0, 5_000, 100):
            progress.update(s[start : start + 100], y[start : start + 100])
        return progress

    with ThreadPoolExecutor(4) as pool:
        first, *rest = pool.map(run, range(8))
    assert all(same(first, other) for other in rest)


def test_interpreted_runs_count_the_same():
    """Counts and bins to the bit; losses up to the last bits of exp and log."""
    program = (
        "import numpy as np; from thinstream.training.metrics import Progress;"
        "r = np.random.default_rng(5); p = Progress();"
        "p.update(r.normal(size=500), r.choice([-1, 1], 500).astype(np.int8), r.choice([0.0, 1.0], 500));"
        "a = p.arrays(); print([int(c) for c in a['confusion'].ravel()], int((a['bins'] * np.arange(16384)).sum()));"
        "print(*(t.hex() for t in a['totals'].tolist()))"
    )
    found = []
    for disabled in ("0", "1"):
        environment = {**os.environ, "NUMBA_DISABLE_JIT": disabled}
        done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        found.append(done.stdout.splitlines())
    assert found[0][0] == found[1][0]
    compiled, interpreted = ([float.fromhex(number) for number in lines[1].split()] for lines in found)
    assert compiled == pytest.approx(interpreted, rel=1e-13)


# More than two classes ------------------------------------------------------------------------------------------------


def test_classes_in_any_chunks():
    rng = np.random.default_rng(0)
    scores, y = rng.normal(size=(100, 4)), rng.integers(0, 3, 100).astype(np.int32)
    weights = rng.choice([0.0, 1.0], 100)
    one, other = Progress(4), Progress(4)
    one.update(scores, y, weights)
    for a, b in ((0, 30), (30, 31), (31, 100)):
        other.update(scores[a:b], y[a:b], weights[a:b])
        other = Progress.from_arrays(other.arrays())
    assert same(one, other)
    seen, called = y[weights > 0], scores.argmax(axis=1)[weights > 0]
    report = one.report()
    assert report.rows == len(seen)
    assert report.error == pytest.approx(np.mean(seen != called))
    recalls = [np.mean(called[seen == k] == k) for k in range(3)]
    assert report.recall[:3] == pytest.approx(recalls)
    assert np.isnan(report.recall[3])
    assert report.balanced_accuracy == pytest.approx(np.mean(recalls))
    assert report.precision == pytest.approx([np.mean(seen[called == k] == k) for k in range(4)])
    one.mark()
    assert one.since_mark().rows == 0


def test_what_is_of_two_classes_is_undefined_of_more():
    report = Progress(3).report()
    assert report.positives is None
    for name in ("sensitivity", "specificity", "weighted_sum", "cost", "log_loss", "hinge", "auc", "auc_bound"):
        assert math.isnan(getattr(report, name)), name
    assert list(report.as_dict()) == [
        "rows", "error", "balanced_accuracy", "macro_f1", "examples", "recall", "precision", "f1", "macro_precision",
        "baseline", "average_precision", "average_precision_bound", "average_precisions",
    ]  # fmt: skip
    assert (report.n_models, Progress().report().n_models) == (3, 1)


def test_classes_refused():
    progress = Progress(3)
    for scores, y, message in (
        (np.zeros((1, 2)), np.zeros(1, np.int32), "rows × 3"),
        (np.zeros((1, 3)), np.zeros(1, np.int8), "int32"),
        (np.full((1, 3), np.nan), np.zeros(1, np.int32), "finite"),
        (np.zeros((1, 3)), np.full(1, 3, np.int32), "y must be from 0 to 2, got 3 to 3"),
        (np.zeros((1, 3)), np.full(1, -1, np.int32), "got -1"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            progress.update(scores, y)
    assert progress.rows == 0
    stored = progress.arrays()
    with pytest.raises(InvalidInputError, match="numbers >= 0, got -1"):
        Progress.from_arrays({**stored, "classes": stored["classes"] - 1})
    with pytest.raises(InvalidInputError, match="contradict"):
        Progress.from_arrays({**stored, "classes": stored["classes"] + [[1], [0], [0]]})
    with pytest.raises(InvalidInputError, match="must include 'confusion'"):
        Progress.from_arrays({"classes": stored["classes"]})


@given(rows_64)
def test_two_classes_have_the_metrics_of_more(rows):
    """Counted as two of three classes they are the same."""
    s, y, w = arrays_of(rows)
    two, more = Progress(), Progress(3)
    two.update(s, y, w)
    scores = np.column_stack([np.zeros(len(s)), np.sign(s), np.full(len(s), -9.0)])
    more.update(scores, ((y + 1) // 2).astype(np.int32), w)
    one, other = two.report(), more.report()
    for name in ("rows", "error", "macro_f1"):
        assert getattr(one, name) == pytest.approx(getattr(other, name), nan_ok=True), name
    for name in ("examples", "recall", "precision"):
        assert getattr(one, name) == pytest.approx(getattr(other, name)[:2], nan_ok=True), name
    assert (one.specificity, one.sensitivity) == pytest.approx(one.recall, nan_ok=True)


@pytest.mark.parametrize("chunks", [1, 7, 200])
def test_log_loss_of_more_than_two_classes(chunks):
    rng = np.random.default_rng(0)
    scores, y = rng.normal(size=(200, 4)) * 30, rng.integers(0, 4, 200).astype(np.int32)
    progress, whole = Progress(4, log_loss=True), Progress(4, log_loss=True)
    whole.update(scores, y)
    for part in np.array_split(np.arange(200), chunks):
        progress.update(scores[part], y[part])
        progress = Progress.from_arrays(progress.arrays())
    shares = 1 / (1 + np.exp(-scores.astype(np.longdouble)))
    expected = -np.log(shares[np.arange(200), y] / shares.sum(axis=1)).mean()
    assert progress.report().log_loss == whole.report().log_loss == pytest.approx(float(expected), rel=1e-12)
    assert progress.report().as_dict()["log_loss"] == whole.report().log_loss
    assert "log-loss           " in describe(whole.report(), list("abcd"))
    assert math.isnan(Progress(4).report().log_loss)


def test_names_of_two_classes_in_json():
    assert list(Progress().report().as_dict()) == [
        "rows", "positives", "error", "sensitivity", "specificity", "weighted_sum", "cost", "balanced_accuracy",
        "log_loss", "hinge", "auc", "auc_bound", "baseline", "average_precision", "average_precision_bound", "recall",
        "precision", "f1",
    ]  # fmt: skip


def test_names_of_arrays_in_checkpoints():
    tally = ["classes", "confusion", "totals", "bins"]
    for n_classes in (2, 5):
        assert list(Progress(n_classes).arrays()) == [*tally, *(f"mark_{name}" for name in tally)]


@pytest.mark.parametrize("size", [1, 7, 300])
def test_classes_unknown_to_the_model_count_as_if_known_from_the_start(size):
    rng = np.random.default_rng(0)
    y = np.concatenate([rng.integers(0, 3, 150), rng.integers(0, 5, 150)]).astype(np.int32)
    scores = rng.normal(size=(300, 5)).astype(np.float32)
    scores[:, 3:] = -FLOAT32_MAX  # the model has met three
    whole, progress, n = Progress(5), KnownProgress(3), 3
    whole.update(scores, y)
    for start in range(0, 300, size):
        rows = slice(start, start + size)
        n = max(n, int(y[rows].max()) + 1)
        progress.update(scores[rows, :n], y[rows])
    found, expected = progress.report(), whole.report()
    assert not found.binary
    for name in ("error", "confusion", "average_precisions", "average_precision", "examples", "precision"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
    assert progress.counted.is_consistent()


def test_of_too_many_classes_neither_matrix_nor_bins_are_kept():
    progress = KnownProgress(2)
    progress.update(np.zeros((1, 2)), np.zeros(1, np.int32))
    progress.update(np.zeros((1, MOST_CLASSES + 1)), np.zeros(1, np.int32))
    report = progress.report()
    assert (report.rows, report.confusion, report.average_precisions) == (2, (), ())
