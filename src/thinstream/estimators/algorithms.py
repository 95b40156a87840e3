"""The estimator classes themselves, ``thinstream.estimators.algorithms.FSOL`` and so on, made when first asked for.

Their source is written by `factory`, so it stands in no file: `inspect.getsource`, debuggers and notebooks find it in
Python's `linecache`, under the name this module gives for its file.
"""

from typing import Any

__file__ = "<estimators of thinstream>"


def __getattr__(name: str) -> Any:
    from thinstream.estimators.factory import named

    found = named(name) if name[:1].isupper() else None
    if found is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return found
