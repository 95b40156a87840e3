"""Locks: on files among processes, and one among threads that many may share.

The lock of a file goes with the process that holds it, however that ends.
"""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def locked(path: str | os.PathLike[str], *, wait: bool = True) -> Iterator[None]:
    """Holds the lock of a file, which is made if need be, for the length of the block.

    Without ``wait`` a lock that another process holds raises `BlockingIOError`.

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
    """Whether the lock of an open file is ours now; closing the file releases it. True where there are no locks."""
    try:
        _lock(handle, wait=False)
    except (BlockingIOError, PermissionError):  # held; the second is what Windows says
        return False
    except OSError:  # a file system without locks
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
        self._readers: dict[int, int] = {}  # how many times each thread holds it
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
        """Begin to read."""
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
        """End what `acquire_read` began."""
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
        """Whether no other thread holds the lock, or is to have it first."""
        return not (self._writer or self._due or len(self._readers) > (me in self._readers))
