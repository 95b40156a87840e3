"""The examples run on the head of their data, say something, and leave a picture; without data they say what to do."""

import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

from thinstream.experiments.data import is_here

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


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow if name in ("one_pass_tuning", "five_hundred_words") else ())
        for name in STORIES
    ],
)
def test_example(name, tmp_path, capsys, monkeypatch):
    needed, said = STORIES[name]
    if not is_here(needed):
        pytest.skip(f"needs the data set {needed} in the folder named by THINSTREAM_DATA")
    monkeypatch.syspath_prepend(str(FOLDER))
    picture = tmp_path / "picture.png"
    importlib.import_module(name).main(600, str(picture))
    printed = capsys.readouterr().out
    found = re.search(said, printed)
    assert found, printed
    if name == "five_hundred_words":
        assert 0 < int(found[1]) <= 500
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_without_data_an_example_says_what_it_needs(tmp_path, monkeypatch):
    monkeypatch.setenv("THINSTREAM_DATA", str(tmp_path))
    done = subprocess.run([sys.executable, FOLDER / "electricity.py"], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith("data set 'elec2' (45,312 rows, 6 features) is not in ")
    assert "Traceback" not in done.stderr
