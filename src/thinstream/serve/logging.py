"""A line for each request, without what it said."""

import json
import sys
import time
from typing import TextIO

from thinstream.serve.web import Request


class RequestLog:
    """Writes time, address, method, path, status and milliseconds, as JSON; None: nothing.

    Bodies, queries, ids and tokens are never written.
    """

    def __init__(self, file: TextIO | None = None) -> None:
        self._file = file

    @classmethod
    def on_stderr(cls) -> "RequestLog":
        """To standard error."""
        return cls(sys.stderr)

    def answered(self, request: Request, status: int, seconds: float) -> None:
        """A request was answered."""
        if self._file is None:
            return
        line = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "from": request.host,
            "method": request.method,
            "path": request.path[:200],
            "status": status,
            "ms": round(1e3 * seconds, 3),
        }
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()
