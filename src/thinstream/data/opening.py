"""Open streams from file names or addresses."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from thinstream.data.brokers import Following, is_address
from thinstream.data.compression import open_read
from thinstream.data.formats import HEAD, find_format, format_by_ending, format_of, format_of_content
from thinstream.data.inference import SMALL, Inferred, infer
from thinstream.data.options import LAYOUT, OPTIONS, Options, ReadingSpec, as_learned
from thinstream.data.sources import STDIN, display_name, peek, resolve
from thinstream.data.stream import Stream
from thinstream.errors import InvalidInputError, InvalidParameterError, meant


def open_stream(paths: Any, format: str | None = None, *, cache: bool = False, **options: Any) -> Stream:  # noqa: A002
    r"""Open files, standard input or a message broker as a stream of batches.

    Parameters
    ----------
    paths : path, list of paths or address
        Paths of files, a glob pattern, or "-" for standard input. Text may be compressed (.gz, .bz2, .xz, .zst).
        The address of a message stream begins with ``redis://``, ``nats://`` or ``kafka://`` (see docs/sources.md).
        Message streams are endless and have four more options. ``rows`` and ``idle_seconds`` end the stream.
        ``dead_letters`` saves messages that cannot be read. ``on_gap="continue"`` continues if the broker has removed
        messages before they were read; by default, this is an error.
    format : {"libsvm", "vw", "csv", "tsv", "jsonl", "parquet", "arrow", "cache"} or None
        The format. None: detect it from the file extension, or else from the first bytes. The default is libsvm.
    cache : bool
        Whether to save a binary copy next to the first file, and to read that copy while it is up to date.
    **options
        See `thinstream.data.options.Options`.

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
        from thinstream.data.brokers.stream import open_source

        if cache:
            raise InvalidParameterError(
                "A cache is saved next to a file, so a message stream cannot have one. Leave out cache."
            )
        following = Following(**{name: options.pop(name) for name in Following._fields if name in options})
        return open_source(paths, options_of(format, options), following)
    return open_files(paths, options_of(format, options), cache=cache)


def options_of(format: str | None, values: dict[str, Any]) -> Options:  # noqa: A002
    """Return the reading options, or raise if a name is not an option."""
    unknown = sorted(set(values) - set(OPTIONS))
    if unknown:
        raise InvalidParameterError(f"there is no option {unknown[0]!r}; {meant(unknown[0], OPTIONS)}")
    return Options(format, **values)


def open_like(spec: ReadingSpec, paths: Any, options: Options, named: str = "the model", names: int = 0) -> Stream:
    """Open files and read them as the data of a model was read; errors call the model ``named``.

    Up to ``names`` names of hashed features are collected, if the format has names. Columns that give no features may
    be missing: the label (with ``labels=False``), the weight and ignored columns.
    """
    name = options.format or _format_like(spec, resolve(paths))
    options_like = as_learned(options, name, spec, named)
    columns = spec.reading.get("columns")
    if options_like.id is not None and columns is not None and options_like.id not in (*columns, *options_like.ignore):
        options_like = replace(
            options_like, ignore=(*options_like.ignore, options_like.id)
        )  # a column that the model does not know is not a feature
    options_like = replace(options_like, format=name, dtype=spec.dtype, strict=False, names=0)
    if names and spec.is_hashed and find_format(name).takes("names"):
        options_like = replace(options_like, names=names)
    return open_files(paths, options_like)


def infer_options(paths: Any, options: Options) -> Inferred:
    """Return the options with everything that is inferred from the first records, so that it is inferred only once."""
    options.check()
    files = resolve(paths)
    name, assumed = (options.format, None) if options.format else _one_format(files, options.look)
    file_format = find_format(name)
    if assumed is not None:  # so that it is not detected again from the rest of a pipe
        options = replace(options, format=name)
    file_format.require_taken(options)
    inferred = infer(file_format, files, options)
    inferred.options.check()
    return inferred if assumed is None else inferred._replace(messages=(assumed, *inferred.messages))


def open_files(paths: Any, options: Options, *, cache: bool = False) -> Stream:
    """Open files with these options; see `open_stream`."""
    options.check()
    files = resolve(paths)
    file_format = find_format(options.format or _one_format(files, options.look)[0])
    file_format.require_taken(options)
    options = infer(file_format, files, options).options
    options.check()
    stream = file_format.open(file_format, files, options)
    if not cache or file_format.name == "cache":
        return stream
    require_files(files)
    if options.grow_classes:
        raise InvalidParameterError("A cache needs classes that are known in advance. Leave out cache or grow_classes.")
    if stream.names is not None:
        raise InvalidParameterError(
            "A cache has no text, so feature names cannot be collected from it. Leave out cache or names."
        )
    from thinstream.data.cache import CachedStream

    return CachedStream(stream, files)


def _format_like(spec: ReadingSpec, files: list[str]) -> str:
    """Return the format of files by their names; for standard input, the format that the model learned from."""
    if not all(file == STDIN for file in files):
        return _one_format(files, 0)[0]
    if not spec.is_hashed:
        return format_of(STDIN)
    if LAYOUT in spec.reading:
        return str(spec.reading[LAYOUT]["format"])
    raise InvalidParameterError(
        "Standard input has no file name from which to detect the format. Pass it, for example --format jsonl."
    )


def require_files(files: list[str]) -> None:
    """Raise if a file is standard input or a pipe: a cache cannot be saved next to it."""
    if not all(Path(file).is_file() for file in files):
        raise InvalidParameterError(
            "A cache is saved next to a file, so standard input and pipes cannot have one. Leave out cache."
        )


def _one_format(files: list[str], records: int) -> tuple[str, str | None]:
    """Return the format of files, and a message if it was detected from their content."""
    file_of: dict[str, str] = {}
    assumed = None
    for file in files:
        name = format_by_ending(file)
        if name is None and file_of and assumed is not None:  # all files with unknown extensions have the same format
            continue
        if name is None:
            name = format_of_content(_head(file, records))
            name = format_of(file) if name is None or (name in ("parquet", "arrow") and file == STDIN) else name
            if name != format_of(file):
                assumed = f"{display_name(file)} looks like {name}; pass --format if it is not"
        file_of.setdefault(name, file)
    if len(file_of) > 1:
        (one, first), (other, second), *_ = file_of.items()
        raise InvalidInputError(f"all files must have the same format, got {first} ({one}) and {second} ({other})")
    return next(iter(file_of)), assumed


def _head(file: str, records: int) -> bytes:
    """Return the first bytes of a file; bytes read from a pipe will be read again with the rest."""
    if file == STDIN or not Path(file).is_file():
        return peek(file, records + 1, SMALL)[0][:HEAD] if file == STDIN else b""
    try:
        with open_read(file) as source:
            return source.read(HEAD)
    except (OSError, InvalidInputError):  # reported when the file is read
        return b""
