"""Files that appear under their names only when all of them are complete."""

import os
import secrets
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

from thinstream.errors import InvalidParameterError
from thinstream.streams.compression import Name, open_write


class Outputs:
    """Opens files to write, compressed as their names say; what was there before stays until the end.

    They are written beside their final names and renamed when the block ends well, removed when it does not. Standard
    output ("-"), pipes and devices are written directly.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with Outputs([f"{folder}/a.txt"]) as (a,):
    ...         _ = a.write(b"new")
    ...         print(os.path.exists(f"{folder}/a.txt"))
    ...     print(Path(folder, "a.txt").read_text())
    False
    new

    """

    def __init__(self, names: list[Name]) -> None:
        #: Where the names lead, through links.
        self.targets = [Path(name) if os.fspath(name) == "-" else Path(os.path.realpath(name)) for name in names]
        twice = [os.fspath(name) for name, t in zip(names, self.targets, strict=True) if self.targets.count(t) > 1]
        if twice:
            raise InvalidParameterError(f"outputs must be different files, got {twice[0]!r} twice")
        self._files: list[BinaryIO] = []
        self._written: list[tuple[Path, Path]] = []

    def __enter__(self) -> list[BinaryIO]:
        try:
            for target in self.targets:
                if str(target) == "-" or (target.exists() and not target.is_file()):
                    self._files.append(open_write(target))
                else:
                    # the ending stays, since it says how to compress
                    beside = target.with_name(f".{target.stem[:100]}.{secrets.token_hex(8)}{target.suffix}")
                    self._written.append((beside, target))
                    self._files.append(open_write(beside))
        except BaseException:
            self._discard()
            raise
        return self._files

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if kind is not None:
            self._discard()
            return
        try:
            for file in self._files:
                file.close()
            for beside, target in self._written:
                os.replace(beside, target)
        except BaseException:
            self._discard()
            raise

    def _discard(self) -> None:
        for file in self._files:
            with suppress(OSError):  # a full disk, say: there is a first error to tell of
                file.close()
        for beside, _ in self._written:
            beside.unlink(missing_ok=True)
