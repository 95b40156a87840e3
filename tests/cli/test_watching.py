"""``train --monitor`` and ``--plot``: where the stream changed."""

import json

import numpy as np
import pytest


@pytest.fixture
def turning(tmp_path, monkeypatch):
    """A stream whose concept turns around after 1,500 rows."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(1)
    lines = []
    for i in range(3000):
        x = rng.normal(size=4)
        lines.append(
            f"{1 if (x.sum() > 0) == (i < 1500) else -1} " + " ".join(f"{j + 1}:{v:.3f}" for j, v in enumerate(x))
        )
    (tmp_path / "turn.svm").write_text("\n".join(lines) + "\n")
    return tmp_path / "turn.svm"


def test_a_line_where_the_error_has_risen(turning, thin):
    lines = thin("train", turning, "-a", "fsol", "--monitor", "adwin,ddm").splitlines()
    found = [line for line in lines if "the error has risen" in line]
    assert any(line.startswith(" adwin: after 1,5") for line in found)
    assert any(line.startswith(" ddm: after 1,5") for line in found)
    said = thin("train", turning, "-a", "fsol", "--monitor", "adwin", "--json").splitlines()
    changes = [each for each in map(json.loads, said) if "monitor" in each]
    assert changes[0]["monitor"] == "adwin"
    assert 1500 < changes[0]["risen_at"] < 1600


@pytest.mark.parametrize("kind", ["png", "svg"])
def test_the_picture(turning, thin, tmp_path, kind):
    pytest.importorskip("matplotlib", reason="matplotlib, of the extra plot, is not installed")
    for name in ("one", "two"):
        thin("train", turning, "-a", "fsol", "--monitor", "adwin", "--plot", f"{name}.{kind}", "-q")
    drawn = (tmp_path / f"one.{kind}").read_bytes()
    assert drawn == (tmp_path / f"two.{kind}").read_bytes()
    if kind == "svg":
        assert drawn.count(b"clip-path") > 3


def test_what_cannot_be_watched(turning, thin):
    for options, said in (
        (["--monitor", "cusum"], "--monitor must be 'adwin', 'ddm' or 'page-hinkley', got 'cusum'"),
        (["--monitor", "ddm", "--engine", "local"], "--monitor and --plot are for runs in one process"),
        (["--plot", "a.gif"], "a.gif: the extension must be '.png' or '.svg', got '.gif'"),
        (["--monitor", "ddm", "-a", "bcw"], "BCW holds its rows: it has no error along the stream"),
    ):
        assert said in thin("train", turning, *options, code=2).errors
