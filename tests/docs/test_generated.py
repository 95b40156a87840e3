"""What is generated from the registry is up to date, and the docs say what the code does."""

import inspect
import re

import pytest
from tools.generate import generated

import thinstream as ts

NAMES = [algorithm.name for algorithm in ts.algorithms()]


def test_generated_files_are_up_to_date():
    """``make docs`` would change nothing."""
    for file, content in generated().items():
        assert file.read_text() == content, f"{file.name}: run `make docs`"


@pytest.mark.parametrize("name", ["Auto", *NAMES])
def test_docstrings_list_the_parameters_of_the_signature(name):
    """Names and defaults in the docstring are those of the signature, in its order."""
    cls = getattr(ts, name)
    text = inspect.getdoc(cls)
    section = text[text.index("Parameters\n") : text.index("Attributes\n")]
    documented = re.findall(r"^(\w+) : .*?(?:default=(.+))?$", section, flags=re.M)
    expected = [(p.name, p.default) for p in inspect.signature(cls).parameters.values()]
    assert [n for n, _ in documented] == [n for n, _ in expected]
    for (parameter, shown), (_, default) in zip(documented, expected, strict=True):
        assert eval(shown) == default, parameter


@pytest.mark.parametrize("name", NAMES)
def test_every_algorithm_says_where_it_comes_from(name):
    """A paper, an order, a summary and an example for each."""
    algorithm = next(a for a in ts.algorithms() if a.name == name)
    assert re.search(r"^P[0-3]\b|\b(19|20)\d\d$", algorithm.paper)
    assert algorithm.order in ("first", "second")
    assert algorithm.summary.endswith(".")
    assert ">>> ts." in algorithm.rule.__doc__
    assert re.search(r"\bP[0-3]\b|\((19|20)\d\d\)", inspect.getmodule(algorithm.rule).__doc__)
