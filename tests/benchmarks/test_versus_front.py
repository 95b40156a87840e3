"""The README's picture and table are those of docs/versus.csv."""

from pathlib import Path

from benchmarks.versus.front import AUTO, LINES, SIZES, curves, table, title, with_table
from benchmarks.versus.keeping import load

ROOT = Path(__file__).parents[2]
ROWS = load(ROOT / "docs" / "versus.csv")


def test_the_table_is_up_to_date():
    readme = (ROOT / "README.md").read_text()
    assert with_table(readme, ROWS) == readme, "run `python -m benchmarks.versus.front`"


def test_the_table_counts_differences_of_two_standard_errors():
    rows = [{"set": name, "tool": "thinstream", "column": "auto", "error": 2.0} for name in "abc"]
    rows += [
        {"set": name, "tool": "River", "column": "tuned", "error": error, "test_rows": 10_000}
        for name, error in zip("abc", (1.0, 2.2, 3.0), strict=True)
    ]
    line = next(line for line in table(rows).split("\n") if "River" in line)
    assert line == "| River, tuned | 3 | 1 | 1 | 1 (a) |"


def test_a_larger_model_is_no_worse():
    found = curves(ROWS)
    assert list(found) == list(LINES)
    for line in found.values():
        assert [error for _, error in line] == sorted((error for _, error in line), reverse=True)
        assert [size for size, _ in line] == SIZES[-len(line) :]


def test_a_curve_is_the_mean_of_the_best():
    rows = [
        {"set": name, "tool": "thinstream", "column": "thin", "nnz": nnz, "error": error}
        for name, nnz, error in [("a", 50, 8.0), ("a", 90, 9.0), ("b", 80, 2.0), ("b", 5000, 0.5)]
    ]
    found = dict(curves(rows)[AUTO])
    assert abs(found[100] - 4.0) < 1e-9
    assert abs(found[10_000] - 2.0) < 1e-9


def test_the_title_states_up_to_which_size_refitted_models_are_best():
    lines = {AUTO: [(100, 3.0), (1778, 2.0), (5000, 2.0)], "River, tuned": [(1778, 2.5), (5000, 1.9)]}
    assert "up to 1,000 weights" in title(lines)
