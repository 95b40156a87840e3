"""Data: files, pipes, brokers and in-memory tables as streams of batches, with positions to resume from.

`opening` makes a stream from file names and `options`; `formats` has one module for each format. `sources` and
`reading` cut text into pieces, which threads parse with the parsers in `text`. `tables` reads Parquet, Arrow,
matrices, frames and dicts, `cache` the binary cache, `brokers` messages. `shuffle` shuffles and splits files.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from thinstream.data.cache import Cache, write_cache
    from thinstream.data.in_memory import from_memory
    from thinstream.data.opening import open_stream
    from thinstream.data.text.hashing import Hashing, Numbering

__all__ = ["Cache", "Hashing", "Numbering", "from_memory", "open_stream", "write_cache"]
_PLACES = {
    "Cache": "cache",
    "Hashing": "text.hashing",
    "Numbering": "text.hashing",
    "from_memory": "in_memory",
    "open_stream": "opening",
    "write_cache": "cache",
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        from thinstream.errors import no_attribute

        raise no_attribute(__name__, name, __all__)
    import importlib  # on demand: a command loads what it needs and no more

    return getattr(importlib.import_module(f"{__name__}.{_PLACES[name]}"), name)
