"""When an example enters a matrix: each one before it is predicted, or only on an update."""

from typing import Any, NamedTuple

from thinstream.engine.questions import question


class EveryExample(NamedTuple):
    """Before predicting, whatever comes of it."""

    def always(k) -> bool:
        return True


class OnUpdate(NamedTuple):
    """Only if the update condition holds."""

    def always(k) -> bool:
        return False


@question
def always(k: Any) -> bool:
    """Whether every example is taken in."""
