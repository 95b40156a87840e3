"""Models come into the folder of a server: from files, or fresh from an algorithm."""

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path

from thinstream.errors import InvalidInputError, InvalidParameterError, ThinstreamError
from thinstream.learners import Classes, find
from thinstream.models.file import read, write
from thinstream.models.model import Model
from thinstream.serve.places import Places, require_name
from thinstream.serve.sharing import require_shareable
from thinstream.streams.option_texts import parse_classes

#: Named features of fresh models are hashed into 2^BITS numbers.
BITS = 18


def register(
    places: Places, models: Iterable[str | os.PathLike[str]], new: Iterable[str] = (), bits: int = BITS
) -> list[str]:
    """Puts models into the folder, under the names of their files (or NAME=FILE), and fresh ones (NAME:ALGORITHM).

    Their names. A model that is there already goes on with all it has learned; another file under its name is refused.
    """
    names = [_from_file(places, os.fspath(each)) for each in models]
    names += [_fresh(places, each, bits) for each in new]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InvalidParameterError(f"two models are called {twice[0]!r}; NAME=FILE gives one another name")
    return names or places.names()


def _from_file(places: Places, given: str) -> str:
    name, _, path = given.rpartition("=") if "=" in given and not Path(given).exists() else ("", "", given)
    name = require_name(name or Path(path).name.partition(".")[0])
    file, kept = Path(path), places.model(name)
    model = read(file)
    _require_served(model, str(file))
    if not kept.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        (kept.parent / "origin").write_text(_digest(file), encoding="ascii")
        write(kept, model, "weights" if model.learner.weights_only else "full")
    elif (kept.parent / "origin").read_text(encoding="ascii") != _digest(file):
        raise InvalidInputError(
            f"{file} is another model than the one that {name!r} began with in {places.data}; leave it out to go on "
            f"with what {name!r} has learned, or give it another name: NAME={file}"
        )
    return name


def _fresh(places: Places, given: str, bits: int) -> str:
    """NAME:ALGORITHM, or NAME:ALGORITHM:NEG,POS."""
    name, _, rest = given.partition(":")
    algorithm, _, labels = rest.partition(":")
    if not algorithm:
        raise InvalidParameterError(f"a fresh model is NAME:ALGORITHM or NAME:ALGORITHM:NEG,POS, got {given!r}")
    kept = places.model(require_name(name))
    if kept.exists():
        return name
    if find(algorithm).kind == "batch":
        raise InvalidParameterError(f"{find(algorithm).name} takes many rows at once; choose one that learns online")
    space = {"hashing": {"bits": bits, "signed": False}} if bits else {}
    model = Model.fresh(
        algorithm,
        Classes(*(parse_classes(labels) if labels else (0, 1))),
        feature_space=space,
        grow=True,
        fit_intercept=True,
    )
    _require_served(model, given)
    kept.parent.mkdir(parents=True, exist_ok=True)
    (kept.parent / "origin").write_text("", encoding="ascii")
    write(kept, model)
    return name


def _require_served(model: Model, named: str) -> None:
    try:
        require_shareable(model)
    except ThinstreamError as error:
        raise InvalidParameterError(f"{named}: {error}") from None


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
