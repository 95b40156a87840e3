"""Models that a predicting process serves, and how models are added to the server's folder."""

import os
from collections.abc import Callable, Iterable, Mapping, Set
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thinstream.algorithms.registry import find
from thinstream.batch import Batch
from thinstream.data.labels import Classes, kind_of
from thinstream.data.options import KEYS, parse_classes
from thinstream.errors import InvalidInputError, InvalidParameterError, ThinstreamError, listed, meant
from thinstream.models.explain import cell_names, explain
from thinstream.models.file import read, write
from thinstream.models.model import Model, probabilities
from thinstream.models.pipeline import widest
from thinstream.serve import Limits
from thinstream.serve.folders import Origin, ServerPaths, digest_of, require_name
from thinstream.serve.request_rows import RowReader
from thinstream.serve.shared_memory import Shared, Snapshot, require_shareable, without_weights
from thinstream.serve.versions import NoVersion, Versions, as_replacement
from thinstream.serve.wire import Refused, is_whole_number

Report = Callable[[str, Set[str], Set[str]], object]
#: The most classes that a message names.
_SHOWN = 10
#: Older versions that stay in memory.
_KEPT = 4


class Served:
    """A model that a predictor serves: its newest weights, and a parser of rows."""

    def __init__(self, name: str, paths: ServerPaths, limits: Limits, report: Report) -> None:
        whole = read(paths.model(name))
        like = without_weights(whole)
        self.name, self._limits = name, limits
        self._labels = {label: label for label in like.classes}  # 1, 1.0 and true are the same label
        self._shared = Shared(paths.weights(name), like)
        self.learns = not whole.learner.weights_only
        width = widest(whole.learner, limits.model_bytes, limits.width) if self.learns else limits.width
        limits = limits._replace(width=max(width, whole.learner.n_features))
        self.reader = RowReader(like, limits, partial(report, name))
        self._names = whole.names

    def snapshot(self) -> Snapshot:
        return self._shared()

    def feature_names(self, model: Model, rows: Any) -> dict[int, str]:
        """Return names of features for explanations, from the model's file and from the cells of rows."""
        saved = {} if self._names is None else self._names.as_dict()
        return cell_names(model, [rows] if isinstance(rows, Mapping) else rows) | saved

    def known(self, labels: list[Any], classes: Classes) -> list[Any]:
        """Return labels as the model has them; raise at an unknown label, unless new classes are allowed."""
        if classes.grow:
            return self._growing(labels, classes)
        for k, label in enumerate(labels):
            if not isinstance(label, str | int | float) or label not in self._labels:
                few = len(classes) <= _SHOWN
                allowed = listed(classes) if few else f"one of {len(classes)} classes, such as {listed(classes[:3])}"
                raise InvalidInputError(f"y: labels must be {allowed}, got {label!r:.40} at row {k}")
        return [self._labels[label] for label in labels]

    def _growing(self, labels: list[Any], classes: Classes) -> list[Any]:
        """Check labels of a model with new classes: they must have one type, and there must not be too many."""
        first = classes[0]
        for k, label in enumerate(labels):
            fine = isinstance(label, str) or (isinstance(label, int | float) and abs(label) < 2**63)
            if not fine or kind_of(label) != kind_of(first):
                raise InvalidInputError(
                    f"y: labels must be {kind_of(first)} like {first!r}, got {label!r:.40} at row {k}"
                )
            if isinstance(label, str) and not 1 <= len(label) <= self._limits.id:
                raise InvalidInputError(
                    f"y: labels must have 1 to {self._limits.id} characters, got {len(label)} at row {k}"
                )
        n_classes = len({*classes, *labels})
        if n_classes > self._limits.classes:
            raise InvalidInputError(
                f"y: the model may have at most {self._limits.classes:,} classes, these labels would make {n_classes:,}"
            )
        return labels


class ServedModels:
    """The models of a server that are loaded.

    ``report`` is called with the name of a model, and the missing and the unknown columns of a row for it.
    """

    def __init__(
        self, paths: ServerPaths, limits: Limits, report: Report = lambda name, missing, unknown: None
    ) -> None:
        self.paths, self._limits, self._report = paths, limits, report
        self._known: dict[str, Served] = {}
        self._versions: dict[tuple[str, str, Path], Snapshot] = {}  # recently used older versions

    def names(self) -> list[str]:
        try:
            files = os.listdir(self.paths.shared)  # for each request, so it must be quick
        except FileNotFoundError:
            return []
        return sorted(name.removesuffix(".weights") for name in files if name.endswith(".weights") and name[0] != ".")

    def versions(self) -> dict[str, int]:
        versions: dict[str, int] = {}
        for name in self.names():
            with suppress(Refused):  # unloaded meanwhile
                versions[name] = self(name)[1].about["version"]
        return versions

    def warm_up(self) -> None:
        """Load compiled code, or compile it for some seconds, before the first request."""
        for name in self.names():
            with suppress(Refused, FileNotFoundError):  # unloaded meanwhile
                served, (model, _) = self(name)
                row = {} if served.reader.named else {"1": 1.0}
                columns, served.reader.columns = served.reader.columns, None  # these rows don't count
                model.learner.scores(served.reader.rows(row))
                served.reader.warm_up()
                served.reader.columns = columns

    def require_running(self) -> None:
        """Raise 503 if this process belongs to a server that was killed; the next server has all models."""
        if self.paths.are_another_servers():
            raise Refused(503, "the server is restarting; try again in a second", retry_after=1)

    def version(self, name: str, version: str) -> Snapshot:
        """Return a saved version, from memory or its file; raise `NoVersion` if it does not exist."""
        require_version(version)
        versions = Versions(self.paths.folder(name))
        key = name, version, versions.path(version)
        snapshot = self._versions.pop(key, None) or Snapshot(versions.read(version), {"version": int(version)})
        self._versions = dict([*self._versions.items()][-_KEPT + 1 :]) | {key: snapshot}
        return snapshot

    def __call__(self, name: str | None) -> tuple[Served, Snapshot]:
        """Return a model and its newest weights. Without a name, there must be only one model."""
        if not name:
            names = self.names()
            if len(names) != 1:
                self.require_running()
                raise Refused(
                    404, f"specify the model (?model=NAME); loaded models: {', '.join(map(repr, names)) or 'none'}"
                )
            (name,) = names
        try:
            served = self._known.get(name)
            if served is None:
                self.paths.weights(name).stat()
                served = self._known[name] = Served(name, self.paths, self._limits, self._report)
            return served, served.snapshot()
        except InvalidParameterError as error:  # not a valid name
            raise Refused(404, str(error)) from None
        except FileNotFoundError:
            self._known.pop(name, None)
            self.require_running()
            raise Refused(404, f"no model {name!r} is loaded; {meant(name, self.names())}") from None


def require_version(version: str) -> None:
    """Raise `NoVersion` if the text cannot be the number of a version."""
    if not is_whole_number(version):
        raise NoVersion(f"a version must be an integer, got {version!r:.40}")


def answers(model: Model, scores: NDArray[Any]) -> dict[str, Any]:
    """Return labels, scores (one per class with more than two classes), and probabilities if scores are log-odds."""
    labels = [model.classes[k] for k in model.chosen(scores)]
    answer: dict[str, Any] = {"label": labels, "score": scores.tolist()}
    if model.has_probabilities:
        shares = probabilities(scores.astype(np.float64))
        answer["probability"] = (shares[:, 1] if model.classes.are_two else shares).tolist()
    return answer


def first_of(answer: dict[str, Any]) -> dict[str, Any]:
    return {name: value[0] for name, value in answer.items()}


#: Contributions of each row in an explanation.
_CONTRIBUTIONS = 20


def explanations(model: Model, batch: Batch, one: bool, names: Mapping[int, str]) -> Any:
    """Return the contributions of features to the score of each row, the largest first; one object for one row."""
    rows = [
        {"class": row.explained, "intercept": row.intercept, "contributions": row.contributions, "others": row.others}
        for row in explain(model, batch, _CONTRIBUTIONS, names)
    ]
    return rows[0] if one else rows


#: New models hash feature names into 2^BITS slots.
BITS = 18


#: Actions if a file differs from the one that its model was deployed from.
ON_RETRAINED = ("refuse", "challenge", "replace")


def register(
    paths: ServerPaths,
    models: Iterable[str | os.PathLike[str]],
    new: Iterable[str] = (),
    bits: int = BITS,
    retrained: dict[str, tuple[str, str, str]] | None = None,
    on_retrained: str = "refuse",
) -> list[str]:
    """Add models to the folder, from files (FILE or NAME=FILE) and new ones (NAME:ALGORITHM). Return their names.

    A model that exists continues with all that it has learned. A different file for an existing name is refused, or
    added to ``retrained``, so that the learner deploys it.
    """
    if on_retrained not in ON_RETRAINED:
        raise InvalidParameterError(f"--on-retrained must be {listed(ON_RETRAINED)}, got {on_retrained!r:.40}")
    names = list[str]()
    for model in models:
        name, file = _named(os.fspath(model))
        names.append(name)
        if not paths.model(name).exists():
            _add(paths, name, file)
        elif (digest := digest_of(file.read_bytes())) != Origin(paths.folder(name)).newest:
            if on_retrained == "refuse" or retrained is None:
                raise InvalidInputError(
                    f"{file} is not the file that {name!r} in {paths.data} was deployed from. Pass --on-retrained "
                    "replace to deploy it, or --on-retrained challenge to compare it first. To continue with the "
                    f"served {name!r}, leave the file out. To serve both, pass NAME={file}"
                )
            _require_same_data(read(file), read(paths.model(name)), f"{file} cannot be deployed as {name!r}")
            retrained[name] = str(file.resolve()), on_retrained, digest
    names += [_fresh(paths, text, bits) for text in new]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InvalidParameterError(f"two models have the name {twice[0]!r}. Pass NAME=FILE to rename one")
    return names or paths.names()


def _named(text: str) -> tuple[str, Path]:
    """Return the name and the file of FILE or NAME=FILE."""
    name, _, path = text.rpartition("=") if "=" in text and not Path(text).exists() else ("", "", text)
    return require_name(name or Path(path).name.partition(".")[0]), Path(path)


def _add(paths: ServerPaths, name: str, file: Path) -> None:
    model, target = read(file), paths.model(name)
    _require_served(model, str(file))
    target.parent.mkdir(parents=True, exist_ok=True)
    Origin(target.parent).add(digest_of(file.read_bytes()))
    write(target, model, "weights" if model.learner.weights_only else "full")


def _require_same_data(model: Model, like: Model, named: str) -> None:
    """Raise unless a retrained model has the rows, features and classes of the model that it replaces."""
    if like.learner.weights_only or model.learner.weights_only or model.learner.reads != "once":
        raise InvalidInputError(
            f"{named}: both models must be able to learn online. Pass NAME=FILE to serve it under another name"
        )
    as_replacement(model, like, named)
    names = {name for name in {*model.reading, *like.reading} if name != KEYS}
    if others := sorted(name for name in names if model.reading.get(name) != like.reading.get(name)):
        raise InvalidInputError(
            f"{named}: it was trained with other reading options ({listed(others)}). Train it with the same options, "
            "or pass NAME=FILE to serve it under another name"
        )


def _fresh(paths: ServerPaths, text: str, bits: int) -> str:
    """Create a new model from NAME:ALGORITHM or NAME:ALGORITHM:NEG,POS."""
    name, _, rest = text.partition(":")
    algorithm, _, labels = rest.partition(":")
    if not algorithm:
        raise InvalidParameterError(f"a new model must be NAME:ALGORITHM or NAME:ALGORITHM:NEG,POS, got {text!r}")
    file = paths.model(require_name(name))
    if file.exists():
        return name
    if find(algorithm).kind == "batch":
        raise InvalidParameterError(
            f"{find(algorithm).name} needs all rows at once. Choose an algorithm that learns online"
        )
    space = {"hashing": {"bits": bits, "signed": False}} if bits else {}
    model = Model.fresh(
        algorithm,
        Classes(*(parse_classes(labels) if labels else (0, 1))),
        feature_space=space,
        grow=True,
        fit_intercept=True,
    )
    _require_served(model, text)
    file.parent.mkdir(parents=True, exist_ok=True)
    (file.parent / "origin").touch()
    write(file, model)
    return name


def _require_served(model: Model, named: str) -> None:
    try:
        require_shareable(model)
    except ThinstreamError as error:
        raise InvalidParameterError(f"{named}: {error}") from None
