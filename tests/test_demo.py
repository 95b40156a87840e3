"""The demo collects masked docstrings, and its commands give a model and a thin model of them."""

import json
import re

import pytest

from thinstream.cli.commands import demo
from thinstream.errors import ThinstreamError

pytest.importorskip("matplotlib", reason="the pictures need matplotlib")


def test_docstrings_are_masked_and_different():
    texts = demo.docstrings("numpy")
    assert len(texts) == len(set(texts)) > 1000
    assert not any(re.search("numpy|scipy|sklearn", text, re.IGNORECASE) for text in texts)


def test_a_package_that_is_not_installed_is_named():
    with pytest.raises(ThinstreamError, match="no_such_package, which is not installed"):
        demo.docstrings("no_such_package")


def test_commands_train_and_thin_a_model(tmp_path, capfd, monkeypatch):
    """On every twelfth text, so that it takes seconds. The whole demo has an error of about 10%."""
    every = demo.docstrings
    monkeypatch.setattr(demo, "docstrings", lambda package: every(package)[::12])
    demo.demo(str(tmp_path / "demo"))
    out = capfd.readouterr().out
    errors = [float(error) for error in re.findall(r"^error +([\d.]+)", out, re.MULTILINE)]
    base = float(re.findall(r"always predicting SciPy: ([\d.]+)", out)[1])
    assert len(errors) == 3
    assert errors[1] < base / 2
    assert errors[2] < base
    for command in demo.COMMANDS:
        assert f"$ thinstream {command}" in out
    assert (tmp_path / "demo" / "error.png").read_bytes().startswith(b"\x89PNG")
    assert "<html" in (tmp_path / "demo" / "report.html").read_text()
    small, large = (tmp_path / "demo" / name for name in (demo.SMALL, demo.MODEL))
    assert small.stat().st_size < large.stat().st_size / 10
    rows = (tmp_path / "demo" / demo.TRAIN).read_text().splitlines()
    assert {json.loads(row)["library"] for row in rows} == set(demo.LIBRARIES.values())
    words = demo.important_words(tmp_path / "demo")
    assert all(len(words[library]) > 5 for library in demo.LIBRARIES.values())


def test_a_command_that_fails_stops_the_demo(tmp_path, monkeypatch):
    monkeypatch.setattr(demo, "COMMANDS", ["evaluate none.jsonl -m none.ts"])
    monkeypatch.setattr(
        demo, "docstrings", lambda package: [f"{package} has a long docstring, number {k}" for k in range(9)]
    )
    with pytest.raises(ThinstreamError, match="exit code 1"):
        demo.demo(str(tmp_path))
