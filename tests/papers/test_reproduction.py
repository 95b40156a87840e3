"""docs/reproduction.md and the pages beside it say what their rows say."""

import shutil
from pathlib import Path

import pytest
from papers.catalogue import experiments
from papers.keeping import kept
from papers.writing import write_page, write_summary, write_text

DOCS = Path(__file__).parents[2] / "docs"
RESULTS = DOCS / "reproduction"


def test_the_summary_follows_from_the_rows(tmp_path):
    """``python -m papers all --pages --out docs/reproduction`` would change nothing."""
    shutil.copytree(RESULTS, tmp_path / "reproduction", ignore=shutil.ignore_patterns(".cells"))
    page = write_summary(list(experiments().values()), tmp_path / "reproduction")
    assert page.read_text() == (DOCS / "reproduction.md").read_text()


@pytest.mark.parametrize("name", experiments())
def test_pages_follow_from_the_rows(name, tmp_path):
    result = kept(RESULTS, name)
    assert result is not None, f"run: python -m papers {name} --out docs/reproduction"
    assert not result.smoke
    write_text(experiments()[name], result, tmp_path)
    assert (tmp_path / f"{name}.md").read_text() == (RESULTS / f"{name}.md").read_text()


@pytest.mark.parametrize(
    "name", [name if name == "p0-fig2" else pytest.param(name, marks=pytest.mark.slow) for name in experiments()]
)
def test_pictures_follow_from_the_rows(name, tmp_path):
    """They are drawn, which takes a second or two each; their bytes depend on the release of matplotlib."""
    result = kept(RESULTS, name)
    assert result is not None
    write_page(experiments()[name], result, tmp_path)
    assert (tmp_path / f"{name}.png").stat().st_size > 10_000
    assert (tmp_path / f"{name}.md").read_text() == (RESULTS / f"{name}.md").read_text()
