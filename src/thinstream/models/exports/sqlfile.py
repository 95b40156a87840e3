"""A model as a query: SQLite and DuckDB score a table of rows, features and values with it."""

import json
from collections.abc import Iterable
from typing import Any, BinaryIO

from thinstream.errors import InvalidInputError
from thinstream.models.exports.cheader import comment
from thinstream.models.exports.linear import LinearModel, Vector
from thinstream.models.exports.sqlhashing import hashing_steps, text

EXTENSIONS = (".sql",)

_HEAD = """\
-- {about}
-- Scores the rows of a table features("row", "feature", "value"); to score another, change the third line below.
-- {meaning}
WITH RECURSIVE
given("row", "feature", "value") AS (
  SELECT "row", "feature", CAST("value" AS DOUBLE) FROM features
),
"""

_CELLS = """\
cells("row", "feature", "value") AS MATERIALIZED (
  SELECT "row", CAST("feature" AS {type}), SUM("value") FROM given
  WHERE "feature" IS NOT NULL GROUP BY "row", CAST("feature" AS {type})
),
"""

_LENGTHS = """\
lengths_{k}("row", "length") AS (
  SELECT c."row", COALESCE(NULLIF(SQRT(SUM({x} * {x})), 0), 1) FROM cells c{scaled} GROUP BY c."row"
),
"""

_SUMS = """
  UNION ALL SELECT c."row", w."class", SUM(c."value" * w."weight"){over}
  FROM cells c JOIN weights_{k} w ON w."feature" = c."feature"{lengths}
  GROUP BY c."row", w."class"{more}"""

_PARTS = """\
parts("row", "class", "part") AS (
  SELECT r."row", k."class", k."intercept" FROM (SELECT DISTINCT "row" FROM given) r CROSS JOIN classes k{sums}
),
scores("row", "class", "score") AS (
  SELECT "row", "class", SUM("part") FROM parts GROUP BY "row", "class"
)
"""

_OF_TWO = """\
SELECT "row", "score", CASE WHEN "score" > {threshold} THEN {positive} ELSE {negative} END AS "label"
FROM scores ORDER BY "row";
"""

_OF_MORE = """\
SELECT s."row", k."label", s."score",
  ROW_NUMBER() OVER (PARTITION BY s."row" ORDER BY s."score" DESC, s."class") AS "rank"
FROM scores s JOIN classes k ON k."class" = s."class" ORDER BY s."row", s."class";
"""


def write(model: LinearModel, file: BinaryIO, name: str) -> None:
    """One SELECT, in UTF-8, over a table ``features("row", "feature", "value")`` that is there.

    Of two classes it gives ``row``, ``score`` and ``label``; of more ``row``, ``label``, ``score`` and ``rank``, a line
    for each class, that of rank 1 being predicted. A row without features has a line with NULLs for feature and value.
    Scores are computed in doubles. Models that normalise need ``SQRT``, one of SQLite's mathematical functions, which
    few builds leave out.

    A feature is a name, where the model knows those of all its weights, else a column, the first being 0. Of hashed
    features it is the name that `inspect` shows (``age``, ``city=Oslo``, ``subject^free``), and the query hashes it.
    Names and labels with the character 0 are refused, as SQL has no text for it.
    """
    model = model.check()
    named, features = _features(model)
    vectors = model.vectors
    steps = [_cells(model, named)]
    labels = [_label(label, model) for label in model.classes]
    intercepts = enumerate(zip(_doubles(model.intercepts), labels, strict=False))
    lines = [(str(k), intercept, "''" if model.is_binary else label) for k, (intercept, label) in intercepts]
    steps.append(_table("classes", ("class", "intercept", "label"), lines))
    sums = []
    for k, vector in enumerate(vectors, 1):
        weights = zip(vector.indices.tolist(), vector.rows.tolist(), _doubles(vector.weights), strict=True)
        own = [(features[j], str(row), weight) for j, row, weight in weights]
        steps.append(_table(f"weights_{k}", ("feature", "class", "weight"), own or [("0", "0", "0e0")], bool(own)))
        steps.append(_lengths(vector, k, features))
        sums.append(_sum(vector, k))
    steps.append(_PARTS.format(sums="".join(sums)))
    if model.is_binary:
        threshold = _doubles([model.threshold])[0]
        steps.append(_OF_TWO.format(threshold=threshold, negative=labels[0], positive=labels[1]))
    else:
        steps.append(_OF_MORE)
    about = comment(f"thinstream {model.algorithm} {json.dumps(model.parameters)}")
    head = _HEAD.format(about=about, meaning=_meaning(model, named))
    file.write("".join([head, *steps]).encode("utf-8"))


def _features(model: LinearModel) -> tuple[bool, dict[int, str]]:
    """Whether features are names, and what each column is in the query."""
    scaled = [vector.scales.indices.tolist() for vector in model.vectors if vector.scales is not None]
    columns = {j for each in (*(vector.indices.tolist() for vector in model.vectors), *scaled) for j in each}
    hashed = "hashing" in model.feature_space
    if named := not hashed and bool(columns) and all(j in model.names for j in columns):
        return named, {j: _text(model.names[j], "name of a feature") for j in columns}
    return hashed, {j: str(j) for j in columns}


def _cells(model: LinearModel, named: bool) -> str:
    if "hashing" in model.feature_space:
        return hashing_steps(model.feature_space, bool(model.columns.get("features")))
    return _CELLS.format(type="TEXT" if named else "BIGINT")


def _meaning(model: LinearModel, named: bool) -> str:
    if "hashing" in model.feature_space:
        return "A feature is a name, as thinstream inspect shows it: age, city=Oslo, subject^free; it is hashed here."
    return "A feature is a name." if named else "A feature is the number of a column, the first being 0."


def _lengths(vector: Vector, k: int, features: dict[int, str]) -> str:
    if vector.normalize is None:
        return ""
    if vector.scales is None:
        return _LENGTHS.format(k=k, x='c."value"', scaled="")
    scales = zip(vector.scales.indices.tolist(), _doubles(vector.scales.values), strict=True)
    lines = [(features[j], scale) for j, scale in scales]
    table = _table(f"scales_{k}", ("feature", "scale"), lines or [("0", "1e0")], bool(lines))
    scaled = f"""\n  JOIN scales_{k} m ON m."feature" = c."feature\""""
    return table + _LENGTHS.format(k=k, x='(c."value" / m."scale")', scaled=scaled)


def _sum(vector: Vector, k: int) -> str:
    if vector.normalize is None:
        return _SUMS.format(k=k, over="", lengths="", more="")
    # a row of which no feature has a scale has the length 1
    lengths = f"""\n  LEFT JOIN lengths_{k} l ON l."row" = c."row\""""
    length = """COALESCE(l."length", 1)"""
    return _SUMS.format(k=k, over=f" / {length}", lengths=lengths, more=f", {length}")


def _table(name: str, columns: tuple[str, ...], lines: Iterable[tuple[str, ...]], filled: bool = True) -> str:
    """Lines of constants; with ``filled`` false their types alone."""
    head = f"{name}({', '.join(f'{chr(34)}{column}{chr(34)}' for column in columns)})"
    if not filled:
        return f"{head} AS (\n  SELECT {', '.join(next(iter(lines)))} WHERE 1 = 0\n),\n"
    return f"{head} AS MATERIALIZED (VALUES\n" + ",\n".join(f"  ({', '.join(line)})" for line in lines) + "\n),\n"


def _label(label: Any, model: LinearModel) -> str:
    """A number where all labels are numbers, else a text."""
    if all(type(each) in (int, float) for each in model.classes):
        return _doubles([label])[0] if isinstance(label, float) else str(label)
    return _text(str(label), "label")


def _text(given: str, what: str) -> str:
    try:
        given.encode()
    except UnicodeEncodeError:
        raise InvalidInputError(f"a {what} must be Unicode to stand in SQL, got {given!r}") from None
    if "\0" in given:
        raise InvalidInputError(f"a {what} must be without the character 0 to stand in SQL, got {given!r}")
    return text(given)


def _doubles(numbers: Iterable[Any]) -> list[str]:
    """Constants with all bits; without an exponent, DuckDB would take them for decimals."""
    shown = [repr(float(number)) for number in numbers]
    return [number if "e" in number else f"{number}e0" for number in shown]
