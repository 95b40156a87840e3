"""The models a predicting process knows: each with its newest weights and a reader of rows."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thinstream.batch import Batch
from thinstream.compact.room import widest
from thinstream.errors import InvalidInputError, InvalidParameterError, listed, meant
from thinstream.learners import Classes
from thinstream.learners.growing_classes import kind_of
from thinstream.models.file import read
from thinstream.models.model import Model
from thinstream.models.probabilities import probabilities
from thinstream.serve.places import Places
from thinstream.serve.reading import RowReader
from thinstream.serve.refusals import Refused
from thinstream.serve.settings import Limits
from thinstream.serve.sharing import Shared, Snapshot, bare
from thinstream.serve.versions import NoVersion, Versions
from thinstream.serve.web import is_whole_number

#: Classes that a message names; of more some.
_SHOWN = 10
#: Older versions at hand.
_KEPT = 4


class Served:
    """A model that answers."""

    def __init__(self, name: str, places: Places, limits: Limits) -> None:
        whole = read(places.model(name))
        like = bare(whole)
        self.name, self._limits = name, limits
        self._labels = {label: label for label in like.classes}  # 1, 1.0 and true are one
        self._shared = Shared(places.weights(name), like)
        self.learns = not whole.learner.weights_only
        width = widest(whole.learner, limits.model_bytes, limits.width) if self.learns else limits.width
        self.reader = RowReader(like, limits._replace(width=max(width, whole.learner.n_features)))

    def snapshot(self) -> Snapshot:
        """The newest version."""
        return self._shared()

    def known(self, labels: list[Any], classes: Classes) -> list[Any]:
        """Labels as the model has them; another one raises, unless more may come."""
        if classes.grow:
            return self._growing(labels, classes)
        for k, label in enumerate(labels):
            if not isinstance(label, str | int | float) or label not in self._labels:
                few = len(classes) <= _SHOWN
                allowed = listed(classes) if few else f"among {len(classes)} classes, {listed(classes[:3])} for three"
                raise InvalidInputError(f"y: labels must be {allowed}, got {label!r:.40} at row {k}")
        return [self._labels[label] for label in labels]

    def _growing(self, labels: list[Any], classes: Classes) -> list[Any]:
        """Labels of one kind, that of the classes met; not too many of them."""
        first = classes[0]
        for k, label in enumerate(labels):
            fine = isinstance(label, str) or (isinstance(label, int | float) and abs(label) < 2**63)
            if not fine or kind_of(label) != kind_of(first):
                raise InvalidInputError(
                    f"y: labels must be {kind_of(first)} like {first!r}, got {label!r:.40} at row {k}"
                )
            if isinstance(label, str) and not 1 <= len(label) <= self._limits.id:
                raise InvalidInputError(
                    f"y: labels may have 1 to {self._limits.id} letters, got {len(label)} at row {k}"
                )
        many = len({*classes, *labels})
        if many > self._limits.classes:
            raise InvalidInputError(f"y: there may be {self._limits.classes:,} classes here, this would make {many:,}")
        return labels


class ServedModels:
    """All models of a server, as they are loaded and unloaded."""

    def __init__(self, places: Places, limits: Limits) -> None:
        self._places, self._limits = places, limits
        self._known: dict[str, Served] = {}
        self._versions: dict[tuple[str, str, Path], Snapshot] = {}  # older ones, those asked for last

    def names(self) -> list[str]:
        """Of the models that are loaded."""
        return sorted(path.name.removesuffix(".weights") for path in self._places.shared.glob("[!.]*.weights"))

    def warm_up(self) -> None:
        """Loads compiled code (or compiles it, which takes seconds) before the first request."""
        for name in self.names():
            with suppress(Refused, FileNotFoundError):  # unloaded meanwhile
                served, (model, _) = self(name)
                row = {} if served.reader.named else {"1": 1.0}
                scores_of(model, served.reader.rows(row))
                served.reader.warm_up()

    def _require_living(self) -> None:
        """Raises 503 where this process is one of a server that was killed: the next has all models."""
        if self._places.are_another_servers():
            raise Refused(503, "the server is being started again; try again in a second", retry_after=1)

    def all_names(self) -> list[str]:
        """Of all models there are."""
        return self._places.names()

    def folder(self, name: str) -> Path:
        """Where all of a model is kept."""
        return self._places.folder(name)

    def version(self, name: str, version: str) -> Snapshot:
        """A version that is kept, read from its file if it was not lately; `NoVersion` if it is not."""
        require_version(version)
        versions = Versions(self._places.folder(name))
        key = name, version, versions.path(version)
        found = self._versions.pop(key, None) or Snapshot(versions.read(version), {"version": int(version)})
        self._versions = dict([*self._versions.items()][-_KEPT + 1 :]) | {key: found}
        return found

    def __call__(self, name: str | None) -> tuple[Served, Snapshot]:
        """A model, and its newest weights; without a name the only one there is."""
        if not name:
            names = self.names()
            if len(names) != 1:
                self._require_living()
                raise Refused(
                    404, f"say which model is meant (?model=NAME): there are {', '.join(map(repr, names)) or 'none'}"
                )
            (name,) = names
        try:
            known = self._known.get(name)
            if known is None:
                self._places.weights(name).stat()
                known = self._known[name] = Served(name, self._places, self._limits)
            return known, known.snapshot()
        except InvalidParameterError as error:  # no name of a model
            raise Refused(404, str(error)) from None
        except FileNotFoundError:
            self._known.pop(name, None)
            self._require_living()
            raise Refused(404, f"no model {name!r} is loaded; {meant(name, self.names())}") from None


def require_version(version: str) -> None:
    """Raise `NoVersion` if the text is not the number of any version."""
    if not is_whole_number(version):
        raise NoVersion(f"versions are whole numbers, got {version!r:.40}")


def scores_of(model: Model, batch: Batch) -> NDArray[Any]:
    """Scores, finite ones."""
    found: NDArray[Any] = model.learner.scores(batch)
    return found


def answers(model: Model, scores: NDArray[Any], one: bool) -> dict[str, Any]:
    """Labels and scores (of more than two classes one for each), and probabilities where scores are log-odds."""
    labels = [model.classes[k] for k in model.chosen(scores)]
    found: dict[str, Any] = {"label": labels, "score": scores.tolist()}
    if model.has_probabilities:
        shares = probabilities(scores.astype(np.float64))
        found["probability"] = (shares[:, 1] if model.classes.are_two else shares).tolist()
    return {name: value[0] for name, value in found.items()} if one else found
