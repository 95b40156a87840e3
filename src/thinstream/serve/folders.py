"""The data folder of a server: its files, the check that journal and checkpoint match, and backups.

A checkpoint contains all entries up to a number, and these entries are deleted from the journal. If a folder is copied
file by file while the server runs, the copy may have a journal that is older than its checkpoint (new rows would get
numbers that the checkpoint has, and would never be learned) or one that is newer (entries in between are missing).
"""

import hashlib
import os
import re
import shutil
import sqlite3
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

from thinstream.errors import InvalidInputError, InvalidParameterError
from thinstream.files import locked, replacing, try_lock
from thinstream.models.file import read
from thinstream.models.model import Model
from thinstream.serve import Settings
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
from thinstream.serve.log import WARNING, log
from thinstream.serve.wire import is_sound

#: A file in the shared folder. A running server holds its lock.
_LOCK = "lock"
#: Seconds to wait for that lock: other servers hold it for a moment while they clean up.
_PATIENCE = 5.0
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def require_name(name: str) -> str:
    """Return a valid name of a model: it is also the name of a folder and part of URLs.

    >>> require_name("../spam")
    Traceback (most recent call last):
    thinstream.errors.InvalidParameterError: a model name must have 1 to 64 letters, digits, '.', '_' and '-', and start
    with a letter or digit, got '../spam'
    """
    if not _NAME.fullmatch(name):
        raise InvalidParameterError(
            f"a model name must have 1 to 64 letters, digits, '.', '_' and '-', and start with a letter "
            f"or digit, got {name!r}"
        )
    return name


def digest_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


class Origin:
    """The digests of the files that a model was deployed from, the newest last."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "origin"

    @property
    def digests(self) -> list[str]:
        return self._path.read_text(encoding="ascii").split()

    @property
    def newest(self) -> str | None:
        return next(reversed(self.digests), None)

    def add(self, digest: str) -> None:
        """Add a digest and sync it to disk."""
        lines = [*(self.digests if self._path.exists() else []), digest]
        with replacing(self._path) as new:
            new.write_text("".join(f"{line}\n" for line in lines), encoding="ascii")


class ServerPaths:
    """The data folder of a server, and the folder in memory that its processes share."""

    def __init__(self, data: Path) -> None:
        self.data = data.resolve()
        digest = hashlib.sha256(os.fsencode(self.data)).hexdigest()[:16]
        memory = Path("/dev/shm")
        base = memory if memory.is_dir() and os.access(memory, os.W_OK) else Path(tempfile.gettempdir())
        #: Shared by the processes while the server runs: weights, the learner's socket and counts.
        self.shared = base / f"thinstream-{os.getuid()}-{digest}"
        self.lock = self.data / "lock"  # held by the supervisor
        self.learning = self.data / "learning.lock"  # held by the learner, which may outlive its supervisor
        self.socket = self.shared / "learner"  # of the learner; its path must be short
        self.metrics = self.shared / "metrics"  # counts of each process
        #: Identifies the running server, because a killed server's processes may still run for a moment.
        self.mark: int | None = None

    def are_another_servers(self) -> bool:
        """Return whether the server of this process was killed and another server has started."""
        with suppress(FileNotFoundError):
            return os.stat(self.metrics).st_ino != self.mark
        return True

    def folder(self, name: str) -> Path:
        return self.data / require_name(name)

    def model(self, name: str) -> Path:
        """The model before the first entry of its journal."""
        return self.folder(name) / "model.ts"

    def weights(self, name: str) -> Path:
        return self.shared / f"{require_name(name)}.weights"

    def names(self) -> list[str]:
        """Return the names of all models, loaded or not."""
        return sorted(path.parent.name for path in self.data.glob("*/model.ts") if _NAME.fullmatch(path.parent.name))

    @contextmanager
    def held(self) -> Iterator[None]:
        """Lock the folder for one server at a time, and remove what a killed server left in shared memory."""
        self.data.mkdir(parents=True, exist_ok=True)
        with ExitStack() as stack:
            try:
                stack.enter_context(locked(self.lock, wait=False))
            except BlockingIOError:
                raise InvalidInputError(f"another server uses {self.data}. Stop it, or choose another --data") from None
            stack.callback(os.close, self._lock_shared())
            self._remove_leftovers()
            _empty(self.shared)
            self.metrics.mkdir()
            self.mark = os.stat(self.metrics).st_ino
            yield

    def _lock_shared(self) -> int:
        """Lock the shared folder until the returned file is closed, so that other servers leave it alone."""
        until = time.monotonic() + _PATIENCE
        while time.monotonic() < until:
            self.shared.mkdir(mode=0o700, exist_ok=True)
            if not _is_own(self.shared):
                raise InvalidInputError(f"{self.shared} must be a folder that only this user may access. Remove it")
            with suppress(FileNotFoundError):  # another server has just removed it
                if (handle := _locked(self.shared / _LOCK, os.O_CREAT)) is not None:
                    return handle
            time.sleep(0.01)
        raise InvalidInputError(f"another server uses {self.data}. Stop it, or choose another --data")

    def _remove_leftovers(self) -> None:
        """Remove the contents of shared folders whose servers were killed: no process holds their locks.

        The folder itself is removed by a later start, because the server's other processes may use it for a moment.
        """
        if (own := _locked(self.shared / _LOCK)) is not None:  # this file system has no locks
            os.close(own)
            return
        for folder in self.shared.parent.glob(f"thinstream-{os.getuid()}-*"):
            with suppress(OSError):  # it has no lock, or another server is removing it
                if folder == self.shared or not _is_own(folder) or (handle := _locked(folder / _LOCK)) is None:
                    continue
                try:
                    if not _empty(folder):
                        shutil.rmtree(folder)
                finally:
                    os.close(handle)

    def clear(self) -> None:
        shutil.rmtree(self.shared, ignore_errors=True)


def _empty(folder: Path) -> bool:
    """Remove everything except the lock from a shared folder; return whether there was anything."""
    leftovers = [path for path in folder.iterdir() if path.name != _LOCK]
    for path in leftovers:
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    return bool(leftovers)


def _is_own(folder: Path) -> bool:
    """Return whether only this user may access the folder."""
    status = os.lstat(folder)
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o077


def _locked(path: Path, more: int = 0) -> int | None:
    """Open and lock a file; return None if another process holds its lock."""
    handle = os.open(path, os.O_RDWR | os.O_NOFOLLOW | more, 0o600)
    try:
        if try_lock(handle) and os.path.samestat(os.fstat(handle), os.lstat(path)):
            return handle
    except FileNotFoundError:
        pass
    os.close(handle)
    return None


CHECKPOINT, JOURNAL = "checkpoint.ts", "journal.sqlite"
#: Attempts at a backup, because a new checkpoint may be written while the journal is copied.
ATTEMPTS = 100
_RECOVER = "Restore a backup, or start the server with --recover to continue from the checkpoint"


def saved_in(model: Model) -> tuple[int, str]:
    """Return the last entry that a checkpoint contains, and the name of its journal."""
    run = model.extra["run"]
    return int(run["position"][1]), str(run["source"]["name"])


def open_journal(folder: Path, settings: Settings) -> Journal:
    """Open the journal of a model; raise `JournalMismatchError` if it does not continue the checkpoint.

    With ``settings.recover``, a journal that does not match is changed to match. A copy of the old journal stays.
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
    """Return whether SQLite can read the file. If so, the file is not damaged, and something else is wrong."""
    try:
        with closing(connect(path, read_only=True)) as tables:
            return bool(tables.execute("PRAGMA quick_check(1)").fetchone() == ("ok",))
    except sqlite3.Error:
        return False


def _set_damaged_aside(journal: Journal, folder: Path) -> None:
    """Put entries whose checksum does not match into quarantine."""
    with closing(Reader(journal.path)) as reader:
        quarantined = reader.refused(0, journal.last)
    for entry in _damaged(journal):
        if WHOLE_ENTRY not in quarantined.get(entry.number, ()):
            with journal.transaction():
                journal.quarantine(entry.number, WHOLE_ENTRY, "its checksum does not match", entry.data)
            _report(folder, f"entry {entry.number} of the journal is damaged; it is in quarantine and is not learned")


def _damaged(journal: Journal) -> list[Entry]:
    damaged, number = list[Entry](), 0
    with closing(Reader(journal.path)) as reader:
        while entries := reader.after(number, 1000):
            number = entries[-1].number
            damaged += [entry for entry in entries if not is_sound(entry.data)]
    return damaged


def _aside(path: Path) -> Path:
    """Return a new file name for a copy of the old journal."""
    return path.with_name(f"{path.stem}.{time.strftime('%Y%m%d-%H%M%S')}-{time.time_ns() % 10**9:09d}{path.suffix}")


def _report(folder: Path, message: str) -> None:
    log(f"{folder.name}: {message}", WARNING)


def back_up(paths: ServerPaths, target: Path) -> list[str]:
    """Copy the folder of a server, which may be running, and return the names of its models.

    Each checkpoint is copied first, then its journal with SQLite's backup API. If a newer checkpoint removed entries
    from the journal in between, both are copied again. Then the copy is opened to check that both match.
    """
    names = paths.names()
    if not names:
        raise InvalidInputError(f"{paths.data} has no models. Give the --data folder of a server")
    if target.exists() and any(target.iterdir()):
        raise InvalidInputError(f"{target} is not empty. Give a new folder for the backup")
    if target.resolve().is_relative_to(paths.data.resolve()):
        raise InvalidInputError(f"{target} is inside {paths.data}. Give a folder outside of it for the backup")
    draft = target.with_name(f".{target.name}.draft")
    shutil.rmtree(draft, ignore_errors=True)
    try:
        for name in names:
            _back_up_model(paths.folder(name), draft / name)
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
            with suppress(FileNotFoundError):  # a version that was removed meanwhile
                shutil.copy2(file, copy)
        if _mark(folder) != mark:
            continue  # challengers belong to their checkpoint
        if (folder / JOURNAL).exists():
            copy_database(folder / JOURNAL, target / JOURNAL)
        elif mark is None:  # the model has only its weights and does not learn
            return
        try:
            with closing(open_journal(target, Settings())) as journal:
                for entry in _damaged(journal):
                    _report(folder, f"entry {entry.number} of the journal is damaged, also in the copy")
        except JournalMismatchError as error:
            if _mark(folder) == mark:  # not because of a newer checkpoint
                raise JournalMismatchError(f"{folder.name} cannot be backed up: {error}") from None
            continue
        return
    raise InvalidInputError(
        f"{folder.name} writes checkpoints faster than its journal can be copied ({ATTEMPTS} attempts); raise "
        "--checkpoint-seconds, or stop the server and copy its folder"
    )


def _mark(folder: Path) -> tuple[int, int] | None:
    """Identify the current checkpoint; None without one."""
    try:
        stat = (folder / CHECKPOINT).stat()
    except FileNotFoundError:
        return None
    return stat.st_ino, stat.st_mtime_ns


def _files(folder: Path) -> Iterator[Path]:
    """Return all files of a model except its journal, the checkpoint first."""
    files = [file for file in folder.rglob("*") if file.is_file() and not file.name.startswith((".", "journal."))]
    return iter(sorted(files, key=lambda file: file.name != CHECKPOINT))
