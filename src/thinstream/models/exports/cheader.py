"""A model as a C99 header that needs nothing but the compiler."""

import json
import re
from typing import BinaryIO

import numpy as np

from thinstream.models.exports.digits import hexadecimals
from thinstream.models.exports.portrait import Portrait

#: Entries of a table per line where no names go with them.
PER_LINE = 8

_HEAD = """\
/* {about}
 *
 * {name}_score: the score of a row, given as n columns (the first is 0) and their values, in any order; columns the
 * model does not know count nothing. {name}_predict: 1 if the score is > 0, else 0. {name}_label: the label's text.
 */
#ifndef {guard}
#define {guard}

#include <stddef.h>
#include <stdint.h>

#define {upper}_N_FEATURES {n_features}
#define {upper}_NEGATIVE {negative}
#define {upper}_POSITIVE {positive}

"""

_CODE = """
static inline {real} {name}_weight({index} index) {{
    size_t low = 0, high = sizeof {name}_indices / sizeof {name}_indices[0];
    while (low < high) {{
        size_t middle = low + (high - low) / 2;
        if ({name}_indices[middle] < index) {{
            low = middle + 1;
        }} else {{
            high = middle;
        }}
    }}
    return low < sizeof {name}_indices / sizeof {name}_indices[0] && {name}_indices[low] == index
        ? {name}_weights[low] : {zero};
}}

static inline {real} {name}_score(const {index} *indices, const {real} *values, size_t n) {{
    {real} sum = {intercept};
    for (size_t i = 0; i < n; i++) {{
        sum += {name}_weight(indices[i]) * values[i];
    }}
    return sum;
}}

static inline int {name}_predict(const {index} *indices, const {real} *values, size_t n) {{
    return {name}_score(indices, values, n) > 0;
}}

static inline const char *{name}_label(const {index} *indices, const {real} *values, size_t n) {{
    return {name}_predict(indices, values, n) ? {upper}_POSITIVE : {upper}_NEGATIVE;
}}

#endif
"""


def write(portrait: Portrait, file: BinaryIO, name: str) -> None:
    """Sorted tables, a binary search and the functions ``NAME_weight``, ``_score``, ``_predict`` and ``_label``.

    NAME is ``name`` with everything but ASCII letters and digits replaced by ``_``. Values and scores are float, or
    double for a float64 model; columns are uint32_t, or uint64_t if the model has wider ones. The labels are the
    strings ``NAME_NEGATIVE`` and ``NAME_POSITIVE`` (in capitals). Names of features stand as comments by their weights.
    """
    portrait = portrait.check()
    indices, weights = portrait.indices, portrait.weights
    if not len(indices):  # C has no empty arrays
        indices, weights = np.zeros(1, dtype=np.int64), np.zeros(1, dtype=weights.dtype)
    name = identifier(name)
    wide = int(indices[-1]) >= 2**32
    zero, intercept = hexadecimals(np.array([0.0, portrait.intercept], dtype=weights.dtype))
    words = {
        "about": comment(f"thinstream {portrait.algorithm} {json.dumps(portrait.parameters)}"),
        "name": name,
        "upper": name.upper(),
        "guard": f"THINSTREAM_{name.upper()}_H",
        "n_features": portrait.n_features,
        "negative": string(str(portrait.negative)),
        "positive": string(str(portrait.positive)),
        "real": "float" if weights.dtype == np.float32 else "double",
        "index": "uint64_t" if wide else "uint32_t",
        "zero": zero,
        "intercept": intercept,
    }
    suffix = "ULL" if wide else "U"
    comments = [comment(portrait.names.get(j, f"column {j}")) for j in indices.tolist()] if portrait.names else []
    file.write(_HEAD.format(**words).encode("ascii"))
    file.write(table(f"{words['index']} {name}_indices", [f"{j}{suffix}" for j in indices.tolist()], []))
    file.write(table(f"{words['real']} {name}_weights", hexadecimals(weights), comments))
    file.write(_CODE.format(**words).encode("ascii"))


def table(declaration: str, entries: list[str], comments: list[str]) -> bytes:
    """A constant array: one entry a line where comments go with them."""
    if comments:
        lines = [f"{entry}, /* {note} */" for entry, note in zip(entries, comments, strict=True)]
    else:
        lines = [f"{', '.join(entries[start : start + PER_LINE])}," for start in range(0, len(entries), PER_LINE)]
    body = "".join(f"    {line}\n" for line in lines)
    return f"static const {declaration}[] = {{\n{body}}};\n".encode("ascii")


def identifier(name: str) -> str:
    """A C identifier from the name of a file; those C keeps for itself get a prefix.

    >>> identifier("spam-2024"), identifier("7"), identifier("_x")
    ('spam_2024', 'model_7', 'model__x')
    """
    name = re.sub(r"[^A-Za-z0-9_]", "_", name)
    return name if name[:1].isalpha() else f"model_{name}"


def string(text: str) -> str:
    """A string constant: UTF-8, octal outside ASCII (three digits, so that a digit may follow), no trigraphs."""
    safe = (
        chr(byte) if 32 <= byte < 127 and chr(byte) not in '"\\?' else f"\\{byte:03o}"
        for byte in text.encode("utf-8", "backslashreplace")
    )
    return f'"{"".join(safe)}"'


def comment(text: str) -> str:
    """Text that neither ends a comment nor looks like the start of one; ASCII, on one line."""
    shown = "".join(c if " " <= c <= "~" else ascii(c)[1:-1] for c in text)
    return shown.replace("*/", "*\\/").replace("/*", "/\\*")
