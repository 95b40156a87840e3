"""Warnings of estimators, each of a class of its own: rows sorted by class, the best model at an end of a sweep."""

import warnings

import numpy as np
import pytest

import thinstream as ts
from thinstream.data.in_memory import from_memory
from thinstream.data.labels import SORTED
from thinstream.errors import EdgeWarning, SortedRowsWarning, ThinstreamWarning

RNG = np.random.default_rng(0)
Y = RNG.choice([-1, 1], 1200)
X = RNG.normal(size=(1200, 6)) + 0.5 * Y[:, np.newaxis]
NOISY = np.hstack([X, np.random.default_rng(5).normal(size=(1200, 200))])
ORDER = np.argsort(Y, kind="stable")
CONSTANT = ThinstreamWarning, "the selected model is not better than a constant prediction, by average_precision"


def told(action):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        action()
    assert all(issubclass(one.category, ThinstreamWarning) for one in found)
    assert all(one.filename == __file__ for one in found)  # where the user called
    return [(one.category, str(one.message)) for one in found]


@pytest.mark.parametrize("labels", [2, 3])
def test_fit_warns_of_rows_sorted_by_class(labels):
    y = RNG.integers(0, labels, len(X))
    [(category, text)] = told(lambda: ts.FSOL().fit(X, np.sort(y)))
    assert category is SortedRowsWarning
    assert text == f"{SORTED}; pass shuffle=True to shuffle them"
    assert not told(lambda: ts.FSOL().fit(X, y))
    assert not told(lambda: ts.FSOL(shuffle=True, random_state=0).fit(X, np.sort(y)))
    assert not told(lambda: ts.FSOL().fit(X[:15], np.sort(y[:15])))  # too few to tell


def test_streams_and_searches_warn_once():
    sorted_ = X[ORDER], Y[ORDER]

    def searched(**more):
        return ts.OnlineGridSearchCV(ts.FSOL(), {"eta": [0.5, 1.0]}, **more)

    ways = [
        lambda: ts.FSOL().fit_stream(from_memory(*sorted_)),
        lambda: ts.FSOL().partial_fit_stream(from_memory(*sorted_)),
        lambda: searched(cv=None).fit(*sorted_),
        lambda: searched(cv=2, refit=False).fit(*sorted_),
    ]
    for way in ways:
        assert [category for category, _ in told(way)] == [SortedRowsWarning]
    assert SortedRowsWarning in dict(told(lambda: ts.SparsityPath(ts.FSOL(), n=3).fit(*sorted_)))


def test_the_best_model_at_an_end_of_a_path_is_warned_of():
    def path(low, high):
        return ts.SparsityPath(ts.FSOL(), n=4, l1_min=low, l1_max=high)

    constant, (category, text) = told(lambda: path(1e5, 1e6).fit(X, Y))  # no weight is left anywhere
    assert constant == CONSTANT
    assert category is EdgeWarning
    text = text.removeprefix(
        "the best model has the lowest l1 of the range, and there may be better models beyond it, "
    )
    assert text == "l1_min=100, l1_max=100000"
    [(_, text)] = told(lambda: path(1e-2, 316.0).fit(NOISY, Y))
    assert text.endswith(
        "the highest l1 of the range, and there may be better models beyond it, l1_min=316, l1_max=316000"
    )
    assert not told(lambda: path(1e5, 1e6).fit(X[:150], Y[:150]))  # too few to tell


def test_no_warning_where_the_best_model_lies_within():
    path = ts.SparsityPath(ts.FSOL(), n=5, l1_min=1e-2, l1_max=1e4)
    assert not told(lambda: path.fit(NOISY, Y))
    assert 0 < np.argmin(path.path_["held_out_error"]) < 4
    assert told(lambda: path.choose(max_nnz=1)) == [CONSTANT]  # nothing is sparser than the empty one
