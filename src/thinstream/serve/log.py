"""The log of a server: a line for each event on standard error, as text or as JSON."""

import json
import logging
import sys
import time
from typing import Any

from thinstream.errors import InvalidParameterError, listed

FORMATS = ("text", "json")
INFO, WARNING, ERROR = logging.INFO, logging.WARNING, logging.ERROR
_logger = logging.getLogger("thinstream.serve")


def log(message: str, level: int = INFO, *, error: BaseException | None = None, **fields: Any) -> None:
    """Log an event with the fields that describe it; an ``error`` adds its traceback."""
    if _logger.isEnabledFor(level):
        present = {name: value for name, value in fields.items() if value is not None}
        _logger.log(level, "%s", message, extra={"fields": present}, exc_info=error)


def set_up(format: str, force: bool = True) -> None:  # noqa: A002 (the option's word)
    """Write all log records and warnings of this process to standard error, in one of the `FORMATS`.

    ``force``: replace an existing logging configuration.
    """
    if format not in FORMATS:
        raise InvalidParameterError(f"the log format must be {listed(FORMATS)}, got {format!r:.40}")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Formatter(format))
    logging.basicConfig(handlers=[handler], level=WARNING, force=force)
    _logger.setLevel(INFO)
    logging.captureWarnings(True)


class Formatter(logging.Formatter):
    """Formats records as ``TIME LEVEL MESSAGE name=value …``, or as JSON objects with the same content.

    >>> record = logging.LogRecord("serve", INFO, "", 0, "checkpoint written", None, None)
    >>> record.fields = {"model": "mail", "rows": 3}
    >>> Formatter("text").format(record)[25:]
    'info checkpoint written model=mail rows=3'

    """

    def __init__(self, format: str) -> None:  # noqa: A002 (the option's word)
        super().__init__()
        self._is_json = format == "json"

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as a line. In text, the traceback follows on its own lines."""
        seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        when, level = f"{seconds}.{int(record.msecs):03d}Z", record.levelname.lower()
        fields: dict[str, Any] = getattr(record, "fields", {})
        trace = self.formatException(record.exc_info) if record.exc_info and record.exc_info[0] else None
        if self._is_json:
            line = {"time": when, "level": level, "message": record.getMessage(), **fields}
            return json.dumps(line | ({"traceback": trace} if trace else {}), default=str)
        words = [when, level, record.getMessage(), *(f"{name}={_word(value)}" for name, value in fields.items())]
        return " ".join(words) + (f"\n{trace}" if trace else "")


def _word(value: Any) -> str:
    """Return a value as one word. Text with spaces, quotes or ``=`` is quoted."""
    text = str(value)
    return text if text and not any(c.isspace() or c in '"=' for c in text) else json.dumps(text)
