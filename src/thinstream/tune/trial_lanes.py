"""The models of a study as lanes: of two classes one each, of more one for each class; algorithms side by side."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thinstream.batch import Batch
from thinstream.engine.loop import Costs
from thinstream.lanes import Lanes
from thinstream.learners import find
from thinstream.learners.protocol import AnyLearner
from thinstream.one_vs_rest import learner_of, signs_of
from thinstream.tune.class_counts import ClassTallies
from thinstream.tune.lane_counts import ABSENT, LEARNED
from thinstream.tune.trials import StudyConfig, Trial


class TrialLanes:
    """Models that learn from the same rows, each as it would alone, bit for bit.

    It has the face of `Lanes`, with models in place of lanes. Models of more than two classes are `OneVsRest`; their
    scores have a third axis, the class.

    Examples
    --------
    >>> rows = Batch.of(np.arange(4), np.arange(3), np.ones(3), 3, y=np.array([2, 0, 1], np.int32))
    >>> lanes = TrialLanes(StudyConfig("fsol", classes=3), [Trial({"eta": 0.5}), Trial({}, algorithm="arow")])
    >>> lanes.learn(rows, np.ones((3, 2))).shape, [model.algorithm.name for model in lanes]
    ((3, 2, 3), ['FSOL', 'AROW'])

    """

    def __init__(self, config: StudyConfig, trials: Sequence[Trial]) -> None:
        self._classes, self._per_model = config.classes, config.n_lanes
        self._parts: list[tuple[Lanes, list[int]]] = []
        for algorithm, numbers in _by_algorithm(config, trials):
            each = _lanes_of([trials[k] for k in numbers], config.n_lanes)
            lanes = Lanes(
                algorithm,
                each["parameters"],
                n_features=config.n_features,
                dtype=config.dtype,
                grow=True,
                fit_intercept=each["fit_intercept"],
                costs=each["costs"],
                threads=config.threads,
                device=config.device,
            )
            self._parts.append((lanes, numbers))
        self.dtype = np.dtype(config.dtype)
        self._n_mistakes = np.zeros(len(trials), np.int64)
        self._on_device: ClassTallies | None = None  # mistakes of more than two classes that are counted there

    @staticmethod
    def estimate_nbytes(config: StudyConfig, trials: Sequence[Trial], width: int) -> int:
        """Bytes such lanes will take (`nbytes`), without taking them."""
        total = 0
        for algorithm, numbers in _by_algorithm(config, trials):
            each = _lanes_of([trials[k] for k in numbers], config.n_lanes)
            total += Lanes.estimate_nbytes(
                algorithm,
                each["parameters"],
                width,
                dtype=config.dtype,
                fit_intercept=each["fit_intercept"],
                device=config.device,
            )
        return total

    def __len__(self) -> int:
        return len(self._n_mistakes)

    def __iter__(self) -> Iterator[AnyLearner]:
        return (self[k] for k in range(len(self)))

    def __getitem__(self, k: int) -> AnyLearner:
        """A model, as a learner of its own (a copy)."""
        lanes, numbers = next(part for part in self._parts if k in part[1])
        first, each = numbers.index(k) * self._per_model, range(self._per_model)
        return learner_of([lanes[first + place] for place in each], int(self._mistakes[k]))

    @property
    def _mistakes(self) -> NDArray[np.int64]:
        """Of models of more than two classes, rows called wrong before they were learned."""
        return self._n_mistakes if self._on_device is None else self._n_mistakes + self._on_device.mistakes

    @property
    def n_features(self) -> int:
        """Width of all models."""
        return self._parts[0][0].n_features

    @property
    def nbytes(self) -> int:
        """Bytes of their memory."""
        return sum(lanes.nbytes for lanes, _ in self._parts)

    @property
    def device(self) -> str:
        """Where all models are; the CPU where one of them has to be."""
        return "cuda" if all(lanes.device == "cuda" for lanes, _ in self._parts) else "cpu"

    def learn_counted(
        self,
        batch: Batch,
        weights: NDArray[np.float64],
        weight_of: NDArray[np.int32],
        roles: NDArray[np.int8],
        count: Callable[..., None],
    ) -> None:
        """Takes the rows on a device; ``count(scores, y, roles, weight_of, models)`` is given scores there.

        ``weight_of`` has the column of a model in ``weights`` and ``roles``. Scores are as `learn` returns them.
        """
        from thinstream.lanes.cuda.kernels import Columns

        y: Any = batch.require_labels()
        signs = y[:, np.newaxis] if self._classes == 2 else signs_of(y, self._classes)
        learned = np.where(weights != 0, np.int8(LEARNED), np.int8(ABSENT))
        if self._classes > 2 and self._on_device is None:
            self._on_device = ClassTallies(len(self), self._classes)
        for lanes, numbers in self._parts:
            place, per = np.array(numbers), self._per_model
            labels = np.tile(np.arange(per, dtype=np.int32), len(numbers))
            columns = Columns(signs, weights, labels, np.repeat(weight_of[place], per))

            def seen(
                these: list[int], scores: Any, sent: list[Any], rows: slice, place: Any = place, per: int = per
            ) -> None:
                models, own = place[np.array(these[::per]) // per], scores  # all lanes of a model are in one block
                if per > 1:
                    own = scores.reshape(len(sent[0]), len(models), per)
                count(own, sent[0], sent[1], weight_of, models)
                if self._on_device is not None:
                    self._on_device.update_on_device(own, sent[0], sent[2], weight_of, models)

            lanes.learn_counted(batch, columns, (y, roles, learned), seen)

    def learn(self, batch: Batch, weights: NDArray[np.float64] | None = None) -> NDArray[Any]:
        """Takes the rows in order, each model by its column of weights (None: all by those of the batch).

        Returns scores before updates: rows × models, of more than two classes rows × models × classes.
        """
        y: Any = batch.require_labels()
        if self._classes == 2:
            return self._run(len(batch), lambda lanes, numbers: lanes.learn(batch, y, _columns(weights, numbers, 1)))
        signs = signs_of(y, self._classes)
        out = self._run(
            len(batch),
            lambda lanes, numbers: lanes.learn(
                batch, np.tile(signs, (1, len(numbers))), _columns(weights, numbers, self._classes)
            ),
        )
        wrong, seen = called_classes(out) != y[:, np.newaxis], batch.weights if weights is None else weights
        self._n_mistakes += np.count_nonzero(wrong if seen is None else wrong & (seen.reshape(len(y), -1) != 0), axis=0)
        return out

    def scores(self, batch: Batch) -> NDArray[Any]:
        """Those of all models with the weights their next unseen example would meet. Nothing changes."""
        return self._run(len(batch), lambda lanes, numbers: lanes.scores(batch))

    def _run(self, rows: int, run: Any) -> NDArray[Any]:
        shape = (-1,) if self._classes == 2 else (-1, self._classes)
        if len(self._parts) == 1:
            found: NDArray[Any] = run(*self._parts[0])
            return found.reshape(rows, len(self), *shape[1:])
        out = np.empty((rows, len(self), *shape[1:]), self.dtype)
        for lanes, numbers in self._parts:
            out[:, numbers] = run(lanes, numbers).reshape(rows, len(numbers), *shape[1:])
        return out

    def keep(self, kept: Sequence[int]) -> None:
        """Keeps these models, in the order given; the others are dropped and their memory is returned."""
        parts = []
        for lanes, numbers in self._parts:
            own = [k for k in kept if k in numbers]
            if own:
                first = [numbers.index(k) * self._per_model for k in own]
                lanes.keep([place + each for place in first for each in range(self._per_model)])
                parts.append((lanes, [list(kept).index(k) for k in own]))
        self._parts, self._n_mistakes, self._on_device = parts, self._mistakes[list(kept)], None


def _columns(weights: NDArray[np.float64] | None, models: list[int], per_model: int) -> NDArray[np.float64] | None:
    """The weights of some models, for each of their lanes."""
    if weights is None or (per_model == 1 and models == list(range(weights.shape[1]))):
        return weights
    return np.repeat(weights[:, models], per_model, axis=1)


def called_classes(scores: NDArray[Any]) -> NDArray[np.intp]:
    """The class of highest score, on the last axis, the first of several; -1 where a score is none: a model failed."""
    return np.where(np.isnan(scores).any(axis=-1), -1, np.argmax(scores, axis=-1))


def _by_algorithm(config: StudyConfig, trials: Sequence[Trial]) -> list[tuple[str, list[int]]]:
    """Algorithms in the order in which they come, with the numbers of their trials."""
    found: dict[str, list[int]] = {}
    for k, trial in enumerate(trials):
        found.setdefault(find(trial.algorithm or config.algorithm).name, []).append(k)
    return list(found.items())


def _lanes_of(trials: Sequence[Trial], per_model: int) -> dict[str, list[Any]]:
    """What the lanes of these models have, model by model."""
    equal = (Costs(),) * per_model
    return {
        "parameters": [trial.parameters for trial in trials for _ in range(per_model)],
        "fit_intercept": [trial.fit_intercept for trial in trials for _ in range(per_model)],
        "costs": [costs for trial in trials for costs in trial.costs or equal],
    }
