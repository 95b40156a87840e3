"""Files that appear under their names only when all of them are complete."""

import os
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from thinstream.errors import InvalidParameterError
from thinstream.streams.compression import Name, open_write


@contextmanager
def open_outputs(names: Sequence[Name]) -> Iterator[list[BinaryIO]]:
    """Opens files to write, compressed as their names say; what was there before stays until the end.

    They are written beside their final names and renamed when the block ends well, removed when it does not. Standard
    output ("-"), pipes and devices are written directly.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with open_outputs([f"{folder}/a.txt"]) as (a,):
    ...         _ = a.write(b"new")
    ...         print(os.path.exists(f"{folder}/a.txt"))
    ...     print(Path(folder, "a.txt").read_text())
    False
    new

    """
    # where the names lead, through links
    targets = [Path(name) if os.fspath(name) == "-" else Path(os.path.realpath(name)) for name in names]
    twice = [os.fspath(name) for name, target in zip(names, targets, strict=True) if targets.count(target) > 1]
    if twice:
        raise InvalidParameterError(f"outputs must be different files, got {twice[0]!r} twice")
    files: list[BinaryIO] = []
    drafts: list[tuple[Path, Path]] = []
    try:
        for target in targets:
            if str(target) == "-" or (target.exists() and not target.is_file()):
                files.append(open_write(target))
            else:
                # the ending stays, since it says how to compress
                draft = target.with_name(f".{target.stem[:100]}.{secrets.token_hex(8)}{target.suffix}")
                drafts.append((draft, target))
                files.append(open_write(draft))
        yield files
        for file in files:
            file.close()
        for draft, target in drafts:
            os.replace(draft, target)
    except BaseException:
        for file in files:
            with suppress(OSError):  # a full disk, say: there is a first error to tell of
                file.close()
        for draft, _ in drafts:
            draft.unlink(missing_ok=True)
        raise
