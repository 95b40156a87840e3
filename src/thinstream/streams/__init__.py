"""Examples from files, pipes and memory, as batches with a position from which to go on.

`opening` makes a stream from file names; `sources` and `reading` cut text into pieces and have threads parse them;
`formats` knows what text means, `tables` Parquet, Arrow, matrices, frames and dicts, `cache` the binary copy, `lines`
shuffling and splitting.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from thinstream.streams.cache.mapped import Cache, write_cache
    from thinstream.streams.formats.hashing import Hashing
    from thinstream.streams.opening import open_stream
    from thinstream.streams.tables.memory import from_memory
    from thinstream.streams.tables.numbering import Numbering

__all__ = ["Cache", "Hashing", "Numbering", "from_memory", "open_stream", "write_cache"]
_PLACES = {
    "Cache": "cache.mapped",
    "Hashing": "formats.hashing",
    "Numbering": "tables.numbering",
    "from_memory": "tables.memory",
    "open_stream": "opening",
    "write_cache": "cache.mapped",
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib  # on demand: a command loads what it needs and no more

    return getattr(importlib.import_module(f"{__name__}.{_PLACES[name]}"), name)
