"""JSON Lines."""

from typing import Any

from thinstream.streams.formats import COLUMN_KINDS, HASHING, LABELS_AND_WEIGHTS, TEXTS, Format, text_stream
from thinstream.streams.options import Options


def open_jsonl(known: Format, files: list[str], options: Options) -> Any:
    """The rows of files with a JSON object a line."""
    from thinstream.streams.text.jsonl import JSONLines

    # where labels are not asked for they may be anything
    unread: dict[str, Any] = {} if options.labels else {"label": None, "ignore": (*options.ignore, options.label)}
    return text_stream(known, files, JSONLines.of(options, **unread), options)


_OPTIONS = (
    *LABELS_AND_WEIGHTS, *TEXTS, *COLUMN_KINDS, "missing", "columns", "keys", *HASHING, "cross", "names", "id",
)  # fmt: skip
FORMATS = (Format("jsonl", (".jsonl", ".ndjson"), _OPTIONS, open_jsonl, lines=True),)
