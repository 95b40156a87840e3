"""What a C header has for a model of hashed features: names, categories and texts to columns, as its stream did."""

import re
from collections.abc import Iterable
from typing import Any

from thinstream.errors import InvalidParameterError

#: One byte after another, so that a name may come in parts; however it is parted, it is MurmurHash3 (x86, 32 bits).
_HASHING = """
/* Rows of named features. Each function adds to a row of n columns and values that has room for more, and returns how
 * many it has then; a row begins with n = 0. {name}_add: a number under the name of its column, space being "" (or a
 * feature of a namespace). {name}_add_category: the text of a column that is no number. What is empty adds nothing.
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

/* {name}_add_text: the words of a text in UTF-8, in lower case. A capital sigma becomes the small one of the middle of
 * a word wherever it stands.
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
        ends = c == 0x130; /* in lower case an i and a dot above it, which is no letter */
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
    """The functions of a feature space; nothing where features are numbered."""
    if "hashing" not in space:
        return ""
    how = space["hashing"]
    if how["bits"] > 31:
        raise InvalidParameterError(
            f"in C names are hashed into 2^31 numbers at most, this model has 2^{how['bits']}: train with --bits 31"
        )
    own = {
        "mask": (1 << how["bits"]) - 1,
        "seed": how["seed"],
        "sign": "    value = hash >> 31 ? -value : value;\n" if how["signed"] else "",
    }
    code = _HASHING.format(**words, **own)
    if space.get("text") and not own_wording(space):
        code += _pairs(f"{words['name']}_letters", _letters()) + _pairs(f"{words['name']}_capitals", _capitals())
        code += _WORDS.format(**words, **own)
    return code.replace("struct_of", f"{words['name']}_hash")


def own_wording(space: dict[str, Any]) -> dict[str, Any]:
    """How texts are taken apart, where that is not into all their words, each counted."""
    return {name: space[name] for name in ("ngrams", "chars", "lower", "stop", "binary") if name in space}


def _letters() -> list[tuple[int, int]]:
    """Ranges of characters that words are made of, as `streams.text.wording` has them."""
    found: list[tuple[int, int]] = []
    for match in re.finditer(r"\w+", "".join(map(chr, _characters()))):
        for c in map(ord, match.group()):
            if found and found[-1][1] == c - 1:
                found[-1] = found[-1][0], c
            else:
                found.append((c, c))
    return found


def _capitals() -> list[tuple[int, int]]:
    """Characters that have another in lower case, and that one: the first, of the one that has two."""
    return [(c, ord(chr(c).lower()[0])) for c in _characters() if chr(c).lower() != chr(c)]


def _characters() -> Iterable[int]:
    return (c for c in range(0x110000) if not 0xD800 <= c < 0xE000)


def _pairs(name: str, pairs: list[tuple[int, int]]) -> str:
    texts = [f"{{0x{one:X}U, 0x{other:X}U}}," for one, other in pairs]
    lines = (" ".join(texts[start : start + 6]) for start in range(0, len(texts), 6))
    body = "".join(f"    {line}\n" for line in lines)
    return f"static const uint32_t {name}[][2] = {{\n{body}}};\n"
