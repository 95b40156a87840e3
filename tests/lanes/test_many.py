"""Thousands of rules made at once are those made one by one, and what is not allowed is told in the same words."""

import numpy as np
import pytest

from tests.lanes.cuda.cases import spread, variants
from thinstream.algorithms.registry import find, rule_of
from thinstream.engine.protocol import require_sound
from thinstream.errors import InvalidParameterError
from thinstream.lanes.block import make_lanes, rules_of


@pytest.mark.parametrize(("name", "choice"), list(variants()), ids=str)
def test_rules_are_those_made_one_by_one(name, choice):
    many, kind = spread(name, choice, 5), np.dtype(np.float32)
    expected = [rule_of(find(name), dict(given)) for given in many]
    found = rules_of(find(name), many, kind, grow=False)
    assert found == expected
    assert [list(map(type, rule)) for rule in found] == [list(map(type, rule)) for rule in expected]


BAD = [
    ("fsol", {"eta": 0.0}),
    ("fsol", {"eta": float("nan")}),
    ("fsol", {"eta": float("inf")}),
    ("fsol", {"eta": 1e39}),
    ("fsol", {"eta": 10**400}),
    ("fsol", {"eta": "1"}),
    ("fsol", {"eta": True}),
    ("fsol", {"eta": 1.0, "l1_schedule": "cubic"}),
    ("fsol", {"eta": 1.0, "lambda": 1.0}),
    ("sofs", {"B": 0}),
    ("sofs", {"B": 2.5}),
]


@pytest.mark.parametrize(("name", "bad"), BAD, ids=str)
def test_what_is_not_allowed_is_told_as_of_one(name, bad):
    good = {"sofs": {"B": 3}, "fsol": {"eta": 1.0}}.get(name, {})

    def one():
        rule = rule_of(find(name), dict(bad))
        require_sound(find(name).name, rule, np.dtype(np.float32), False, bad)

    with pytest.raises(InvalidParameterError) as alone:
        one()
    with pytest.raises(InvalidParameterError) as together:
        make_lanes(name, [good, good, bad], 3, "float32", False, False, None)
    assert str(together.value) == str(alone.value)


def test_a_state_that_cannot_begin_is_told():
    with pytest.raises(InvalidParameterError, match="does not fit into"):
        make_lanes("arow", [{"a": 1.0}, {"a": 1e-44}], 3, "float32", False, False, None)
