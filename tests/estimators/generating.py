"""Estimators of algorithms that tests declare."""

import pytest
from tools.estimators import source

from thinstream.algorithms.registry import find
from thinstream.estimators import algorithms


def generate_estimator(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Add the class that `make docs` would write to the module of the estimators, until the test ends."""
    scope = dict(vars(algorithms))
    exec(source(find(name)), scope)
    monkeypatch.setattr(algorithms, name, scope[name], raising=False)
