"""Arrays of Arrow as arrays of numpy, without a loop over rows."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thinstream.errors import InvalidInputError
from thinstream.streams.tables.arrow_package import pyarrow
from thinstream.streams.tables.columns import Column
from thinstream.streams.tables.texts import Texts


def list_lengths(column: Any, name: str, path: str) -> NDArray[np.int64]:
    """Lengths of lists, 0 for null."""
    types = pyarrow().types
    if not any(fits(column.type) for fits in (types.is_list, types.is_large_list, types.is_fixed_size_list)):
        raise InvalidInputError(f"{path}: column {name!r} must hold lists, got {column.type}")
    found = pyarrow().compute.list_value_length(column).fill_null(0)
    return np.asarray(found.to_numpy(zero_copy_only=False), dtype=np.int64)


def present_in(*arrays: Any) -> NDArray[np.bool_] | None:
    """Where none of the arrays is null; None: everywhere."""
    if not any(array.null_count for array in arrays):
        return None
    found: NDArray[np.bool_]
    found = np.logical_and.reduce([array.is_valid().to_numpy(zero_copy_only=False) for array in arrays])
    return found


def whole_numbers(array: Any, name: str, path: str) -> NDArray[Any]:
    """Feature numbers, int32 where they fit."""
    pa = pyarrow()
    if not pa.types.is_integer(array.type):
        raise InvalidInputError(f"{path}: column {name!r} must hold lists of whole numbers, got {array.type}")
    try:
        found: NDArray[Any] = array.cast(pa.int64()).to_numpy() if array.type != pa.int32() else array.to_numpy()
    except pa.ArrowInvalid as error:
        raise InvalidInputError(f"{path}: column {name!r} has a feature number of 2^63 or more") from error
    small = found.dtype == np.int32 or (found.max(initial=0) < 2**31 and found.min(initial=0) >= -(2**31))
    return found.astype(np.int32, copy=False) if small else found


def floats(array: Any, name: str, path: str) -> NDArray[Any]:
    """Numbers, of whatever type; null as NaN."""
    pa = pyarrow()
    if pa.types.is_boolean(array.type) or pa.types.is_decimal(array.type):
        array = array.cast(pa.float64())
    if not (pa.types.is_integer(array.type) or pa.types.is_floating(array.type)):
        raise InvalidInputError(f"{path}: column {name!r} must hold numbers, got {array.type}")
    found: NDArray[Any] = array.to_numpy(zero_copy_only=False)
    return found


@contextmanager
def _text_of(name: str, path: str) -> Iterator[None]:
    """Around what makes text of bytes that should be UTF-8."""
    try:
        yield
    except (UnicodeDecodeError, pyarrow().ArrowException) as error:
        raise InvalidInputError(f"{path}: text of column {name!r} must be UTF-8, got other bytes ({error})") from error


def labels_of(array: Any, name: str, path: str) -> NDArray[Any]:
    """Labels as numpy has them: null is None or NaN."""
    pa = pyarrow()
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_decimal(array.type):
        array = array.cast(pa.float64())
    with _text_of(name, path):
        found: NDArray[Any] = array.to_numpy(zero_copy_only=False)
    return found.astype(float) if pa.types.is_null(array.type) else found


def texts_of(name: str, array: Any, path: str) -> Column:
    """A column of texts; null is an empty one."""
    pa = pyarrow()
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_null(array.type):
        return Column(name, texts=Texts.of(name, [""] * len(array)))
    if not any(fits(array.type) for fits in (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)):
        raise InvalidInputError(f"{path}: column {name!r} is named as text, so it must hold text, got {array.type}")
    with _text_of(name, path):
        array = array.cast(pa.large_string())
    _, ends, data = array.buffers()
    offsets = np.frombuffer(ends, np.int64)[array.offset : array.offset + len(array) + 1]
    stops = np.where(array.is_valid().to_numpy(zero_copy_only=False), offsets[1:], offsets[:-1])
    low, high = (int(offsets[0]), int(offsets[-1])) if len(array) else (0, 0)
    text = np.frombuffer(data, np.uint8)[low:high] if high > low else np.empty(0, np.uint8)
    return Column(name, texts=Texts(name, text, offsets[:-1] - low, stops - low, np.arange(len(array))))


def column_of(name: str, array: Any, path: str) -> Column:
    """A column of a table as numbers or categories."""
    types, kind = pyarrow().types, array.type
    if types.is_null(kind):
        return Column(name, numbers=np.zeros(len(array)), present=np.zeros(len(array), np.bool_))
    if types.is_date(kind) or types.is_timestamp(kind):
        # numpy rounds down, Arrow would round times before 1970 up
        times = array.to_numpy(zero_copy_only=False).astype("datetime64[s]")
        return Column(name, times=times, by_day=types.is_date(kind))
    if any(fits(kind) for fits in (types.is_dictionary, types.is_string, types.is_large_string, types.is_string_view)):
        return _categories(name, array, path)
    if not any(fits(kind) for fits in (types.is_boolean, types.is_integer, types.is_floating, types.is_decimal)):
        allowed = "numbers, booleans, dates, text or dictionaries of text"
        raise InvalidInputError(f"{path}: column {name!r} must hold {allowed}, got {kind}; ignore= leaves it out")
    present = present_in(array)
    return Column(name, numbers=floats(array, name, path), present=present)


def _categories(name: str, array: Any, path: str) -> Column:
    pa = pyarrow()
    if pa.types.is_dictionary(array.type):
        if array.dictionary.null_count:  # null by way of the dictionary
            array = array.cast(array.type.value_type).dictionary_encode()
    else:
        array = array.cast(pa.large_string()).dictionary_encode()
    with _text_of(name, path):
        texts = array.dictionary.to_pylist()
    if not all(isinstance(text, str) for text in texts):
        raise InvalidInputError(f"{path}: dictionaries of column {name!r} must hold text, got {array.type}")
    codes = array.indices.cast(pa.int64()).fill_null(-1)
    return Column(name, codes=codes.to_numpy(), categories=texts)
