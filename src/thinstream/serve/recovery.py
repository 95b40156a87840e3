"""A journal and a checkpoint of the same moment: checked when a folder is opened, recovered, and backed up.

A checkpoint has all entries up to a number, and entries up to it are cut from the journal. If a folder is copied file
by file while the server runs, the copy may have a journal that is older than its checkpoint (new rows would get numbers
that the checkpoint has, and would never be learned) or one that is newer (entries in between are missing).
"""

import shutil
import sqlite3
import sys
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

from thinstream.errors import InvalidInputError
from thinstream.models.file import read
from thinstream.models.model import Model
from thinstream.serve.journal import (
    WHOLE_ENTRY,
    Entry,
    Journal,
    JournalError,
    JournalMismatchError,
    Reader,
    connect,
    copy_database,
)
from thinstream.serve.packed import is_sound
from thinstream.serve.places import Places
from thinstream.serve.settings import Settings

CHECKPOINT, JOURNAL = "checkpoint.ts", "journal.sqlite"
#: Attempts at a backup: a new checkpoint may be written while the journal of the last one is copied.
ATTEMPTS = 100
_RECOVER = "Restore a backup, or start the server with --recover to continue from the checkpoint"


def saved_in(model: Model) -> tuple[int, str]:
    """The last entry that a checkpoint has, and the name of its journal."""
    run = model.extra["run"]
    return int(run["position"][1]), str(run["source"]["name"])


def open_journal(folder: Path, settings: Settings) -> Journal:
    """Open the journal of a model, if it continues its checkpoint; `JournalMismatchError` otherwise.

    With ``settings.recover`` the journal is made to continue it. The old journal stays next to it as a copy.
    """
    path, checkpoint = folder / JOURNAL, folder / CHECKPOINT
    saved, name = saved_in(read(checkpoint)) if checkpoint.exists() else (0, None)
    is_new, problem = not path.exists(), f"{JOURNAL} is missing, but {CHECKPOINT} has entries up to {saved}"
    if is_new and name is not None and not settings.recover:
        raise JournalMismatchError(f"{problem}. {_RECOVER}")
    try:
        journal = _opened(path, settings)
    except JournalError as error:
        if not isinstance(error.__cause__, sqlite3.DatabaseError) or _is_readable(path):
            raise
        if not settings.recover:
            raise JournalError(f"{error}. Stop the server. {_RECOVER}") from error
        aside, is_new, problem = _aside(path), True, str(error)
        for suffix in ("", "-wal", "-shm"):
            with suppress(FileNotFoundError):
                Path(f"{path}{suffix}").rename(f"{aside}{suffix}")
        journal = _opened(path, settings)
    is_mismatched = is_new and name is not None
    try:
        if not is_new:
            try:
                journal.require_checkpoint(saved, name)
            except JournalMismatchError as error:
                problem = str(error)
                if not settings.recover:
                    raise JournalMismatchError(f"{problem}. {_RECOVER}") from None
                copy_database(path, _aside(path))
                is_mismatched = True
        if is_mismatched:
            with journal.transaction():
                journal.continue_after(saved, name)
            _report(folder, f"{problem}. Learning continues after entry {saved} with entry {journal.first}")
        if settings.recover:
            _set_damaged_aside(journal, folder)
    except BaseException:
        journal.close()
        raise
    return journal


def _opened(path: Path, settings: Settings) -> Journal:
    return Journal(path, settings.keep, settings.wait_seconds, keep_bytes=settings.keep_bytes)


def _is_readable(path: Path) -> bool:
    """Whether SQLite can read the file at all: if so, it is not damaged, and something else is wrong."""
    try:
        with closing(connect(path, read_only=True)) as tables:
            return bool(tables.execute("PRAGMA quick_check(1)").fetchone() == ("ok",))
    except sqlite3.Error:
        return False


def _set_damaged_aside(journal: Journal, folder: Path) -> None:
    """Put entries whose checksum does not match into quarantine."""
    with closing(Reader(journal.path)) as reader:
        known = reader.refused(0, journal.last)
    for entry in _damaged(journal):
        if WHOLE_ENTRY not in known.get(entry.number, ()):
            with journal.transaction():
                journal.quarantine(entry.number, WHOLE_ENTRY, "its checksum does not match", entry.data)
            _report(folder, f"entry {entry.number} of the journal is damaged; it is in quarantine and is not learned")


def _damaged(journal: Journal) -> list[Entry]:
    """Entries whose checksum does not match."""
    damaged, number = list[Entry](), 0
    with closing(Reader(journal.path)) as reader:
        while entries := reader.after(number, 1000):
            number = entries[-1].number
            damaged += [entry for entry in entries if not is_sound(entry.data)]
    return damaged


def _aside(path: Path) -> Path:
    """A new name for what was there before."""
    return path.with_name(f"{path.stem}.{time.strftime('%Y%m%d-%H%M%S')}-{time.time_ns() % 10**9:09d}{path.suffix}")


def _report(folder: Path, message: str) -> None:
    sys.stderr.write(f"thinstream: {folder.name}: {message}\n")


# Backup ---------------------------------------------------------------------------------------------------------------


def back_up(places: Places, target: Path) -> list[str]:
    """Copy the folder of a server, which may be running, and return the names of its models.

    Each checkpoint is copied first, then its journal by SQLite's backup API, and again if a newer checkpoint has cut
    entries from the journal in between. Then the copy is opened, to see that both are of the same moment.
    """
    names = places.names()
    if not names:
        raise InvalidInputError(f"{places.data} has no models to back up")
    if target.exists() and any(target.iterdir()):
        raise InvalidInputError(f"{target} is not empty; a backup needs a new folder")
    if target.resolve().is_relative_to(places.data.resolve()):
        raise InvalidInputError(f"{target} is inside {places.data}; a backup needs a folder outside of it")
    draft = target.with_name(f".{target.name}.draft")
    shutil.rmtree(draft, ignore_errors=True)
    try:
        for name in names:
            _back_up_model(places.folder(name), draft / name)
        if target.exists():
            target.rmdir()
        draft.rename(target)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return names


def _back_up_model(folder: Path, target: Path) -> None:
    for _ in range(ATTEMPTS):
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        mark = _mark(folder)
        for file in _files(folder):
            copy = target / file.relative_to(folder)
            copy.parent.mkdir(exist_ok=True)
            with suppress(FileNotFoundError):  # a version that is not kept any more
                shutil.copy2(file, copy)
        if _mark(folder) != mark:
            continue  # challengers belong to their checkpoint
        if (folder / JOURNAL).exists():
            copy_database(folder / JOURNAL, target / JOURNAL)
        elif mark is None:  # it has its weights only and does not learn
            return
        try:
            with closing(open_journal(target, Settings())) as journal:
                for entry in _damaged(journal):
                    _report(folder, f"entry {entry.number} of the journal is damaged, also in the copy")
        except JournalMismatchError as error:
            if _mark(folder) == mark:  # no newer checkpoint is the reason
                raise JournalMismatchError(f"{folder.name} cannot be backed up: {error}") from None
            continue
        return
    raise InvalidInputError(
        f"{folder.name} writes checkpoints faster than its journal can be copied ({ATTEMPTS} attempts); raise "
        "--checkpoint-seconds, or stop the server to copy its folder"
    )


def _mark(folder: Path) -> tuple[int, int] | None:
    """Identifies a checkpoint; None without one."""
    try:
        stat = (folder / CHECKPOINT).stat()
    except FileNotFoundError:
        return None
    return stat.st_ino, stat.st_mtime_ns


def _files(folder: Path) -> Iterator[Path]:
    """All files of a model except its journal, the checkpoint first."""
    files = [file for file in folder.rglob("*") if file.is_file() and not file.name.startswith((".", "journal."))]
    return iter(sorted(files, key=lambda file: file.name != CHECKPOINT))
