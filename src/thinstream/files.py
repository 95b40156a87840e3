"""Atomic replacement of files, and locks between processes and threads."""

import functools
import operator
import os
import re
import secrets
import stat
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from thinstream.errors import FileWriteError

# Locks: between processes on files, and between threads with shared readers.
#
# The lock of a file is released when its process ends, for whatever reason.


@contextmanager
def locked(path: str | os.PathLike[str], *, wait: bool = True) -> Iterator[None]:
    """Hold the lock of a file during the block. The file is created if it does not exist.

    Without ``wait``, raise `BlockingIOError` if another process holds the lock.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, locked(f"{folder}/lock"), locked(f"{folder}/lock", wait=False):
    ...     pass
    Traceback (most recent call last):
    BlockingIOError: another process holds the lock
    """
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        if wait:
            _lock(handle, wait=True)
        elif not try_lock(handle):
            raise BlockingIOError("another process holds the lock")
        yield
    finally:
        os.close(handle)  # releases the lock


def try_lock(handle: int) -> bool:
    """Try to lock an open file; return False if another process holds the lock. Closing the file releases it."""
    try:
        _lock(handle, wait=False)
    except (BlockingIOError, PermissionError):  # held by another process; Windows raises PermissionError
        return False
    except OSError:  # the file system has no locks
        return True
    return True


def _lock(handle: int, *, wait: bool) -> None:
    try:
        import fcntl
    except ImportError:  # Windows
        import msvcrt

        msvcrt.locking(handle, msvcrt.LK_LOCK if wait else msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined, unused-ignore]
    else:
        fcntl.flock(handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)


class SharedLock:
    """A lock that any number of threads hold to read, or one thread to write.

    Readers and writers take turns, so neither waits indefinitely: new readers wait for a writer that waits, and all
    readers that waited for a writer go before the next one. A thread may acquire the lock again while it holds it, but
    a thread that reads must not start to write.

    Examples
    --------
    >>> lock = SharedLock()
    >>> with lock.writing(), lock.reading():
    ...     pass

    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._readers: dict[int, int] = {}  # how many times each thread holds the lock
        self._writer, self._depth = 0, 0  # thread, and how many times it holds it
        self._waiting_readers = self._waiting_writers = 0
        self._due = 0  # readers that go before the next writer

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Hold the lock together with other readers."""
        self.acquire_read()
        try:
            yield
        finally:
            self.release_read()

    def acquire_read(self) -> None:
        """Start to read."""
        me = threading.get_ident()
        with self._lock:
            if (self._writer or self._waiting_writers) and self._writer != me and me not in self._readers:
                self._waiting_readers += 1
                try:
                    self._changed.wait_for(lambda: not self._writer and (self._due or not self._waiting_writers))
                finally:
                    self._waiting_readers -= 1
                    self._due = max(self._due - 1, 0)
                    self._changed.notify_all()
            self._readers[me] = self._readers.get(me, 0) + 1

    def release_read(self) -> None:
        """End one `acquire_read`."""
        me = threading.get_ident()
        with self._lock:
            self._readers[me] -= 1
            if not self._readers[me]:
                del self._readers[me]
                if self._waiting_writers:
                    self._changed.notify_all()

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Hold the lock alone."""
        me = threading.get_ident()
        with self._lock:
            if self._writer != me and not self._is_free_for(me):
                self._waiting_writers += 1
                try:
                    self._changed.wait_for(lambda: self._is_free_for(me))
                finally:
                    self._waiting_writers -= 1
                    self._changed.notify_all()
            self._writer, self._depth = me, self._depth + 1
        try:
            yield
        finally:
            with self._lock:
                self._depth -= 1
                if not self._depth:
                    self._writer, self._due = 0, self._waiting_readers
                    if self._waiting_readers or self._waiting_writers:
                        self._changed.notify_all()

    def _is_free_for(self, me: int) -> bool:
        """Return whether no other thread holds the lock or goes first."""
        return not (self._writer or self._due or len(self._readers) > (me in self._readers))


# Files that are replaced completely or not at all, even if the process or the machine crashes.
#
# New content is written to a hidden file in the same folder, synced to disk, and renamed to the target. If a writer
# crashes, the next writer of the same target removes its hidden file.


@contextmanager
def replacing(path: str | os.PathLike[str], like: Sequence[str | os.PathLike[str]] = ()) -> Iterator[Path]:
    """Yield an empty file to write to. At the end of the block it replaces ``path``, unless the block raises.

    A symbolic link stays, and its target is replaced. An existing file keeps its permissions. A new file has no more
    permissions than any of the files ``like``.

    Examples
    --------
    >>> import tempfile
    >>> target = Path(tempfile.mkdtemp()) / "numbers.txt"
    >>> with replacing(target) as file:
    ...     _ = file.write_text("1 2 3")
    >>> target.read_text()
    '1 2 3'

    """
    with explained(path), draft(path, like) as new:
        yield new


@contextmanager
def draft(path: str | os.PathLike[str], like: Sequence[str | os.PathLike[str]] = ()) -> Iterator[Path]:
    """Do the same as `replacing`, but do not change the errors of the block."""
    target = Path(os.path.realpath(path))
    mode = _mode(target, path)
    closed = [stat.S_IMODE(os.stat(file).st_mode) for file in like] if mode is None else []
    _sweep(target)
    temporary = target.with_name(f".{target.name[:100]}.{os.getpid()}.{secrets.token_hex(4)}.tmp")
    try:
        with explained(path):
            handle = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)  # the umask applies
        try:
            if closed:
                mode = functools.reduce(operator.and_, closed, stat.S_IMODE(os.fstat(handle).st_mode))
            if mode is not None:
                os.chmod(temporary, mode & 0o700)  # from the first byte on
            if os.name == "posix":  # on Windows, other processes could not write to it
                try_lock(handle)  # held to the end: shows that this writer is alive
            yield temporary
            with explained(path):
                if mode is not None:
                    os.chmod(temporary, mode)
                os.fsync(handle)
        finally:
            os.close(handle)
        with explained(path):
            os.replace(temporary, target)
        _sync_folder(target.parent)
    except BaseException:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise


def sweep(path: str | os.PathLike[str]) -> None:
    """Remove the hidden files of crashed writers of a file, as the next writer would."""
    _sweep(Path(os.path.realpath(path)))


def _mode(target: Path, path: str | os.PathLike[str]) -> int | None:
    """Return the permissions of an existing file, or None. Raise if it is not a regular file."""
    try:
        mode = os.stat(target).st_mode
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(mode):
        raise FileWriteError(f"{os.fspath(path)}: cannot be written, because it is a folder. Pass the name of a file")
    if not stat.S_ISREG(mode):
        raise FileWriteError(f"{os.fspath(path)}: cannot be written, because it is a device or a pipe")
    return stat.S_IMODE(mode)


@contextmanager
def explained(path: str | os.PathLike[str]) -> Iterator[None]:
    """Turn errors of a block that writes a file into a FileWriteError with the file and the reason."""
    try:
        yield
    except FileWriteError:
        raise
    except OSError as error:
        folder, reason = Path(os.path.realpath(path)).parent, error.strerror or str(error)
        if not folder.is_dir():
            reason = f"the folder {folder} does not exist"
        elif not os.access(folder, os.W_OK):
            reason = f"the folder {folder} is not writable"
        raise FileWriteError(f"{os.fspath(path)}: cannot be written: {reason}") from error


def _sweep(target: Path) -> None:
    """Remove the hidden files of crashed writers of the same target."""
    if os.name != "posix":  # on Windows, checking a process could end it
        return
    ours = re.compile(re.escape(f".{target.name[:100]}.") + r"(\d+)\.[0-9a-f]{8}\.tmp")
    with suppress(OSError), os.scandir(target.parent) as entries:
        for entry in entries:
            match = ours.fullmatch(entry.name)
            if match and not _alive(int(match[1])):
                with suppress(OSError):
                    _remove_unlocked(entry.path)


def _alive(pid: int) -> bool:
    """Return whether a process runs. A dead process that its parent has not waited for yet does not run."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:  # the process exists and belongs to another user
        return True
    with suppress(OSError):
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        return state not in "ZX"
    return True


def _remove_unlocked(path: str) -> None:
    """Remove the file unless a process holds its lock, possibly on another machine or in a container."""
    handle = os.open(path, os.O_RDWR)
    try:
        if try_lock(handle):
            os.unlink(path)
    finally:
        os.close(handle)


def _sync_folder(folder: Path) -> None:
    """Sync the new name to disk, if folders can be opened."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
