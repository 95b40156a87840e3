"""The recipes' pictures are drawn by their scripts, and show what the pages say; the commands are in test_docs.py."""

import importlib.util
import re
from pathlib import Path

import pytest

pytest.importorskip("matplotlib", reason="pictures need it")
FOLDER = Path(__file__).parents[2] / "docs" / "recipes"


def script(name):
    spec = importlib.util.spec_from_file_location(f"recipe_{name}", FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_page_is_listed_and_has_its_picture():
    pages = {path.name for path in FOLDER.glob("*.md")} - {"README.md"}
    assert set(re.findall(r"\]\(([\w-]+\.md)\)", (FOLDER / "README.md").read_text())) == pages
    for page in pages:
        pictures = re.findall(r"!\[.*\]\(([\w-]+\.png)\)", (FOLDER / page).read_text())
        assert pictures, page
        assert all((FOLDER / picture).read_bytes().startswith(b"\x89PNG") for picture in pictures)


def test_crosses(tmp_path):
    errors = script("crosses").main(tmp_path / "crosses.png", rows=6000)
    assert errors["user and genre"] > 0.3
    assert errors["and user × genre"] < 0.1
    assert (tmp_path / "crosses.png").stat().st_size > 10_000


def test_huge_vocabularies(tmp_path):
    errors = script("huge_vocabularies").main(tmp_path / "bits.png", rows=5000, bits=[8, 12, 18])
    for found in errors.values():
        assert found[0] > found[1] > found[2]
    assert (tmp_path / "bits.png").stat().st_size > 10_000


def test_texts(tmp_path):
    errors = script("texts").main(tmp_path / "texts.png", rows=3000)
    assert errors["words, tf-idf"] > 0.3
    assert errors["words, tf-idf"] > errors["pairs of words, tf-idf"] > errors["both, tf-idf"]
    assert (tmp_path / "texts.png").stat().st_size > 10_000


@pytest.mark.slow
def test_drift(tmp_path):
    ((best, errors),) = script("drift").main(tmp_path / "drift.png", rows=6000, prices=False).values()
    never, forgetting, anew = errors.values()
    assert 30 < best < 1000
    assert max(forgetting, anew) + 0.1 < never
    assert (tmp_path / "drift.png").stat().st_size > 10_000


def test_late_labels(tmp_path):
    errors = script("late_labels").main(tmp_path / "late.png", per_hour=60)
    assert errors[0] < errors[2] < errors[24]
    assert errors[24] > 0.2
    assert (tmp_path / "late.png").stat().st_size > 10_000
