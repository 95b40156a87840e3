"""The examples run on the head of their data, say something, and leave a picture; without data on rows made up."""

import importlib
import re
from pathlib import Path

import pytest

from thinstream.datasets import present

FOLDER = Path(__file__).parents[2] / "examples"
#: Example → its data set, and what it prints.
STORIES = {
    "spam_stream": ("trec07p", r"AdaRDA, few tokens +\d+\.\d\d% "),
    "malicious_urls": ("phish-url-pdd", r"ARCSOGD +50 +\d+\.\d%"),
    "five_hundred_words": ("20news-bydate", r"picked: (\d+) words, wrong on \d+\.\d%"),
    "electricity": ("elec2", r"as half an hour ago +\d+\.\d"),
    "one_pass_tuning": ("reuters21578-acq", r"77 candidates × 5 folds on 600 articles"),
}


def test_every_example_is_tested_and_described():
    scripts = {path.stem for path in FOLDER.glob("*.py")} - {"story"}
    assert scripts == set(STORIES)
    page = (FOLDER / "README.md").read_text()
    for name in STORIES:
        assert f"{name}.py" in page
        assert (FOLDER / f"{name}.png").read_bytes().startswith(b"\x89PNG")


every_story = pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow if name in ("one_pass_tuning", "five_hundred_words") else ())
        for name in STORIES
    ],
)


@every_story
def test_example(name, tmp_path, capsys, monkeypatch):
    if STORIES[name][0] not in present():
        pytest.skip(f"needs the data set {STORIES[name][0]} in the folder named by THINSTREAM_DATA")
    told(name, tmp_path, capsys, monkeypatch)


@every_story
def test_example_on_a_fresh_machine(name, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("THINSTREAM_DATA", str(tmp_path))
    printed = told(name, tmp_path, capsys, monkeypatch)
    assert printed.startswith(f"the dataset {STORIES[name][0]!r} ")
    assert "Made-up rows stand in for it" in printed


def told(name, tmp_path, capsys, monkeypatch):
    """What an example prints, which has left a picture."""
    said = STORIES[name][1]
    monkeypatch.syspath_prepend(str(FOLDER))
    picture = tmp_path / "picture.png"
    importlib.import_module(name).main(600, str(picture))
    printed = capsys.readouterr().out
    found = re.search(said, printed)
    assert found, printed
    if name == "five_hundred_words":
        assert 0 < int(found[1]) <= 500
    assert picture.read_bytes().startswith(b"\x89PNG")
    return printed
