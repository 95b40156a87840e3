"""A run that is followed for the page: what it shows goes on as before, and the page is told."""

import os
import time
from pathlib import Path
from typing import Any

from thinstream import __version__
from thinstream.atomic import replacing
from thinstream.dashboard.page import standalone
from thinstream.dashboard.telling import Telling
from thinstream.evaluate.observer import Line, Observer, Step


class Following(Observer):
    """Passes on all that a run tells to another observer, and samples the run.

    Parameters
    ----------
    other : Observer
    name : str
        What the page calls the model.

    """

    def __init__(self, other: Observer, name: str) -> None:
        self._other, self._name, self._telling = other, name, Telling()
        self.lines = other.lines
        self._status: dict[str, Any] = {}
        self.run: Any = None  # what is followed
        self.over = False

    def begin(self) -> None:
        """Learning begins."""
        self._other.begin()
        self.sample()

    def line(self, line: Line) -> None:
        """For the other."""
        self._other.line(line)

    def changed(self, monitor: str, row: int, since: int) -> None:
        """For the other; the page finds it in the run."""
        self._other.changed(monitor, row, since)

    def moved(self, step: Step) -> None:
        """A sample, if it is time for one."""
        self._other.moved(step)
        if self._telling.due(step.rows):
            self.sample()

    def said(self, text: str) -> None:
        """For the other."""
        self._other.said(text)

    def split(self, passes: int, needed: int, limit: int) -> None:
        """For the other."""
        self._other.split(passes, needed, limit)

    def placed(self, device: str, lanes: int) -> None:
        """For the other."""
        self._other.placed(device, lanes)

    def wants_nnz(self, n_features: int) -> bool:
        """As the other says."""
        return self._other.wants_nnz(n_features)

    def sample(self) -> None:
        """The run of now."""
        state, report, nnz = self.run.state, self.run.report(), int(self.run.state.model.learner.nnz)
        self._telling.sample(state.model, state.progress, self.run.drift, report, nnz, self.run.stream.names)
        self._status = {
            "rows": state.progress.rows,
            "nnz": nnz,
            "features": int(state.model.learner.n_features),
            "drift": None if self.run.drift is None else len(self.run.drift.told),
            "skipped": self.run.skipped,
            "progressive": report or {},
        }

    def close(self) -> None:
        """The run is over, well or not."""
        self._other.close()
        if self._status:
            self.sample()
        self.over = True

    def told(self, since: int = -1) -> dict[str, Any]:
        """What the page is told; of samples those after the one of a number."""
        model = {"status": self._status, **self._telling.told(since)}
        return {"time": time.time(), "version": __version__, "over": self.over, "models": {self._name: model}}

    def write_report(self, path: str | os.PathLike[str], title: str) -> None:
        """The page as one file that needs nothing else; it is replaced as a whole."""
        told = self.told()
        samples = told["models"][self._name]["samples"]
        ticks = [{"time": each["time"], "rows": each["rows"], "lag": 0, "waiting": 0} for each in samples]
        with replacing(Path(path)) as new:
            new.write_text(standalone(told | {"ticks": ticks[:-1]}, title), encoding="utf-8")
