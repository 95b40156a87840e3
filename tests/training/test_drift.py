"""Monitors in a run: what they find is the same however the stream is cut, stopped and gone on with."""

import numpy as np
import pytest
import scipy.sparse as sp

from thinstream.data import from_memory
from thinstream.data.labels import Classes
from thinstream.errors import InvalidInputError
from thinstream.models.model import Model
from thinstream.training.checkpoint import Checkpoints
from thinstream.training.monitors import DriftWatch
from thinstream.training.observer import Observer
from thinstream.training.run import Run


class Turn(Observer):
    """Keeps what it is told."""

    def __init__(self):
        self.detections = []

    def changed(self, monitor, row, since):
        self.detections.append((monitor, row, since))


def turning(rows_per_batch=500, until=4000):
    """A concept that turns around after 2,000 rows."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(4000, 5))
    y = np.where(X @ np.arange(1, 6) > 0, 1, -1)
    y[2000:] *= -1
    weights = np.ones(4000)
    weights[::10] = 0
    return from_memory(sp.csr_matrix(X[:until]), y[:until], weights[:until], rows_per_batch=rows_per_batch)


def run_of(stream, monitors=("adwin", "ddm", "page-hinkley"), **more):
    watch, drift = Turn(), DriftWatch(monitors)
    return Run(stream, Model.fresh("arow", Classes(-1, 1), None, grow=True), watch=watch, drift=drift, **more)


@pytest.mark.parametrize("rows", [1, 77, 4000])
def test_a_turn_is_found_by_all(rows):
    run = run_of(turning(rows))
    run.run()
    rows_learned = 1800
    first = {name: row for name, row, _ in reversed(run.watch.detections)}
    assert set(first) == {"adwin", "ddm", "page-hinkley"}
    assert all(rows_learned < row < rows_learned + 400 for row in first.values())
    assert [(told.monitor, *told.change) for told in run.drift.detections] == run.watch.detections
    assert run.watch.detections == whole_run().watch.detections
    errors = [stretch.error for stretch in run.drift.curve.stretches()]
    middle = len(errors) // 2
    assert np.mean(errors[middle : middle + 20]) > 3 * np.mean(errors[middle - 20 : middle])


def whole_run():
    run = run_of(turning(4000))
    run.run()
    return run


def test_a_resumed_run_finds_the_same(tmp_path):
    checkpoints = Checkpoints(tmp_path / "c", every=700)
    stopped = run_of(turning(100), checkpoints=checkpoints)
    original, calls = stopped.drift.update, []

    def until_row_2500(wrong):
        calls.append(wrong)
        if len(calls) > 28:
            raise KeyboardInterrupt
        return original(wrong)

    stopped.drift.update = until_row_2500
    with pytest.raises(KeyboardInterrupt):
        stopped.run()
    other = run_of(turning(100), ("ddm",), checkpoints=checkpoints)
    with pytest.raises(InvalidInputError, match="the source differs in monitors"):
        other.resume()
    resumed = run_of(turning(100), checkpoints=checkpoints)
    assert resumed.resume()
    resumed.run()
    whole = whole_run()
    assert resumed.drift.detections == whole.drift.detections
    assert resumed.drift.curve.stretches() == whole.drift.curve.stretches()
