"""Export to C99: a header without dependencies."""

import json
import re
from collections.abc import Iterable
from textwrap import indent
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from thinstream.errors import InvalidParameterError
from thinstream.export.linear import LinearModel, Vector

# C code for hashed features: names, categories and text to columns, as in the model's stream.

#: MurmurHash3 (x86, 32 bits) byte by byte, so that a name may come in parts.
_HASHING = """
/* Rows of named features. Start a row with n = 0. Each function adds to a row of n columns and values, which must have
 * room for more, and returns the new n. {name}_add: a number with the name of its column, with space "" (or a feature
 * in a namespace). {name}_add_category: the text of a column that is not a number. Empty text adds nothing.
 */
typedef struct {{ uint32_t hash, word, held, size; }} {name}_hash;

static inline uint32_t {name}_mixed(uint32_t word) {{
    word *= 0xCC9E2D51U;
    return (word << 15 | word >> 17) * 0x1B873593U;
}}

static inline void {name}_take(struct_of *h, unsigned char byte) {{
    h->word |= (uint32_t) byte << h->held;
    h->held += 8;
    h->size++;
    if (h->held == 32) {{
        h->hash ^= {name}_mixed(h->word);
        h->hash = (h->hash << 13 | h->hash >> 19) * 5U + 0xE6546B64U;
        h->word = h->held = 0;
    }}
}}

static inline uint32_t {name}_ended(struct_of h) {{
    uint32_t hash = (h.held ? h.hash ^ {name}_mixed(h.word) : h.hash) ^ h.size;
    hash = (hash ^ hash >> 16) * 0x85EBCA6BU;
    hash = (hash ^ hash >> 13) * 0xC2B2AE35U;
    return hash ^ hash >> 16;
}}

static inline uint32_t {name}_hashed(const char *text, const char *more, uint32_t seed) {{
    struct_of h = {{seed, 0, 0, 0}};
    for (; *text; text++) {{
        {name}_take(&h, (unsigned char) *text);
    }}
    for (; *more; more++) {{
        {name}_take(&h, (unsigned char) *more);
    }}
    return {name}_ended(h);
}}

static inline size_t {name}_put(uint32_t *indices, {real} *values, size_t n, uint32_t hash, {real} value) {{
    uint32_t index = hash & {mask}U;
    size_t i = 0;
{sign}    while (i < n && indices[i] != index) {{
        i++;
    }}
    if (i == n) {{
        indices[n] = index;
        values[n++] = {zero};
    }}
    values[i] += value;
    return n;
}}

static inline size_t {name}_add(uint32_t *indices, {real} *values, size_t n, const char *space, const char *text,
                                {real} value) {{
    return {name}_put(indices, values, n, {name}_hashed(text, "", {name}_hashed(space, "", {seed}U)), value);
}}

static inline size_t {name}_add_category(uint32_t *indices, {real} *values, size_t n, const char *column,
                                         const char *text) {{
    return *text ? {name}_put(indices, values, n, {name}_hashed(text, "", {name}_hashed(column, "=", {seed}U)), 1) : n;
}}
"""

_WORDS = """
static inline int {name}_is_of_word(uint32_t c) {{
    size_t low = 0, high = sizeof {name}_letters / sizeof {name}_letters[0];
    while (low < high) {{
        size_t middle = low + (high - low) / 2;
        if ({name}_letters[middle][1] < c) {{
            low = middle + 1;
        }} else {{
            high = middle;
        }}
    }}
    return low < sizeof {name}_letters / sizeof {name}_letters[0] && {name}_letters[low][0] <= c;
}}

static inline uint32_t {name}_lower(uint32_t c) {{
    size_t low = 0, high = sizeof {name}_capitals / sizeof {name}_capitals[0];
    while (low < high) {{
        size_t middle = low + (high - low) / 2;
        if ({name}_capitals[middle][0] < c) {{
            low = middle + 1;
        }} else {{
            high = middle;
        }}
    }}
    return low < sizeof {name}_capitals / sizeof {name}_capitals[0] && {name}_capitals[low][0] == c
        ? {name}_capitals[low][1] : c;
}}

/* {name}_add_text: the words of a text in UTF-8, in lower case. A capital sigma always becomes the small sigma of the
 * middle of a word.
 */
static inline size_t {name}_add_text(uint32_t *indices, {real} *values, size_t n, const char *column,
                                     const char *text) {{
    const unsigned char *at = (const unsigned char *) text;
    struct_of fresh = {{0, 0, 0, 0}}, h;
    fresh.hash = {name}_hashed(column, "", {seed}U);
    h = fresh;
    for (;;) {{
        uint32_t c = *at;
        int ends, more = c < 0xC0 ? 0 : c < 0xE0 ? 1 : c < 0xF0 ? 2 : 3;
        if (more) {{
            c &= 0x3FU >> more;
        }}
        for (; more && (at[1] & 0xC0) == 0x80; more--) {{
            c = c << 6 | (*++at & 0x3F);
        }}
        ends = c == 0x130; /* its lower case is an i and a combining dot, which is not a letter */
        c = {name}_lower(c);
        if ({name}_is_of_word(c)) {{
            if (c < 0x80) {{
                {name}_take(&h, (unsigned char) c);
            }} else {{
                if (c < 0x800) {{
                    {name}_take(&h, (unsigned char) (0xC0 | c >> 6));
                }} else {{
                    if (c < 0x10000) {{
                        {name}_take(&h, (unsigned char) (0xE0 | c >> 12));
                    }} else {{
                        {name}_take(&h, (unsigned char) (0xF0 | c >> 18));
                        {name}_take(&h, (unsigned char) (0x80 | (c >> 12 & 0x3F)));
                    }}
                    {name}_take(&h, (unsigned char) (0x80 | (c >> 6 & 0x3F)));
                }}
                {name}_take(&h, (unsigned char) (0x80 | (c & 0x3F)));
            }}
        }} else {{
            ends = 1;
        }}
        if (ends && h.size) {{
            n = {name}_put(indices, values, n, {name}_ended(h), 1);
            h = fresh;
        }}
        if (!*at) {{
            return n;
        }}
        at++;
    }}
}}
"""


def hashing_code(space: dict[str, Any], words: dict[str, Any]) -> str:
    """Return the functions for a feature space; "" if features are numbered."""
    if "hashing" not in space:
        return ""
    how = space["hashing"]
    if how["bits"] > 31:
        raise InvalidParameterError(
            f"the C export supports hashing with at most 31 bits, got a model with {how['bits']}. Train with --bits 31."
        )
    own = {
        "mask": (1 << how["bits"]) - 1,
        "seed": how["seed"],
        "sign": "    value = hash >> 31 ? -value : value;\n" if how["signed"] else "",
    }
    code = _HASHING.format(**words, **own)
    if space.get("text") and not own_wording(space):
        code += _pairs(f"{words['name']}_letters", word_ranges()) + _pairs(
            f"{words['name']}_capitals", capital_letters()
        )
        code += _WORDS.format(**words, **own)
    return code.replace("struct_of", f"{words['name']}_hash")


def own_wording(space: dict[str, Any]) -> dict[str, Any]:
    """Return the options for tokenizing text that differ from the defaults."""
    return {name: space[name] for name in ("ngrams", "chars", "lower", "stop", "binary") if name in space}


def word_ranges() -> list[tuple[int, int]]:
    """Return the ranges of characters of words, as in `data.text.tokens`."""
    ranges: list[tuple[int, int]] = []
    for match in re.finditer(r"\w+", "".join(map(chr, _characters()))):
        for c in map(ord, match.group()):
            if ranges and ranges[-1][1] == c - 1:
                ranges[-1] = ranges[-1][0], c
            else:
                ranges.append((c, c))
    return ranges


def capital_letters() -> list[tuple[int, int]]:
    """Return the characters with a different lower case, and the first character of that."""
    return [(c, ord(chr(c).lower()[0])) for c in _characters() if chr(c).lower() != chr(c)]


def _characters() -> Iterable[int]:
    return (c for c in range(0x110000) if not 0xD800 <= c < 0xE000)


def _pairs(name: str, pairs: list[tuple[int, int]]) -> str:
    texts = [f"{{0x{one:X}U, 0x{other:X}U}}," for one, other in pairs]
    lines = (" ".join(texts[start : start + 6]) for start in range(0, len(texts), 6))
    body = "".join(f"    {line}\n" for line in lines)
    return f"static const uint32_t {name}[][2] = {{\n{body}}};\n"


# A model as a C99 header.

EXTENSIONS = (".h",)
#: Entries of a table per line, if there are no names.
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
 * {name}_score: the score of a row of n columns (from 0) and their values, in any order. Unknown columns are ignored.
 * {name}_predict: 1 if the score is > {cut}, else 0. {name}_label: the label as text.
{opening}#define {upper}_NEGATIVE {negative}
#define {upper}_POSITIVE {positive}

"""

_WEIGHT = """
static inline {real} {name}_weight({index} index) {{
{search}    return low < sizeof {name}_indices / sizeof {name}_indices[0] && {name}_indices[low] == index
        ? {name}_weights[low] : {zero};
}}

"""

#: The sum of another vector.
_SUM = """\
static inline {real} {name}_sum(const {index} *indices, const {real} *values, size_t n) {{
    {real} sum = {zero};
    for (size_t i = 0; i < n; i++) {{
        sum += {name}_weight(indices[i]) * values[i];
    }}
    return sum{over};
}}

"""

_END = "\n#endif\n"

_CODE = """\
{length}{others}static inline {real} {score}(const {index} *indices, const {real} *values, size_t n) {{
    {real} sum = {start};
    for (size_t i = 0; i < n; i++) {{
        sum += {name}_weight(indices[i]) * values[i];
    }}
    return {sum}{sums};
}}
{products}
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
 * {name}_scores: the scores of a row, one per class. The row has n columns (from 0) and their values, in any order.
 * Unknown columns are ignored. {name}_predict: the number of the class with the highest score, the first of equal ones.
 * {name}_label: that class as text.
{opening}#define {upper}_N_CLASSES {n_classes}

"""

#: The sums of a vector for each class.
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
{length}{others}\
static inline void {score}s(const {index} *indices, const {real} *values, size_t n, {real} *scores) {{
    for (size_t k = 0; k < {n_classes}; k++) {{
        scores[k] = {start};
    }}
{loop}{over_length}{more}}}
{products}
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


#: The length of a row, for normalized rows. The root is computed by Newton's method, to avoid the math library.
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

_UNSCALED = """\
        double x = values[i];
        (void)indices;
"""

_SCALED = """\
{search}        if (low == sizeof {table} / sizeof {table}[0] || {table}[low] != indices[i]) {{
            continue;
        }}
        double x = values[i] / {name}_scales[low];
"""

#: The features of a row that have a slot, and their products. Others are ignored.
_PRODUCTS = """
typedef struct {{
    {index} indices[{known} * ({known} + 3) / 2 + 1];
    {real} values[{known} * ({known} + 3) / 2 + 1];
    size_t n;
}} {name}_row;

/* The product of two features with slots a >= b is column {base} + a(a + 1)/2 + b; squares of 1 are left out. */
static inline void {name}_expand(const {index} *indices, const {real} *values, size_t n, {name}_row *row) {{
    {index} slots[{known}];
    {real} factors[{known}];
    size_t m = 0;
    row->n = 0;
    for (size_t i = 0; i < n && m < {known}; i++) {{
{search}        if (low == sizeof {name}_factors / sizeof {name}_factors[0] || {name}_factors[low] != indices[i]) {{
            continue;
        }}
        slots[m] = {name}_slots[low];
        factors[m] = values[i];
        row->indices[row->n] = indices[i];
        row->values[row->n++] = values[i];
        for (size_t j = 0; j <= m; j++) {{
            {index} a = slots[m] > slots[j] ? slots[m] : slots[j], b = slots[m] > slots[j] ? slots[j] : slots[m];
            if (j < m || factors[m] != 1) {{
                row->indices[row->n] = {base} + a * (a + 1) / 2 + b;
                row->values[row->n++] = factors[m] * factors[j];
            }}
        }}
        m++;
    }}
}}
"""

_SCORE = """
static inline {real} {name}_score(const {index} *indices, const {real} *values, size_t n) {{
    {name}_row row;
    {name}_expand(indices, values, n, &row);
    return {name}_score_all(row.indices, row.values, row.n);
}}
"""

_SCORES = """
static inline void {name}_scores(const {index} *indices, const {real} *values, size_t n, {real} *scores) {{
    {name}_row row;
    {name}_expand(indices, values, n, &row);
    {name}_score_alls(row.indices, row.values, row.n, scores);
}}
"""

#: The sums of another vector for each class.
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


#: e^x for x ≤ 0 without the math library: 2^k times a series on [−ln 2/2, ln 2/2].
_EXP = """
static inline double {name}_exp(double x) {{
    double term = 1, sum = 1, power;
    int k = (int) (x / 0.6931471805599453 - 0.5);
    uint64_t bits;
    if (x < -700) {{
        return 0;
    }}
    x -= k * 0.6931471805599453;
    for (int i = 1; i < 18; i++) {{
        term *= x / i;
        sum += term;
    }}
    bits = (uint64_t) (1023 + k) << 52;
    memcpy(&power, &bits, sizeof power);
    return sum * power;
}}
"""

_PROBABILITY = (
    _EXP
    + """
/* The probability of {upper}_POSITIVE. */
static inline double {name}_probability(const {index} *indices, const {real} *values, size_t n) {{
    double score = {name}_score(indices, values, n);
    double odds = {name}_exp(score > 0 ? -score : score);
    return score > 0 ? 1 / (1 + odds) : odds / (1 + odds);
}}
"""
)

_PROBABILITIES = (
    _EXP
    + """
/* The probability of each class. */
static inline void {name}_probabilities(const {index} *indices, const {real} *values, size_t n, double *shares) {{
    {real} scores[{n_classes}];
    double most, sum = 0;
    {name}_scores(indices, values, n, scores);
    most = scores[{name}_predict(indices, values, n)];
    most = most < 0 ? most : 0;
    for (size_t k = 0; k < {n_classes}; k++) {{
        double score = scores[k];
        shares[k] = score > 0 ? 1 / (1 + {name}_exp(-score)) : {name}_exp(score - most) / (1 + {name}_exp(score));
        sum += shares[k];
    }}
    for (size_t k = 0; k < {n_classes}; k++) {{
        shares[k] /= sum;
    }}
}}
"""
)


def write(model: LinearModel, file: BinaryIO, name: str) -> None:
    """Write sorted tables, a binary search and the functions ``NAME_weight``, ``_score``, ``_predict`` and ``_label``.

    NAME is ``name`` with everything but ASCII letters and digits replaced by ``_``. Values and scores are float, or
    double for a float64 model. Columns are uint32_t, or uint64_t if the model has larger ones. The labels are the
    strings ``NAME_NEGATIVE`` and ``NAME_POSITIVE`` (in capitals). Names of features are comments next to their weights.

    For hashed features, there are also ``NAME_add``, ``_add_category`` and, for text, ``_add_text``, which convert
    names to a row as in the model's stream. If the model crosses columns, the functions need rows that are already
    crossed, and a comment explains this. With options for tokenizing text (``--ngrams``, ``--chars``, ``--stop``,
    ``--no-lower``, ``--binary``), there is no ``NAME_add_text``.

    If scores are log-odds, ``NAME_probability`` returns the probability of the positive class, a double, and
    ``NAME_probabilities`` those of more than two classes.

    With more than two classes, the functions are ``NAME_scores``, ``_predict`` and ``_label``, and the
    ``NAME_N_CLASSES`` labels are in ``NAME_labels``. If rows are normalized, ``NAME_length`` returns the length of a
    row, by which scores are divided. If the model has several vectors, the tables of the second begin with ``NAME_2``,
    and so on. Their sums are added to the score.
    """
    model = model.check()
    name, labels = identifier(name), [string(str(label)) for label in model.classes]
    scaled = [vector.scales.indices[-1:] for vector in model.vectors if vector.scales is not None]
    last = np.max(np.concatenate([*(vector.indices for vector in model.vectors), *scaled]), initial=0)
    about = [f"thinstream {model.algorithm} {json.dumps(model.parameters)}"]
    if crosses := model.feature_space.get("cross"):
        about.append(f"Rows must be hashed and crossed before they are scored: {json.dumps(crosses)}")
    if wording := own_wording(model.feature_space):
        about.append(f"Text must be tokenized before rows are scored: {json.dumps(wording)}")
    if model.feature_space.get("missing") == "indicator":
        about.append('A missing cell is the category "?" of its column')
    if dates := model.feature_space.get("dates"):
        parts = "day.year 2024, .month 05, .day 17, .weekday Fri, .hour 13"
        about.append(f"Dates give categories for their parts ({parts}): {json.dumps(dates)}")
    words = {
        "about": "\n * ".join(map(comment, about)),
        "name": name,
        "upper": name.upper(),
        "guard": f"THINSTREAM_{name.upper()}_H",
        "n_features": model.n_inputs,
        "includes": "#include <string.h>\n"
        if model.has_probabilities or any(vector.normalize for vector in model.vectors)
        else "",
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
    words |= {"loop": _loop(words)} | _others(model, words) | _scoring(model, words)
    if model.products is None:
        words |= {"score": f"{name}_score", "products": ""}
    else:
        words |= {"score": f"{name}_score_all", "products": _products(model, words)}
    code = (_weight(words) if model.is_binary else "") + code.format(**words)
    if model.has_probabilities:
        more = _PROBABILITY if model.is_binary else _PROBABILITIES
        code = code.removesuffix(_END) + more.format(**words) + _END
    file.write("".join([*tables, hashing, code]).encode("ascii"))


def _intercepts(model: LinearModel, words: dict[str, Any]) -> str:
    return table(f"{words['real']} {words['name']}_intercepts", hexadecimals(model.intercepts))


def _tables(vector: Vector, model: LinearModel, words: dict[str, Any]) -> list[str]:
    """Return the weights of a vector, and the scales of its rows."""
    name, real, index, suffix = (words[key] for key in ("name", "real", "index", "suffix"))
    order = np.lexsort((vector.rows, vector.indices))
    columns, rows, weights = vector.indices[order], vector.rows[order], vector.weights[order]
    if not len(columns):  # C has no empty arrays
        columns, rows, weights = np.zeros(1, np.int64), np.zeros(1, np.int64), np.zeros(1, weights.dtype)
    indices, starts = np.unique(columns, return_index=True)
    comments = [comment(model.names.get(j, f"column {j}")) for j in indices.tolist()] if model.names else []
    index_entries, values = [f"{j}{suffix}" for j in indices.tolist()], hexadecimals(weights)
    if model.is_binary:
        tables = [table(f"{index} {name}_indices", index_entries), table(f"{real} {name}_weights", values, comments)]
    else:
        tables = [
            table(f"{index} {name}_indices", index_entries, comments),
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


def _products(model: LinearModel, words: dict[str, Any]) -> str:
    """Return the functions that extend a row by products of features, and score it."""
    assert model.products is not None
    numbers, suffix = model.products.numbers, words["suffix"]
    order, name = np.argsort(numbers), words["name"]
    tables = [
        table(f"{words['index']} {name}_factors", [f"{j}{suffix}" for j in numbers[order].tolist()]),
        table(f"{words['index']} {name}_slots", [f"{k + 1}{suffix}" for k in order.tolist()]),
    ]
    search = indent(_SEARCH.format(table=f"{name}_factors", sought="indices[i]"), "    " * 2)
    code = _PRODUCTS.format(**words, search=search, known=len(numbers), base=f"{model.products.base}{suffix}")
    return "\n" + "".join(tables) + code + (_SCORE if model.is_binary else _SCORES).format(**words)


def _weight(words: dict[str, Any]) -> str:
    """Return the function that finds a weight of a vector."""
    search = indent(_SEARCH.format(table=f"{words['name']}_indices", sought="index"), "    ")
    return _WEIGHT.format(**words, search=search)


def _loop(words: dict[str, Any]) -> str:
    """Return the loop that sums a vector over the columns of a row for each class."""
    search = indent(_SEARCH.format(table=f"{words['name']}_indices", sought="indices[i]"), "    " * 2)
    return _LOOP.format(**words, search=search)


def _length(vector: Vector, words: dict[str, Any]) -> str:
    """Return the function for the length of rows, if they are divided by it."""
    if vector.normalize is None:
        return ""
    scaled = _UNSCALED
    if vector.scales is not None:
        learned = f"{words['name']}_learned"
        search = indent(_SEARCH.format(table=learned, sought="indices[i]"), "    " * 2)
        scaled = _SCALED.format(**words | {"search": search, "table": learned})
    return _LENGTH.format(scaled=scaled, **words)


def _others(model: LinearModel, words: dict[str, Any]) -> dict[str, str]:
    """Return tables and functions of the other vectors, and how their sums are added to the score."""
    code, sums, more = [], [], []
    for number, vector in enumerate(model.others, 2):
        own = words | {"name": f"{words['name']}_{number}"}
        over = f" / {own['name']}_length(indices, values, n)" if vector.normalize else ""
        sum_of = (
            _weight(own) + _SUM.format(**own, over=over) if model.is_binary else _ADD.format(**own, loop=_loop(own))
        )
        code += [*_tables(vector, model, own), _length(vector, own), sum_of]
        sums.append(f" + {own['name']}_sum(indices, values, n)")
        more.append(_MORE.format(**words, part=own["name"], over=over))
    return {"others": "".join(code), "sums": "".join(sums), "more": "".join(more)}


def _scoring(model: LinearModel, words: dict[str, Any]) -> dict[str, str]:
    """Return the parts of the code for the start, the end and the division of scores."""
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
    """Return a constant array, with one entry per line if there are comments."""
    if comments:
        lines = [f"{entry}, /* {note} */" for entry, note in zip(entries, comments, strict=True)]
    else:
        lines = [f"{', '.join(entries[start : start + PER_LINE])}," for start in range(0, len(entries), PER_LINE)]
    body = "".join(f"    {line}\n" for line in lines)
    return f"static const {declaration}[] = {{\n{body}}};\n"


def identifier(name: str) -> str:
    """Return a C identifier from a file name; reserved ones get a prefix.

    >>> identifier("spam-2024"), identifier("7"), identifier("_x")
    ('spam_2024', 'model_7', 'model__x')
    """
    name = re.sub(r"[^A-Za-z0-9_]", "_", name)
    return name if name[:1].isalpha() else f"model_{name}"


def string(text: str) -> str:
    """Return a string constant: UTF-8 with octal escapes of three digits, without trigraphs."""
    safe = (
        chr(byte) if 32 <= byte < 127 and chr(byte) not in '"\\?' else f"\\{byte:03o}"
        for byte in text.encode("utf-8", "backslashreplace")
    )
    return f'"{"".join(safe)}"'


def comment(text: str) -> str:
    """Return text for a comment: ASCII on one line, which neither ends a comment nor starts one."""
    shown = "".join(c if " " <= c <= "~" else ascii(c)[1:-1] for c in text)
    return shown.replace("*/", "*\\/").replace("/*", "/\\*")


def hexadecimals(numbers: NDArray[Any]) -> list[str]:
    """Return hexadecimal constants of C99, which keep all bits.

    >>> hexadecimals(np.array([0.1, 1.0, 0.0], dtype=np.float32))
    ['0x1.99999ap-4f', '0x1p+0f', '0x0p+0f']
    """
    suffix = "f" if numbers.dtype == np.float32 else ""
    constants = []
    for number in numbers.tolist():
        mantissa, exponent = number.hex().split("p")
        constants.append(f"{mantissa.rstrip('0').rstrip('.') if '.' in mantissa else mantissa}p{exponent}{suffix}")
    return constants
