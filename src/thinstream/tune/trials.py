"""What is tried in a study, and how."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from thinstream.engine.loop import Costs
from thinstream.lanes.devices import chosen_device, gpu_room, require_gpu
from thinstream.learners.limits import physical_memory


class StudyConfig(NamedTuple):
    """How a study is made, whatever is tried in it."""

    algorithm: str  # of trials that name none
    folds: int = 0
    n_features: int = 0  # where it is known before; the lanes grow
    dtype: str = "float32"
    threads: int = 1
    losses: bool = False
    predictions: bool = False  # whether scores are kept, for `Study.predictions`
    n_passes: int = 1  # rows learned in the first are counted before they are, held-out ones in the last
    final: bool = False  # whether held-out rows are scored by the final models, in a further pass
    memory: int | None = None  # bytes all lanes may take; None: half of the machine's, or what a GPU has free
    scale: str | None = None  # how rows are prepared, see `preparing`: once for all lanes
    normalize: str | None = None
    classes: int = 2  # of more, each model is one for each class, and the highest score decides
    device: str = "cpu"  # where models live: "cpu", "cuda", or "auto" (see `lanes.devices`)
    ranks: int | None = None  # the role of rows whose scores are kept in bins, for `Study.ranks`

    @property
    def n_lanes(self) -> int:
        """Of each model."""
        return 1 if self.classes == 2 else self.classes

    def placed(self, models: int) -> "StudyConfig":
        """The same with a device that is chosen for so many models, where none was."""
        device = chosen_device(self.device, models * self.n_lanes, self.threads)
        if device == "cuda":
            require_gpu()
        return self._replace(device=device)

    @property
    def limit(self) -> int:
        """Bytes."""
        if self.memory is not None:
            return self.memory
        return gpu_room() if self.device == "cuda" else physical_memory() // 2


class Trial(NamedTuple):
    """A model of a study."""

    parameters: Mapping[str, Any]  # of the algorithm
    costs: tuple[Costs, ...] = ()  # of each lane: one of two classes, else one for each class; (): all are equal
    fit_intercept: bool = False
    split: int = -1  # which split of the rows it follows; -1: it learns from all
    candidate: int = 0  # models of one candidate are its splits; they stay together
    algorithm: str = ""  # "": that of the study
