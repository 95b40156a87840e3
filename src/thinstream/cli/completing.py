"""What a shell offers where Tab is pressed: the values of an option, besides its name, which typer knows."""

import os
from collections.abc import Callable, Iterable
from typing import Any

#: Set while a shell completes a command line.
COMPLETING = "_THINSTREAM_COMPLETE"
#: Where the scripts for shells put that line: bash, and the others.
_LINES = ("COMP_WORDS", "_TYPER_COMPLETE_ARGS")


def words_to_complete() -> list[str]:
    """The words of that line, without the command's own name."""
    return next((os.environ[name].split()[1:] for name in _LINES if name in os.environ), [])


def offer(values: Callable[[], Iterable[Any]]) -> Callable[[], list[str]]:
    """The values as typer takes them, which picks those that begin like the word; they are found when it asks."""
    return lambda: [str(value) for value in values()]


def learner_names() -> list[str]:
    """Algorithms as they are typed, and what is made of several."""
    from thinstream.cli.options import DEFAULT_LEARNER
    from thinstream.learners.registry import algorithms

    return [DEFAULT_LEARNER, *(algorithm.name.lower() for algorithm in algorithms())]
