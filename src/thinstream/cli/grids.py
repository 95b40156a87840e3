"""Grids as they stand on a command line: lists, ranges, distributions."""

import math
import re
from typing import Any

from thinstream.cli.algorithm_options import parse_value
from thinstream.errors import InvalidParameterError

#: What parameters are called on the command line, where that differs.
CALLED = {"intercept": "fit_intercept"}


def parse_grids(texts: list[str], algorithms: list[str]) -> dict[str, dict[str, Any]]:
    """Names and values (lists or distributions) of the options ``--grid``, for each algorithm that has them.

    A name with an algorithm before it is that one's alone. An algorithm that nothing is said of has no entry.

    >>> parse_grids(["eta=0.5,2^1..2^3", "arow.r=1,2", "intercept=yes,no"], ["fsol", "arow"])["arow"]
    {'r': [1, 2], 'fit_intercept': [True, False]}
    """
    from thinstream.learners import find

    found: dict[str, dict[str, Any]] = {}
    names = {find(name).name: name for name in algorithms}
    for text in texts:
        whose, key, values = _parsed(text)
        if whose and find(whose).name not in names:
            raise InvalidParameterError(f"--grid {text}: {find(whose).name} is not tried, -a names {', '.join(names)}")
        owners = [names[find(whose).name]] if whose else _owners(key, algorithms)
        for owner in owners:
            if key in found.setdefault(owner, {}):
                raise InvalidParameterError(f"--grid names {key} twice")
            found[owner][key] = values
    return found


def _owners(key: str, algorithms: list[str]) -> list[str]:
    """The algorithms that have a parameter; all, where none has it, so that the first says what it has."""
    from thinstream.learners import find

    owners = [name for name in algorithms if key in [parameter.name for parameter in find(name).parameters]]
    return owners or algorithms


def _parsed(text: str) -> tuple[str, str, Any]:
    """Whose grid it is ("": that of all that have the parameter), the parameter and its values."""
    name, equals, values = text.partition("=")
    whose, _, name = name.strip().rpartition(".")
    if not equals or not name or not values.strip():
        raise InvalidParameterError(f"--grid must be NAME=VALUES as in eta=0.5,1,2 or r=2^-5..2^5, got {text!r}")
    key = name.replace("-", "_")
    key = CALLED.get(key, key)
    return whose, key, _values(key, values.strip(), text)


def _values(key: str, values: str, whole: str) -> Any:
    if values.startswith("log:"):
        return _log(values.removeprefix("log:"), whole)
    found: list[Any] = []
    for item in values.split(","):
        item = item.strip()
        if not item:
            raise InvalidParameterError(f"--grid {whole}: there is a value missing between commas")
        if key == "class_weight":
            found.append(_class_weight(item, whole))
        elif key == "fit_intercept":
            found.append(_truth(item, whole))
        elif ".." in item:
            found += _range(item, whole)
        else:
            found.append(_number(item))
    return found


def _number(text: str) -> Any:
    """A number, also a power; else None or the text itself."""
    power = re.fullmatch(r"([\d.]+)\^([+-]?[\d.]+)", text)
    if not power:
        return parse_value(text)
    try:
        return _plain(float(power[1]) ** float(power[2]))
    except (ValueError, OverflowError):
        return text


def _plain(number: float) -> int | float:
    return int(number) if number.is_integer() and abs(number) < 2**53 else number


def _ends(text: str, whole: str) -> tuple[float, float]:
    ends = [_number(end.strip()) for end in text.split("..")]
    if len(ends) != 2 or not all(_is_positive(end) for end in ends) or ends[0] > ends[1]:
        raise InvalidParameterError(f"--grid {whole}: a range must be LOW..HIGH, two numbers > 0, got {text!r}")
    return float(ends[0]), float(ends[1])


def _is_positive(value: Any) -> bool:
    return isinstance(value, int | float) and 0 < value < math.inf


def _range(item: str, whole: str) -> list[Any]:
    ends, _, by = item.partition("*")
    low, high = _ends(ends, whole)
    factor = _number(by) if by else 2
    if not _is_positive(factor) or factor <= 1:
        raise InvalidParameterError(f"--grid {whole}: the factor of a range must be a number > 1, got {by!r}")
    steps = math.floor(math.log(high / low, factor) + 1e-9)
    # powers of two are exact; others lose what multiplying has added in the last digits
    exact = [low * factor**i for i in range(steps + 1)]
    return [_plain(x if factor == 2 else float(f"{x:.12g}")) for x in exact]


def _log(text: str, whole: str) -> Any:
    from thinstream.tune.candidates import LogUniform

    ends, _, count = text.partition(":")
    low, high = _ends(ends, whole)
    if not count:
        return LogUniform(low, high)
    if not count.isdecimal() or int(count) < 2:
        raise InvalidParameterError(f"--grid {whole}: log:LOW..HIGH:N needs a whole number N ≥ 2, got {count!r}")
    last = int(count) - 1
    inner = [float(f"{low * (high / low) ** (i / last):.6g}") for i in range(1, last)]
    return [_plain(x) for x in (low, *inner, high)]


def _truth(item: str, whole: str) -> bool:
    answers = {"yes": True, "true": True, "no": False, "false": False}
    if item.lower() not in answers:
        raise InvalidParameterError(f"--grid {whole}: intercept must be yes or no, got {item!r}")
    return answers[item.lower()]


def _class_weight(item: str, whole: str) -> Any:
    """None, "balanced", or a cost for each class, in their order."""
    if item in ("none", "balanced"):
        return None if item == "none" else item
    costs = tuple(_number(part) for part in item.split(":"))
    if len(costs) < 2 or not all(_is_positive(cost) for cost in costs):
        raise InvalidParameterError(
            f"--grid {whole}: class-weight must be none, balanced or NEG:POS as in 1:20 (a cost for each class), "
            f"got {item!r}"
        )
    return costs
