"""Tests that run without jit are where the Makefile looks for them."""

import re
from pathlib import Path

TESTS = Path(__file__).parent


def test_marks_of_twins_are_in_the_files_of_their_tests():
    """Helpers give marks to tests of their own folder only, which the Makefile names."""
    marks = re.compile(r"mark\.(twin|interpreted)\b")
    helpers = [path for path in TESTS.rglob("*.py") if marks.search(path.read_text()) and path.stem[:5] != "test_"]
    assert {path.parent for path in helpers} == {TESTS / "algorithms" / "online"}
