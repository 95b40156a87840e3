"""Parquet and Arrow IPC files."""

from typing import Any

from thinstream.streams.formats import COLUMN_KINDS, HASHING, LABELS_AND_WEIGHTS, TEXTS, Format
from thinstream.streams.options import Options


def open_arrow(known: Format, files: list[str], options: Options) -> Any:
    """The rows of Parquet or Arrow files."""
    from thinstream.streams.normalise import UnitRows
    from thinstream.streams.tables.arrow import ArrowFiles
    from thinstream.streams.text.hashing import Hashing, Numbering

    stream = ArrowFiles(
        *files,
        label=options.label if options.labels else None,
        weight=options.weight,
        hasher=Numbering(Hashing.of(options)),
        ignore=options.ignore if options.labels else (*options.ignore, options.label),
        classes=options.classes,
        grow_classes=options.grow_classes,
        dtype=options.dtype,
        required=options.columns,
        cross=options.cross,
        strict=options.strict,
        row_id=options.id,
        missing=options.missing,
        **{name: getattr(options, name) for name in (*TEXTS, *COLUMN_KINDS)},
    )
    stream.options = options
    return stream if options.normalize is None else UnitRows(stream)


_OPTIONS = (*LABELS_AND_WEIGHTS, *TEXTS, *COLUMN_KINDS, "missing", "columns", *HASHING, "cross", "id")
FORMATS = (
    Format("parquet", (".parquet",), _OPTIONS, open_arrow, is_table=True),
    Format("arrow", (".arrow", ".feather", ".ipc"), _OPTIONS, open_arrow, is_table=True),
)
