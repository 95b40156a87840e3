"""Object code on disk: never torn, never taken without its checksum, never required.

A file's name says all that its code depends on: function and types, versions and processor, sources. Code is kept in
the package's own folder or, where that cannot be written, in the user's; where neither can, it is compiled each time.
``NUMBA_CACHE_DIR`` names another folder.

Cached code runs with the rights of the user. Files and folders that another user owns or can write to are ignored.
"""

import hashlib
import os
import secrets
import stat
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from thinstream.errors import ThinstreamWarning
from thinstream.locks import locked

PACKAGE = Path(__file__).parent.parent
_ENDING = ".code"
#: Letters of a function's name in that of its file: names of files have 255 at most, some hold many modules.
_LONGEST = 100
#: A pipe must not block, a link must not lead elsewhere; Windows has neither flag.
_SAFELY = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0)
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_warned: set[Path] = set()


def folders() -> list[Path]:
    """Where code is looked for; the first that can be written is where it is kept."""
    asked = os.environ.get("NUMBA_CACHE_DIR")
    if asked:
        return [Path(asked) / "thinstream"]
    user = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    own = hashlib.sha256(os.fsencode(PACKAGE)).hexdigest()[:16]  # of this installation
    return [PACKAGE / "__pycache__" / "compiled", Path(user) / "thinstream" / own]


def folder_to_write() -> Path | None:
    """Where code is kept, or None where it cannot be."""
    for folder in folders():
        with suppress(OSError):
            folder.mkdir(mode=0o755, parents=True, exist_ok=True)
            if os.access(folder, os.W_OK) and _is_trusted(folder, folder.stat()):
                return folder
    return None


def _is_trusted(path: Path, status: os.stat_result) -> bool:
    """Return whether only this user, root or the owner of the package can write there; warn once if not."""
    if not hasattr(os, "geteuid"):  # Windows, where modes mean nothing
        return True
    if status.st_uid not in (0, os.geteuid(), PACKAGE.stat().st_uid):
        problem = f"belongs to another user (user id {status.st_uid})"
    elif status.st_mode & _OTHERS_WRITE:
        problem = f"can be written by other users (mode {stat.S_IMODE(status.st_mode):o})"
    else:
        return True
    folder = path if stat.S_ISDIR(status.st_mode) else path.parent
    if folder not in _warned:
        _warned.add(folder)
        warnings.warn(
            f"{path} {problem}: compiled code in that folder is not used, and compiling takes seconds. Remove the "
            f"folder, run chmod -R go-w {folder}, or set NUMBA_CACHE_DIR to a folder that only you can write to.",
            ThinstreamWarning,
            stacklevel=2,
        )
    return False


def _open_safely(path: str, flags: int) -> int:
    return os.open(path, flags | _SAFELY)


def _create(path: str, flags: int) -> int:
    """Create a file that others cannot write to, whatever the umask is."""
    return os.open(path, flags, 0o644)


def _read(path: Path) -> bytes | None:
    """Return the content of a regular file that others cannot write to, in such a folder; None if it is not."""
    if not _is_trusted(path.parent, path.parent.stat()):
        return None
    with open(path, "rb", buffering=0, opener=_open_safely) as file:
        status = os.fstat(file.fileno())
        return file.read() if stat.S_ISREG(status.st_mode) and _is_trusted(path, status) else None


class Kept:
    """The place of one function's code for arguments of certain types.

    Parameters
    ----------
    function : str
        Its name.
    surroundings : str
        All that code depends on beside sources: types, versions, processor.
    sources : str or None
        What stands in the files it is compiled from; code from other sources is replaced. None: it is not kept.

    """

    def __init__(self, function: str, surroundings: str, sources: str | None) -> None:
        self._folders = [] if sources is None else folders()
        key = f"{function}\n{surroundings}\n{secrets.token_hex() if sources is None else sources}"
        self._key = hashlib.sha256(key.encode()).digest()
        digest = hashlib.sha256(f"{function}\n{surroundings}".encode()).hexdigest()[:16]
        self._stem = f"{function[:_LONGEST]}-{digest}"
        self.symbol = f"entry_{self._key.hex()}"
        self._name = f"{self._stem}-{self._key.hex()[:16]}{_ENDING}"

    def find(self) -> bytes | None:
        """The code, if it is there and whole; what is damaged is thrown away."""
        for folder in self._folders:
            file = folder / self._name
            with suppress(OSError):
                content = _read(file)
                if content is None:
                    continue
                checksum, code = content[:32], content[32:]
                if checksum == self._checksum(code):
                    return code
                file.unlink()
        return None

    @contextmanager
    def locked(self) -> Iterator[Path | None]:
        """Holds back other processes that would compile the same; gives the folder that can be written, if any."""
        folder = folder_to_write() if self._folders else None
        with ExitStack() as held:
            if folder is not None:
                try:
                    held.enter_context(locked(folder / f"{self._stem}.lock"))
                except OSError:  # a full disk, a name too long
                    folder = None
            yield folder

    def write(self, folder: Path, code: bytes) -> None:
        """Puts the code in place whole, and takes away what was compiled from other sources."""
        temporary = folder / f".{self._name}.{secrets.token_hex(4)}"
        try:
            with open(temporary, "xb", opener=_create) as file:
                file.write(self._checksum(code) + code)
            os.replace(temporary, folder / self._name)
        except OSError:  # the disk may be full: the code is kept next time
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
            return
        for old in folder.glob(f"{self._stem}-*{_ENDING}"):
            if old.name != self._name:
                with suppress(OSError):
                    old.unlink()

    def _checksum(self, code: bytes) -> bytes:
        return hashlib.sha256(self._key + code).digest()
