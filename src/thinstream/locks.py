"""Locks on files among processes. A lock goes with the process that holds it, however that ends."""

import os
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
