"""The demo on a short stream: a table, a picture, silence where there is no terminal."""

import sys

import pytest

from thinstream import demo
from thinstream.tune.candidates import grid

pytest.importorskip("matplotlib", reason="the picture needs matplotlib")


@pytest.fixture
def few(monkeypatch):
    """Two contestants and few values of l1, so that it takes no time."""
    monkeypatch.setattr(demo, "CONTESTANTS", {k: demo.CONTESTANTS[k] for k in ("FSOL", "RDA")})
    monkeypatch.setattr(demo, "L1", [1e-2, 1e2, 1e9])
    monkeypatch.setattr(demo, "grid", lambda space: grid(space)[:2])


@pytest.mark.usefixtures("few")
def test_table_and_picture(tmp_path, capsys):
    """One line per contestant; models without weights are left out of the table; a PNG is written."""
    picture = tmp_path / "curve.png"
    demo.run(500, out=str(picture))
    out, err = capsys.readouterr()
    lines = [line for line in out.splitlines() if line.startswith(("FSOL", "RDA"))]
    assert len(lines) == 2
    assert all(line.endswith(" s") for line in lines)
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert err == ""


@pytest.mark.usefixtures("few")
def test_without_matplotlib(tmp_path, capsys, monkeypatch):
    """The table is there all the same, and how to get the picture."""
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    demo.run(200, out=str(tmp_path / "none.png"))
    assert "pip install 'thinstream[plot]'" in capsys.readouterr().out
