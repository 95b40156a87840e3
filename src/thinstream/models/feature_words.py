"""What features of a model mean, in words."""

from collections.abc import Mapping
from typing import Any


def in_words(space: Mapping[str, Any]) -> str:
    """A feature space for people.

    >>> in_words({})
    'column numbers'
    >>> in_words({"hashing": {"bits": 22, "signed": False, "seed": 0}, "text": ["subject", "body"]})
    'names hashed into 2^22 numbers, text subject,body'
    """
    found = ["column numbers"]
    if "hashing" in space:
        how = space["hashing"]
        found = [f"names hashed into 2^{how['bits']} numbers", *(["signed"] if how.get("signed") else [])]
        found += [f"seed {how['seed']}"] if how.get("seed") else []
    for name, value in space.items():
        if name != "hashing":
            found.append(name if value is True else f"{name} {_listed(value)}")
    return ", ".join(found)


def _listed(value: Any, between: str = ",") -> str:
    return between.join(_listed(each, "*") for each in value) if isinstance(value, list | tuple) else str(value)
