"""The error along a stream."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thinstream.errors import InvalidInputError
from thinstream.training.observer import STRETCHES, ErrorCurve


@settings(max_examples=50)
@given(st.integers(0, 5000), st.integers(0, 5000), st.integers(0, 2**32 - 1))
def test_every_row_counts_where_it_stands(first, second, seed):
    wrong = np.random.default_rng(seed).random(first + second) < 0.3
    curve, whole = ErrorCurve(), ErrorCurve()
    curve.update(wrong[:first])
    curve = ErrorCurve.from_arrays(curve.arrays())
    curve.update(wrong[first:])
    whole.update(wrong)
    stretches = curve.stretches()
    assert stretches == whole.stretches()
    assert len(stretches) <= STRETCHES
    start = 0
    for stretch in stretches:
        assert stretch.until - start == stretch.rows
        assert stretch.wrong == wrong[start : stretch.until].sum()
        start = stretch.until
    assert start == len(wrong)
    assert len({stretch.rows for stretch in stretches[:-1]}) <= 1


def test_arrays_that_contradict_each_other():
    arrays = ErrorCurve().arrays()
    with pytest.raises(InvalidInputError, match="error curve"):
        ErrorCurve.from_arrays(arrays | {"wrong": arrays["wrong"] + 1})
