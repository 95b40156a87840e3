"""A stream from file names: the format by the ending, or as asked for."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from thinstream.errors import InvalidInputError, InvalidParameterError, meant
from thinstream.streams.brokers import Following, is_address
from thinstream.streams.formats import find_format, format_of
from thinstream.streams.looking import Looked, look
from thinstream.streams.options import LAYOUT, OPTIONS, Options, as_learned
from thinstream.streams.sources import STDIN, resolve
from thinstream.streams.stream import Stream


def open_stream(paths: Any, format: str | None = None, *, cache: bool = False, **options: Any) -> Stream:  # noqa: A002
    r"""The examples of files: one path, several, a glob, or "-" for standard input; or of a broker's messages.

    Parameters
    ----------
    paths : path, list of paths or address
        Text may be compressed (.gz, .bz2, .xz, .zst). An address is that of a stream of messages, which has no end:
        ``redis://``, ``nats://`` or ``kafka://`` (see docs/sources.md); it also takes the options ``rows`` and
        ``idle_seconds``, after which it ends, ``dead_letters``, where messages go that cannot be read, and ``on_gap``:
        "stop" (default) raises an error if the broker has removed messages before they were read, "continue" doesn't.
    format : {"libsvm", "vw", "csv", "tsv", "jsonl", "parquet", "arrow", "cache"} or None
        None: the ending tells, and a file without one of these is libsvm. Messages are libsvm unless they are said to
        be something else.
    cache : bool
        Whether to keep a binary copy beside the first file and read that, now and as long as it is up to date.
    **options
        See `thinstream.streams.options.Options`.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = Path(folder.name) / "mail.svm"
    >>> _ = path.write_text("+1 3:0.5 7:1\n-1 2:1\n")
    >>> [batch] = open_stream(path).batches()
    >>> batch.y, batch.indices, batch.position
    (array([ 1, -1], dtype=int8), array([2, 6, 1], dtype=int32), Position(part=0, offset=20, line=2, row=2, skip=0))
    >>> folder.cleanup()

    """
    if is_address(paths):
        from thinstream.streams.brokers.opening import open_source

        if cache:
            raise InvalidParameterError("a cache is kept beside a file; a source of messages has none")
        following = Following(**{name: options.pop(name) for name in Following._fields if name in options})
        return open_source(paths, options_of(format, options), following)
    return open_files(paths, options_of(format, options), cache=cache)


def options_of(format: str | None, given: dict[str, Any]) -> Options:  # noqa: A002
    """The options, if there are all that were given."""
    unknown = sorted(set(given) - set(OPTIONS))
    if unknown:
        raise InvalidParameterError(f"no option is called {unknown[0]!r}; {meant(unknown[0], OPTIONS)}")
    return Options(format, **given)


def open_like(model: Any, paths: Any, options: Options, named: str = "the model") -> Stream:
    """The examples of files, read as the data of a `models.Model` was; ``named`` is what errors call it.

    Columns may be missing that say nothing of features: label (with ``labels=False``), weight, and those left out.
    """
    kind = options.format or _format_like(model, resolve(paths))
    found = as_learned(options, kind, model, named)
    learned = model.reading.get("columns")
    if found.id is not None and learned is not None and found.id not in (*learned, *found.ignore):
        found = replace(found, ignore=(*found.ignore, found.id))  # a column it does not know is no feature
    found = replace(found, format=kind, dtype=model.learner.dtype.name, strict=False, names=0)
    return open_files(paths, found)


def look_at(paths: Any, options: Options) -> Looked:
    """The options with what is found by looking at the first records: opened with these, files are read the same."""
    options.check()
    files = resolve(paths)
    known = find_format(options.format or _one_format(files))
    known.require_taken(options)
    found = look(known, files, options)
    found.options.check()
    return found


def open_files(paths: Any, options: Options, *, cache: bool = False) -> Stream:
    """The examples of files, read as the options say; see `open_stream`."""
    options.check()
    files = resolve(paths)
    known = find_format(options.format or _one_format(files))
    known.require_taken(options)
    options = look(known, files, options).options
    options.check()
    stream = known.open(known, files, options)
    if not cache or known.name == "cache":
        return stream
    require_files(files)
    if options.grow_classes:
        raise InvalidParameterError("a cache holds numbers of classes that are known: leave out cache or grow_classes")
    if stream.names is not None:
        raise InvalidParameterError(
            "names are found in the text, which a cache does not have: leave out one of the two"
        )
    from thinstream.streams.cache.mapped import CachedStream

    return CachedStream(stream, files)


def _format_like(model: Any, files: list[str]) -> str:
    """The format that files' names tell; of a pipe, which has none, that of the table a model has learned from."""
    if not all(file == STDIN for file in files) or "hashing" not in model.feature_space:
        return _one_format(files)
    if LAYOUT in model.reading:
        return str(model.reading[LAYOUT]["format"])
    raise InvalidParameterError("standard input has no name that tells its format: --format jsonl, csv or vw does")


def require_files(files: list[str]) -> None:
    """Raises where one of several is a pipe, beside which nothing can be kept."""
    if not all(Path(file).is_file() for file in files):
        raise InvalidParameterError("a cache is kept beside a file; standard input and pipes have none")


def _one_format(files: list[str]) -> str:
    found = {format_of(file): file for file in files}
    if len(found) > 1:
        (one, first), (other, second), *_ = found.items()
        raise InvalidInputError(f"files of one format are needed, {first} is {one}, {second} is {other}")
    return next(iter(found))
