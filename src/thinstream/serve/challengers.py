"""Challengers of a served model: they learn what it learns, in the same order, and do not answer."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thinstream.batch import Batch
from thinstream.errors import ThinstreamError
from thinstream.evaluate.progress import Progress
from thinstream.models.file import read, write
from thinstream.models.model import Model

_OWN, _CHAMPION = "own.", "champion."


@dataclass
class Challenger:
    """A model that learns along, and how well it and the champion called the rows since it began."""

    model: Model
    begun: int  # the entry of the journal from which on it learns
    own: Progress
    champion: Progress  # scores before each row was learned, of both
    out: str | None = None  # why it learns no more

    @classmethod
    def begin(cls, model: Model, begun: int, threshold: float) -> "Challenger":
        """One that has not learned along yet; the threshold is the champion's."""
        many = len(model.classes)
        return cls(model, begun, Progress(many, model.threshold), Progress(many, threshold))

    def take(self, rows: Batch, scores: NDArray[Any]) -> None:
        """Learns rows that got these scores of the champion; if it cannot, it is out."""
        if self.out is not None:
            return
        y = rows.require_labels()
        try:
            self.model, own = self.model.learn(rows, self.model.classes)
            self.own.update(own, y, rows.weights)
        except Exception as error:  # whatever it is, the champion learns on
            self.out = str(error) if isinstance(error, ThinstreamError) else type(error).__name__
            return
        self.champion.update(scores, y, rows.weights)

    def told(self, name: str) -> dict[str, Any]:
        """As JSON has it."""
        reports = [progress.report().as_dict() if progress.rows else {} for progress in (self.own, self.champion)]
        parameters = {key: str(value) for key, value in self.model.learner.parameters.items() if key != "portfolio"}
        return {
            "name": name,
            "algorithm": self.model.learner.algorithm.name,
            "parameters": parameters,
            "begun": self.begun,
            "out": self.out,
            "nnz": int(self.model.learner.nnz),
            "progressive": reports[0],
            "champion": reports[1],
        }


class Challengers:
    """All challengers of one model, saved with each of its checkpoints, under the number of its last entry.

    Parameters
    ----------
    folder : path
        Theirs.

    """

    def __init__(self, folder: Path) -> None:
        self._folder, self.each = folder, dict[str, Challenger]()

    def take(self, rows: Batch, scores: NDArray[Any]) -> None:
        """All learn rows, which got these scores of the champion."""
        for each in self.each.values():
            each.take(rows, scores)

    def told(self) -> list[dict[str, Any]]:
        """As JSON has it."""
        return [each.told(name) for name, each in self.each.items()]

    def save(self, number: int) -> None:
        """All of them, before the champion's checkpoint, which makes them count."""
        if self.each:
            self._folder.mkdir(exist_ok=True)
        for name, each in self.each.items():
            arrays = _under(_OWN, each.own.arrays()) | _under(_CHAMPION, each.champion.arrays())
            extra = {"challenger": {"begun": each.begun, "out": each.out, "threshold": each.champion.threshold}}
            model = replace(each.model, extra=extra, arrays=arrays, reading={}, report=None)
            write(self._folder / f"{name}@{number}.ts", model)

    def restore(self, number: int) -> None:
        """Those of the checkpoint of a number."""
        self.each = {path.stem.partition("@")[0]: _read(path) for path in sorted(self._files(number))}

    def sweep(self, number: int) -> None:
        """The checkpoint of this number is on disk: what was saved with others goes."""
        stay = {*self._files(number)}
        for path in self._folder.glob("*@*.ts"):
            if path not in stay:
                path.unlink(missing_ok=True)

    def _files(self, number: int) -> Iterator[Path]:
        return self._folder.glob(f"*@{number}.ts")


def _read(path: Path) -> Challenger:
    model = read(path)
    about = model.extra["challenger"]
    own = Progress.from_arrays(_of(_OWN, model.arrays), model.threshold)
    champion = Progress.from_arrays(_of(_CHAMPION, model.arrays), about["threshold"])
    model = replace(model, extra={}, arrays={})
    model.learner.grow = True
    return Challenger(model, about["begun"], own, champion, about["out"])


def _under(prefix: str, arrays: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    return {prefix + name: array for name, array in arrays.items()}


def _of(prefix: str, arrays: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def warmed(model: Model) -> Model:
    """The model, its compiled code loaded (or compiled, which takes seconds) before it has to keep up."""
    nothing = model.classes.coded(np.empty(0))
    values = np.empty(0, model.learner.dtype)
    model.learner.learn(Batch(np.zeros(1, np.int64), np.empty(0, np.int32), values, 0, nothing))
    return model
