"""What happens to a served model beside rows: it is kept, goes back, is challenged, gives way. All by its journal."""

import json
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from thinstream.errors import InvalidInputError, InvalidParameterError, ModelFileError, listed
from thinstream.learners import find
from thinstream.models.file import read
from thinstream.models.model import Model
from thinstream.serve.challengers import Challenger, Challengers, warmed
from thinstream.serve.journal import Journal
from thinstream.serve.packed import Change, change_of, pack_change
from thinstream.serve.places import require_name
from thinstream.serve.sharing import require_shareable
from thinstream.serve.versions import NoVersion, Versions, settled

KINDS = ("keep", "rollback", "challenge", "promote", "withdraw")
#: Those before which the model is kept as a version, and what that is said to be for.
KEEPING = {"keep": "asked for", "rollback": "before going back", "promote": "before giving way"}
#: Challengers that a model may have at a time.
MOST = 16


class Changes:
    """The changes of one model: how they are asked for, and what they do when their turn in the journal comes.

    What a change does depends on the journal up to it and on files that stay until it is in a checkpoint: so a process
    that is killed and learns the journal again ends with the same bits.

    Parameters
    ----------
    model : Model
        As it was before the first entry of the journal.
    versions : Versions
    challengers : Challengers

    """

    def __init__(self, model: Model, versions: Versions, challengers: Challengers) -> None:
        self._model, self.versions, self.challengers = model, versions, challengers

    # Asked for ----------------------------------------------------------------------------------------------------

    def work(self, raw: bytes, request: str | None, fingerprint: str = "") -> Callable[[Journal], dict[str, Any]]:
        """What puts a change into the journal; raises where it cannot be made."""
        size = int.from_bytes(raw[:4], "little")
        change = Change(json.loads(raw[4 : 4 + size]), raw[4 + size :])
        change = self._checked(change)

        def work(journal: Journal) -> dict[str, Any]:
            return journal.once(request, lambda: self._append(change, journal), fingerprint)

        return work

    def _append(self, change: Change, journal: Journal) -> dict[str, Any]:
        what, name = change.what["what"], change.what.get("name", "")
        names, there = self._names(journal), self.challengers.each.get(name)
        if what == "challenge" and (name in names or len(names) >= MOST):
            why = f"there is a challenger {name!r} already" if name in names else f"{MOST} challengers are enough"
            raise InvalidInputError(f"{why}; withdraw one first")
        if what in ("promote", "withdraw") and name not in names:
            known = f"there are {listed(sorted(names))}" if names else "there are none"
            raise InvalidInputError(f"no challenger is called {name!r}; {known}")
        if what == "promote" and there is not None and there.out is not None:
            raise InvalidInputError(f"{name!r} is out: {there.out}")
        if what == "rollback":
            self.versions.pin(journal.newest + 1, change.what["version"])
        number = journal.append(pack_change(change), 0)
        kept = {"kept": number - 1} if what in KEEPING else {}
        return {"entry": number, **kept} | {key: change.what[key] for key in ("name", "version") if key in change.what}

    def _names(self, journal: Journal) -> set[str]:
        """Of the challengers there will be when all of the journal is learned."""
        names = {*self.challengers.each}
        for change in filter(None, (change_of(entry.data) for entry in journal.changes())):
            if change.what["what"] == "challenge":
                names.add(change.what["name"])
            elif change.what["what"] in ("promote", "withdraw"):
                names.discard(change.what["name"])
        return names

    def _checked(self, change: Change) -> Change:
        what = change.what
        if what.get("what") not in KINDS:
            raise InvalidInputError(f"a change must be {listed(KINDS)}, got {what.get('what')!r:.40}")
        if what["what"] in ("rollback", "challenge") and self._model.classes.grow:
            raise InvalidParameterError(
                "a model whose classes come later (grow_classes) cannot go back, and has no challengers"
            )
        if what["what"] == "rollback":
            self.versions.path(what["version"])
            return Change(what | {"version": int(what["version"])})
        if what["what"] == "challenge":
            require_name(what["name"])
            warmed(self._challenger(change).copy())
        return change

    def pin(self, journal: Journal) -> None:
        """Versions that the journal goes back to stay."""
        for number, data in journal.changes():
            change = change_of(data)
            if change is not None and change.what["what"] == "rollback":
                with suppress(NoVersion):  # it was gone back to, and is in a checkpoint
                    self.versions.pin(number, change.what["version"])

    # Their turn has come ----------------------------------------------------------------------------------------------

    def happens(self, change: Change, number: int, now: Model) -> Model:
        """The model after a change at an entry."""
        what, name = change.what["what"], change.what.get("name", "")
        if what == "rollback":
            return settled(self.versions.read(change.what["version"]), self._model, "the version")
        if what == "challenge":
            begun = Challenger.begin(self._challenger(change), number, now.threshold)
            self.challengers.each[name] = begun
        elif what in ("promote", "withdraw") and name in self.challengers.each:
            if what == "promote" and self.challengers.each[name].out is not None:
                return now
            gone = self.challengers.each.pop(name)
            if what == "promote":
                return settled(gone.model, self._model, name)
        return now

    def _challenger(self, change: Change) -> Model:
        """A model out of a file, or a fresh one of the champion's classes and features."""
        name, like = change.what["name"], self._model
        if change.data:
            with tempfile.NamedTemporaryFile(suffix=".ts") as file:
                Path(file.name).write_bytes(change.data)
                try:
                    model = read(file.name)
                except ModelFileError as error:
                    raise InvalidInputError(str(error).replace(file.name, "the challenger's file")) from None
        else:
            algorithm, parameters = change.what.get("algorithm"), change.what.get("parameters") or {}
            if not isinstance(algorithm, str):
                raise InvalidParameterError("a challenger is a model file, or has the name of an algorithm")
            if not isinstance(parameters, dict):
                raise InvalidParameterError(f"parameters must be an object of names and values, got {parameters!r:.40}")
            if find(algorithm).kind == "batch":
                raise InvalidParameterError(
                    f"{find(algorithm).name} takes many rows at once; choose one that learns online"
                )
            model = Model.fresh(
                algorithm,
                like.classes,
                feature_space=like.feature_space,
                dtype=like.learner.dtype.name,
                grow=True,
                fit_intercept=bool(like.learner.offset),
                parameters=parameters,
                scale=change.what.get("scale"),
                normalize=change.what.get("normalize"),
            )
        if model.learner.weights_only or model.learner.reads != "once":
            raise InvalidInputError(f"{name}: it has its weights only and cannot learn along")
        require_shareable(model)
        model = settled(model, like, name)
        model.learner.grow = True
        return model
