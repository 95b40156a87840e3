"""A stream from file names: the format by the ending, or as asked for."""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from thinstream.errors import InvalidInputError, InvalidParameterError, listed
from thinstream.learners.learner import LARGEST
from thinstream.streams.compression import CODECS
from thinstream.streams.formats.libsvm import Libsvm, begins_at_zero
from thinstream.streams.normalise import UnitRows
from thinstream.streams.options import BITS, OPTIONS, Options, feature_space
from thinstream.streams.reading import TextStream
from thinstream.streams.sources import STDIN, resolve
from thinstream.streams.stream import Stream

ENDINGS = {
    ".vw": "vw",
    ".csv": "csv",
    ".tsv": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".cache": "cache",
}
FORMATS = ("libsvm", "vw", "csv", "tsv", "jsonl", "parquet", "arrow", "cache")

#: Formats that options which are not for all of them are for.
CONCERNED = {
    "zero_based": ("libsvm",),
    "classes": ("libsvm", "csv", "tsv", "jsonl", "parquet", "arrow"),
    "label": ("csv", "tsv", "jsonl", "parquet", "arrow"),
    "weight": ("csv", "tsv", "jsonl", "parquet", "arrow"),
    "ignore": ("csv", "tsv", "jsonl", "parquet", "arrow"),
    "text": ("csv", "tsv", "jsonl"),
    "categorical": ("csv", "tsv"),
    "numeric": ("csv", "tsv"),
    "header": ("csv", "tsv"),
    "bits": ("vw", "csv", "tsv", "jsonl", "parquet", "arrow"),
    "signed": ("vw", "csv", "tsv", "jsonl", "parquet", "arrow"),
    "names": ("vw", "csv", "tsv", "jsonl"),
}


def format_of(path: str) -> str:
    """The format a file's name tells of, whatever it is compressed with; libsvm where it tells nothing.

    >>> format_of("day.vw.gz"), format_of("a9a.t")
    ('vw', 'libsvm')
    """
    stem, ending = os.path.splitext(path)
    if ending.lower() in CODECS:
        ending = os.path.splitext(stem)[1]
    return ENDINGS.get(ending.lower(), "libsvm")


def open_stream(paths: Any, format: str | None = None, *, cache: bool = False, **options: Any) -> Stream:  # noqa: A002
    r"""The examples of files: one path, several, a glob, or "-" for standard input.

    Parameters
    ----------
    paths : path or list of paths
        Text may be compressed (.gz, .bz2, .xz, .zst).
    format : {"libsvm", "vw", "csv", "tsv", "jsonl", "parquet", "arrow", "cache"} or None
        None: the ending tells, and a file without one of these is libsvm.
    cache : bool
        Whether to keep a binary copy beside the first file and read that, now and as long as it is up to date.
    **options
        See `Options`.

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
    unknown = sorted(set(options) - set(OPTIONS))
    if unknown:
        raise InvalidParameterError(f"no option is called {unknown[0]!r}; there are {listed(OPTIONS)}")
    return open_files(paths, Options(format, **options), cache=cache)


def open_files(paths: Any, options: Options, *, cache: bool = False) -> Stream:
    """The examples of files, read as the options say; see `open_stream`."""
    options.check()
    files = resolve(paths)
    kind = options.format or _one_format(files)
    if kind not in FORMATS:
        raise InvalidParameterError(f"format must be {listed(FORMATS)}, got {options.format!r}")
    _require_concerned(kind, options)
    stream = _OPENERS[kind](files, kind, options)
    return _cached(stream, files) if cache and kind != "cache" else stream


def concerns(name: str, kind: str) -> bool:
    """Whether an option says something about files of a format.

    >>> concerns("bits", "vw"), concerns("bits", "libsvm")
    (True, False)
    """
    return kind == "cache" or kind in CONCERNED.get(name, FORMATS)


def _require_concerned(kind: str, options: Options) -> None:
    unset = Options()
    for name, formats in CONCERNED.items():
        if not concerns(name, kind) and getattr(options, name) != getattr(unset, name):
            raise InvalidParameterError(
                f"{name} is for files of the format {listed(formats)}, got {getattr(options, name)!r} for {kind}"
            )


def _one_format(files: list[str]) -> str:
    found = {format_of(file): file for file in files}
    if len(found) > 1:
        (one, first), (other, second), *_ = found.items()
        raise InvalidInputError(f"files of one format are needed, {first} is {one}, {second} is {other}")
    return next(iter(found))


def _hashing(options: Options) -> Any:
    from thinstream.streams.formats.hashing import Hashing

    return Hashing(bits=options.bits or BITS, signed=options.signed)


def _names(options: Options) -> Any:
    from thinstream.streams.formats.names import Names

    return Names(options.names) if options.names else None


def _text_stream(files: list[str], kind: str, form: Any, options: Options) -> TextStream:
    reading: dict[str, Any] = {"format": kind, "on_error": options.on_error}
    for name in ("classes", "label", "weight", "ignore", "numeric", "header"):
        if kind in CONCERNED[name]:
            reading[name] = _plain(getattr(options, name))
    return TextStream(
        files,
        form,
        feature_space=feature_space(options, hashed=kind != "libsvm"),
        reading=reading,
        labels=options.labels,
        classes=options.classes,
        normalize=options.normalize,
        on_error=options.on_error,
        max_errors=options.max_errors,
        threads=(os.cpu_count() or 1) if options.threads is None else options.threads,
    )


def _libsvm(files: list[str], kind: str, options: Options) -> Stream:
    if options.zero_based == "auto":
        if STDIN in files:
            raise InvalidParameterError(
                "zero_based='auto' looks through the files first; standard input cannot be read twice"
            )
        options = replace(options, zero_based=begins_at_zero(files))
    classes = options.classes
    if classes is not None and not all(isinstance(label, int | float) for label in classes):
        raise InvalidParameterError(f"labels of libsvm files are numbers, classes must be, too, got {classes!r}")
    form = Libsvm(bool(options.zero_based), classes, options.dtype, LARGEST[options.dtype], options.labels)
    return _text_stream(files, kind, form, options)


def _vw(files: list[str], kind: str, options: Options) -> Stream:
    from thinstream.streams.formats.vw import VW

    if options.classes is not None:
        raise InvalidParameterError("labels of VW files are numbers, positive above 0: classes does not apply")
    return _text_stream(files, kind, VW(_hashing(options), options.dtype, _names(options)), options)


def _named(options: Options) -> dict[str, Any]:
    """What formats with named columns share."""
    return {
        "label": options.label,
        "weight": options.weight,
        "text": options.text,
        "ignore": options.ignore,
        "classes": options.classes,
        "hashing": _hashing(options),
        "dtype": options.dtype,
        "names": _names(options),
    }


def _csv(files: list[str], kind: str, options: Options) -> Stream:
    from thinstream.streams.formats.csv import CSV

    form = CSV(
        delimiter="\t" if kind == "tsv" else ",",
        numbered=not options.header,
        labelled=options.labels,
        strict=options.strict,
        categorical=options.categorical,
        numeric=options.numeric,
        **_named(options),
    )
    return _text_stream(files, kind, form, options)


def _jsonl(files: list[str], kind: str, options: Options) -> Stream:
    from thinstream.streams.formats.jsonl import JSONLines

    return _text_stream(files, kind, JSONLines(**_named(options)), options)


def _arrow(files: list[str], kind: str, options: Options) -> Stream:
    from thinstream.streams.tables.arrow import ArrowFiles
    from thinstream.streams.tables.numbering import Numbering

    stream = ArrowFiles(
        *files,
        label=options.label if options.labels else None,
        weight=options.weight,
        hasher=Numbering(_hashing(options)),
        ignore=options.ignore if options.labels else (*options.ignore, options.label),
        classes=options.classes,
        dtype=options.dtype,
    )
    return stream if options.normalize is None else UnitRows(stream)


def _cache(files: list[str], kind: str, options: Options) -> Stream:
    from thinstream.streams.cache.mapped import Cache

    if len(files) != 1:
        raise InvalidInputError(f"one cache can be read at a time, got {len(files)}")
    cache = Cache(files[0])
    if cache.dtype != options.dtype:
        raise InvalidInputError(
            f"{files[0]} holds values in {cache.dtype}, the model needs {options.dtype}; convert it again with "
            f"dtype {options.dtype}"
        )
    _require_as_made(cache, options)
    return UnitRows(cache) if options.normalize and not cache.feature_space.get("normalize") else cache


def _require_as_made(cache: Any, options: Options) -> None:
    """A cache is what it is: options may repeat how it was made, not say otherwise."""
    made = {**cache.source, **cache.feature_space, **cache.feature_space.get("hashing", {})}
    for name in CONCERNED:
        given, unset = getattr(options, name), getattr(Options(), name)
        had = made.get(name, unset)
        same = sorted(given) == sorted(had) if unset == () else given == had or _plain(given) == had
        if given != unset and not same:
            raise InvalidParameterError(f"{cache.path} was made with {name} {had!r}, cannot be read with {given!r}")


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _cached(stream: Stream, files: list[str]) -> Stream:
    """The stream by way of its cache, written anew if it is missing, out of date or damaged."""
    from thinstream.streams.cache.kept import Kept

    if not all(Path(file).is_file() for file in files):
        raise InvalidParameterError("a cache is kept beside a file; standard input and pipes have none")
    if stream.names is not None:
        raise InvalidParameterError(
            "names are found in the text, which a cache does not have: leave out one of the two"
        )
    return Kept(stream, files)


_OPENERS: dict[str, Callable[[list[str], str, Options], Stream]] = {
    "libsvm": _libsvm,
    "vw": _vw,
    "csv": _csv,
    "tsv": _csv,
    "jsonl": _jsonl,
    "parquet": _arrow,
    "arrow": _arrow,
    "cache": _cache,
}
