"""Temporary folders for secrets, which do not outlive their processes for long."""

import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

from thinstream.locks import try_lock

_LOCK = "lock"


def private_folder(prefix: str) -> Path:
    """A new one, for its owner only; those of processes that were killed are removed."""
    for old in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
        with suppress(OSError):  # somebody else's
            handle = os.open(old / _LOCK, os.O_RDWR)
            try:
                if try_lock(handle):
                    shutil.rmtree(old, ignore_errors=True)
            finally:
                os.close(handle)
    folder = Path(tempfile.mkdtemp(prefix=prefix))
    try_lock(os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT, 0o600))  # held to the end of this process
    return folder
