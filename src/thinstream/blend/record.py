"""What becomes of each model of a blend: its mistakes, when it was left out, and who had which share when."""

from collections.abc import Sequence
from copy import deepcopy
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from thinstream.blend.member import Member

#: Rows after which shares are noted for the first time; then whenever they have doubled.
FIRST_NOTE = 1 << 6


class Record:
    """Of all models a blend began with.

    Examples
    --------
    >>> record = Record([Member("fsol", {}), Member("arow", {})])
    >>> record.count(np.array([[1.0, -1.0], [2.0, np.nan]]), np.array([True, True]))
    >>> record.rows, record.mistakes
    (array([2, 1]), array([0, 1]))

    """

    def __init__(self, members: Sequence[Member]) -> None:
        self.members, many = list(members), len(members)
        self.places = np.arange(many)  # of those that are still there
        self.rows, self.mistakes = np.zeros(many, np.int64), np.zeros(many, np.int64)  # while it could score them
        self.until = np.full(many, -1)  # rows after which it was left out; of one that rows became too wide for: −2 − t
        self.noted: NDArray[np.int64]  # rows at which it was noted, and the blend's mistakes in them
        self.noted_mistakes: NDArray[np.int64]  # then of all models
        self.noted_shares: NDArray[np.float64]
        self.forget_history()

    def count(self, scores: NDArray[Any], positive: NDArray[np.bool_]) -> None:
        """Takes what those still there said of rows before they learned them."""
        known = np.isfinite(scores)
        wrong = known & ((scores > 0.0) != positive[:, np.newaxis])
        self.rows[self.places] += np.count_nonzero(known, axis=0)
        self.mistakes[self.places] += np.count_nonzero(wrong, axis=0)

    def note(self, t: int, mistakes: int, shares: NDArray[np.float64]) -> None:
        """Who had which share after t rows; those left out had none."""
        of_all = np.zeros(len(self.members))
        of_all[self.places] = shares
        self.noted = np.vstack([self.noted, [[t, mistakes]]])
        self.noted_mistakes = np.vstack([self.noted_mistakes, self.mistakes])
        self.noted_shares = np.vstack([self.noted_shares, of_all])

    def until_now(self, t: int, mistakes: int, shares: NDArray[np.float64]) -> Self:
        """A record of its own that ends with what is noted here."""
        found = deepcopy(self)
        if t and (not len(found.noted) or found.noted[-1, 0] < t):
            found.note(t, mistakes, shares)
        return found

    def keep(self, models: NDArray[np.intp], t: int, too_wide: bool = False) -> None:
        """These of those still there stay, after t rows."""
        self.until[np.delete(self.places, models)] = -2 - t if too_wide else t
        self.places = self.places[models]

    def forget_history(self) -> None:
        """Shares of one part of the data are none of all of it."""
        many = len(self.members)
        self.noted, self.noted_mistakes = np.empty((0, 2), np.int64), np.empty((0, many), np.int64)
        self.noted_shares = np.empty((0, many))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Everything but the members."""
        return {name: value for name, value in vars(self).items() if isinstance(value, np.ndarray)}

    def table(self, shares: NDArray[np.float64], gone: NDArray[np.bool_]) -> list[dict[str, Any]]:
        """A line for each model; shares and who is gone are of those still there."""
        found = []
        present = dict(zip(self.places.tolist(), zip(shares.tolist(), gone.tolist(), strict=True), strict=True))
        for k, member in enumerate(self.members):
            share, lost = present.get(k, (0.0, False))
            out = None
            if self.until[k] != -1:
                t, wide = int(self.until[k]), f"more than {member.max_features} features"
                out = f"no share after {t:,} rows" if t >= 0 else f"{wide} after {-2 - t:,} rows"
            found.append(
                {
                    **{name: value for name, value in member.described.items() if value is not None},
                    "error": int(self.mistakes[k]) / int(self.rows[k]) if self.rows[k] else None,
                    "share": share,
                    "out": f"not finite after {self.rows[k]:,} rows" if lost else out,
                }
            )
        return found
