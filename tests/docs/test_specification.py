"""What code and tests cite of the specification is there; every algorithm is in it and in the references."""

import inspect
import re
from pathlib import Path

import pytest

import thinstream as ts

ROOT = Path(__file__).parents[2]
SPECIFICATION = (ROOT / "docs" / "specification.md").read_text()
REFERENCES = (ROOT / "docs" / "references.md").read_text()
#: Those of the papers; one from elsewhere has its equations and its source in its own file.
ALGORITHMS = {algorithm.name: algorithm for algorithm in ts.algorithms() if re.match(r"P[0-3]\b", algorithm.paper)}

SECTIONS = {f"§{n}" for n in re.findall(r"^## (\d+)\. ", SPECIFICATION, flags=re.M)}
ENTRIES = set(re.findall(r"^\| ([DE]\d+) \| \S", SPECIFICATION, flags=re.M))


def citations(text):
    """§, D and E numbers; where "D11 to D13" are cited, its ends."""
    return set(re.findall(r"§\d+|(?<![\w-])[DE]\d{1,2}(?![\w-])", text))


def head_of(name):
    """What its file says first, on one line."""
    return " ".join(inspect.getdoc(inspect.getmodule(ALGORITHMS[name].rule)).split())


def test_the_papers_algorithms():
    assert len(ALGORITHMS) >= 27


def test_what_there_is_to_cite():
    """Sections and entries are numbered without a gap."""
    assert sorted(SECTIONS, key=lambda s: int(s[1:])) == [f"§{n}" for n in range(1, 22)]
    assert {f"D{n}" for n in range(1, 19)} | {f"E{n}" for n in range(1, 23)} == ENTRIES


@pytest.mark.parametrize("folder", ["src", "tests", "tools", "benchmarks", "docs"])
def test_what_is_cited_exists(folder):
    for file in sorted(path for suffix in ("py", "md") for path in (ROOT / folder).rglob(f"*.{suffix}")):
        unknown = citations(file.read_text()) - SECTIONS - ENTRIES
        assert not unknown, f"{file.relative_to(ROOT)}: {sorted(unknown)} not in docs/specification.md"


@pytest.mark.parametrize("name", ALGORITHMS)
def test_an_algorithm_is_specified_and_cites_its_section(name):
    """Its file names a section, and that section names the algorithm."""
    cited = re.search(r"Specification (§\d+)", head_of(name))
    assert cited, f"{name}: its file does not say 'Specification §…'"
    (section,) = re.findall(rf"^## {cited[1][1:]}\. (.*?)(?=^## |\Z)", SPECIFICATION, flags=re.M | re.S)
    assert re.search(rf"\b{name}\b", section), f"{name} is not in {cited[1]}"


@pytest.mark.parametrize("name", ALGORITHMS)
def test_an_algorithm_has_a_reference(name):
    """Its file and docs/references.md give the same title: that of P0 to P3, or of the original."""
    rows = [row for row in REFERENCES.splitlines() if row.startswith("|")]
    own = [row for row in rows if f"`{name}`" in row] or [row for row in rows if re.match(r"\| P[0-3] ", row)]
    titles = {title.split(":")[0] for row in own for title in re.findall(r"\*(.+?)\*", row)}
    assert any(title.lower() in head_of(name).lower() for title in titles), f"{name}: none of {sorted(titles)}"


def test_papers_have_authors_years_and_titles():
    for key in ("P0", "P0s", "P1", "P2", "P3"):
        assert re.search(rf"^\| {key} \| [A-Z].*: \*.+\*\. .*\b20\d\d\b", REFERENCES, flags=re.M), key
