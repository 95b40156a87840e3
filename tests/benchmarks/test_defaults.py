"""Untuned defaults are no worse than the most frequent class, on real sets where these are at hand."""

import math

import pytest
from benchmarks.defaults import MAJORITY, cell, errors, page, worse
from benchmarks.pages import put
from benchmarks.versus.contest import open_contest
from benchmarks.versus.sets import source
from papers.data import is_here


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mammography", "a9a", "australian"])
def test_no_worse_than_the_majority(name, tmp_path):
    """AROW on rows as they are; AdaRDA with scales where columns have units from 0.01 to 100,000."""
    if not is_here(source(name)):
        pytest.skip(f"{name} is not in the data folder (THINSTREAM_DATA)")
    found = errors(open_contest(name, tmp_path, smoke=False), ["AROW", "AdaRDA"])
    as_they_are, scaled = found.values()
    assert as_they_are["AROW"] <= as_they_are[MAJORITY]
    assert scaled["AdaRDA"] <= scaled[MAJORITY]
    assert name == "australian" or as_they_are["AdaRDA"] <= as_they_are[MAJORITY]


def test_the_table_tells_who_is_above():
    columns = {"one": {MAJORITY: 3.0, "AROW": 2.0, "CW": math.nan}, "two": {MAJORITY: 5.0, "AROW": 5.5, "CW": 5.0}}
    assert worse(columns) == "Above the majority: CW (one); AROW (two)."
    assert worse({"one": {MAJORITY: 3.0, "AROW": 3.0}}) == "None is above the majority anywhere."
    assert cell(3.0, 3.0) == "3.00"
    kinds = {"Raw rows": columns["one"], 'Rows with `scale="max"`': columns["two"]}
    text = page({"one": kinds, "two": kinds})
    assert "| AROW | 2.00 | 2.00 |" in text
    assert "| AROW | **5.50** | **5.50** |" in text
    assert "| CW | **stops** | **stops** |" in text


def test_a_part_of_a_page_is_replaced(tmp_path):
    path = tmp_path / "page.md"
    path.write_text("a\n<!-- x: begin (see y) -->\nold\n<!-- x: end -->\nb\n")
    put(path, "x", "new\n")
    assert path.read_text() == "a\n<!-- x: begin (see y) -->\nnew\n<!-- x: end -->\nb\n"
    with pytest.raises(SystemExit, match="has no part 'z'"):
        put(path, "z", "new")
