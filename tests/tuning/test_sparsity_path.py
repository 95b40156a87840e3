"""Sparsity paths: each model is a run of its own, held-out rows are held out, the pick is the one described."""

import gzip
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import thinstream as ts
from tests.tuning.sweeps import WIDTH, Pipe, drawn, streamed
from thinstream.errors import InvalidInputError, InvalidParameterError, UnknownNameError, WeightsOnlyError
from thinstream.lanes.lanes import Lanes
from thinstream.lanes.learner import Learner
from thinstream.training.metrics import Tradeoff
from thinstream.training.observer import Observer
from thinstream.tuning import passes as peekable
from thinstream.tuning.counts import LaneCounts
from thinstream.tuning.measures import metric_values, path_columns, standard_errors
from thinstream.tuning.passes import HoldoutStream, PeekableStream, is_repeatable
from thinstream.tuning.sparsity_path import GRID, Limits, Sweep, _ends, find_l1_range, select_model, sweep_stream
from thinstream.tuning.study import StudyConfig, Trial

X, Y = drawn()
FSOL = Trial({"eta": 0.5})
RANGE = Sweep(6, 0.02, 200.0)


def swept(sweep=RANGE, stream=None, memory=None, **more):
    return sweep_stream(stream or streamed(X, Y), StudyConfig("fsol", memory=memory), FSOL, sweep, **more)


def alone(l1, mask):
    """A model that learned where the mask says, and the scores it gave before."""
    model = Learner("fsol", n_features=WIDTH, eta=0.5, l1=l1)
    (batch,) = streamed(X, Y, mask.astype(float), size=len(Y)).batches()
    return model, model.learn(batch)


def wrong(scores):
    return (scores > 0) != (Y > 0)


def test_every_model_has_the_bits_and_the_progressive_error_of_a_run_of_its_own():
    path = swept()
    assert np.allclose(path.l1, np.geomspace(0.02, 200.0, 6))
    for k, l1 in enumerate(path.l1.tolist()):
        model, scores = alone(l1, np.ones(len(Y), bool))
        assert np.array_equal(path.model(k).weights(), model.weights())
        assert path.nnz[k] == np.count_nonzero(model.weights())
        assert path.columns()["error"][k] == wrong(scores).mean()
    assert (np.diff(path.nnz) <= 2).all()
    assert path.nnz[0] > 30 > 3 > path.nnz[-1]


def test_held_out_rows_are_scored_by_the_final_model_that_never_learned_them():
    path, held = swept(), np.arange(len(Y)) % 10 == 9
    (batch,) = streamed(X, Y, size=len(Y)).batches()
    for k, l1 in enumerate(path.l1.tolist()):
        model, _ = alone(l1, ~held)
        assert path.columns()["held_out_error"][k] == wrong(model.scores(batch))[held].mean()
    assert path.judged_on_held_out


def test_a_test_stream_is_scored_by_the_models_themselves():
    other, labels = drawn(300, seed=4)
    labels[:5] = 1
    path = swept(test=streamed(other, labels))
    for k in range(len(path.l1)):
        scores = other @ path.model(k).weights()
        assert path.columns()["held_out_error"][k] == ((scores > 0) != (labels > 0)).mean()
    assert path.tested
    with pytest.raises(InvalidInputError, match="must be files"):
        swept(test=Pipe(streamed(other, labels)))


def test_without_held_out_rows_the_progressive_error_decides():
    path = swept(RANGE._replace(holdout=0))
    table = path.columns()
    assert np.isnan(table["held_out_error"]).all()
    assert np.isnan(table["held_out_cost_se"]).all()
    assert not path.judged_on_held_out
    assert path.pick(rule="best") == np.argmin(table["error"])


def test_the_range_found_goes_from_next_to_all_weights_to_next_to_none():
    path = swept(Sweep(10))
    dense = np.count_nonzero(alone(0.0, np.ones(len(Y), bool))[0].weights())
    assert path.nnz[0] >= 0.85 * dense
    assert path.nnz[-1] <= 1
    assert path.nnz[5] > 0
    given = swept(Sweep(4, l1_min=0.5))
    assert given.l1[0] == pytest.approx(0.5)
    assert given.l1[-1] == path.l1[-1]


def test_the_range_follows_the_scale_of_the_values_and_the_rate():
    (one, larger) = (
        find_l1_range(PeekableStream(streamed(scale * X, Y)), StudyConfig("fsol"), Trial({})) for scale in (1.0, 100.0)
    )
    assert larger.high > 5 * one.high
    assert one.high / one.low >= 10.0
    assert GRID[0] < one.low < one.high < GRID[-1]


def test_where_l1_does_nothing_there_is_a_range_all_the_same():
    ones = np.ones(50, np.int8)
    path = swept(Sweep(3), stream=streamed(0 * X[:50], ones))
    assert path.nnz.tolist() == [0, 0, 0]


@pytest.mark.parametrize("size", [1, 7, 170, 2000])
def test_rows_held_out_are_thinned_evenly_however_the_stream_is_cut(size, monkeypatch):
    monkeypatch.setattr(peekable, "ROWS", 40)
    stream = HoldoutStream(streamed(X, Y, size=size), 10)
    assert sum(len(batch) for batch in stream.batches()) == len(Y)
    kept = np.concatenate([rows.values for rows in stream.rows])
    expected = X[9::10][::4]
    assert sum(map(len, stream.rows)) == expected.shape[0] == 38
    assert np.array_equal(kept, expected.data)
    monkeypatch.setattr(peekable, "NON_ZEROS", 100)
    list(stream.batches())
    assert sum(rows.nnz for rows in stream.rows) <= 100


def test_a_pipe_is_looked_at_and_read_once():
    pipe = Pipe(streamed(X, Y))
    path = swept(Sweep(4), stream=pipe)
    assert path.rows == len(Y)
    assert pipe.read == 1
    stream = PeekableStream(Pipe(streamed(X, Y)))
    assert sum(map(len, stream.look(400))) == 510
    assert stream.length() is None
    assert sum(map(len, stream.batches())) == len(Y)
    known = PeekableStream(streamed(X, Y))
    known.look(400)
    assert known.length() == len(Y)
    assert [sum(map(len, known.batches())) for _ in range(2)] == [len(Y)] * 2


class Notes(Observer):
    passes = 0

    def split(self, passes, needed, limit):
        self.passes = passes


def test_beyond_the_memory_limit_the_same_numbers_come_from_several_passes():
    sweep, notes = RANGE._replace(n=24), Notes()
    limit = Lanes.estimate_nbytes("fsol", [{}] * 48, WIDTH) // 2
    one, several = swept(sweep), swept(sweep, memory=limit, watch=notes)
    assert several.passes == notes.passes >= 2
    for name, column in one.columns().items():
        assert np.array_equal(column, several.columns()[name], equal_nan=True), name
    (batch,) = streamed(X, Y, size=len(Y)).batches()
    assert np.array_equal(one.model(3).scores(batch), several.model(3).scores(batch))
    with pytest.raises(WeightsOnlyError):
        several.model(3).learn(batch)
    with pytest.raises(InvalidInputError, match="read files"):
        swept(sweep, stream=Pipe(streamed(X, Y)), memory=limit)


def test_a_compressed_file_can_be_read_again(tmp_path):
    import gzip

    for name, opener in (("a.svm", open), ("a.svm.gz", gzip.open)):
        with opener(tmp_path / name, "wt") as file:
            file.write("1 1:1\n-1 2:1\n")
        assert is_repeatable(ts.open_stream(tmp_path / name))


@pytest.mark.parametrize(
    ("sweep", "words"),
    [
        (Sweep(1), "n, the number of models"),
        (Sweep(5, l1_min=0.0), "l1_min must be"),
        (Sweep(5, l1_max=math.inf), "l1_max must be"),
        (Sweep(5, 2.0, 1.0), "below l1_max"),
        (Sweep(holdout=1), "holdout must be"),
    ],
)
def test_bad_sweeps(sweep, words):
    with pytest.raises(InvalidParameterError, match=words):
        swept(sweep)


def test_no_l1_and_no_rows():
    with pytest.raises(InvalidParameterError, match="Perceptron has no l1"):
        sweep_stream(streamed(X, Y), StudyConfig("perceptron"), Trial({}))
    with pytest.raises(InvalidInputError, match="the stream has no rows"):
        swept(stream=streamed(X[:0], Y[:0]))


# Picks ----------------------------------------------------------------------------------------------------------------

VALUES = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 9)), min_size=1, max_size=8)


@given(VALUES, st.sampled_from(["one_se", "best"]), st.none() | st.integers(0, 9), st.booleans())
def test_the_pick_is_the_one_described(models, rule, most, more_is_better):
    loss, nnz = (np.array(column) for column in zip(*models, strict=True))
    values, sign = (-loss / 20, 1) if more_is_better else (loss / 20, -1)
    spread, limits = np.full(len(models), 0.11), Limits(max_nnz=most)
    allowed = [k for k in range(len(models)) if most is None or nnz[k] <= most]
    if not allowed:
        with pytest.raises(InvalidInputError, match="Increase l1_max"):
            select_model(values, spread, nnz, 10, sign=sign, rule=rule, limits=limits)
        return
    found = select_model(values, spread, nnz, 10, sign=sign, rule=rule, limits=limits)
    best = min(loss[k] for k in allowed)
    near = [k for k in allowed if loss[k] <= best + (2 if rule == "one_se" else 0)]
    assert found in near
    assert nnz[found] == min(nnz[k] for k in near)


def test_limits_by_share_and_rows_without_a_value():
    values = np.array([0.1, 0.2, math.nan])
    nnz = np.array([50, 5, 0])
    assert select_model(values, np.zeros(3), nnz, 100, limits=Limits(max_density=0.1)) == 1
    assert select_model(values, np.zeros(3), nnz, 100, limits=Limits(max_density=0.04)) == 2


def test_standard_errors_are_those_of_repeated_draws():
    generator = np.random.default_rng(0)
    positives, rows, draws, tradeoff = 300, 1000, 4000, Tradeoff(0.8, 0.2, 0.7, 0.3)
    missed, false = generator.binomial(positives, 0.3, draws), generator.binomial(rows - positives, 0.1, draws)
    right = rows - positives - false, positives - missed
    counts = np.array([[right[0] + false, right[1] + missed], [right[0] + missed, right[1] + false], right])
    counted = LaneCounts(counts, np.zeros((3, draws)))
    for metric in path_columns(2):
        told, seen = standard_errors(counted, metric, tradeoff).mean(), metric_values(counted, metric, tradeoff).std()
        assert told == pytest.approx(seen, rel=0.15), metric


def test_unknown_metrics_and_rules():
    path = swept()
    with pytest.raises(UnknownNameError, match="scoring must be"):
        path.pick("area")
    for later in ("log_loss", "auc"):
        with pytest.raises(InvalidParameterError, match=f"this path has no scoring '{later}'"):
            path.pick(later)
    with pytest.raises(InvalidParameterError, match="pick must be"):
        path.pick(rule="first")
    with pytest.raises(InvalidParameterError, match="max_nnz must be"):
        path.pick(limits=Limits(max_nnz=2.5))
    with pytest.raises(InvalidParameterError, match="max_density must be"):
        path.pick(limits=Limits(max_density=2.0))


def test_a_small_compressed_file_is_counted(tmp_path):
    path = tmp_path / "rows.svm.gz"
    path.write_bytes(gzip.compress(b"+1 1:1\n-1 2:1\n" * 3000))
    stream = PeekableStream(ts.open_stream(path))
    stream.look(10)
    assert stream.length() == 6000
    assert sum(len(batch) for batch in stream.batches()) == 6000


def test_weights_that_vanish_and_come_back_are_no_dense_end():
    """SSOL's λ/t on mail: fewer weights, more, and fewer again as l1 grows; dense is what lies before all that."""
    nnz = np.concatenate([[1000], np.select([GRID < 1e-3, GRID < 1e1, GRID < 1e3], [1000, 700, 990], 0)])
    low, high = _ends(nnz)
    assert -3.6 < low < -3.0
    assert 2.9 < high < 3.6


def test_the_range_begins_where_learning_is_not_held_up():
    """SSOL's first thresholds are above all sums if l1 is large: its weights come late, not sparse."""
    X, y = drawn(20_000)
    path = sweep_stream(streamed(X, y, size=5000), StudyConfig("ssol"), Trial({}), Sweep(6))
    free = sweep_stream(streamed(X, y, size=5000), StudyConfig("ssol"), Trial({}), Sweep(2, 1e-9, 1e-8))
    assert path.progressive("error")[0] <= 1.1 * free.progressive("error")[0]
    assert path.nnz[0] >= 0.9 * free.nnz[0]
    assert path.nnz[-1] <= 1
