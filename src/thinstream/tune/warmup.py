"""What is counted as rows pass leaves out the first of them, on which no candidate is good yet.

Left out are the rows up to the largest power of two that is no more than half of them: a quarter to a half. That takes
two snapshots, and no knowledge of how long a stream is. With all rows counted fast starters were picked too often on
the sets of `benchmarks/tuning_quality.py`.
"""

from thinstream.tune.study import Study
from thinstream.tune.tallies import Counted


class WarmUp:
    """Remembers what had been counted of each lane; its `visit` and `halts` are for `study_stream`.

    >>> [rows + WarmUp.halts(rows) for rows in (0, 1, 5, 8)]
    [1, 2, 8, 16]
    """

    def __init__(self, lanes: int) -> None:
        self._study: Study | None = None
        # of the last power of two, and of the one before
        self._held_out = (Counted.nothing(lanes), Counted.nothing(lanes))
        self._learned = (Counted.nothing(lanes), Counted.nothing(lanes))

    @staticmethod
    def halts(rows: int) -> int:
        """Rows until the next power of two."""
        return (1 << rows.bit_length()) - rows

    def visit(self, study: Study, numbers: list[int]) -> list[int]:
        """Looks at a study where the number of rows is a power of two."""
        if study is not self._study:  # another pass, or the same from its beginning
            self._study, nothing = study, Counted.nothing(len(numbers))
            for kept in (*self._held_out, *self._learned):
                kept.put(numbers, nothing)
        if study.rows & (study.rows - 1) == 0:
            pairs = ((self._held_out, study.tallies.held_out), (self._learned, study.tallies.learned))
            for (last, before), now in pairs:
                before.put(numbers, last.take(numbers))
                last.put(numbers, now)
        return numbers

    def held_out(self, counted: Counted, numbers: list[int]) -> Counted:
        """Of held-out rows, what was counted since."""
        return counted.minus(self._held_out[1].take(numbers))

    def learned(self, counted: Counted, numbers: list[int]) -> Counted:
        """Of learned rows, what was counted since."""
        return counted.minus(self._learned[1].take(numbers))
