"""A model of more than two classes as a C99 header."""

import json
from typing import BinaryIO

import numpy as np

from thinstream.models.exports.cheader import comment, identifier, string, table
from thinstream.models.exports.digits import hexadecimals
from thinstream.models.exports.gallery import Gallery

_HEAD = """\
/* {about}
 *
 * {name}_scores: the scores of a row, one for each class, given as n columns (the first is 0) and their values, in any
 * order; columns the model does not know count nothing. {name}_predict: the number of the class of highest score, the
 * first of several. {name}_label: that class's text.
 */
#ifndef {guard}
#define {guard}

#include <stddef.h>
#include <stdint.h>

#define {upper}_N_FEATURES {n_features}
#define {upper}_N_CLASSES {n_classes}

"""

_CODE = """
static inline void {name}_scores(const {index} *indices, const {real} *values, size_t n, {real} *scores) {{
    for (size_t k = 0; k < {n_classes}; k++) {{
        scores[k] = {name}_intercepts[k];
    }}
    for (size_t i = 0; i < n; i++) {{
        size_t low = 0, high = sizeof {name}_indices / sizeof {name}_indices[0];
        while (low < high) {{
            size_t middle = low + (high - low) / 2;
            if ({name}_indices[middle] < indices[i]) {{
                low = middle + 1;
            }} else {{
                high = middle;
            }}
        }}
        if (low < sizeof {name}_indices / sizeof {name}_indices[0] && {name}_indices[low] == indices[i]) {{
            for (size_t j = {name}_starts[low]; j < {name}_starts[low + 1]; j++) {{
                scores[{name}_classes[j]] += {name}_weights[j] * values[i];
            }}
        }}
    }}
}}

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


def write_classes(gallery: Gallery, file: BinaryIO, name: str) -> None:
    """Sorted tables, a binary search and the functions ``NAME_scores``, ``_predict`` and ``_label``.

    NAME, values and columns are as in `cheader.write`. The labels are ``NAME_labels``, ``NAME_N_CLASSES`` of them.
    """
    gallery = gallery.check()
    columns, numbers, weights = gallery.flat()
    if not len(columns):  # C has no empty arrays
        columns, numbers, weights = np.zeros(1, np.int64), np.zeros(1, np.int64), np.zeros(1, weights.dtype)
    order = np.lexsort((numbers, columns))
    columns, numbers, weights = columns[order], numbers[order], weights[order]
    indices, starts = np.unique(columns, return_index=True)
    name, wide = identifier(name), int(indices[-1]) >= 2**32
    first, names = gallery.first, gallery.names
    words = {
        "about": comment(f"thinstream {first.algorithm} {json.dumps(first.parameters)}"),
        "name": name,
        "upper": name.upper(),
        "guard": f"THINSTREAM_{name.upper()}_H",
        "n_features": first.n_features,
        "n_classes": len(gallery.portraits),
        "real": "float" if weights.dtype == np.float32 else "double",
        "index": "uint64_t" if wide else "uint32_t",
    }
    real, index, suffix = words["real"], words["index"], "ULL" if wide else "U"
    comments = [comment(names.get(j, f"column {j}")) for j in indices.tolist()] if names else []
    file.write(_HEAD.format(**words).encode("ascii"))
    file.write(table(f"char *const {name}_labels", [string(str(label)) for label in gallery.classes], []))
    file.write(table(f"{real} {name}_intercepts", hexadecimals(gallery.intercepts), []))
    file.write(table(f"{index} {name}_indices", [f"{j}{suffix}" for j in indices.tolist()], comments))
    file.write(table(f"size_t {name}_starts", [str(k) for k in [*starts.tolist(), len(columns)]], []))
    file.write(table(f"uint32_t {name}_classes", [f"{k}U" for k in numbers.tolist()], []))
    file.write(table(f"{real} {name}_weights", hexadecimals(weights), []))
    file.write(_CODE.format(**words).encode("ascii"))
