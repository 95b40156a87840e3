"""What is generated from the registry is up to date, and the docs say what the code does."""

import ast
import importlib
import inspect
import re
from pathlib import Path

import pytest
from tools.generate import generated

import thinstream as ts
from thinstream.algorithms import registry
from thinstream.estimators import algorithms

NAMES = [algorithm.name for algorithm in ts.algorithms()]


def test_generated_files_are_up_to_date():
    """``make docs`` would change nothing."""
    for file, content in generated().items():
        assert file.read_text() == content, f"{file.name}: run `make docs`"


def test_type_checkers_know_every_name():
    """The package imports for type checkers exactly what `dir` lists."""
    tree = ast.parse(Path(ts.__file__).read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If))
    imports = [(node.module, name.name) for node in block.body for name in node.names]
    for module, name in imports:
        if name != "*":
            offered = getattr(ts, name)
            if name == "algorithms":  # the package, which can be called as the function
                assert offered() == registry.algorithms()
                continue
            assert getattr(importlib.import_module(module), name) is offered, name
    assert ("thinstream.estimators.algorithms", "*") in imports
    names = {name for _, name in imports} - {"*"} | set(algorithms.__all__) | {"__version__"}
    assert sorted(names) == dir(ts)


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
