"""Rows and labels from two sources: the model is that of rows learned in the order in which their labels come."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thinstream.batch import Batch
from thinstream.data.labels import Classes, GrowingClasses
from thinstream.errors import InvalidInputError
from thinstream.models.model import Model
from thinstream.training.delayed_labels import Clock, JoinedStream, LateRun, Timed, Waiting
from thinstream.training.metrics import Progress


class Told:
    """A stream of batches that are at hand."""

    feature_space, dtype, names, skipped, options = {}, "float64", None, None, None

    def __init__(self, batches, classes=None):
        self.told, self.classes = batches, classes

    def batches(self):
        return iter(self.told)


def rows_of(X, ids, y=None, weights=None, first=0):
    matrix = np.asarray(X, dtype=float)
    places = [np.flatnonzero(row) for row in matrix]
    indptr = np.cumsum([0, *map(len, places)])
    indices = np.concatenate([np.empty(0, int), *places]).astype(np.int32)
    values = np.concatenate([np.empty(0), *(row[row != 0] for row in matrix)])
    found = Batch.of(indptr, indices, values, matrix.shape[1], y, weights, first)
    return replace(found, ids=[str(each) for each in ids])


def cut(cuts, n):
    edges = sorted({0, n, *(c for c in cuts if c < n)})
    return list(pairwise(edges))


def sources(X, ids, times, cuts):
    """A stream of rows, and one of their times."""
    parts = cut(cuts, len(ids))
    rows = Told([rows_of(X[a:b], ids[a:b], first=a) for a, b in parts])
    clocks = Told([rows_of(X[a:b], [repr(float(t)) for t in times[a:b]], first=a) for a, b in parts])
    return rows, clocks


def naive(X, ids, times, label_ids, labels, label_times, weights, keep, seconds):
    """One event after another, from the definition; (rows in the order learned, their scores when they came)."""
    events = [(t, 0, k) for k, t in enumerate(times)] + [(t, 1, k) for k, t in enumerate(label_times)]
    model = Model.fresh("arow", Classes(-1, 1), n_features=X.shape[1], dtype="float64")
    waiting, gone, learned, scores = {}, {}, [], []
    counts = {"unknown": 0, "expired": 0, "repeated": 0}
    for now, is_label, k in sorted(events):
        if seconds is not None:
            for each in [each for each, (_, at, _) in waiting.items() if at < now - seconds]:
                gone[each] = "expired"
                del waiting[each]
        if not is_label:
            row = rows_of(X[k : k + 1], [0])
            waiting.pop(ids[k], None)
            gone.pop(ids[k], None)
            waiting[ids[k]] = (k, now, model.learner.scores(row)[0])
            while len(waiting) > keep:
                oldest = next(iter(waiting))
                gone[oldest] = "expired"
                del waiting[oldest]
        elif label_ids[k] in waiting:
            number, _, score = waiting.pop(label_ids[k])
            gone[label_ids[k]] = "repeated"
            model.learner.learn(rows_of(X[number : number + 1], [0], labels[k : k + 1], weights[k : k + 1]))
            learned.append(k)
            scores.append(score)
        else:
            counts[gone.get(label_ids[k], "unknown")] += 1
    return model, learned, np.array(scores), counts, len(waiting)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    row_cuts=st.lists(st.integers(1, 40), max_size=3),
    label_cuts=st.lists(st.integers(1, 40), max_size=3),
    keep=st.sampled_from([5, 1000]),
    seconds=st.sampled_from([None, 3.0]),
    timed=st.booleans(),
)
def test_as_one_event_after_another(seed, row_cuts, label_cuts, keep, seconds, timed):
    """Bits of the model, scores, counts; whatever the batches, rows expire, ids repeat or are unknown."""
    rng = np.random.default_rng(seed)
    n = 40
    X = rng.normal(size=(n, 4)) * (rng.random((n, 4)) < 0.7)
    ids = rng.permutation(np.where(rng.random(n) < 0.1, 0, np.arange(n))).tolist()
    times = np.sort(rng.integers(0, 20, n)).astype(float)
    label_ids = rng.integers(-3, n, n).tolist()
    label_times = np.sort(rng.integers(0, 25, n)).astype(float)
    if not timed:
        seconds, times, label_times = None, np.zeros(n), np.ones(n)
    labels = rng.choice([-1, 1], n).astype(np.int8)
    weights = rng.choice([0.5, 1.0], n)
    wanted, order, scores, counts, left = naive(X, ids, times, label_ids, labels, label_times, weights, keep, seconds)
    rows, clocks = sources(X, ids, times, row_cuts)
    parts = cut(label_cuts, n)
    told = [rows_of(np.ones((b - a, 1)), label_ids[a:b], labels[a:b], weights[a:b], a) for a, b in parts]
    told_times = Told([rows_of(np.ones((b - a, 1)), label_times[a:b], first=a) for a, b in parts])
    model = Model.fresh("arow", Classes(-1, 1), n_features=4, dtype="float64")
    clock = Clock()
    stream = JoinedStream(
        Timed(rows, clocks if timed else None, "rows"),
        Timed(Told(told), told_times if timed else None, "labels"),
        model.learner,
        Waiting(keep, seconds, None, clock),
        clock,
    )
    run = LateRun(stream, model)
    run.run()
    assert model.learner.weights().tobytes() == wanted.learner.weights().tobytes()
    assert model.learner.t == wanted.learner.t
    assert stream.waiting.counts["learned"] == len(order)
    found = {name: stream.waiting.counts[name] for name in counts}
    assert sum(found.values()) == sum(counts.values())
    if keep > n:  # of fewer rows fewer ids are remembered when they are gone
        assert found == counts
    assert len(stream.waiting) == left
    judged = Progress(2)
    judged.update(scores, labels[order], weights[order])
    assert run.state.progress.report().as_dict() == judged.report().as_dict()  # of the scores rows got when they came


def test_classes_that_come_later():
    X = np.eye(3)
    rows, labels = Told([rows_of(X, "abc"), rows_of(X, "def")]), rows_of(X, "abc", np.array([0, 1, 2], np.int32))
    model = Model.fresh("fsol", GrowingClasses(), n_features=3)
    clock = Clock()
    stream = JoinedStream(
        Timed(rows, None, "rows"),
        Timed(Told([labels], ("x", "y", "z")), None, "labels"),
        model.learner,
        Waiting(),
        clock,
    )
    run = LateRun(stream, model)
    trained = run.run()
    assert tuple(trained.classes) == ("x", "y", "z")
    assert run.state.progress.report().error == 1.0  # nothing was known when the rows came
    assert len(stream.waiting) == 3


@pytest.mark.parametrize(
    ("ids", "times", "message"),
    [
        (["a", ""], [0, 1], "rows: example 2 has no id"),
        (["a", "b"], [1, 0], "rows: times must not go back, example 2 is earlier"),
        (["a", "b"], ["now", "1"], "rows: times are numbers or dates .* example 1 has 'now'"),
    ],
)
def test_bad_ids_and_times(ids, times, message):
    timed = Timed(Told([rows_of(np.eye(2), ids)]), Told([rows_of(np.eye(2), times)]), "rows")
    with pytest.raises(InvalidInputError, match=message):
        list(timed.batches())


def test_dates_are_times():
    texts = ["2026-11-16", "2026-11-16T08:00:00", "2026-11-16T08:00:00.5"]
    timed = Timed(Told([rows_of(np.eye(3), "abc")]), Told([rows_of(np.eye(3), texts)]), "rows")
    [(_, times)] = timed.batches()
    assert np.diff(times).tolist() == [8 * 3600, 0.5]
