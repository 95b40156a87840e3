"""How long a source without an end is followed, where bad messages go, and what happens if messages are missing."""

from typing import NamedTuple

from thinstream.errors import InvalidParameterError, listed

#: Allowed values of ``on_gap``.
ON_GAP = ("stop", "continue")


class Following(NamedTuple):
    """When a source ends, and what happens to messages that are bad or missing."""

    rows: int | None = None  # in all, those before a checkpoint included
    idle_seconds: float | None = None  # without a message
    dead_letters: str | None = None  # a file, or "stream:NAME" of the same broker
    on_gap: str = "stop"  # or "continue": what to do if the broker has removed messages before they were read

    def check(self) -> None:
        """Raises on a value that is not allowed."""
        if self.rows is not None and self.rows < 1:
            raise InvalidParameterError(f"rows must be 1 or more, or None, got {self.rows!r}")
        if self.idle_seconds is not None and not self.idle_seconds >= 0:
            raise InvalidParameterError(f"idle_seconds must be 0 or more, or None, got {self.idle_seconds!r}")
        if self.on_gap not in ON_GAP:
            raise InvalidParameterError(f"on_gap (--on-gap) must be {listed(ON_GAP)}, got {self.on_gap!r}")

    def are_enough(self, rows: int) -> bool:
        """Whether so many rows are all that were asked for."""
        return self.rows is not None and rows >= self.rows

    def is_over(self, idle: float) -> bool:
        """Whether nothing has come for long enough."""
        return self.idle_seconds is not None and idle >= self.idle_seconds
