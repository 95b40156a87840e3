"""Examples from files, pipes and memory, as batches with a position from which to go on.

`opening` makes a stream from file names as `options` say; `formats` has a module for each format, which says how its
files are opened. `sources` and `reading` cut text into pieces and have threads parse them with the parsers of `text`;
`tables` reads Parquet, Arrow, matrices, frames and dicts, `cache` the binary copy; `lines` shuffles and splits files.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from thinstream.streams.cache.mapped import Cache, write_cache
    from thinstream.streams.opening import open_stream
    from thinstream.streams.tables.memory import from_memory
    from thinstream.streams.text.hashing import Hashing, Numbering

__all__ = ["Cache", "Hashing", "Numbering", "from_memory", "open_stream", "write_cache"]
_PLACES = {
    "Cache": "cache.mapped",
    "Hashing": "text.hashing",
    "Numbering": "text.hashing",
    "from_memory": "tables.memory",
    "open_stream": "opening",
    "write_cache": "cache.mapped",
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        from thinstream.errors import no_attribute

        raise no_attribute(__name__, name, __all__)
    import importlib  # on demand: a command loads what it needs and no more

    return getattr(importlib.import_module(f"{__name__}.{_PLACES[name]}"), name)
