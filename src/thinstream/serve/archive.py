"""What was learned and is about to be cut from the journal, kept as files that ``thinstream train`` reads."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from thinstream.batch import Batch, Position
from thinstream.models.model import Model
from thinstream.serve.journal import Reader
from thinstream.serve.journal_stream import ROWS, Bell, JournalStream
from thinstream.serve.packed import change_of, is_sound
from thinstream.streams.stream import START


class Archive:
    """Keeps nothing."""

    def keep(self, until: int) -> None:
        """The entries up to this number are about to go."""


class Segments(Archive):
    """A binary cache for each checkpoint, named after its last entry; their order is that of their names.

    Parameters
    ----------
    folder : path
        Where they go.
    journal : path
    model : Model
        Whose classes and features the rows have.

    """

    def __init__(self, folder: Path, journal: Path, model: Model) -> None:
        self._folder, self._journal, self._model = folder, journal, model
        folder.mkdir(exist_ok=True)
        for draft in folder.glob(".*.tmp"):  # of a process that was killed: this one alone writes here
            draft.unlink()

    def keep(self, until: int) -> None:
        """The entries up to this number become a file, which is there whole or not at all."""
        from thinstream.streams.cache.mapped import write_cache

        done = max((int(path.stem) for path in self._folder.glob("[0-9]*.cache")), default=0)
        segment = _Segment(self._journal, self._model, done, until)
        if until > done and any(len(batch) for batch in segment.batches()):
            write_cache(segment, self._folder / f"{until:016d}.cache")


class _Segment(JournalStream):
    """The entries of a journal between two numbers."""

    def __init__(self, path: Path, model: Model, after: int, until: int) -> None:
        super().__init__(path, path.parent.name, model, Bell())
        self._model, self._after, self._until = model, after, until

    def batches(self, start: Position = START) -> Iterator[Batch]:
        """The rows, in order."""
        reader, number, row = Reader(self._path), self._after, 0
        try:
            while entries := reader.after(number, ROWS, self._until):
                number = entries[-1].number
                entries = [entry for entry in entries if is_sound(entry.data) and change_of(entry.data) is None]
                if not entries:
                    continue
                batch = self._batch(entries, reader)
                row += len(batch)
                yield replace(batch, position=Position(offset=number, row=row))
        finally:
            reader.close()

    def fingerprint(self) -> dict[str, Any]:
        """Which entries of which journal, and how the model's files are read, so that it goes on with these, too."""
        how = {"missing": "as-is"} | self._model.reading_options  # as a model reads that says nothing of it
        how |= {"classes": list(self._model.classes)}
        return how | super().fingerprint() | {"after": self._after, "until": self._until}
