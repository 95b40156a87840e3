"""The picture of a model's curves."""

import numpy as np
import pytest

from thinstream.errors import UnknownNameError
from thinstream.training.metrics import GrowingProgress, Progress
from thinstream.training.picture import draw_curves

pytest.importorskip("matplotlib")
rng = np.random.default_rng(0)


def counted(n_classes):
    progress = Progress(n_classes)
    y = rng.integers(0, n_classes, 500)
    if n_classes == 2:
        progress.update(rng.normal(size=500) + y, (2 * y - 1).astype(np.int8))
    else:
        progress.update(rng.normal(size=(500, n_classes)), y.astype(np.int32))
    return progress


@pytest.mark.parametrize("ending", ["png", "svg"])
@pytest.mark.parametrize(("n_classes", "probabilities"), [(2, True), (2, False), (3, False), (70, False)])
def test_the_same_curves_give_the_same_bytes(n_classes, probabilities, ending, tmp_path):
    progress, names = counted(n_classes), [f"class $_{k}" for k in range(n_classes)]
    for name in ("one", "two"):
        draw_curves(progress, names, "A model on $data", tmp_path / f"{name}.{ending}", probabilities=probabilities)
    one, two = ((tmp_path / f"{name}.{ending}").read_bytes() for name in ("one", "two"))
    assert one == two
    assert len(one) > 10_000
    if ending == "svg":
        assert (b"calibration" in one) == probabilities


def test_one_class_alone_and_classes_that_come_later(tmp_path):
    progress = Progress()
    progress.update(np.array([1.0, 2.0]), np.array([-1, -1], np.int8))
    draw_curves(progress, ["no", "yes"], "one class", tmp_path / "a.png", probabilities=True)
    growing = GrowingProgress(0)
    growing.update(np.array([[0.0, 0.0], [1.0, 2.0]]), np.array([0, 1], np.int32))
    draw_curves(growing, ["no", "yes"], "growing", tmp_path / "b.png", probabilities=True)


def test_other_endings_are_refused(tmp_path):
    with pytest.raises(UnknownNameError, match=r"must be '\.png' or '\.svg', got '\.gif'"):
        draw_curves(counted(2), ["no", "yes"], "", tmp_path / "a.gif", probabilities=True)
