"""Rows at hand as a model's stream took them: dicts, frames and texts, columns by name."""

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from numbers import Real
from typing import Any

import numpy as np

from thinstream.batch import Batch
from thinstream.errors import InvalidInputError, near
from thinstream.streams.formats import find_format
from thinstream.streams.options import LAYOUT, OPTIONS, Options, as_learned
from thinstream.streams.tables.declared import category_of


def batch_like(model: Any, X: Any) -> Batch | None:
    r"""The rows, prepared as those a `models.Model` has learned from; None if X is a matrix of numbers, or no rows.

    - Dicts, or a frame of pandas or polars, for a model of named features. Numbers are numbers, text is text or a
      category, what is missing is absent.
    - Texts, for a model of one column of text.
    - Lines of JSON or VW for other models of named features, and of CSV for one that has learned from such files: the
      same cells in the same order, with the label's or without. Lines of libsvm for models of numbered features.

    >>> from thinstream.learners import Classes
    >>> from thinstream.models import Model
    >>> from thinstream.streams.text.hashing import Hashing
    >>> model = Model.fresh("arow", Classes(0, 1), feature_space={"hashing": Hashing(bits=10).as_dict()})
    >>> batch_like(model, [{"age": 31, "city": "Oslo"}, {"age": 5.5}]).values
    array([31. ,  1. ,  5.5], dtype=float32)
    """
    named = "hashing" in model.feature_space
    if _is_row(X):
        raise InvalidInputError(f"X must be a list of rows, got one {_called(X)}: [X] is a list of it")
    if _is_frame(X):
        return _parsed_records(model, _records(model, X)) if named else None
    rows = _sequence(X)
    if isinstance(X, list | tuple) and not len(X):
        if not named:
            raise InvalidInputError("X must have a row at least, got an empty list")
        return _parsed(model, "jsonl", [])
    if rows is None:
        if named:
            _require_hashed(model, X)
        return None
    if all(isinstance(row, Mapping) for row in rows):
        if not named:
            raise InvalidInputError("dicts have names for features, this model has learned from numbered ones")
        _require_known(model, rows)
        return _parsed_records(model, rows)
    if not all(isinstance(row, str) for row in rows):
        return None
    if not named:
        return _parsed_numbered(model, list(rows))
    text, columns = model.feature_space.get("text", ()), model.reading.get("columns", ())
    if len(text) == 1 and {*columns} <= {*text}:
        return _parsed_records(model, [{text[0]: row} for row in rows])
    if all(row.lstrip().startswith("{") for row in rows):
        return _parsed(model, "jsonl", list(rows))
    if LAYOUT in model.reading:
        return _parsed_cells(model, list(rows))
    if all("|" in row for row in rows):
        return _parsed(model, "vw", list(rows))
    raise InvalidInputError(
        "texts are rows of a model of one column of text, or lines of JSON, CSV or VW as it has learned from; this one "
        f"takes dicts or frames, got {rows[0]!r:.60}"
    )


def require_numbers(X: Any) -> None:
    """Raises, and says what to do, where X is dicts, texts or a frame with more than numbers: they need names."""
    if _is_frame(X):
        if others := _columns_of_others(X):
            raise InvalidInputError(
                f"X must be a matrix or a frame of numbers, got text, categories or times{_shown(others, ' in ')}; "
                "such frames are learned as a stream: fit_stream(from_memory(X, y, hasher=Numbering())), both of "
                "thinstream.streams"
            )
        return
    rows = [X] if _is_row(X) else _sequence(X)
    if rows is None or not isinstance(rows[0], Mapping | str):
        return
    if isinstance(rows[0], Mapping):
        how = "from_memory(list(zip(X, y)), hasher=Numbering())), both of thinstream.streams"
    else:
        how = (
            "open_stream('texts.csv', text=('text',))), from a file with the column 'text', or as the matrix that "
            "scikit-learn's HashingVectorizer makes of them"
        )
    raise InvalidInputError(
        f"X must be a matrix or a frame of numbers, got {_called(rows[0])}s; these are learned as a stream: "
        f"fit_stream({how}"
    )


def _is_frame(X: Any) -> bool:
    """Of pandas or polars, neither of which is imported."""
    return hasattr(X, "columns") and (hasattr(X, "iloc") or hasattr(X, "get_columns"))


def _columns_of_others(X: Any) -> list[str]:
    """Columns of a frame that are no numbers."""
    if hasattr(X, "get_columns"):
        return [each.name for each in X.get_columns() if not each.dtype.is_numeric() and str(each.dtype) != "Boolean"]
    found = []
    for j, kind in enumerate(X.dtypes):
        texts = kind.kind == "O" and any(isinstance(cell, str) for cell in X.iloc[:, j])
        if texts or kind.kind not in "biufcO":
            found.append(str(X.columns[j]))
    return found


def _is_row(X: Any) -> bool:
    """Whether it is one dict or text; scipy's dictionary of keys is a dict, too, and a matrix."""
    return isinstance(X, Mapping | str) and not hasattr(X, "shape")


def _called(row: Any) -> str:
    return "dict" if isinstance(row, Mapping) else "text"


def _require_hashed(model: Any, X: Any) -> None:
    """A matrix for a model of named features must have a column for each number that names are hashed into."""
    shape = X.shape if hasattr(X, "shape") else _nested_shape(X)
    width = 1 << model.feature_space["hashing"]["bits"]
    if len(shape) != 2 or shape[1] in (width, model.learner.n_features):
        return
    columns = model.reading.get("columns", ())
    raise InvalidInputError(
        f"this model has learned from named features{_shown(columns, ' of the columns ')}, hashed into {width:,} "
        f"numbers; it takes a list of dicts, a frame with these names, or lines as its files have them, got a matrix "
        f"of {shape[1]} columns, which have no names"
    )


def _nested_shape(X: Any) -> tuple[int, ...]:
    """Of a list of lists."""
    return (len(X), len(X[0])) if isinstance(X, list | tuple) and X and hasattr(X[0], "__len__") else ()


def _require_known(model: Any, rows: Sequence[Mapping[Any, Any]]) -> None:
    """Keys are columns of the model's files, where these had columns; any may be absent."""
    reading = model.reading
    if "columns" not in reading:
        return
    others = (reading.get(name, OPTIONS[name].default) for name in ("label", "weight", "id"))
    layout = reading.get(LAYOUT, {}).get("columns", ())
    known = {*reading["columns"], *layout, *reading.get("ignore", ()), *others}
    for row, record in enumerate(rows):
        for name in map(str, record):
            if name not in known:
                raise InvalidInputError(
                    f"X, row {row}: the model has not learned from a column {name!r}"
                    + (near(name, reading["columns"], "; ") or _shown(reading["columns"], "; there are "))
                )


def _shown(names: Sequence[str], before: str) -> str:
    """The first names, with some text before them; nothing of none."""
    more = ", …" if len(names) > 20 else ""
    return f"{before}{', '.join(map(repr, names[:20]))}{more}" if names else ""


def _sequence(X: Any) -> Sequence[Any] | None:
    """A list of rows, where X may be one of dicts or texts."""
    if isinstance(X, list | tuple):
        return X if X and isinstance(X[0], Mapping | str) else None
    kind = getattr(X, "dtype", None)
    if getattr(X, "ndim", 0) != 1 or getattr(kind, "kind", "O") not in "OUT" or not len(X):
        return None
    return list(X)


def _records(model: Any, X: Any) -> Iterator[dict[str, Any]]:
    """The rows of a frame; what is missing in it is None."""
    names = [str(name) for name in X.columns]
    if missing := [name for name in model.reading.get("columns", ()) if name not in names]:
        raise InvalidInputError(
            f"the model has learned from columns that are missing: {', '.join(map(repr, missing[:20]))}"
            + near(missing[0], [name for name in names if name not in model.reading["columns"]], "; ")
        )
    if hasattr(X, "iloc"):
        present = X.notna().to_numpy()
        columns = [X.iloc[:, j].astype(object).to_numpy() for j in range(len(names))]
        for i in range(len(X)):
            yield {name: columns[j][i] if present[i, j] else None for j, name in enumerate(names)}
    else:
        yield from X.to_dicts()


def _parsed_records(model: Any, records: Iterable[Mapping[Any, Any]]) -> Batch:
    """The rows, by way of lines of JSON; times are dates, whether or not they are declared so."""
    categories, nan = model.feature_space.get("categorical", ()), model.reading.get("missing", "as-is") == "as-is"
    lines, dates = [], dict.fromkeys(model.reading.get("dates", ()))

    def cell(name: str, value: Any) -> Any:
        if isinstance(value, date | np.datetime64):
            dates[name] = None
            return _time(value)
        if isinstance(value, float | np.floating) and value != value and not nan:
            return None
        return category_of(value) if name in categories and isinstance(value, Real) else value

    for row, record in enumerate(records):
        known = {str(name): cell(str(name), value) for name, value in record.items()}
        try:
            lines.append(json.dumps(known, default=_plain))
        except (TypeError, ValueError) as error:
            raise InvalidInputError(f"X, row {row}: {error}; values are numbers, text, True, False or None") from None
    return _parsed(model, "jsonl", lines, dates=tuple(dates))


def _plain(value: Any) -> Any:
    """Numpy's numbers as Python's."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{value!r} is no number and no text")


def _time(value: Any) -> str | None:
    """A date, or a time up to its seconds, as files have it; None of no time."""
    found = np.datetime64(value)
    if np.isnat(found):
        return None
    by_day = np.datetime_data(found)[0] == "D" if isinstance(value, np.datetime64) else not hasattr(value, "hour")
    return str(found.astype("M8[D]" if by_day else "M8[s]"))


def _parsed(model: Any, kind: str, lines: list[str], **more: Any) -> Batch:
    """The lines, read as files of this format would be, with nothing taken for a label."""
    stream = opened_like(model, kind, **({"classes": None} if kind == "libsvm" else more))  # which may be texts
    if kind == "jsonl":
        stream = without_label(stream)
    return _rows_of(stream, lines)


def _parsed_numbered(model: Any, lines: list[str]) -> Batch:
    """Lines of libsvm, for a model of a matrix or of such files."""
    try:
        return _parsed(model, "libsvm", lines)
    except InvalidInputError as error:
        raise InvalidInputError(
            f"this model has learned from {model.learner.n_features:,} numbered columns, not from texts: it takes a "
            f"matrix or a frame of numbers, or lines of libsvm as '0 3:0.5 7:1'; {error}"
        ) from None


def _parsed_cells(model: Any, lines: list[str]) -> Batch:
    """Lines of the cells that the model's files had, with the label's or without."""
    columns, stream = model.reading[LAYOUT]["columns"], opened_like(model, model.reading[LAYOUT]["format"], header=True)
    label, delimiter = stream.options.label, _delimiter(model, stream)
    cells = len(next(csv.reader(lines[:1], delimiter=delimiter), []))
    unlabelled = [name for name in columns if name != label]
    if cells not in (len(columns), len(unlabelled)):
        raise InvalidInputError(
            f"X: lines must have the cells of {delimiter.join(columns)!r}, with {label!r} or without, got {cells} in "
            f"{lines[0]!r:.60}"
        )
    stream = without_label(stream, columns=())
    _begin_cells(stream, columns if cells == len(columns) else unlabelled, delimiter)
    return _rows_of(stream, lines)


def cells_like(model: Any) -> Any:
    """A stream, without a file, of lines that have the cells that those of the model's files had, the label's, too."""
    stream = opened_like(model, model.reading[LAYOUT]["format"], header=True, labels=True)
    _begin_cells(stream, model.reading[LAYOUT]["columns"], _delimiter(model, stream))
    return stream


def _delimiter(model: Any, stream: Any) -> str:
    found: str = model.reading[LAYOUT].get("delimiter") or stream.form.between
    return found


def _begin_cells(stream: Any, columns: Sequence[str], delimiter: str) -> None:
    """Lets the stream read the line that names the columns."""
    header = io.StringIO()
    csv.writer(header, delimiter=delimiter).writerow(columns)
    stream.form.header(np.frombuffer(header.getvalue().encode("utf-8", "surrogatepass"), np.uint8))


def opened_like(model: Any, kind: str, **more: Any) -> Any:
    """A stream of this format without a file, that reads as the model's did."""
    known = find_format(kind)
    options = as_learned(Options(kind, labels=False, strict=False, dtype=model.learner.dtype.name), kind, model, "X")
    return known.open(known, [], replace(options, **more))


def without_label(stream: Any, **more: Any) -> Any:
    """The same, its label a column that is left out."""
    form = replace(stream.form, label=None, ignore=(*stream.form.ignore, stream.options.label), **more)
    return replace(stream, form=form)


def _rows_of(stream: Any, lines: list[str]) -> Batch:
    text = "\n".join(" ".join(line.splitlines()) for line in lines) + "\n"
    batch: Batch = stream.rows_of(text.encode("utf-8", "surrogatepass"))
    if len(batch) != len(lines):
        raise InvalidInputError(f"X: each text must be one row, got {len(lines)} texts and {len(batch)} rows")
    return batch
