"""Monitors of drift against their definitions, written out naively, and against River's."""

import math
from itertools import chain

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thinstream.errors import InvalidInputError, InvalidParameterError
from thinstream.training.monitors import ADWIN, DDM, MONITORS, Change, PageHinkley


@st.composite
def errors(draw):
    """Stretches of constant error rates."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    rates = draw(st.lists(st.sampled_from([0.0, 0.02, 0.1, 0.3, 0.5, 0.9, 1.0]), min_size=1, max_size=4))
    return np.concatenate([rng.random(draw(st.integers(1, 900))) < rate for rate in rates])


def naive_ddm(wrong, warm_up=30, warning=2.0, drift=3.0):
    changes, seen, lowest, began = [], [], None, None
    for row, error in enumerate(wrong, 1):
        seen.append(bool(error))
        if len(seen) <= warm_up:
            continue
        p = sum(seen) / len(seen)
        s = math.sqrt(p * (1 - p) / len(seen))
        if lowest is None or p + s <= sum(lowest):
            lowest = p, s
        if p + s > lowest[0] + drift * lowest[1]:
            changes.append(Change(row, row if began is None else began))
            seen, lowest, began = [], None, None
        elif p + s > lowest[0] + warning * lowest[1]:
            began = row if began is None else began
        else:
            began = None
    return changes


def naive_page_hinkley(wrong, warm_up=30, delta=0.005, threshold=50.0, alpha=0.9999):
    changes, seen, m, lowest, began = [], [], 0.0, math.inf, 0
    for row, error in enumerate(wrong, 1):
        seen.append(float(error))
        m = alpha * m + seen[-1] - sum(seen) / len(seen) - delta
        if m < lowest:
            lowest, began = m, row
        if len(seen) >= warm_up and m - lowest > threshold:
            changes.append(Change(row, began))
            seen, m, lowest = [], 0.0, math.inf
    return changes


def naive_adwin(wrong, delta=0.002, every=32):
    """The window as a list of buckets, each a list of errors, oldest first."""
    changes, window, told = [], [], 0
    for row, error in enumerate(wrong, 1):
        window.append([bool(error)])
        size = 1
        while sum(len(bucket) == size for bucket in window) > 5:
            first = next(k for k, bucket in enumerate(window) if len(bucket) == size)
            window[first : first + 2] = [window[first] + window[first + 1]]
            size *= 2
        if row % every:
            continue
        rose = significant(window, delta)
        cut = rose
        while cut:
            window.pop(0)
            cut = significant(window, delta)
        begin = row - sum(map(len, window))
        if rose > 0 and begin >= told:
            changes.append(Change(row, begin))
            told = row
    return changes, sum(map(len, window))


def significant(window, delta):
    everything = list(chain(*window))
    n = len(everything)
    if n < 2:
        return 0
    variance, log = np.var(everything), math.log(2 * math.log(n) / delta)
    for k in range(1, len(window)):
        old, new = list(chain(*window[:k])), list(chain(*window[k:]))
        m = 1 / (1 / len(old) + 1 / len(new))
        rise = np.mean(new) - np.mean(old)
        if abs(rise) > math.sqrt(2 / m * variance * log) + 2 / (3 * m) * log:
            return 1 if rise > 0 else -1
    return 0


@settings(max_examples=30)
@given(errors())
def test_ddm_is_its_definition(wrong):
    assert DDM().update(wrong) == naive_ddm(wrong)


@settings(max_examples=30)
@given(errors(), st.sampled_from([5.0, 20.0]))
def test_page_hinkley_is_its_definition(wrong, threshold):
    assert PageHinkley(threshold=threshold).update(wrong) == naive_page_hinkley(wrong, threshold=threshold)


@settings(max_examples=20, deadline=None)
@given(errors(), st.sampled_from([0.002, 0.1]))
def test_adwin_is_its_definition(wrong, delta):
    monitor = ADWIN(delta=delta)
    changes, width = naive_adwin(wrong, delta)
    assert monitor.update(wrong) == changes
    assert monitor.width == width


@settings(max_examples=20, deadline=None)
@given(errors())
def test_river_agrees(wrong):
    drift = pytest.importorskip("river.drift", reason="River, of the extra bench, is not installed")
    ddm, ours = drift.binary.DDM(), [change.row for change in DDM().update(wrong)]
    assert ours == [row for row, error in enumerate(wrong, 1) if ddm.update(int(error)) or ddm.drift_detected]
    page, ours = drift.PageHinkley(threshold=20, mode="up"), [c.row for c in PageHinkley(threshold=20).update(wrong)]
    assert ours == [row for row, error in enumerate(wrong, 1) if page.update(int(error)) or page.drift_detected]
    adwin, ours = drift.ADWIN(min_window_length=1, grace_period=1), ADWIN()
    for error in wrong:
        ours.update([error])
        adwin.update(int(error))
        assert ours.width == adwin.width
        if adwin.drift_detected:  # River's forgets everything then
            break


@pytest.mark.parametrize("name", sorted(MONITORS))
@settings(max_examples=20)
@given(data=st.data())
def test_cutting_and_resuming_change_nothing(name, data):
    wrong = data.draw(errors())
    whole, part = MONITORS[name](), MONITORS[name]()
    cut = data.draw(st.integers(0, len(wrong)))
    found = part.update(wrong[:cut])
    resumed = MONITORS[name]().restore(part.arrays())
    assert [*found, *resumed.update(wrong[cut:])] == whole.update(wrong)
    assert {k: v.tobytes() for k, v in resumed.arrays().items()} == {k: v.tobytes() for k, v in whole.arrays().items()}


@pytest.mark.parametrize("name", ["adwin", "page-hinkley"])
def test_a_standing_stream_is_left_in_peace(name):
    """Of 40 streams of 5,000 rows of one error rate hardly any is told to change; DDM promises no such thing."""
    rng = np.random.default_rng(5)
    alarms = sum(bool(MONITORS[name]().update(rng.random(5000) < 0.1)) for _ in range(40))
    assert alarms <= 1


def test_bad_input():
    with pytest.raises(InvalidParameterError, match="adwin: delta must be a finite number > 0, got 0"):
        ADWIN(delta=0)
    with pytest.raises(InvalidInputError, match="ddm: errors must be a vector of True and False"):
        DDM().update([0.5])
    with pytest.raises(InvalidInputError, match="the arrays are not the state of this monitor"):
        DDM().restore(ADWIN().arrays())
