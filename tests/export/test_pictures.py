"""Pictures of models of every size, and the words on them."""

import numpy as np
import pytest

from tests.export.linear_models import AWKWARD, made
from thinstream.export.picture import draw, headline, percent, shortened


@pytest.mark.parametrize(
    "weights",
    [[0.0], [3.0], [-1e-30], [1.0] * 40, [1e-38, 1e38, -1.0], np.linspace(-1, 1, 20_001)],
    ids=["none", "one", "tiny", "equal", "far apart", "many"],
)
@pytest.mark.parametrize("extension", ["png", "svg"])
def test_pictures_of_any_model(weights, extension, tmp_path):
    """No warning either: they are errors here."""
    path = tmp_path / f"m.{extension}"
    draw(made(weights, names=dict(enumerate(AWKWARD)), classes=("$", "日本 " * 30), intercept=-0.5), path)
    head = {"png": b"\x89PNG", "svg": b"<?xml"}[extension]
    assert path.read_bytes().startswith(head)
    assert path.stat().st_size < 400_000


def test_pictures_of_more_classes(tmp_path):
    model = made(np.eye(3, 50), classes=("$a", "日本 " * 30, "c"), names={1: "one"})
    draw(model, tmp_path / "m.svg")
    text = (tmp_path / "m.svg").read_text()
    assert headline(model) == "FSOL: 3 of 150 weights of 3 classes are not zero (98.0% sparse)"
    assert all(f"<!-- {name} -->" in text for name in ("column 0 · $a", "column 2 · c", "◀ other classes"))


def test_names_fit():
    long = "x" * 30 + "y" * 30
    assert shortened(long) == "x" * 18 + "…" + "y" * 17
    assert shortened("x" * 36) == "x" * 36
    assert shortened("a\nb\x00日") == "a\\nb\\x00日"


def test_a_headline_never_rounds_to_all_or_nothing():
    assert percent(5, 5) == "100%"
    assert percent(1, 10**9) == "0.0000001%"
    assert headline(made([0.0, 1.0, 2.0], intercept=0.25)) == (
        "FSOL: 2 of 3 weights are not zero (33.3% sparse), intercept 0.25"
    )
    assert "sparse" not in headline(made([]))
