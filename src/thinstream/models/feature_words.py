"""What features of a model mean, in words."""

from collections.abc import Callable, Mapping
from typing import Any


def in_words(space: Mapping[str, Any]) -> str:
    """A feature space for people.

    >>> in_words({})
    'column numbers'
    >>> in_words({"hashing": {"bits": 22, "signed": False, "seed": 0}, "text": ["subject", "body"]})
    'names hashed into 2^22 numbers, text subject,body'
    >>> in_words({"text": ["body"], "ngrams": [1, 2], "stop": ["a", "an"], "lower": False})
    'column numbers, text body, ngrams 1-2, stop 2 words, no lower'
    """
    found = ["column numbers"]
    if "hashing" in space:
        how = space["hashing"]
        found = [f"names hashed into 2^{how['bits']} numbers", *(["signed"] if how.get("signed") else [])]
        found += [f"seed {how['seed']}"] if how.get("seed") else []
    for name, value in space.items():
        if name != "hashing":
            found.append(_WORDS.get(name, _plain)(name, value))
    return ", ".join(found)


def _plain(name: str, value: Any) -> str:
    return f"{'' if value else 'no '}{name}" if isinstance(value, bool) else f"{name} {_listed(value)}"


def _range(name: str, value: Any) -> str:
    return f"{name} {value[0]}-{value[1]}"


def _count(name: str, value: Any) -> str:
    return f"{name} {len(value)} words"


_WORDS: dict[str, Callable[[str, Any], str]] = {"ngrams": _range, "chars": _range, "stop": _count}


def _listed(value: Any, between: str = ",") -> str:
    return between.join(_listed(each, "*") for each in value) if isinstance(value, list | tuple) else str(value)
