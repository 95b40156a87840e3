"""Generated tables of the docs are stamped with what the learners they measure compute, and the stamps are current."""

from pathlib import Path

import pytest
from benchmarks.pages import MEASURED, digest, put, stamps
from benchmarks.versus.keeping import load

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
#: Parts with times of one machine, or rows of docs/versus.csv, which have their own stamps.
WITHOUT = {"peers", "cost model", "shards", "ranks", "mini-batches"}
PARTS = [(page, part, stamp) for page in PAGES for part, stamp in stamps(page.read_text("utf-8")).items()]


def test_every_part_has_a_stamp():
    assert {part for _, part, stamp in PARTS if not stamp} == WITHOUT
    assert {part for _, part, stamp in PARTS if stamp} == set(MEASURED)


@pytest.mark.parametrize(("page", "part", "stamp"), PARTS, ids=[part for _, part, _ in PARTS])
def test_stamps_are_current(page, part, stamp):
    if stamp:
        advice = f"the learners behind the table {part!r} changed: run the command in its marker in {page.name}"
        assert stamp == digest(*MEASURED[part]), advice


def test_rows_of_versus_are_current():
    """Rows of Auto and of refitted models have a stamp, or none if they were measured before stamps existed."""
    rows = load(ROOT / "docs" / "versus.csv")
    stamps = {"auto": digest("Auto"), "thin": digest("Auto", "thin")}
    stamped = [row for row in rows if row.get("code")]
    changed = {(row["set"], row["column"]) for row in stamped if row["code"] != stamps[row["column"]]}
    assert not changed, "run `python -m benchmarks.versus --auto` and `--thin`"


def test_a_part_is_stamped(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("<!-- budgets: begin (make it; code 0) -->\nold\n<!-- budgets: end -->\n")
    put(page, "budgets", "new")
    assert page.read_text() == f"<!-- budgets: begin (make it; code {digest('AROW')}) -->\nnew\n<!-- budgets: end -->\n"


def test_a_digest_follows_the_learners():
    assert digest("AROW") != digest("FSOL")
    assert digest("AROW") != digest("AROW", "FSOL")
