"""User-facing text and code avoid the phrases and names of `tools/language.py`. Budgets may only fall."""

from collections import Counter
from functools import cache

from tools.language import Hit, hits, names_of_python, phrases_in, prose_of_markdown, texts_of_python

#: How often a phrase or name may still occur: in text for users, in internal docstrings and comments, as a variable.
BUDGET = {"users": 0, "code": 1, "names": 5}


@cache
def occurrences() -> tuple[Hit, ...]:
    return tuple(hits())


def test_no_more_phrases_than_the_budget_allows():
    counts = Counter(hit.audience for hit in occurrences())
    above = {audience: (counts[audience], budget) for audience, budget in BUDGET.items() if counts[audience] > budget}
    assert not above, "\n".join(f"{hit.path}:{hit.line}: {hit.pattern}: {hit.text}" for hit in occurrences())[-5000:]


def test_phrases_are_detected():
    text = "Where a class is named, it is told by whoever learns along."
    assert {hit.pattern for hit in phrases_in("users", "x", 1, text)} == {
        "Where ...",
        "is told, is said",
        "who",
        "learns along",
    }
    assert not list(phrases_in("users", "x", 1, "If a class is named, thinstream prints it."))


def test_code_blocks_of_pages_are_left_out():
    page = "A line\n```sh\nis told\n```\nand `is told` too"
    assert list(prose_of_markdown(page)) == [(1, "A line"), (5, "and  too")]


def test_texts_and_names_of_a_module_are_told_apart():
    source = '"""Doc."""\nfound = f"a {1} b"  # note\n\n\ndef f(kind):\n    """Do."""\n    return "text"\n'
    assert sorted(texts_of_python(source)) == [
        ("comment", 2, "note"),
        ("docstring", 1, "Doc."),
        ("docstring", 6, "Do."),
        ("string", 2, "a {} b"),
        ("string", 7, "text"),
    ]
    assert sorted(names_of_python(source)) == [(2, "found"), (5, "kind")]
