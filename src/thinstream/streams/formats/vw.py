"""Vowpal Wabbit text."""

from typing import Any

from thinstream.streams.formats import HASHING, Format, text_stream
from thinstream.streams.options import Options


def open_vw(known: Format, files: list[str], options: Options) -> Any:
    """The rows of VW files."""
    from thinstream.streams.text.vw import VW

    return text_stream(known, files, VW.of(options, tags=options.id is not None), options)


FORMATS = (Format("vw", (".vw",), (*HASHING, "cross", "names", "grow_classes", "id"), open_vw, lines=True),)
