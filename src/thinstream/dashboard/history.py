"""How a model came to be what it is: samples of its metrics and largest weights, in constant memory."""

from typing import Any, NamedTuple

#: Samples kept; where there would be more, every second one goes, and from then on half as many stay.
MOST = 240


class Sample(NamedTuple):
    """A moment of a model."""

    number: int  # of the sample; they rise
    time: float  # seconds since 1970
    rows: int  # learned
    error: float | None  # share of rows called wrong, since the start
    auc: float | None
    log_loss: float | None
    calibration: float | None  # mean of |observed − predicted|, where scores are log-odds
    nnz: int
    top: dict[str, float]  # the largest weights, by name


class History:
    """The samples of one model, evenly spread, and the newest.

    Parameters
    ----------
    most : int
        Samples kept.
    first : int
        The number of the first one.

    Examples
    --------
    >>> history = History(most=4)
    >>> for k in range(9):
    ...     history.add(float(k), 100 * k, {"error": 0.5}, 0.25, 7, {})
    >>> [sample.rows for sample in history.after()], history.after(7)[0].number
    ([0, 400, 800], 8)

    """

    def __init__(self, most: int = MOST, first: int = 0) -> None:
        self._most, self._samples, self._next = most, list[Sample](), first
        self._apart = 1  # numbers between two that stay

    def add(
        self,
        time: float,
        rows: int,
        progressive: dict[str, Any],
        calibration: float | None,
        nnz: int,
        top: dict[str, float],
    ) -> None:
        """The model of now; ``progressive`` is a `Report` as JSON has it."""
        error, auc, log_loss = (progressive.get(name) for name in ("error", "auc", "log_loss"))
        kept, self._next = [*self._samples], self._next + 1
        if len(kept) > 1 and kept[-1].number - kept[-2].number < self._apart:
            kept.pop()
        kept.append(Sample(self._next - 1, time, rows, error, auc, log_loss, calibration, nnz, top))
        if len(kept) > self._most:
            self._apart *= 2
            kept = [*kept[:-1:2], kept[-1]]
        self._samples = kept  # in one step: others may be reading

    def after(self, number: int = -1) -> list[Sample]:
        """Those that came after the sample of a number."""
        return [sample for sample in self._samples if sample.number > number]
