"""Export to SQL: a query for SQLite and DuckDB."""

import json
from collections.abc import Iterable
from typing import Any, BinaryIO

from thinstream.data.cells import PARTS
from thinstream.errors import InvalidInputError, InvalidParameterError
from thinstream.export.formats.c import comment
from thinstream.export.linear import LinearModel, Vector
from thinstream.models.products import Products

# MurmurHash3 (x86, 32 bits) in SQL for SQLite and DuckDB, with sums and shifts of 64-bit integers.

_DIGITS, _LOW = "'0123456789ABCDEF'", 2**32 - 1
#: The mark in names of crosses.
_MARK = " × "

_NAMED = """\
named("feature", "space", "name") AS MATERIALIZED (
  SELECT "feature", "space", SUBSTR("feature", LENGTH("space") + CASE
    WHEN "space" <> '' AND SUBSTR("space", -1) <> '=' THEN 2 ELSE 1 END)
  FROM (SELECT "feature", CASE
{spaces}    ELSE '' END AS "space"
  FROM (SELECT DISTINCT CAST("feature" AS TEXT) AS "feature" FROM given WHERE "feature" IS NOT NULL))
),
"""

_PIECES = """\
texts("text", "hex") AS (
  SELECT "text", HEX("text") FROM (SELECT "space" AS "text" FROM named UNION SELECT "name" FROM named)
),
cuts("text", "hex", "part") AS (
  SELECT "text", "hex", 0 FROM texts
  UNION ALL SELECT "text", "hex", "part" + 1 FROM cuts WHERE ("part" + 1) * 8 < LENGTH("hex")
),
words("text", "part", "size", "whole", "word") AS MATERIALIZED (
{words}
),
"""

_CHAIN = """\
{name}_chain("key", "text", "part", "hash") AS (
  {start}
  UNION ALL SELECT c."key", c."text", c."part" + 1, {stirred}
  FROM {name}_chain c JOIN words w ON w."text" = c."text" AND w."part" = c."part" WHERE w."whole" = 1
),
{name}("key", "hash") AS MATERIALIZED (
{ended}
),
"""


def hashing_steps(space: dict[str, Any], columns: list[str]) -> str:
    """Return the steps from ``given``, with features by name, to ``cells`` by column."""
    spaces = "".join(f"    WHEN {test} THEN {namespace}\n" for test, namespace in _spaces(space, columns))
    return _NAMED.format(spaces=spaces) + hashes(space)


def hashes(space: dict[str, Any]) -> str:
    """Return the steps from ``named`` and ``given`` to ``cells`` by column."""
    how = space["hashing"]
    if how["bits"] > 31:
        raise InvalidParameterError(
            f"the SQL export supports hashing with at most 31 bits, got a model with {how['bits']}. Train with --bits "
            "31."
        )
    seeds = f"""SELECT DISTINCT "space", "space", 0, CAST({how["seed"]} AS BIGINT) FROM named"""
    start = """SELECT n."feature", n."name", 0, s."hash" FROM named n JOIN spaces s ON s."key" = n."space\""""
    sign = """CASE WHEN f."hash" >= 2147483648 THEN -g."value" ELSE g."value" END""" if how["signed"] else 'g."value"'
    column = f"""(f."hash" & {(1 << how["bits"]) - 1})"""
    once = "MIN" if space.get("binary") else "SUM"  # for equal features of a row, which are 1 each
    return (
        _PIECES.format(words=_words())
        + _chain("spaces", seeds)
        + _chain("hashed", start)
        + f"""cells("row", "feature", "value") AS MATERIALIZED (
  SELECT g."row", {column}, {once}({sign})
  FROM given g JOIN hashed f ON f."key" = CAST(g."feature" AS TEXT) GROUP BY g."row", {column}
),
"""
    )


def text(value: str) -> str:
    """Return a string literal."""
    return "'" + value.replace("'", "''") + "'"


def _spaces(space: dict[str, Any], columns: list[str]) -> list[tuple[str, str]]:
    """Return tests on readable names, with the namespace of names that pass."""
    tests = [(f"""INSTR("feature", {text(_MARK)}) > 0""", "''")] if space.get("cross") else []
    for column in space.get("text", ()):
        for head in (column, f"{column}~"):
            tests.append((f"""SUBSTR("feature", 1, {len(head) + 1}) = {text(head + "^")}""", text(head)))
    if not space.get("text") and not columns:  # namespaces of Vowpal Wabbit
        tests.append(("""INSTR("feature", '^') > 1""", """SUBSTR("feature", 1, INSTR("feature", '^') - 1)"""))
    for column in columns:
        if "=" in column:  # its names have another equals sign before the category's
            tests.append((f""""feature" = {text(column)}""", "''"))
            parts = [f"{column}.{part}" for part in PARTS] if column in space.get("dates", ()) else []
            for head in (f"{column}=", *(f"{part}=" for part in parts)):
                tests.append((f"""SUBSTR("feature", 1, {len(head)}) = {text(head)}""", text(head)))
    tests.append(("""INSTR("feature", '=') > 0""", """SUBSTR("feature", 1, INSTR("feature", '='))"""))
    return tests


def _words() -> str:
    """Return the step that mixes four bytes of text as in the hash."""
    digits = [f"""(INSTR({_DIGITS}, SUBSTR("cut", {k}, 1)) - 1)""" for k in range(1, 9)]
    number = " + ".join(f"({digits[2 * k]} * 16 + {digits[2 * k + 1]}) * {256**k}" for k in range(4))
    begun = (
        """SELECT "text", "part", CAST(LENGTH("hex") / 2 AS BIGINT) AS "size",\n"""
        """    CASE WHEN ("part" + 1) * 8 <= LENGTH("hex") THEN 1 ELSE 0 END AS "whole",\n"""
        """    SUBSTR("hex" || '00000000', "part" * 8 + 1, 8) AS "cut" FROM cuts"""
    )
    steps = [number, _times('"x"', 0xCC9E2D51), _turned('"x"', 15), _times('"x"', 0x1B873593)]
    return _nested(begun, '"text", "part", "size", "whole"', steps)


def _chain(name: str, start: str) -> str:
    """Return the steps for the hash of each key: word by word, then the rest, then the end."""
    turned = _turned(_xor('c."hash"', 'w."word"'), 13)
    stirred = f"(({turned} * 5 + {0xE6546B64}) & {_LOW})"
    tail = _xor('c."hash"', """CASE WHEN w."whole" = 0 AND t."size" > c."part" * 4 THEN w."word" ELSE 0 END""")
    begun = (
        f"""SELECT c."key" AS "key", t."size" AS "size", {tail} AS "x" FROM {name}_chain c\n"""
        """    JOIN (SELECT DISTINCT "text", "size" FROM words) t ON t."text" = c."text"\n"""
        """    LEFT JOIN words w ON w."text" = c."text" AND w."part" = c."part"\n"""
        """    WHERE c."part" * 4 <= t."size" AND (c."part" + 1) * 4 > t."size\""""
    )
    steps = [
        _xor('"x"', '"size"'),
        _xor('"x"', '("x" >> 16)'),
        _times('"x"', 0x85EBCA6B),
        _xor('"x"', '("x" >> 13)'),
        _times('"x"', 0xC2B2AE35),
        _xor('"x"', '("x" >> 16)'),
    ]
    ended = _nested(begun, '"key", "size"', steps)
    return _CHAIN.format(name=name, start=start, stirred=stirred, ended=f"""  SELECT "key", "x" FROM (\n{ended}\n  )""")


def _nested(begun: str, keep: str, steps: list[str]) -> str:
    """Return nested steps, each with the previous result ``x``."""
    for step in steps:
        begun = f"""  SELECT {keep}, {step} AS "x" FROM (\n  {begun.lstrip()})"""
    return begun


def _xor(one: str, two: str) -> str:
    return f"(({one} | {two}) - ({one} & {two}))"


def _times(one: str, constant: int) -> str:
    """Return the product modulo 2³², in halves that fit into 63 bits."""
    high = f"(((({one} >> 16) * {constant}) & 65535) << 16)"
    return f"(({high} + (({one} & 65535) * {constant})) & {_LOW})"


def _turned(one: str, bits: int) -> str:
    """Return a rotation to the left in 32 bits."""
    return f"((({one} << {bits}) | ({one} >> {32 - bits})) & {_LOW})"


# A model as a query for SQLite and DuckDB that scores a table of rows, features and values.

EXTENSIONS = (".sql",)

_HEAD = """\
-- {about}
-- Scores the rows of a table features("row", "feature", "value").
-- To score another table, replace FROM features below.
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

#: Products of features, by ``first`` of the larger slot plus the smaller slot. Squares of 1 are left out.
_PRODUCTS = """\
cells("row", "feature", "value") AS MATERIALIZED (
  SELECT c."row", c."feature", c."value" FROM inputs c JOIN factors f ON f."feature" = c."feature"
  UNION ALL SELECT c."row", {key}, c."value" * d."value"
  FROM inputs c JOIN factors f ON f."feature" = c."feature"
  JOIN inputs d ON d."row" = c."row" JOIN factors g ON g."feature" = d."feature"
  WHERE f."slot" > g."slot" OR (f."slot" = g."slot" AND c."value" <> 1)
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
SELECT "row", "score", CASE WHEN "score" > {threshold} THEN {positive} ELSE {negative} END AS "label"{probability}
FROM scores ORDER BY "row";
"""

#: Exponents are at most 0, so the results are finite.
_PROBABILITY = """,
  CASE WHEN "score" > 0 THEN 1e0 / (1e0 + EXP(-"score"))
    ELSE EXP("score") / (1e0 + EXP("score")) END AS "probability\""""

_OF_MORE = """\
SELECT s."row", k."label", s."score",
  ROW_NUMBER() OVER (PARTITION BY s."row" ORDER BY s."score" DESC, s."class") AS "rank"{probability}
FROM {scores} s JOIN classes k ON k."class" = s."class" ORDER BY s."row", s."class";
"""

#: One-vs-rest probabilities, multiplied by e^−most if no score is above 0, and divided by their sum.
_PARTS_OF_ONE = """(
  SELECT "row", "class", "score",
    CASE WHEN "score" > 0 THEN 1e0 / (1e0 + EXP(-"score"))
      ELSE EXP("score" - CASE WHEN "most" < 0 THEN "most" ELSE 0e0 END) / (1e0 + EXP("score")) END AS "part"
  FROM (SELECT "row", "class", "score", MAX("score") OVER (PARTITION BY "row") AS "most" FROM scores))"""
_SHARE = """,
  s."part" / SUM(s."part") OVER (PARTITION BY s."row") AS "probability\""""


def write(model: LinearModel, file: BinaryIO, name: str) -> None:
    """Write one SELECT in UTF-8 over an existing table ``features("row", "feature", "value")``.

    With two classes, the columns are ``row``, ``score`` and ``label``. With more, there is a line per class with
    ``row``, ``label``, ``score`` and ``rank``, and rank 1 is predicted. If scores are log-odds, ``probability``
    follows, of the positive class or of each class, which needs ``EXP``. A row without features needs a line with NULLs
    for feature and value. Scores are doubles. Normalized rows need ``SQRT``, a mathematical function that most builds
    of SQLite have.

    A feature is a name if the model has the names of all its weights, else a column number from 0. Hashed features have
    the names that `inspect` shows (``age``, ``city=Oslo``, ``subject^free``), which the query hashes. Names and labels
    with the character 0 are refused, because SQL cannot represent them.
    """
    named, _ = _features(model.check())
    about = comment(f"thinstream {model.algorithm} {json.dumps(model.parameters)}")
    head = _HEAD.format(about=about, meaning=_meaning(model, named))
    file.write("".join([head, scoring(model, _cells(model, named))]).encode("utf-8"))


def scoring(model: LinearModel, cells: str) -> str:
    """Return the steps from ``given`` to scores and labels; ``cells`` are the steps to ``cells``."""
    named, features = _features(model)
    vectors, steps = model.vectors, [cells]
    if model.products is not None:
        by_name = named and "hashing" not in model.feature_space
        steps = [steps[0].replace('cells("row"', 'inputs("row"'), _products(model.products, by_name, features)]
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
        probability = _PROBABILITY if model.has_probabilities else ""
        names = {"negative": labels[0], "positive": labels[1], "probability": probability}
        steps.append(_OF_TWO.format(threshold=threshold, **names))
    elif model.has_probabilities:
        steps.append(_OF_MORE.format(scores=_PARTS_OF_ONE, probability=_SHARE))
    else:
        steps.append(_OF_MORE.format(scores="scores", probability=""))
    return "".join(steps)


def _features(model: LinearModel) -> tuple[bool, dict[int, str]]:
    """Return whether features are names, and the SQL of each column."""
    scaled = [vector.scales.indices.tolist() for vector in model.vectors if vector.scales is not None]
    columns = {j for indices in (*(vector.indices.tolist() for vector in model.vectors), *scaled) for j in indices}
    hashed = "hashing" in model.feature_space
    inputs = set() if model.products is None else {*model.products.numbers.tolist()}
    inputs |= {j for j in columns if j < model.n_inputs}
    if named := not hashed and bool(inputs) and all(j in model.names for j in inputs):
        names = {j: _text(model.names[j], "name of a feature") for j in inputs}
        return named, names | {j: text(f"{_MARK}{j}") for j in columns - inputs}
    return hashed, {j: str(j) for j in columns | inputs}


def _products(products: Products, named: bool, features: dict[int, str]) -> str:
    """Return the steps from ``inputs`` with features to ``cells`` with products of features."""
    numbers = products.numbers.tolist()
    lines = [(features[j], str(a), str(products.base + a * (a + 1) // 2)) for a, j in enumerate(numbers, 1)]
    number = """f."first" + g."slot\""""
    key = f"{text(_MARK)} || CAST({number} AS TEXT)" if named else number
    return _table("factors", ("feature", "slot", "first"), lines) + _PRODUCTS.format(key=key)


def _cells(model: LinearModel, named: bool) -> str:
    if "hashing" in model.feature_space:
        return hashing_steps(model.feature_space, [*model.columns.get("features", ())])
    return _CELLS.format(type="TEXT" if named else "BIGINT")


def _meaning(model: LinearModel, named: bool) -> str:
    if "hashing" in model.feature_space:
        return "A feature is a name as in thinstream inspect (age, city=Oslo, subject^free). The query hashes it."
    return "A feature is a name." if named else "A feature is a column number, from 0."


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
    """Return a number if all labels are numbers, else a string."""
    if all(type(other) in (int, float) for other in model.classes):
        return _doubles([label])[0] if isinstance(label, float) else str(label)
    return _text(str(label), "label")


def _text(value: str, role: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InvalidInputError(f"a {role} must be valid Unicode for SQL, got {value!r}") from None
    if "\0" in value:
        raise InvalidInputError(f"a {role} must not have the character 0, which SQL does not allow, got {value!r}")
    return text(value)


def _doubles(numbers: Iterable[Any]) -> list[str]:
    """Constants with all bits; without an exponent, DuckDB would take them for decimals."""
    shown = [repr(float(number)) for number in numbers]
    return [number if "e" in number else f"{number}e0" for number in shown]
