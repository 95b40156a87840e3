"""What ``thinstream predict`` answers of rows: labels, scores, probabilities, the best few classes; a line each."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thinstream.errors import InvalidParameterError
from thinstream.models.model import Model
from thinstream.models.probabilities import probabilities

#: What would end a line, or a cell of one, within it.
_ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})


@dataclass(frozen=True)
class Answers:
    """How rows are answered.

    Parameters
    ----------
    model : Model
    shown : sequence of str
        The classes as they are written.
    scores, proba : bool
        Whether scores or probabilities are written.
    top : int or None
        How many classes, those of the highest scores first; None: the label alone.
    as_json : bool
        Whether each line is an object.

    """

    model: Model
    shown: Sequence[str]
    scores: bool = False
    proba: bool = False
    top: int | None = None
    as_json: bool = False

    def check(self, named: str) -> None:
        """Raises where the model, which messages call ``named``, cannot answer so."""
        if self.scores and self.proba:
            raise InvalidParameterError("predictions have scores or probabilities: --scores or --proba, got both")
        if self.proba and not self.model.has_probabilities:
            raise InvalidParameterError(
                f"--proba is for models learned with the logistic loss, {named} ({self.model.learner.algorithm.name}) "
                "was not: its scores are no probabilities (--scores); train -a auto gives them, --loss logistic where "
                "there is one, and in Python calibrate=True of all"
            )

    @property
    def columns(self) -> list[str]:
        """What the numbers of a line are of, where there are several."""
        several = (self.scores or self.proba) and self.top is None and not self.as_json
        return [*self.shown] if several and not self.model.classes.are_two else []

    def lines(self, scores: NDArray[Any], ids: Sequence[str] | None) -> list[str]:
        """A line for each row."""
        numbers = probabilities(scores.astype(np.float64)) if self.proba else scores
        chosen = self.model.chosen(scores)
        answer = self._objects if self.as_json else self._texts
        found = answer(numbers, chosen, self._order(scores, chosen))
        if ids is None:
            return [text if isinstance(text, str) else json.dumps(text) for text in found]
        pairs = zip(ids, found, strict=True)
        if self.as_json:
            return [json.dumps({"id": name, **text}) for name, text in pairs]
        return [f"{name.translate(_ESCAPES)}\t{text}" for name, text in pairs]

    def nothing(self, name: str) -> str:
        """The line of a record that could not be read: its id, or nothing where it has none."""
        if not name:
            return ""
        return json.dumps({"id": name}) if self.as_json else f"{name.translate(_ESCAPES)}\t"

    def _order(self, scores: NDArray[Any], chosen: NDArray[np.intp]) -> list[list[int]]:
        """Numbers of the best classes of each row, the best first."""
        if self.top is None:
            return [[] for _ in chosen]
        two = scores.ndim == 1
        order = np.column_stack([chosen, 1 - chosen]) if two else np.argsort(-scores, axis=1, kind="stable")
        best: list[list[int]] = order[:, : self.top].tolist()
        return best

    def _texts(self, numbers: NDArray[Any], chosen: NDArray[np.intp], best: list[list[int]]) -> list[Any]:
        if self.top is not None:
            write = self._number_of(numbers)
            if not (self.scores or self.proba):
                return ["\t".join(self.shown[k] for k in row) for row in best]
            return ["\t".join(f"{self.shown[k]}\t{write(i, k)}" for k in row) for i, row in enumerate(best)]
        if self.proba and self.model.classes.are_two:
            numbers = numbers[:, 1]
        if self.scores or self.proba:  # the shortest that reads back to the same bits
            return [str(v) for v in numbers] if numbers.ndim == 1 else ["\t".join(map(str, row)) for row in numbers]
        return [self.shown[k] for k in chosen.tolist()]

    def _objects(self, numbers: NDArray[Any], chosen: NDArray[np.intp], best: list[list[int]]) -> list[Any]:
        classes, one = self.model.classes, self.model.classes.are_two
        what = "probability" if self.proba else "score"
        key = what if one else "probabilities" if self.proba else "scores"
        values = (numbers[:, 1] if self.proba and one else numbers).tolist()
        found: list[Any] = [{"label": classes[k], key: v} for k, v in zip(chosen.tolist(), values, strict=True)]
        if self.top is not None:
            write = self._number_of(numbers)
            for i, (each, row) in enumerate(zip(found, best, strict=True)):
                each["top"] = [{"label": classes[k], what: float(write(i, k))} for k in row]
        return found

    def _number_of(self, numbers: NDArray[Any]) -> Callable[[int, int], Any]:
        """The number of a row for a class; of two classes, whose score is one, that of the first is its opposite."""
        if numbers.ndim == 1:
            return lambda i, k: numbers[i] if k else -numbers[i]
        return lambda i, k: numbers[i, k]
