"""Rows sorted by class, as a whole or in blocks, are found in any chunks; others are not taken for such."""

import numpy as np
import pytest

from thinstream.data.labels import LabelOrder


@pytest.mark.parametrize("dtype", ["int8", "int32"])
@pytest.mark.parametrize("size", [1, 7, 2000])
def test_sorted_labels_are_found_in_any_chunks(dtype, size):
    labels = np.array([-1, 1] if dtype == "int8" else [0, 1, 2], dtype)
    y = np.random.default_rng(0).choice(labels, 2000)
    for given_, expected in ((y, False), (np.sort(y), True), (y[:30], False), (np.sort(y)[:15], False)):
        order = LabelOrder()
        for start in range(0, len(given_), size):
            order.update(given_[start : start + size])
        assert order.looks_sorted is expected
        counts = [np.count_nonzero(given_ == label) for label in labels]
        assert order.examples.tolist() == counts[: len(order.examples)]
        assert order.examples.sum() == len(given_)
    order = LabelOrder()
    order.update(np.full(2000, labels[-1]))
    assert not order.looks_sorted


@pytest.mark.parametrize("size", [7, 5000, 20_000])
def test_labels_sorted_in_blocks_are_found(size):
    def looks_sorted(y):
        order = LabelOrder()
        for start in range(0, len(y), size):
            order.update(y[start : start + size])
        return order.looks_sorted

    blocks = np.tile(np.repeat(np.array([-1, 1], np.int8), [1092, 26]), 10)  # 20 runs, of 509 in random order
    assert looks_sorted(blocks)
    assert not looks_sorted(np.random.default_rng(0).permutation(blocks))
    lasting = np.empty(20_000, np.int8)  # a label is that of the row before but for one in seven
    lasting[:] = np.where(np.cumsum(np.random.default_rng(1).random(20_000) < 1 / 7) % 2, 1, -1)
    assert not looks_sorted(lasting)
    rare = np.full(2000, -1, np.int8)
    rare[-9:] = 1  # too few to tell
    assert not looks_sorted(rare)
    rare[-12:] = 1
    assert looks_sorted(rare)


def test_few_rows_say_enough():
    for y in (np.repeat(np.arange(3, dtype=np.int32), 50), np.repeat(np.array([-1, 1], np.int8), 50)):
        order = LabelOrder()
        order.update(y)
        assert order.looks_sorted
        order = LabelOrder()
        order.update(np.random.default_rng(0).permutation(y))
        assert not order.looks_sorted
