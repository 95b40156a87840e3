"""Slots of feature numbers: beside a dict, however rows are cut."""

import pickle

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from thinstream.batch import Batch
from thinstream.models.slots import BEYOND, SlotTable

WIDTH = 2**31 - 1
numbers = st.integers(0, 40) | st.integers(0, 40).map(lambda k: k * 65536) | st.integers(0, WIDTH - 1)
streams = st.lists(st.lists(numbers, unique=True, max_size=12).map(sorted), max_size=12)


def batch_of(rows, dtype=np.int32):
    indptr = np.cumsum([0, *map(len, rows)])
    indices = np.array([number for row in rows for number in row], dtype)
    return Batch.of(indptr, indices, np.ones(len(indices), np.float32), WIDTH)


def naive_slots(rows):
    known = {}
    return [[known.setdefault(number, len(known) + 1) for number in row] for row in rows], known


@given(streams, st.integers(1, 12), st.sampled_from([np.int32, np.int64]))
def test_numbers_get_slots_in_the_order_of_first_appearance_in_any_chunks(rows, step, dtype):
    expected, known = naive_slots(rows)
    table, found = SlotTable(), []
    for start in range(0, len(rows), step):
        found += table.admit(batch_of(rows[start : start + step], dtype)).indices.tolist()
    assert found == [slot for row in expected for slot in row]
    assert table.numbers.tolist() == list(known)


@given(streams, streams)
def test_finding_adds_nothing(learned, asked):
    _, known = naive_slots(learned)
    table = SlotTable()
    table.admit(batch_of(learned))
    found = table.find(batch_of(asked), WIDTH)
    assert found.indices.tolist() == [known.get(number, 0) for row in asked for number in row]
    assert table.numbers.tolist() == list(known)


def test_a_number_that_is_not_below_the_width_is_beyond_all_slots():
    table = SlotTable.of(np.array([3, 5]))
    found = table.find(batch_of([[3, 4, 9]]), 5)
    assert found.indices.tolist() == [1, 0, BEYOND]
    assert found.n_features == BEYOND + 1


def test_a_hundred_thousand_numbers_that_differ_in_high_bits_only_are_found_again():
    many = np.arange(100_000) << 14
    table = SlotTable()
    found = table.admit(batch_of([many.tolist()]))
    assert np.array_equal(found.indices, np.arange(1, 100_001))
    again = pickle.loads(pickle.dumps(SlotTable.of(table.numbers)))
    assert np.array_equal(again.find(batch_of([many.tolist()]), WIDTH).indices, found.indices)
    assert table.nbytes < 64 * len(many)
