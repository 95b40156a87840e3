"""What is found by looking at the first records of a source, before it is read: as options, so that models keep it."""

import re
from dataclasses import replace
from typing import Any, NamedTuple

from thinstream.errors import CacheError, InvalidInputError
from thinstream.streams.formats import Format
from thinstream.streams.options import Options


class Looked(NamedTuple):
    """Options with what was found, so that nobody looks again, and what a user is told of it."""

    options: Options
    told: tuple[str, ...] = ()


def look(known: Format, files: list[str], options: Options) -> Looked:
    """Finds what was not said: of a source that cannot be read, nothing; whoever reads it says why.

    Small files are looked at to their end, of others the first records. What a pipe gave is read again.
    """
    if options.found is not None:
        return Looked(options)
    looked = Looked(replace(options, found=()))
    if known.name == "cache":
        return _cached(files, looked)
    for find in (_header, _classes, _columns) if options.look else ():
        looked = find(known, files, looked)
    return looked


def _with(before: Looked, told: list[str], **found: Any) -> Looked:
    """One more thing found."""
    names = (*(before.options.found or ()), *found)
    return Looked(replace(before.options, **found, found=names), (*before.told, *told))


def _cached(files: list[str], before: Looked) -> Looked:
    """The classes of what a cache was made of."""
    from thinstream.streams.cache.mapped import Cache

    if before.options.classes is not None or len(files) != 1:
        return before
    try:
        cache = Cache(files[0])
    except (CacheError, OSError):
        return before
    classes = cache.classes or cache.source.get("classes")
    return _with(before, [], classes=tuple(classes)) if isinstance(classes, list | tuple) else before


def _form(known: Format, options: Options) -> Any:
    """What reads text of this format, whatever columns it has."""
    opened: Any = known.open(known, [], replace(options, names=0, cross=(), strict=False, columns=(), labels=False))
    return opened.form


def _header(known: Format, files: list[str], before: Looked) -> Looked:
    """Whether the first line of CSV names columns, where the label is called as if it did not: c1."""
    options = before.options
    if not (known.takes("header") and options.header is None and re.fullmatch(r"c\d+", options.label)):
        return before
    from thinstream.streams.looking.heads import heads
    from thinstream.streams.text.csv import is_number

    form = _form(known, options)
    try:
        form.header(next(heads(files, options.look))[0])
    except InvalidInputError:
        return before
    if options.label in form.order or not any(map(is_number, form.order)):
        return before
    told = f"the first line holds no names: columns are called c1 … c{len(form.order)}"
    return _with(before, [told], header=False)


def _classes(known: Format, files: list[str], before: Looked) -> Looked:
    """Which labels there are."""
    options = before.options
    if options.classes is not None or options.grow_classes or not (options.labels and known.takes("classes")):
        return before
    from thinstream.streams.looking.classes import classes_in, in_words
    from thinstream.streams.looking.labels import labels_met
    from thinstream.streams.looking.quotes import unclosed_quote

    try:
        met = labels_met(known, files, options, options.look)
    except InvalidInputError:
        if len(files) > 1:  # of which the first may be fine
            raise
        return before
    try:
        classes = classes_in(met)
    except InvalidInputError as error:
        raise (
            unclosed_quote(_form(known, options), files, options.look) if known.has_cells else None
        ) or error from None
    return before if classes is None else _with(before, in_words(met, classes), classes=classes)


def _columns(known: Format, files: list[str], before: Looked) -> Looked:
    """What the columns are, where that is not declared."""
    if not known.takes("numeric"):
        return before
    from thinstream.streams.looking.columns import columns_of, declared, in_words, taken
    from thinstream.streams.looking.tables import declared_in, objects_in, rows_in, shared_keys

    options, found = before.options, dict[str, Any]()
    try:
        if known.has_cells:
            columns, enough = columns_of(_form(known, options), files, options.look)
            if options.labels and options.label not in [column.name for column in columns]:
                return before  # whoever reads it says so
            found = declared(options, columns) if enough else {}
        elif known.is_table:
            found, columns = declared_in(options, *rows_in(known.open(known, files, options), options.look))
        else:
            records, whole = objects_in(files, options.look)
            found, columns = declared_in(options, records, whole)
            found |= {"keys": keys} if (keys := shared_keys(records, options)) else {}
    except InvalidInputError:
        return before
    said = taken(options)
    if all(column.name in said for column in columns):  # nothing is news
        return _with(before, [], **found)
    return _with(before, in_words(replace(options, **found), columns), **found)
