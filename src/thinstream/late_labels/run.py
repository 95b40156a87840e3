"""A run over rows whose labels come later."""

from typing import Any

from numpy.typing import NDArray

from thinstream.late_labels.stream import JoinedStream, scores_by_class
from thinstream.models.model import Model
from thinstream.training.run import Run


class LateRun(Run):
    """A `Run` whose metrics count what was predicted when rows came, not when their labels did."""

    def __init__(self, stream: JoinedStream, model: Model, **options: Any) -> None:
        super().__init__(stream, model, **options)
        self._joined = stream

    def _judged(self, scores: NDArray[Any]) -> NDArray[Any]:
        return scores_by_class(self._joined.taken(len(scores)), scores.shape)
