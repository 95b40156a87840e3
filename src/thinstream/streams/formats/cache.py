"""The binary copy of a stream."""

from typing import Any

from thinstream.errors import InvalidInputError, InvalidParameterError
from thinstream.streams.formats import Format
from thinstream.streams.options import OPTIONS, Options, as_tuples, spelling


def open_cache(known: Format, files: list[str], options: Options) -> Any:
    """The rows of a cache; options may repeat how it was made, not say otherwise."""
    from thinstream.streams.cache.mapped import Cache
    from thinstream.streams.normalise import UnitRows

    if len(files) != 1:
        raise InvalidInputError(f"one cache can be read at a time, got {len(files)}")
    cache = Cache(files[0])
    if cache.dtype != options.dtype:
        raise InvalidInputError(
            f"{files[0]} holds values in {cache.dtype}, the model needs {options.dtype}; convert it again with "
            f"dtype {options.dtype}"
        )
    made = {**cache.source, **cache.feature_space, **cache.feature_space.get("hashing", {})}
    for name, given in options.given().items():
        had, given = as_tuples(made.get(name, OPTIONS[name].default)), as_tuples(given)
        same = sorted(given) == sorted(had) if OPTIONS[name].default == () else had == given
        if name in known.options and name != "numeric" and not same:  # which tells errors, no features
            raise InvalidParameterError(f"{cache.path} was made with {name} {had!r}, cannot be read with {given!r}")
    return UnitRows(cache) if options.normalize and not cache.feature_space.get("normalize") else cache


_OPTIONS = tuple(
    n for n, option in OPTIONS.items() if not spelling(option).common and n not in ("columns", "keys", "id")
)
FORMATS = (Format("cache", (".cache",), _OPTIONS, open_cache),)
