"""Where a server keeps what: models and journals in its folder, what processes share in memory."""

import hashlib
import os
import re
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from thinstream.errors import InvalidInputError, InvalidParameterError
from thinstream.locks import locked, try_lock

#: A file in the shared folder, whose lock a running server holds.
_LOCK = "lock"
#: Seconds to wait for that lock: servers that look for leftovers hold it for a moment.
_PATIENCE = 5.0
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def require_name(name: str) -> str:
    """A name that a model can have: it is that of a folder, and stands in addresses.

    >>> require_name("../spam")
    Traceback (most recent call last):
    thinstream.errors.InvalidParameterError: names of models are 1 to 64 letters, digits, '.', '_' and '-', a letter or
    digit first, got '../spam'
    """
    if not _NAME.fullmatch(name):
        raise InvalidParameterError(
            f"names of models are 1 to 64 letters, digits, '.', '_' and '-', a letter or digit first, got {name!r}"
        )
    return name


class Places:
    """Of the files of a server.

    Parameters
    ----------
    data : path
        The folder that outlives the server.

    """

    def __init__(self, data: Path) -> None:
        self.data = data.resolve()
        known = hashlib.sha256(os.fsencode(self.data)).hexdigest()[:16]
        memory = Path("/dev/shm")
        base = memory if memory.is_dir() and os.access(memory, os.W_OK) else Path(tempfile.gettempdir())
        #: What processes share while the server runs: weights, and the door of the learning process.
        self.shared = base / f"thinstream-{os.getuid()}-{known}"
        #: What tells one server of the folder from the next, while it runs.
        self.mark: int | None = None

    @property
    def lock(self) -> Path:
        """Held by the server."""
        return self.data / "lock"

    @property
    def learning(self) -> Path:
        """Held by the learning process, which may outlive its server for a moment."""
        return self.data / "learning.lock"

    @property
    def door(self) -> Path:
        """The socket of the learning process; its name must be short."""
        return self.shared / "learner"

    @property
    def metrics(self) -> Path:
        """Where processes count what Prometheus is told."""
        return self.shared / "metrics"

    def are_another_servers(self) -> bool:
        """Whether the server that this process belongs to was killed, and the next has begun."""
        with suppress(FileNotFoundError):
            return os.stat(self.metrics).st_ino != self.mark
        return True

    def folder(self, name: str) -> Path:
        """Of a model."""
        return self.data / require_name(name)

    def model(self, name: str) -> Path:
        """A model as it was before the first entry of its journal."""
        return self.folder(name) / "model.ts"

    def weights(self, name: str) -> Path:
        """What a model predicts with now."""
        return self.shared / f"{require_name(name)}.weights"

    def names(self) -> list[str]:
        """Of all models there are, loaded or not."""
        return sorted(path.parent.name for path in self.data.glob("*/model.ts") if _NAME.fullmatch(path.parent.name))

    @contextmanager
    def held(self) -> Iterator[None]:
        """Holds the folder, which one server may have at a time; what a killed one has left in memory goes."""
        self.data.mkdir(parents=True, exist_ok=True)
        with ExitStack() as stack:
            try:
                stack.enter_context(locked(self.lock, wait=False))
            except BlockingIOError:
                raise InvalidInputError(f"{self.data} is served by another process") from None
            stack.callback(os.close, self._lock_shared())
            self._remove_leftovers()
            _empty(self.shared)
            self.metrics.mkdir()
            self.mark = os.stat(self.metrics).st_ino
            yield

    def _lock_shared(self) -> int:
        """Lock the shared folder, until the file that is returned is closed, so that other servers leave it alone."""
        until = time.monotonic() + _PATIENCE
        while time.monotonic() < until:
            self.shared.mkdir(mode=0o700, exist_ok=True)
            if not _is_own(self.shared):
                raise InvalidInputError(f"{self.shared} is not a folder of this user alone; remove it")
            with suppress(FileNotFoundError):  # another server has just removed it
                if (handle := _locked(self.shared / _LOCK, os.O_CREAT)) is not None:
                    return handle
            time.sleep(0.01)
        raise InvalidInputError(f"{self.data} is served by another process")

    def _remove_leftovers(self) -> None:
        """Remove the contents of shared folders whose servers were killed: no process holds their locks.

        The folder itself is removed by a later start, because the server's other processes may use it for a moment.
        """
        if (own := _locked(self.shared / _LOCK)) is not None:  # although it is held: a file system without locks
            os.close(own)
            return
        for folder in self.shared.parent.glob(f"thinstream-{os.getuid()}-*"):
            with suppress(OSError):  # it has no lock, or another server removes it
                if folder == self.shared or not _is_own(folder) or (handle := _locked(folder / _LOCK)) is None:
                    continue
                try:
                    if not _empty(folder):
                        shutil.rmtree(folder)
                finally:
                    os.close(handle)

    def clear(self) -> None:
        """The server is over: nothing stays in memory."""
        shutil.rmtree(self.shared, ignore_errors=True)


def _empty(folder: Path) -> bool:
    """Remove all but the lock from a shared folder; return whether there was anything."""
    leftovers = [path for path in folder.iterdir() if path.name != _LOCK]
    for path in leftovers:
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    return bool(leftovers)


def _is_own(folder: Path) -> bool:
    """Return whether it is a folder that this user alone may access."""
    status = os.lstat(folder)
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o077


def _locked(path: Path, more: int = 0) -> int | None:
    """Open and lock a file, which is not removed meanwhile; None if another process has its lock."""
    handle = os.open(path, os.O_RDWR | os.O_NOFOLLOW | more, 0o600)
    try:
        if try_lock(handle) and os.path.samestat(os.fstat(handle), os.lstat(path)):
            return handle
    except FileNotFoundError:
        pass
    os.close(handle)
    return None
