"""Files that are replaced whole or not at all, also if the process or the machine dies in between.

New content goes to a hidden file beside the target, is forced to disk, and takes the target's name in one step. A
writer that died leaves its hidden file behind; the next writer of the same target removes it.
"""

import functools
import operator
import os
import re
import secrets
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from thinstream.errors import FileWriteError
from thinstream.locks import try_lock


@contextmanager
def replacing(path: str | os.PathLike[str], like: Sequence[str | os.PathLike[str]] = ()) -> Iterator[Path]:
    """Gives an empty file to write to; at the end of the block it becomes ``path``, unless the block raises.

    A symbolic link stays and its target is replaced. A replaced file's permissions are kept; a new one is open to
    nobody to whom one of the files ``like`` it is closed.

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
    """`replacing` around a block that does more than write this file: its errors are raised as they are."""
    target = Path(os.path.realpath(path))
    mode = _mode(target, path)
    closed = [stat.S_IMODE(os.stat(each).st_mode) for each in like] if mode is None else []
    _sweep(target)
    temporary = target.with_name(f".{target.name[:100]}.{os.getpid()}.{secrets.token_hex(4)}.tmp")
    try:
        with explained(path):
            handle = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)  # less the umask
        try:
            if closed:
                mode = functools.reduce(operator.and_, closed, stat.S_IMODE(os.fstat(handle).st_mode))
            if mode is not None:
                os.chmod(temporary, mode & 0o700)  # from the first byte on
            if os.name == "posix":  # elsewhere others could not write to it
                try_lock(handle)  # held to the end: says that this writer lives
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
    """Removes what dead writers of a file have left beside it, as the next writer would."""
    _sweep(Path(os.path.realpath(path)))


def _mode(target: Path, path: str | os.PathLike[str]) -> int | None:
    """Permissions of the file that is replaced, or None; what is no file is not replaced."""
    try:
        found = os.stat(target).st_mode
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(found):
        raise FileWriteError(f"{os.fspath(path)}: cannot be written: it is a folder; give the name of a file")
    if not stat.S_ISREG(found):
        raise FileWriteError(f"{os.fspath(path)}: cannot be written: it is a device or a pipe, not a file")
    return stat.S_IMODE(found)


@contextmanager
def explained(path: str | os.PathLike[str]) -> Iterator[None]:
    """Errors of a block that writes a file say which file it is, and what is wrong with its folder."""
    try:
        yield
    except FileWriteError:
        raise
    except OSError as error:
        folder, why = Path(os.path.realpath(path)).parent, error.strerror or str(error)
        if not folder.is_dir():
            why = f"there is no folder {folder}"
        elif not os.access(folder, os.W_OK):
            why = f"the folder {folder} is not writable"
        raise FileWriteError(f"{os.fspath(path)}: cannot be written: {why}") from error


def _sweep(target: Path) -> None:
    """Removes what dead writers of the same target have left."""
    if os.name != "posix":  # elsewhere asking for a process may end it
        return
    ours = re.compile(re.escape(f".{target.name[:100]}.") + r"(\d+)\.[0-9a-f]{8}\.tmp")
    with suppress(OSError), os.scandir(target.parent) as entries:
        for entry in entries:
            found = ours.fullmatch(entry.name)
            if found and not _alive(int(found[1])):
                with suppress(OSError):
                    _remove_unlocked(entry.path)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:  # it exists, and is somebody else's
        return True
    return True


def _remove_unlocked(path: str) -> None:
    """Removes the file unless a process holds it, which may be one of another machine or container."""
    handle = os.open(path, os.O_RDWR)
    try:
        if try_lock(handle):
            os.unlink(path)
    finally:
        os.close(handle)


def _sync_folder(folder: Path) -> None:
    """Forces the new name to disk, where a folder can be opened."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
