"""Export to SQL: a query for SQLite and DuckDB that scores a table with the columns of the training files."""

import json
import re
from collections.abc import Iterable
from typing import BinaryIO

from thinstream.data.cells import WEEKDAYS
from thinstream.data.options import NOTHING
from thinstream.errors import InvalidParameterError
from thinstream.export.formats.c import capital_letters, comment, own_wording, word_ranges
from thinstream.export.formats.sql import hashes, scoring, text
from thinstream.export.linear import LinearModel

EXTENSIONS = ()

_HEAD = """\
-- {about}
-- Scores the rows of a table data with the columns {columns}; to score another, change the fourth line below.
-- "row" counts them from 1. Cells are read as thinstream has read the files.
WITH RECURSIVE
input AS MATERIALIZED (SELECT ROW_NUMBER() OVER () AS "thinstream row", t.* FROM data t),
"""

_PIECES = """\
pieces("row", "space", "name", "value") AS MATERIALIZED (
  {selects}
),
given("row", "feature", "value") AS MATERIALIZED (
  SELECT "row", CAST(LENGTH("space") AS TEXT) || ':' || "space" || "name", CAST("value" AS DOUBLE) FROM pieces
  UNION ALL SELECT "thinstream row", NULL, NULL FROM input
),
named("feature", "space", "name") AS MATERIALIZED (
  SELECT DISTINCT CAST(LENGTH("space") AS TEXT) || ':' || "space" || "name", "space", "name" FROM pieces
),
"""

#: The words of columns of text: letters are looked up, as neither database knows those of Unicode.
_WORDS = """\
documents("row", "space", "text") AS MATERIALIZED (
  {documents}
),
letters_in("text", "at", "letter") AS (
  SELECT DISTINCT "text", 1, SUBSTR("text", 1, 1) FROM documents
  UNION ALL SELECT "text", "at" + 1, SUBSTR("text", "at" + 1, 1) FROM letters_in WHERE "at" < LENGTH("text")
),
capitals("capital", "small") AS (VALUES
{capitals}
),
ranges("first", "last") AS (VALUES
{ranges}
),
alphabet("letter", "lower", "is_word") AS MATERIALIZED (
  SELECT d."letter", COALESCE(c."small", d."letter"),
    CASE WHEN EXISTS (
      SELECT 1 FROM ranges r WHERE UNICODE(COALESCE(c."small", d."letter")) BETWEEN r."first" AND r."last"
    ) THEN 1 ELSE 0 END
  FROM (SELECT DISTINCT "letter" FROM letters_in WHERE "letter" <> '') d
  LEFT JOIN capitals c ON c."capital" = d."letter"
),
spelled("text", "at", "letter", "word", "ends") AS (
  SELECT DISTINCT "text", 0, '', '', 1 FROM documents
  UNION ALL
  SELECT s."text", s."at" + 1, a."letter",
    CASE WHEN a."is_word" = 0 THEN '' WHEN s."ends" = 1 THEN a."lower" ELSE s."word" || a."lower" END,
    CASE WHEN a."is_word" = 0 OR a."letter" = '\u0130'{lower} THEN 1 ELSE 0 END
  FROM spelled s JOIN alphabet a ON a."letter" = SUBSTR(s."text", s."at" + 1, 1)
  WHERE s."at" < LENGTH(s."text")
),
words_of("text", "word") AS MATERIALIZED (
  SELECT s."text", CASE WHEN s."letter" = '\u03a3' AND LENGTH(s."word") > 1{lower}
    THEN SUBSTR(s."word", 1, LENGTH(s."word") - 1) || '\u03c2' ELSE s."word" END
  FROM spelled s LEFT JOIN alphabet b ON b."letter" = SUBSTR(s."text", s."at" + 1, 1)
  WHERE s."word" <> '' AND (s."ends" = 1 OR COALESCE(b."is_word", 0) = 0)
),
"""


def write(model: LinearModel, file: BinaryIO, name: str) -> None:
    """One SELECT over a table ``data`` with the columns that the model has learned from.

    It gives what the format ``sql`` gives; ``row`` counts the rows of the table. Numbers, categories, dates, words and
    missing cells become features as in training. A cell of a column that held words and numbers is a number if it has
    digits, a sign and a point only. Crosses, n-grams, characters and columns unknown to the model are refused.
    """
    model = model.check()
    columns, space = model.columns.get("features", []), model.feature_space
    if not columns:
        raise InvalidParameterError(
            "the format sql_table needs a model of a table with named columns. Use the format sql for this model: it "
            "scores rows of features and values."
        )
    if space.get("cross") or set(own_wording(space)) - {"stop", "lower", "binary"}:
        raise InvalidParameterError(
            "the format sql_table does not support crosses and n-grams. Use the format sql, which scores rows of "
            "features and values."
        )
    selects, words = _selects(model), ""
    if texts := [column for column in columns if column in space.get("text", ())]:
        words = _words(model, texts)
        selects.append(
            'SELECT d."row", d."space", w."word", 1e0 FROM documents d JOIN words_of w ON w."text" = d."text"'
        )
        if stop := space.get("stop"):
            left_out = sorted({word for entry in stop for word in re.findall(r"\w+", entry.lower())})
            selects[-1] += f' WHERE w."word" NOT IN ({", ".join(map(text, left_out))})'
    about = comment(f"thinstream {model.algorithm} {json.dumps(model.parameters)}")
    head = _HEAD.format(about=about, columns=comment(", ".join(columns)))
    steps = _PIECES.format(selects="\n  UNION ALL ".join(selects)) + scoring(model, hashes(space))
    file.write((head + words + steps).encode())


def _selects(model: LinearModel) -> list[str]:
    """Return a SELECT for each feature of each column, except for the words of text."""
    space, numeric, selects = model.feature_space, model.columns["numeric"], list[str]()
    missing = space.get("missing", "as-is")
    words = ", ".join(map(text, ("", *NOTHING)))
    for column in model.columns["features"]:
        if column in space.get("text", ()):
            continue
        name = '"' + column.replace('"', '""') + '"'
        cell = f"CAST({name} AS TEXT)"
        is_missing = f"({name} IS NULL OR TRIM({cell}) IN ({words}))"
        if missing == "as-is" and column not in numeric and column not in space.get("dates", ()):
            is_missing = f"({name} IS NULL OR {cell} = '')"
        if missing == "indicator":
            selects.append(_select(f"{column}=", "'?'", "1e0", is_missing))
        if column in space.get("dates", ()):
            selects += _date_parts(column, cell, is_missing)
        elif column in numeric:
            selects.append(_select("", text(column), _number(cell), f"NOT {is_missing}"))
        elif column in space.get("categorical", ()):
            selects.append(_select(f"{column}=", cell, "1e0", f"NOT {is_missing}"))
        else:
            bare = f"LTRIM(TRIM({cell}), '+-')"
            is_number = (
                f"({bare} <> '' AND {bare} <> '.' AND TRIM({bare}, '0123456789.') = '' "
                f"AND LENGTH({bare}) - LENGTH(REPLACE({bare}, '.', '')) <= 1)"
            )
            selects.append(_select("", text(column), _number(cell), f"NOT {is_missing} AND {is_number}"))
            selects.append(_select(f"{column}=", cell, "1e0", f"NOT {is_missing} AND NOT {is_number}"))
    return selects


def _select(space: str, name: str, value: str, where: str) -> str:
    return f'SELECT "thinstream row", {text(space)}, {name}, {value} FROM input WHERE {where}'


def _number(cell: str) -> str:
    """Return a number; True and False are 1 and 0."""
    word = f"LOWER(TRIM({cell}))"
    return f"CASE {word} WHEN 'true' THEN 1e0 WHEN 'false' THEN 0e0 ELSE CAST({cell} AS DOUBLE) END"


def _date_parts(column: str, cell: str, is_missing: str) -> Iterable[str]:
    """Return SELECTs for year, month, day, weekday and hour."""
    year, month, day, hour = (f"SUBSTR({cell}, {start}, {n})" for start, n in ((1, 4), (6, 2), (9, 2), (12, 2)))
    y = f"(CAST({year} AS BIGINT) - CASE WHEN {month} < '03' THEN 1 ELSE 0 END)"
    shift = f"CASE {month} " + "".join(
        f"WHEN '{k:02}' THEN {days} " for k, days in enumerate((0, 3, 2, 5, 0, 3, 5, 1, 4, 6, 2, 4), 1)
    )
    # exact quotients, because databases round divisions differently
    leaps = " ".join(f"{sign} ({y} - {y} % {n}) / {n}" for sign, n in (("+", 4), ("-", 100), ("+", 400)))
    number = f"CAST({y} {leaps} + {shift}END + CAST({day} AS BIGINT) AS BIGINT) % 7"
    days = [WEEKDAYS[k - 1] for k in range(7)]  # Sakamoto's rule starts with Sunday
    weekday = f"CASE {number} " + "".join(f"WHEN {k} THEN {text(d)} " for k, d in enumerate(days)) + "END"
    present = f"NOT {is_missing}"
    parts = {"year": year, "month": month, "day": day, "weekday": weekday}
    selects = [_select(f"{column}.{part}=", value, "1e0", present) for part, value in parts.items()]
    return [*selects, _select(f"{column}.hour=", hour, "1e0", f"{present} AND LENGTH({cell}) > 12")]


def _words(model: LinearModel, columns: Iterable[str]) -> str:
    """Return the steps from text columns to the words of each text."""
    lower = model.feature_space.get("lower", True)
    documents = []
    for column in columns:
        name = '"' + column.replace('"', '""') + '"'
        select = f'SELECT "thinstream row", {text(column)}, CAST({name} AS TEXT) FROM input'
        documents.append(f"{select} WHERE {name} IS NOT NULL AND CAST({name} AS TEXT) <> ''")
    capitals = [(chr(c), chr(small)) for c, small in capital_letters()] if lower else [("A", "A")]
    return _WORDS.format(
        documents="\n  UNION ALL ".join(documents),
        capitals=",\n".join(f"  ({text(capital)}, {text(small)})" for capital, small in capitals),
        ranges=",\n".join(f"  ({first}, {last})" for first, last in word_ranges()),
        lower="" if lower else " AND 1 = 0",
    )
