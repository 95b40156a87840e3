"""The token of commands that ask a server."""

import os
from pathlib import Path
from typing import Annotated

from thinstream.cli.declared import option

VARIABLE = "THINSTREAM_TOKEN"
#: What to do where a server refuses for want of a token.
ADVICE = f"; the token that is sent is that of --token-file FILE, or of the variable {VARIABLE}"

TokenFile = Annotated[
    Path | None, option(f"A file with the token (default: the variable {VARIABLE}).", None, "--token-file")
]


def token_of(file: Path | None) -> str | None:
    """The token to send, if there is one."""
    return os.environ.get(VARIABLE) if file is None else file.read_text(encoding="utf-8").strip()


def advice_for(status: int) -> str:
    """What may help where a server has answered with this status; nothing where no token would."""
    return ADVICE if status in (401, 403) else ""
