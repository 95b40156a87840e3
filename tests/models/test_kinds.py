"""Code outside models/ asks a model what it can do, not which kind of learner it has."""

import ast
from pathlib import Path

import pytest

import thinstream

PACKAGE = Path(thinstream.__file__).parent
#: Folders that define the parts of models. Code there may check for them.
FOLDERS = ("models", "lanes", "algorithms")
#: The model itself has no kinds.
MODEL = "Model"


def classes(tree):
    """The classes that a module defines, with the names of their bases."""
    found = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    return {node.name: {name for base in node.bases for name in names(base)} for node in found}


def names(node):
    """All names in an expression, without the modules in front of them."""
    found = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
    return found | {each.attr for each in ast.walk(node) if isinstance(each, ast.Attribute)}


def kinds(trees):
    """The classes of the parts of models, and those that other folders derive from them."""
    found, others = set(), {}
    for folder, tree in trees:
        found |= classes(tree).keys() if folder in FOLDERS else set()
        others |= classes(tree) if folder not in FOLDERS else {}
    found -= {MODEL}
    while more := {name for name, bases in others.items() if bases & found} - found:
        found |= more
    return found


def asked(tree):
    """The names that a module compares types with."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("isinstance", "issubclass"):
            found |= names(node.args[1])
        elif isinstance(node, ast.Compare) and any(
            getattr(getattr(each, "func", None), "id", "") == "type" for each in ast.walk(node)
        ):
            found |= names(node)
        elif isinstance(node, ast.MatchClass):
            found |= names(node.cls)
    return found


def test_kinds_of_learners_are_known_in_models_only():
    paths = list(PACKAGE.rglob("*.py"))
    trees = {path: (path.relative_to(PACKAGE).parts[0], ast.parse(path.read_text())) for path in paths}
    parts = kinds(trees.values())
    assert {"Pipeline", "Outputs", "Blend", "Learner", "Lanes", "BatchLearner", "BudgetTable", "Slice"} <= parts
    upper = {path: tree for path, (folder, tree) in trees.items() if folder not in FOLDERS}
    assert len(upper) > 100
    found = {str(path.relative_to(PACKAGE)): asked(tree) & parts for path, tree in upper.items()}
    assert not {name: each for name, each in found.items() if each}


@pytest.mark.parametrize(
    "code",
    [
        "isinstance(model.learner, Blend)",
        "isinstance(one, (int, blend.Blend))",
        "issubclass(type(one), Blend)",
        "type(one) is Blend",
        "match one:\n    case Blend():\n        pass",
    ],
)
def test_checks_are_found(code):
    assert "Blend" in asked(ast.parse(code))
    assert "Blend" not in asked(ast.parse("isinstance(one, Model)\nBlend(3)"))
