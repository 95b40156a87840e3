"""Object code on disk: never torn, never taken without its checksum, never required.

A file's name says all that its code depends on: function and types, versions and processor, sources. Code is kept in
the package's own folder or, where that cannot be written, in the user's; where neither can, it is compiled each time.
``NUMBA_CACHE_DIR`` names another folder.
"""

import hashlib
import os
import secrets
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from thinstream.locks import locked

PACKAGE = Path(__file__).parent.parent
_ENDING = ".code"
#: Letters of a function's name in that of its file: names of files have 255 at most, some hold many modules.
_LONGEST = 100


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
            folder.mkdir(parents=True, exist_ok=True)
            if os.access(folder, os.W_OK):
                return folder
    return None


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
                content = file.read_bytes()
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
            temporary.write_bytes(self._checksum(code) + code)
            os.replace(temporary, folder / self._name)
        except OSError:  # the disk may be full: the code is kept next time
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
            return
        for file in folder.glob(f"{self._stem}-*{_ENDING}"):
            if file.name != self._name:
                with suppress(OSError):
                    file.unlink()

    def _checksum(self, code: bytes) -> bytes:
        return hashlib.sha256(self._key + code).digest()
