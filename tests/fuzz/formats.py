"""The formats to fuzz, looked up when asked for: nothing here imports them."""

import importlib
import importlib.util
from typing import Any, NamedTuple


class Known(NamedTuple):
    """Where a format is, how it is made, and what it must agree with."""

    place: str  # module:class
    options: dict[str, Any] = {}  # noqa: RUF012
    twin: str = ""  # module:function of (parsed, text as bytes, format), returns what differs
    seeds: str = ""  # whose seeds and words it shares


FORMATS = {
    "libsvm": Known("thinstream.data.text.libsvm:Libsvm", twin="tests.data.naive_libsvm:disagreement"),
    "libsvm-wide": Known(
        "thinstream.data.text.libsvm:Libsvm",
        {"zero_based": True, "dtype": "float64", "limit": 1e300},
        "tests.data.naive_libsvm:disagreement",
        seeds="libsvm",
    ),
    "vw": Known("thinstream.data.text.vw:VW"),
    "csv": Known("thinstream.data.text.csv:CSV"),
    "jsonl": Known(
        "thinstream.data.text.jsonl:JSONLines",
        {"weight": "weight", "text": ("text",)},
        "tests.data.naive_texts:json_disagreement",
    ),
    "jsonl-texts": Known(
        "thinstream.data.text.jsonl:JSONLines",
        {"text": ("text", "x"), "ngrams": (1, 2), "chars": (2, 3), "stop": ("a", "b"), "binary": True},
        "tests.data.naive_texts:json_disagreement",
        seeds="jsonl",
    ),
    "jsonl-columns": Known(
        "thinstream.data.text.jsonl:JSONLines",
        {
            "numeric": ("age", "x"),
            "categorical": ("v",),
            "dates": ("user",),
            "columns": ("age", "v", "user", "w"),
            "missing": "indicator",
        },
        "tests.data.naive_texts:json_disagreement",
        seeds="jsonl",
    ),
    "csv-texts": Known(
        "thinstream.data.text.csv:CSV",
        {"text": ("c2", "c3"), "ngrams": (2, 3), "chars": (1, 2), "lower": False, "label": None, "numbered": True},
        seeds="csv",
    ),
    "csv-nothing": Known(
        "thinstream.data.text.csv:CSV",
        {"missing": "indicator", "dates": ("c2",), "numbered": True, "label": None, "delimiter": None},
        seeds="csv",
    ),
    "vw-crosses": Known(
        "thinstream.data.text.vw:VW",
        {"cross": [("a", "text"), ("text", "text", "b")]},
        "tests.data.naive_crosses:vw_disagreement",
        seeds="vw",
    ),
    "csv-crosses": Known(
        "thinstream.data.text.csv:CSV",
        {"cross": [("c1", "c2"), ("c3", "c3"), ("c3", "c2", "c1")], "text": ("c3",), "label": None, "numbered": True},
        seeds="csv",
    ),
    "jsonl-crosses": Known(
        "thinstream.data.text.jsonl:JSONLines",
        {"weight": "weight", "text": ("text",), "cross": [("user", "v"), ("text", "text"), ("age", "user", "text")]},
        "tests.data.naive_crosses:json_disagreement",
        seeds="jsonl",
    ),
}


def known(name):
    """By its name, or by module:class, which may carry a ``twin`` itself."""
    return FORMATS[name] if name in FORMATS else Known(name)


def exists(name):
    """Whether its module is there."""
    if name not in FORMATS and ":" not in name:
        return False
    try:
        return importlib.util.find_spec(known(name).place.partition(":")[0]) is not None
    except ModuleNotFoundError:
        return False


def maker(name):
    """(a function that makes a fresh format, its twin or None); imports the format."""
    entry = known(name)
    form = _at(entry.place)
    twin = _at(entry.twin) if entry.twin else getattr(form, "twin", None)
    return lambda: form(**entry.options), twin


def _at(place):
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(module), name)
