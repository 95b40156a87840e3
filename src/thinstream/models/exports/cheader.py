"""A model as a C99 header that needs nothing but the compiler."""

import json
import re
from textwrap import indent
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from thinstream.models.exports.chashing import hashing_code, own_wording
from thinstream.models.exports.linear import LinearModel, Vector

EXTENSIONS = (".h",)
#: Entries of a table per line where no names go with them.
PER_LINE = 8

_SEARCH = """\
size_t low = 0, high = sizeof {table} / sizeof {table}[0];
while (low < high) {{
    size_t middle = low + (high - low) / 2;
    if ({table}[middle] < {sought}) {{
        low = middle + 1;
    }} else {{
        high = middle;
    }}
}}
"""

_GUARD = """\
 */
#ifndef {guard}
#define {guard}

#include <stddef.h>
#include <stdint.h>
{includes}
#define {upper}_N_FEATURES {n_features}
"""

_HEAD = """\
/* {about}
 *
 * {name}_score: the score of a row, given as n columns (the first is 0) and their values, in any order; columns the
 * model does not know count nothing. {name}_predict: 1 if the score is > {cut}, else 0. {name}_label: the label's text.
{opening}#define {upper}_NEGATIVE {negative}
#define {upper}_POSITIVE {positive}

"""

_WEIGHT = """
static inline {real} {name}_weight({index} index) {{
{search}    return low < sizeof {name}_indices / sizeof {name}_indices[0] && {name}_indices[low] == index
        ? {name}_weights[low] : {zero};
}}

"""

#: What a further vector adds to the score.
_SUM = """\
static inline {real} {name}_sum(const {index} *indices, const {real} *values, size_t n) {{
    {real} sum = {zero};
    for (size_t i = 0; i < n; i++) {{
        sum += {name}_weight(indices[i]) * values[i];
    }}
    return sum{over};
}}

"""

_CODE = """\
{length}{beside}static inline {real} {name}_score(const {index} *indices, const {real} *values, size_t n) {{
    {real} sum = {start};
    for (size_t i = 0; i < n; i++) {{
        sum += {name}_weight(indices[i]) * values[i];
    }}
    return {sum}{sums};
}}

static inline int {name}_predict(const {index} *indices, const {real} *values, size_t n) {{
    return {name}_score(indices, values, n) > {cut};
}}

static inline const char *{name}_label(const {index} *indices, const {real} *values, size_t n) {{
    return {name}_predict(indices, values, n) ? {upper}_POSITIVE : {upper}_NEGATIVE;
}}

#endif
"""


_HEAD_OF_CLASSES = """\
/* {about}
 *
 * {name}_scores: the scores of a row, one for each class, given as n columns (the first is 0) and their values, in any
 * order; columns the model does not know count nothing. {name}_predict: the number of the class of highest score, the
 * first of several. {name}_label: that class's text.
{opening}#define {upper}_N_CLASSES {n_classes}

"""

#: The sums of a vector, for each class.
_LOOP = """\
    for (size_t i = 0; i < n; i++) {{
{search}        if (low < sizeof {name}_indices / sizeof {name}_indices[0] && {name}_indices[low] == indices[i]) {{
            for (size_t j = {name}_starts[low]; j < {name}_starts[low + 1]; j++) {{
                scores[{name}_classes[j]] += {name}_weights[j] * values[i];
            }}
        }}
    }}
"""

_ADD = """
static inline void {name}_add(const {index} *indices, const {real} *values, size_t n, {real} *scores) {{
{loop}}}

"""

_CODE_OF_CLASSES = """
{length}{beside}\
static inline void {name}_scores(const {index} *indices, const {real} *values, size_t n, {real} *scores) {{
    for (size_t k = 0; k < {n_classes}; k++) {{
        scores[k] = {start};
    }}
{loop}{over_length}{more}}}

static inline size_t {name}_predict(const {index} *indices, const {real} *values, size_t n) {{
    {real} scores[{n_classes}];
    size_t best = 0;
    {name}_scores(indices, values, n, scores);
    for (size_t k = 1; k < {n_classes}; k++) {{
        best = scores[k] > scores[best] ? k : best;
    }}
    return best;
}}

static inline const char *{name}_label(const {index} *indices, const {real} *values, size_t n) {{
    return {name}_labels[{name}_predict(indices, values, n)];
}}

#endif
"""


#: The length of a row, for models that normalise; the root is Newton's, as the mathematical library need not be there.
_LENGTH = """\
static inline {real} {name}_length(const {index} *indices, const {real} *values, size_t n) {{
    double sum = 0, root;
    uint64_t bits;
    for (size_t i = 0; i < n; i++) {{
{scaled}        sum += x * x;
    }}
    if (!(sum > 0)) {{
        return 1;
    }}
    memcpy(&bits, &sum, sizeof bits);
    bits = (bits >> 1) + 0x1ff8000000000000ULL;
    memcpy(&root, &bits, sizeof root);
    for (int step = 0; step < 5; step++) {{
        root = 0.5 * (root + sum / root);
    }}
    return ({real})root;
}}

"""

_AS_IT_IS = """\
        double x = values[i];
        (void)indices;
"""

_SCALED = """\
{search}        if (low == sizeof {table} / sizeof {table}[0] || {table}[low] != indices[i]) {{
            continue;
        }}
        double x = values[i] / {name}_scales[low];
"""

#: What a further vector adds to the scores of classes.
_MORE = """\
    {real} {part}_sums[{n_classes}] = {{0}};
    {part}_add(indices, values, n, {part}_sums);
    for (size_t k = 0; k < {n_classes}; k++) {{
        scores[k] += {part}_sums[k]{over};
    }}
"""

_OVER_LENGTH = """\
    {real} length = {name}_length(indices, values, n);
    for (size_t k = 0; k < {n_classes}; k++) {{
        scores[k] = scores[k] / length + {name}_intercepts[k];
    }}
"""


def write(model: LinearModel, file: BinaryIO, name: str) -> None:
    """Sorted tables, a binary search and the functions ``NAME_weight``, ``_score``, ``_predict`` and ``_label``.

    NAME is ``name`` with everything but ASCII letters and digits replaced by ``_``. Values and scores are float, or
    double for a float64 model; columns are uint32_t, or uint64_t if the model has wider ones. The labels are the
    strings ``NAME_NEGATIVE`` and ``NAME_POSITIVE`` (in capitals). Names of features stand as comments by their weights.
    Of hashed features there are also ``NAME_add``, ``_add_category`` and, of a model of texts, ``_add_text``, which
    make a row of names as the model's stream did (`chashing`). If the model crosses columns, the header says so: the
    functions take rows that are crossed already. So it is where texts are not taken apart into all their words, each
    counted (``--ngrams``, ``--chars``, ``--stop``, ``--no-lower``, ``--binary``); then there is no ``NAME_add_text``.

    Of more than two classes the functions are ``NAME_scores``, ``_predict`` and ``_label``, and the labels
    ``NAME_labels``, ``NAME_N_CLASSES`` of them. Where rows are normalised, ``NAME_length`` is that of a row, and scores
    are divided by it. Of a model of several vectors the tables of the second begin with ``NAME_2``; what it says of its
    kind of rows is added to the score.
    """
    model = model.check()
    name, labels = identifier(name), [string(str(label)) for label in model.classes]
    scaled = [vector.scales.indices[-1:] for vector in model.vectors if vector.scales is not None]
    last = np.max(np.concatenate([*(vector.indices for vector in model.vectors), *scaled]), initial=0)
    about = [f"thinstream {model.algorithm} {json.dumps(model.parameters)}"]
    if crosses := model.feature_space.get("cross"):
        about.append(f"Rows must be hashed and crossed before they are scored: {json.dumps(crosses)}")
    if wording := own_wording(model.feature_space):
        about.append(f"Texts must be taken apart before they are scored: {json.dumps(wording)}")
    if model.feature_space.get("missing") == "indicator":
        about.append('A cell that says nothing is the category "?" of its column')
    if dates := model.feature_space.get("dates"):
        parts = "day.year 2024, .month 05, .day 17, .weekday Fri, .hour 13"
        about.append(f"Dates are categories of their parts ({parts}): {json.dumps(dates)}")
    words = {
        "about": "\n * ".join(map(comment, about)),
        "name": name,
        "upper": name.upper(),
        "guard": f"THINSTREAM_{name.upper()}_H",
        "n_features": model.n_features,
        "includes": "#include <string.h>\n" if any(vector.normalize for vector in model.vectors) else "",
        "n_classes": len(labels),
        "negative": labels[0],
        "positive": labels[1],
        "real": "float" if model.weights.dtype == np.float32 else "double",
        "index": "uint64_t" if last >= 2**32 else "uint32_t",
        "suffix": "ULL" if last >= 2**32 else "U",
        "zero": hexadecimals(np.zeros(1, model.weights.dtype))[0],
        "cut": hexadecimals(np.array([model.threshold], model.weights.dtype))[0] if model.threshold else "0",
    }
    words["opening"] = _GUARD.format(**words)
    head, code = (_HEAD, _CODE) if model.is_binary else (_HEAD_OF_CLASSES, _CODE_OF_CLASSES)
    facts = [] if model.is_binary else [table(f"char *const {name}_labels", labels), _intercepts(model, words)]
    vector = model.vectors[0]
    tables = [head.format(**words), *facts, *_tables(vector, model, words)]
    hashing = hashing_code(model.feature_space, words)
    words |= {"loop": _loop(words)} | _beside(model, words) | _scoring(model, words)
    code = (_weight(words) if model.is_binary else "") + code.format(**words)
    file.write("".join([*tables, hashing, code]).encode("ascii"))


def _intercepts(model: LinearModel, words: dict[str, Any]) -> str:
    return table(f"{words['real']} {words['name']}_intercepts", hexadecimals(model.intercepts))


def _tables(vector: Vector, model: LinearModel, words: dict[str, Any]) -> list[str]:
    """The weights of a vector, and the scales of its rows."""
    name, real, index, suffix = (words[key] for key in ("name", "real", "index", "suffix"))
    order = np.lexsort((vector.rows, vector.indices))
    columns, rows, weights = vector.indices[order], vector.rows[order], vector.weights[order]
    if not len(columns):  # C has no empty arrays
        columns, rows, weights = np.zeros(1, np.int64), np.zeros(1, np.int64), np.zeros(1, weights.dtype)
    indices, starts = np.unique(columns, return_index=True)
    comments = [comment(model.names.get(j, f"column {j}")) for j in indices.tolist()] if model.names else []
    found, values = [f"{j}{suffix}" for j in indices.tolist()], hexadecimals(weights)
    if model.is_binary:
        tables = [table(f"{index} {name}_indices", found), table(f"{real} {name}_weights", values, comments)]
    else:
        tables = [
            table(f"{index} {name}_indices", found, comments),
            table(f"size_t {name}_starts", [str(k) for k in [*starts.tolist(), len(columns)]]),
            table(f"uint32_t {name}_classes", [f"{k}U" for k in rows.tolist()]),
            table(f"{real} {name}_weights", values),
        ]
    if vector.scales is not None:
        where, scales = vector.scales
        tables += [
            table(f"{index} {name}_learned", [f"{j}{suffix}" for j in where.tolist()] or [f"0{suffix}"]),
            table(f"double {name}_scales", hexadecimals(scales) or ["1"]),
        ]
    return tables


def _weight(words: dict[str, Any]) -> str:
    """The function that finds a weight of a vector."""
    search = indent(_SEARCH.format(table=f"{words['name']}_indices", sought="index"), "    ")
    return _WEIGHT.format(**words, search=search)


def _loop(words: dict[str, Any]) -> str:
    """The sums of a vector over the columns of a row, for each class."""
    search = indent(_SEARCH.format(table=f"{words['name']}_indices", sought="indices[i]"), "    " * 2)
    return _LOOP.format(**words, search=search)


def _length(vector: Vector, words: dict[str, Any]) -> str:
    """The function for the length of rows, where they are divided by it."""
    if vector.normalize is None:
        return ""
    scaled = _AS_IT_IS
    if vector.scales is not None:
        place = f"{words['name']}_learned"
        search = indent(_SEARCH.format(table=place, sought="indices[i]"), "    " * 2)
        scaled = _SCALED.format(**words | {"search": search, "table": place})
    return _LENGTH.format(scaled=scaled, **words)


def _beside(model: LinearModel, words: dict[str, Any]) -> dict[str, str]:
    """Tables and functions of further vectors, and how their sums get into the score."""
    code, sums, more = [], [], []
    for number, vector in enumerate(model.beside, 2):
        own = words | {"name": f"{words['name']}_{number}"}
        over = f" / {own['name']}_length(indices, values, n)" if vector.normalize else ""
        sum_of = (
            _weight(own) + _SUM.format(**own, over=over) if model.is_binary else _ADD.format(**own, loop=_loop(own))
        )
        code += [*_tables(vector, model, own), _length(vector, own), sum_of]
        sums.append(f" + {own['name']}_sum(indices, values, n)")
        more.append(_MORE.format(**words, part=own["name"], over=over))
    return {"beside": "".join(code), "sums": "".join(sums), "more": "".join(more)}


def _scoring(model: LinearModel, words: dict[str, Any]) -> dict[str, str]:
    """What the code has where scores begin, end, and are divided."""
    own = f"{words['name']}_intercepts[k]" if not model.is_binary else hexadecimals(model.intercepts)[0]
    if model.normalize is None:
        return {"length": "", "start": own, "sum": "sum", "over_length": ""}
    return {
        "length": _length(model.vectors[0], words),
        "start": words["zero"],
        "sum": f"sum / {words['name']}_length(indices, values, n) + {own}",
        "over_length": _OVER_LENGTH.format(**words),
    }


def table(declaration: str, entries: list[str], comments: list[str] | None = None) -> str:
    """A constant array: one entry a line where comments go with them."""
    if comments:
        lines = [f"{entry}, /* {note} */" for entry, note in zip(entries, comments, strict=True)]
    else:
        lines = [f"{', '.join(entries[start : start + PER_LINE])}," for start in range(0, len(entries), PER_LINE)]
    body = "".join(f"    {line}\n" for line in lines)
    return f"static const {declaration}[] = {{\n{body}}};\n"


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


def hexadecimals(numbers: NDArray[Any]) -> list[str]:
    """Hexadecimal constants of C99, which keep all bits.

    >>> hexadecimals(np.array([0.1, 1.0, 0.0], dtype=np.float32))
    ['0x1.99999ap-4f', '0x1p+0f', '0x0p+0f']
    """
    suffix = "f" if numbers.dtype == np.float32 else ""
    found = []
    for number in numbers.tolist():
        mantissa, exponent = number.hex().split("p")
        found.append(f"{mantissa.rstrip('0').rstrip('.') if '.' in mantissa else mantissa}p{exponent}{suffix}")
    return found
