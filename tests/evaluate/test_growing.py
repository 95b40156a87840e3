"""Metrics of a model whose classes came as they came: those of classes told before, in any chunks."""

import numpy as np
import pytest

from thinstream.evaluate import Progress
from thinstream.evaluate.growing import KnownProgress
from thinstream.evaluate.tally import MOST_CLASSES

LOWEST = np.finfo(np.float32).min


@pytest.mark.parametrize("size", [1, 7, 300])
def test_classes_unknown_to_the_model_count_as_if_known_from_the_start(size):
    rng = np.random.default_rng(0)
    y = np.concatenate([rng.integers(0, 3, 150), rng.integers(0, 5, 150)]).astype(np.int32)
    scores = rng.normal(size=(300, 5)).astype(np.float32)
    scores[:, 3:] = LOWEST  # the model has met three
    whole, progress, n = Progress(5), KnownProgress(3), 3
    whole.update(scores, y)
    for start in range(0, 300, size):
        rows = slice(start, start + size)
        n = max(n, int(y[rows].max()) + 1)
        progress.update(scores[rows, :n], y[rows])
    found, expected = progress.report(), whole.report()
    assert found.each
    for name in ("error", "confusion", "average_precisions", "average_precision", "examples", "precision"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
    assert progress.counted.is_consistent()


def test_of_too_many_classes_neither_matrix_nor_bins_are_kept():
    progress = KnownProgress(2)
    progress.update(np.zeros((1, 2)), np.zeros(1, np.int32))
    progress.update(np.zeros((1, MOST_CLASSES + 1)), np.zeros(1, np.int32))
    report = progress.report()
    assert (report.rows, report.confusion, report.average_precisions) == (2, (), ())
